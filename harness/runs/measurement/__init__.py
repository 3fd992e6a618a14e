"""Measurements of a board at work: what is asked, segments of executions, their statistics, the document of all.

request      what is measured, and what a board can be asked for
parts        what the columns of the readings measure: the network, items or layers
segments     executions on the board, by processes one after the other
devices      times that accelerators report
statistics   what their readings say: pure functions
base         a former measurement to compare with
config_diff  what else is not as it was then
document     all of it as JSON types, and the verdict (`judge`)
facts        what all reports show of the document
headline     the numbers that terminal, history and pages have in common
"""
