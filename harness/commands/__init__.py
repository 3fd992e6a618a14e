"""One file a sub-command: its flow, read from top to bottom."""
