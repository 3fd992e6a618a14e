"""`harness case`: an argument whose leaves are run folders, each bound to the SHA-256 of its files.

gsn        the elements of the Goal Structuring Notation as YAML of gsn2x, and the rules of that format
entries    the document `case.json`
leaves     the leaves: what a folder or file shows, and where it comes from
argument   the template of the objectives, filled from the leaves
build      the choice of usable evidence, and the case folder
check      the new check of every leaf, and the goals that fail with it
evidence   a case itself as a kind of evidence
difference the changes between two cases
"""
