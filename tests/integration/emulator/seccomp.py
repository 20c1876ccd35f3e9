# SPDX-License-Identifier: BSD-2-Clause
"""A seccomp filter like those of container engines: system calls fail with EPERM, for this process and its children."""

import ctypes
import errno
import struct

SOCKET, PIDFD_OPEN = 41, 434
AF_NETLINK = 16

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER_AT, FIRST_ARGUMENT_AT = 0, 16
ALLOW, FAIL = 0x7fff0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def forbid(number, first_argument=None):
    """Returns a `preexec_fn` after which the system call of this number (with this argument) fails with EPERM."""
    def statement(code, argument, yes=0, no=0):
        return struct.pack("<HBBI", code, yes, no, argument)

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
