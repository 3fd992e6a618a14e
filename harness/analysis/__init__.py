"""Compare, diagnose, prove, inspect machine code, statistics of times.

Functions over arrays and programs, which know nothing of run folders.
"""
