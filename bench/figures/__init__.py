# SPDX-License-Identifier: BSD-2-Clause
"""The parts of bench/run: programs and what they print, limits, rows, statistics, tables."""
