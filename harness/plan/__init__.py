"""Network x board to schedule: items, text forms, Petri nets, checks, traces.

A plan says which item computes which layers, and where items hand over; it is immutable and printable.
"""
