"""Many runs: matrix, scheduler, records, history.

A night is carried out board by board, and kept so that it can go on.
"""
