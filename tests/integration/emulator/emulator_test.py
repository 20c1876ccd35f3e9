#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""verbena and verbenad as users meet them: real processes, real sockets, and what goes wrong.

    emulator_test.py BIN_DIR [unittest arguments, such as Clients or Starting.test_port_taken]
"""

import os
import sys
import unittest

import emulator_case
from answers import Answers, Diagnoses  # noqa: F401 (unittest finds them by name)
from clients import Clients, Strangers  # noqa: F401
from diagnosing import Doctor, UnfitPrograms  # noqa: F401
from faulting import Faults  # noqa: F401
from limits import Limits  # noqa: F401
from options import Options  # noqa: F401
from running import Running, Words  # noqa: F401
from starting import Settings, Starting  # noqa: F401

if __name__ == "__main__":
    emulator_case.BIN = os.path.abspath(sys.argv.pop(1))
    for needed in ("verbena", "verbenad"):
        if not os.access(os.path.join(emulator_case.BIN, needed), os.X_OK):
            sys.exit(f"{emulator_case.BIN}/{needed} is missing")
    unittest.main(verbosity=2)
