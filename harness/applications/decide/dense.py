"""Decisions in numpy: every code vector by itself, without code of the engine (kernels/decide), its bounds or batches.

Sums are exact in any order: they are integers below 2^24 in float32, or below 2^53 in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.applications.decide.code_network import CODES, CodeNetwork, Codes
from harness.applications.decide.partition import AnySets, Sets
from harness.applications.decide.property import Rule, type_of_sets

AT_ONCE = 1 << 10
"""Code vectors whose activations are in memory together."""
EXACT_IN_FLOAT32 = 2**24


def decide(
    network: CodeNetwork,
    rule: Rule,
    low: Sequence[int],
    extent: Sequence[int],
    segments: Sequence[npt.NDArray[np.uint16]],
    shape: tuple[int, ...],
) -> Sets:
    """Return the decisions in each region, uint8 `shape`, of all codes low[k] to low[k] + extent[k] - 1.

    `segments` has, for each axis, the region of each code, uint16 (256,).
    """
    regions, total = np.zeros(math.prod(shape), np.uint8), math.prod(extent)
    for first in range(0, total, AT_ONCE):
        codes = np.unravel_index(np.arange(first, min(first + AT_ONCE, total)), extent)
        codes = tuple(start + offset for start, offset in zip(low, codes, strict=True))
        place = tuple(segment[code] for segment, code in zip(segments, codes, strict=True))
        sets = decisions(rule, scores(network, np.stack(codes, axis=1).astype(np.uint8)), type_of_sets(1))
        np.bitwise_or.at(regions, np.ravel_multi_index(place, shape), sets)
    return regions.reshape(shape)


def scores(network: CodeNetwork, codes: Codes) -> npt.NDArray[np.float32]:
    """Return the scores of code vectors, (n, inputs), float32 (n, outputs)."""
    values: npt.NDArray[np.generic] = codes
    for step in network.steps:
        largest = (CODES * np.abs(step.weights).sum(axis=0) + np.abs(step.offset)).max()
        kind = np.float32 if largest < EXACT_IN_FLOAT32 else np.float64
        sums = values.astype(kind) @ step.weights.astype(kind) + step.offset.astype(kind)
        scaled: npt.NDArray[np.float32] = sums.astype(np.float32) * step.multiplier
        if step.is_float:
            return scaled
        values = np.clip(np.rint(scaled) + step.zero_point, step.low, step.high)
    if network.scores is None:
        raise ValueError(f"{network.name} has no scores")
    return network.scores[values.astype(np.uint8)]


def decisions(rule: Rule, scores: npt.NDArray[np.generic], kind: np.dtype[np.unsignedinteger[Any]]) -> AnySets:
    """Return the set of decisions of scores, (n, outputs), of each vector, `kind` (n,)."""
    values = scores.astype(np.float64)
    if rule.half_spaces:
        sets = np.zeros(len(values), kind)
        for decision, half_space in enumerate(rule.half_spaces):
            holds = np.ones(len(values), np.bool_)
            for comparison in half_space:
                near, strict, left = float(comparison.constant), comparison.strict, values[:, comparison.left]
                right = np.full_like(left, near) if comparison.right is None else values[:, comparison.right]
                if comparison.right is None and Fraction(near) != comparison.constant:  # no score lies between both
                    strict = (Fraction(near) < comparison.constant) != comparison.at_most
                least, most = (left, right) if comparison.at_most else (right, left)
                holds &= least < most if strict else least <= most
            sets |= holds.astype(kind) << kind.type(decision)
        sets[sets == 0] = 1 << len(rule.half_spaces)
        return sets
    best = values == (values.max(axis=1) if rule.greatest else values.min(axis=1))[:, None]
    if rule.ties != "all":
        place = best.argmax(axis=1) if rule.ties == "first" else best.shape[1] - 1 - best[:, ::-1].argmax(axis=1)
        best = np.arange(best.shape[1]) == place[:, None]
    chosen: AnySets = (best.astype(kind) << np.arange(best.shape[1], dtype=kind)).sum(axis=1, dtype=kind)
    return chosen
