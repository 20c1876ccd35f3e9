# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs of other projects against Verbena and judges them by a manifest; see conformance/README.md."""
