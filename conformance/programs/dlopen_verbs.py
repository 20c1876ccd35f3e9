# SPDX-License-Identifier: BSD-2-Clause
"""Reaches libibverbs as NCCL and brpc do: by dlopen and dlvsym, not as a link-time dependency."""

import ctypes
import os
import sys

PORT_ACTIVE = 4
PORT_ATTR_BYTES = 256  # more than sizeof(struct ibv_port_attr); the port's state is its first word

wanted = sys.argv[1].encode()
libc = ctypes.CDLL(None, use_errno=True)
verbs = ctypes.CDLL("libibverbs.so.1", mode=os.RTLD_NOW | os.RTLD_LOCAL, use_errno=True)
libc.dlvsym.restype = ctypes.c_void_p
libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]


def versioned(name, version, result, *arguments):
    """Returns the function of exactly this symbol version."""
    address = libc.dlvsym(verbs._handle, name.encode(), version.encode())
    if not address:
        sys.exit(f"no {name}@{version}")
    return ctypes.CFUNCTYPE(result, *arguments, use_errno=True)(address)


pointer = ctypes.c_void_p
get_device_list = versioned("ibv_get_device_list", "IBVERBS_1.1", ctypes.POINTER(pointer), ctypes.POINTER(ctypes.c_int))
get_device_name = versioned("ibv_get_device_name", "IBVERBS_1.1", ctypes.c_char_p, pointer)
open_device = versioned("ibv_open_device", "IBVERBS_1.1", pointer, pointer)
query_port = versioned("ibv_query_port", "IBVERBS_1.1", ctypes.c_int, pointer, ctypes.c_uint8, pointer)
close_device = versioned("ibv_close_device", "IBVERBS_1.1", ctypes.c_int, pointer)
free_device_list = versioned("ibv_free_device_list", "IBVERBS_1.1", None, ctypes.POINTER(pointer))

count = ctypes.c_int()
devices = get_device_list(ctypes.byref(count))
if not devices:
    sys.exit(f"ibv_get_device_list: {os.strerror(ctypes.get_errno())}")
found = [devices[i] for i in range(count.value) if get_device_name(devices[i]) == wanted]
if not found:
    sys.exit(f"{wanted.decode()} is not among {count.value} devices")
context = open_device(found[0])
free_device_list(devices)
if not context:
    sys.exit(f"ibv_open_device: {os.strerror(ctypes.get_errno())}")
attributes = ctypes.create_string_buffer(PORT_ATTR_BYTES)
error = query_port(context, 1, attributes)
state = int.from_bytes(attributes.raw[:4], sys.byteorder)
if error or state != PORT_ACTIVE:
    sys.exit(f"ibv_query_port: {error}, state {state}")
if close_device(context):
    sys.exit("ibv_close_device failed")
print(f"opened {wanted.decode()}: 1 port, active")
