"""`harness models`: bring networks in, quantise them, show them as text."""
