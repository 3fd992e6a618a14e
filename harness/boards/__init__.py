"""Boards: profiles, sessions, locks, system tuning, the emulated board.

A session runs commands and copies files; whatever is above needs to know no more of a board.
"""
