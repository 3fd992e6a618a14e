"""Deploy a bundle, run a chunk of vectors, fetch dumps, ask single stages.

The board is not trusted: hashes and lengths of everything that it sends are checked.
"""
