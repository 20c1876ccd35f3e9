// SPDX-License-Identifier: BSD-2-Clause
// The objects that a context gives to the application. Each begins with the public structure, whose
// address is the handle; only this structure stays for a while after the object was destroyed
// (dead_handles.hpp). The verbs of its kind make and destroy an object. An object counts the
// objects that were built upon it, and is not destroyed while there are any. This header includes
// all of them.
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
