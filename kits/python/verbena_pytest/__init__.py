# SPDX-License-Identifier: BSD-2-Clause
"""Gives each test an emulated RDMA device. The fixture is called `verbena`; README.md says what it offers."""

from verbena_pytest.device import Device
from verbena_pytest.program import Program, VerbenaError
from verbena_pytest.programs import Finished, ProgramFailed, Running
from verbena_pytest.version import VERSION as __version__

__all__ = ["Device", "Finished", "Program", "ProgramFailed", "Running", "VerbenaError", "__version__"]
