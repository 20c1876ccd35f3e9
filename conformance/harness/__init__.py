# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs that we did not write against Verbena and judges them by a manifest; see conformance/README.md."""
