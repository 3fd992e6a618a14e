"""The recipe of five quantised networks of embedded boards: `python -m models.tiny` makes them again."""
