"""Measurements of a board at work: what is asked, segments of executions, their statistics, the document of all.

asked       what is measured, and what a board can be asked for
segments    executions on the board, by processes one after the other
statistics  what their readings say: pure functions
base        a former measurement to compare with
changed     what else is not as it was then
document    all of it as JSON types, and the verdict
"""
