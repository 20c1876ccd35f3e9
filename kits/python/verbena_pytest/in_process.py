# SPDX-License-Identifier: BSD-2-Clause
"""Lets tests use the device in pytest's own process, as those of pyverbs do. pytest must have the preload library from
its start: either `verbena run -- pytest` starts it, or pytest starts itself again (--verbena-in-process)."""

import os
import pathlib
import sys

PRELOAD = "libverbena-preload"


def sees_devices():
    return PRELOAD in pathlib.Path("/proc/self/maps").read_text()


def start_anew(config, program):
    """Starts pytest again, with the preload library. Returns only if that fails, with the reason."""
    if PRELOAD in os.environ.get("LD_PRELOAD", ""):
        return f"{sys.executable} does not load what LD_PRELOAD names; `verbena doctor` says why"
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)  # gives the terminal back to pytest
    sys.stdout.flush()
    sys.stderr.flush()
    words = pathlib.Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:-1]
    os.execve(sys.executable, [sys.executable, *words], program.environment())
    return ""
