"""Many runs: matrix, scheduler, records, history.

A night is a set of runs on several boards.  Its records allow it to be resumed.
"""
