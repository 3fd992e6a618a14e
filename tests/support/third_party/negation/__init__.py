"""A package of a third party: the operator Neg, its code for target c, and a target with settings of its own."""
