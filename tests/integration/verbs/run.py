#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a program of this folder on an emulator of its own.

    run.py PREFIX PERSONA PROGRAM [ARGUMENT...]

PERSONA is ib or roce; with .udp behind it, UDP replaces shared rings.
"""

import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "provider"))
import device as devices  # noqa: E402


def emulator(prefix, persona):
    if persona == "ib":
        return devices.Emulator(prefix)
    return devices.Emulator(prefix, "--roce", f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}.1")


def main():
    prefix, persona, *command = sys.argv[1:]
    persona, _, link = persona.partition(".")
    with emulator(prefix, persona) as device:
        device.environment["VERBENA_COMMAND"] = device.verbena
        # Each row of the refusals needs its explanation, even if it differs little from another.
        device.environment["VERBENA_LOG"] = "explain-all"
        link = link or os.environ.get("VERBENA_LINK", "")
        if link:
            device.environment["VERBENA_LINK"] = link
        try:
            done = device.run([os.path.abspath(command[0]), *command[1:]])
        except subprocess.TimeoutExpired as late:
            print(*((text or b"").decode(errors="replace") for text in (late.stdout, late.stderr)), sep="")
            print(f"no end within {late.timeout:.0f} s")
            return 1
    print(done.stdout, done.stderr, sep="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
