"""Measurements of a board: request, segments of executions, statistics, document.

request      the options of a measurement, checked against the board
parts        the columns of the readings: the network, items or layers
segments     executions on the board, by processes one after the other
devices      times that accelerators report
statistics   statistics of the readings: pure functions
base         a former measurement to compare with
config_diff  other differences from the base
document     the document as JSON types, and the verdict (`judge`)
facts        the facts that all reports show
headline     the numbers that terminal, history and pages have in common
"""
