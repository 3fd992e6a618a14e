"""The command line: one file for each subcommand; files with an underscore are shared by several.

No other package imports it.  The pytest plugin is the second entry point.
"""
