# SPDX-License-Identifier: BSD-2-Clause
"""A seccomp filter like those of container engines: system calls fail with EPERM, for this process and its children."""

import ctypes
import errno
import struct
import subprocess
import sys

AF_NETLINK = 16

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER_AT, FIRST_ARGUMENT_AT = 0, 16 if sys.byteorder == "little" else 20  # its lower half
ALLOW, FAIL = 0x7fff0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def number_of(name, header="sys/syscall.h", prefix="SYS_"):
    """Returns what the C library's header says for this architecture: each has numbers of its own."""
    said = subprocess.run(["cc", "-E", "-P", "-"], input=f"#include <{header}>\n{prefix}{name}\n", text=True, check=True,
                          capture_output=True).stdout
    return int(said.split()[-1])


def forbid(name, first_argument=None):
    """Returns a `preexec_fn` after which the system call of this name (with this argument) fails with EPERM."""
    def statement(code, argument, yes=0, no=0):
        return struct.pack("=HBBI", code, yes, no, argument)

    number = number_of(name)

    fail = statement(RETURN, FAIL | errno.EPERM)
    if first_argument is not None:
        fail = statement(LOAD_WORD, FIRST_ARGUMENT_AT) + statement(JUMP_IF_EQUAL, first_argument, 0, 1) + fail
    code = (statement(LOAD_WORD, NUMBER_AT) + statement(JUMP_IF_EQUAL, number, 0, len(fail) // 8) + fail +
            statement(RETURN, ALLOW))
    program = Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)

    def set_filter():
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
                libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)) != 0:
            raise OSError(ctypes.get_errno(), "no seccomp filter")

    return set_filter
