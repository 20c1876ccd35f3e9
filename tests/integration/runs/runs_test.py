#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`verbena run` as a parent of programs.

    runs_test.py BUILD [unittest arguments, such as Pairs or Private.test_dozens_at_once]
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "emulator"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "provider"))
import emulator_case  # noqa: E402
import run_case  # noqa: E402
from kept import Kept  # noqa: E402, F401 (unittest finds them by name)
from pairs import Pairs  # noqa: E402, F401 (unittest finds them by name)
from privately import Left, Named, Private  # noqa: E402, F401
from signals import Signals, TimeLimits  # noqa: E402, F401
from with_devices import Devices  # noqa: E402, F401

if __name__ == "__main__":
    run_case.BUILD = os.path.abspath(sys.argv.pop(1))
    emulator_case.BIN = run_case.BUILD + "/bin"
    unittest.main(verbosity=2)
