"""The results of a judgement: for each layer in the dumps, for the decisions, and for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.analysis.compare import Difference
from harness.analysis.diagnosis import Case, DifferenceSummary
from harness.applications.judge.explanation import Explanation
from harness.operators.base import Layer


@dataclass(eq=False)
class LayerJudgement:
    """The comparison of one layer in the dumps, over all vectors so far.

    Of `compared` values, `differing` have other bits than the reference; None without a reference.  For the engine's
    own inputs of the layer, `unequal` of `own_compared` values have other bits than the specification, and `own` are
    wrong: all of these, or beyond the bound of a layer that has one.  `unbounded` of the unequal values have no finite
    bound.  `ratio` is the largest difference as a share of its bound.  `largest` is the largest difference in steps
    of the scale or units in the last place, `distance` that of numbers, and `range` the largest number of the reference
    where values differ.  `nan` values are NaN where the specification has a number,
    `off` are none of the model's values, such as numbers between two codes.  `chain` are the layers without dumps
    that were computed together with it.
    """

    layer: Layer
    index: int
    compared: int = 0
    differing: int | None = 0
    first: Difference | None = None
    own_compared: int = 0
    unequal: int = 0
    own: int = 0
    own_first: Difference | None = None
    unbounded: int = 0
    ratio: float = 0.0
    largest: float = 0.0
    distance: float = 0.0
    range: float = 0.0
    nan: int = 0
    off: int = 0
    chain: tuple[str, ...] = ()
    explanation: Explanation = field(default_factory=Explanation)
    sample: Case | None = None
    summary: DifferenceSummary | None = None
    is_converted: bool = False


@dataclass
class Decisions:
    """The decisions of an output: the index of its largest value, or the value itself of a layer that gives indices."""

    output: str
    vectors: int = 0
    changed: int = 0
    first: int | None = None


@dataclass(eq=False)
class Judgement:
    """The results for all layers in the dumps, in the order of the model."""

    layers: list[LayerJudgement]
    decisions: list[Decisions]
    vectors: int
    outputs: list[str]
    missing_outputs: list[str]
    problems: list[str]
