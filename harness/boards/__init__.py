"""Boards: profiles, sessions, locks, system tuning, the emulated board.

A session runs commands and copies files; the packages above use only sessions.
"""
