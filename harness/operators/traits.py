"""Properties of operators that code outside of them depends on, so that it need not test their classes."""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """A property of an operator.

    ELEMENTWISE  a value of the output depends only on the values at the same place of the inputs
    SUMS         the layer sums products with weights, (K, N), as `Linear` states
    INDEX        the output is the index of an input value
    QUANTISER    the layer turns the inputs of a network into codes or positions
    MOVES        the layer moves values, and computes none
    """

    NONE = 0
    ELEMENTWISE = auto()
    SUMS = auto()
    INDEX = auto()
    QUANTISER = auto()
    MOVES = auto()
