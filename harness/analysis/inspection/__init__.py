"""Inspect the machine code of a built program, without running it."""
