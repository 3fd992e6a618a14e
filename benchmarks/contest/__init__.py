"""The peers of `benchmarks/peers.py`: who they are, how they are checked, timed in turns, shown."""
