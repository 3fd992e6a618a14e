"""Errors, text, safe I/O, console and subprocesses: what every package needs.

Imports no other package.
"""
