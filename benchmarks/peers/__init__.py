"""The peers of `benchmarks/run_peers.py`: who they are, how they are checked, timed in turns, shown."""
