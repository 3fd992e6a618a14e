"""The command line: of each sub-command one file with its options, one with its flow.

No other package imports it; the pytest plugin is its other entrance.
"""
