// SPDX-License-Identifier: BSD-2-Clause
// What a context hands to the application: each object begins with the public structure, whose
// address is the handle (and which alone is left for a while when it is destroyed:
// dead_handles.hpp). Made and destroyed by the verbs of its kind; an object counts what was built
// upon it, and is not destroyed while that is more than nothing. This header has them all.
#pragma once

#include "verbena/objects/ah.hpp"
#include "verbena/objects/cq.hpp"
#include "verbena/objects/dm.hpp"
#include "verbena/objects/mr.hpp"
#include "verbena/objects/mw.hpp"
#include "verbena/objects/pd.hpp"
#include "verbena/objects/qp.hpp"
#include "verbena/objects/srq.hpp"
#include "verbena/objects/td.hpp"
#include "verbena/objects/xrcd.hpp"
