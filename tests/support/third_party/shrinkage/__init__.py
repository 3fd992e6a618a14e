"""A package of a third party: the operator Shrink, which is one definition, and two targets."""
