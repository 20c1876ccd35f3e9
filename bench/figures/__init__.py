# SPDX-License-Identifier: BSD-2-Clause
"""What bench/run is made of: programs and what they print, limits, rows, statistics, tables."""
