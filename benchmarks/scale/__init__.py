"""What grows with the number of runs: a model of the bytes, and the times, measured on 10^3 to 10^6 runs. ``python -m benchmarks.scale``."""
