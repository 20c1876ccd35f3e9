// SPDX-License-Identifier: BSD-2-Clause
// What a context hands to the application: each object begins with the public structure, whose
// address is the handle (and which alone is left for a while when it is destroyed:
// dead_handles.hpp). Made and destroyed by the verbs of its kind; an object counts what was built
// upon it, and is not destroyed while that is more than nothing. This header has them all.
#pragma once

#include "ah.hpp"
#include "cq.hpp"
#include "dm.hpp"
#include "mr.hpp"
#include "mw.hpp"
#include "pd.hpp"
#include "qp.hpp"
#include "srq.hpp"
#include "td.hpp"
#include "xrcd.hpp"
