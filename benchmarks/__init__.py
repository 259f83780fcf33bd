"""Measurements beside peers, run by hand: `python -m benchmarks.NAME`."""
