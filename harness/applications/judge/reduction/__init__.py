"""`harness reduce`: the smallest part of a model for which an engine still differs from the specification."""
