"""History of runs and nights: an index of all run folders, changes from night to night and from run to run.

run_record  one run folder as a flat record
run         reader of such a record, also of an unfinished and an unreadable run
index       runs/index.sqlite: all of them, kept up to date, only a cache
nights      what changed from one night to the next
difference  what changed from one run to another, and what may explain it
trend       a measured number over the nights, with the band that it moves in by itself
"""
