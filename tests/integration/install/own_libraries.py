# SPDX-License-Identifier: BSD-2-Clause
"""A verbs program that prints the first device's name, then each library of Verbena that it has loaded."""

import ctypes
import pathlib
import re

VERBS = ctypes.CDLL("libibverbs.so.1")
VERBS.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
VERBS.ibv_get_device_name.restype = ctypes.c_char_p
VERBS.ibv_get_device_name.argtypes = [ctypes.c_void_p]
print(VERBS.ibv_get_device_name(VERBS.ibv_get_device_list(None)[0]).decode())
print(*sorted(set(re.findall(r"/\S*libverbena-\S*", pathlib.Path("/proc/self/maps").read_text()))), sep="\n")
