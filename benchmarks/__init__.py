"""Benchmarks: Isoline beside feature-less programs of our own, measured in turns on one machine. ``python -m benchmarks`` runs them."""
