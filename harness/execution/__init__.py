"""Deploying a bundle, running a chunk of vectors, fetching dumps, querying single stages.

The board is not trusted: hashes and lengths of all its data are checked.
"""
