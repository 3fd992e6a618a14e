"""History of runs and nights: an index of all run folders, changes from night to night and from run to run.

run_record  one run folder as a flat record
run         reader of a run folder, also of an unfinished or unreadable run
index       runs/index.sqlite: an up-to-date cache of all records
nights      changes from one night to the next
difference  changes from one run to another, and possible causes
night_record  night.json: the entries of a night and their attempts
trend       a measured number over the nights, with its noise band
"""
