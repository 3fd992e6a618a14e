"""Errors, text, safe I/O, console and subprocesses, for every package.

Imports no other package.
"""
