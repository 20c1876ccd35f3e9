"""What bench/run is made of: programs and what they print, limits, rows, statistics, tables."""
