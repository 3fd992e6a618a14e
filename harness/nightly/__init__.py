"""Many runs: matrix, scheduler, records, history.

A night runs board by board; its records allow it to be resumed.
"""
