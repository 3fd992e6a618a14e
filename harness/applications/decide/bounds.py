"""Sound bounds of the decisions in boxes of codes, for networks whose code vectors are too many to enumerate.

interval   exact: the least and the greatest sum of each layer are integers, and the layer's own rounding is monotone.
           Float64 has all these integers, below 2^53, so that products of matrices are exact in any order.  A box of
           one code vector therefore has exactly its decisions.
zonotope   each activation is centre + sum_s parts[s] * e_s + own * e, with all |e| <= 1: one symbol for each input, and
           one for each activation, which has its rounding and the distance of the clamp from a chord (Singh et al.,
           Fast and effective robustness certification, NeurIPS 2018).  Sums are intersected with the intervals.

The zonotope is computed in float64, and every error is added to a radius.  With u = 2^-53, a sum of n products has an
error of at most n u / (1 - n u) times the sum of their magnitudes, in any order and with or without FMA (Higham,
Accuracy and Stability of Numerical Algorithms, 2002, section 3.1).  Four times this bound covers the centre, the parts,
the sum of their magnitudes and the bound itself; 2^-1000 covers underflow.  The float32 score of an exact v is
v (1 + d1) (1 + d2) + d3 with |d1|, |d2| <= 2^-24, |d3| <= 2^-150 (section 2.1): its error is below 2^-22 |v| + 2^-149.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.applications.decide import code_network
from harness.applications.decide.code_network import CodeNetwork, Codes, CodeStep
from harness.applications.decide.engine import comparison
from harness.applications.decide.partition import AnySets
from harness.applications.decide.property import Rule, type_of_sets
from harness.core.errors import RequestError
from harness.model.network import Network

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
CodeArray: TypeAlias = npt.NDArray[np.integer[Any]]
UNIT, FLOAT32, ROUNDING, MOST_CORNERS = 2.0**-53, 2.0**-22, 0.5, 100


@dataclass(frozen=True, eq=False)
class Bounds:
    """The scores of boxes: `low` and `high`, (boxes, outputs), are exact values of float32 scores or codes.

    `least_differences` has, for pairs (i, j), the least value of score i less score j before a rounding to codes,
    (boxes,) each.  `corners`, uint8 (boxes, n, inputs), are code vectors where the zonotope has the extreme ones.
    """

    network: CodeNetwork
    low: Floats
    high: Floats
    least_differences: dict[tuple[int, int], Floats]
    corners: Codes

    def possible(self, rule: Rule) -> AnySets:
        """Return a set for each box, (boxes,), that contains every decision of its code vectors."""
        found = [~each for each in (self._half_spaces(rule) if rule.half_spaces else self._beaten(rule))]
        kind = type_of_sets(len(found))
        sets: AnySets = np.bitwise_or.reduce([mask.astype(kind) << kind.type(d) for d, mask in enumerate(found)])
        return sets

    def _beaten(self, rule: Rule) -> list[Mask]:
        """Return, for each output, where another one is always chosen in its place."""
        found = [np.zeros(len(self.low), np.bool_) for _ in range(self.network.outputs)]
        for index, other in itertools.permutations(range(self.network.outputs), 2):
            strict = rule.ties == "all" or (other > index) == (rule.ties == "first")
            found[index] |= self._greater(*(other, index) if rule.greatest else (index, other), strict=strict)
        return found

    def _half_spaces(self, rule: Rule) -> list[Mask]:
        """Return, for each half-space, where no vector is in it; and where each one is in the same half-space."""
        excluded, all_within = [], np.zeros(len(self.low), np.bool_)
        for decision, half_space in enumerate(rule.half_spaces):
            never, always = np.zeros(len(self.low), np.bool_), np.ones(len(self.low), np.bool_)
            for each in half_space:
                given = comparison(self.network, decision, each)
                left, right, strict = given.left, given.right, bool(given.strict)
                if right >= 0:
                    holds = self._greater(left, right, strict=strict)
                    fails = self._greater(right, left, strict=not strict)
                else:
                    more, less = (np.greater, np.less_equal) if strict else (np.greater_equal, np.less)
                    holds, fails = more(self.low[:, left], given.constant), less(self.high[:, left], given.constant)
                never |= holds if given.negated else fails
                always &= fails if given.negated else holds
            excluded.append(never)
            all_within |= always
        return [*excluded, all_within]

    def _greater(self, left: int, right: int, *, strict: bool) -> Mask:
        """Return where score `left` is greater than score `right` (or equal, unless `strict`) for each vector."""
        low, high, last = self.low[:, left], self.high[:, right], self.network.steps[-1]
        mask: Mask = low > high if strict else low >= high
        if (least := self.least_differences.get((left, right))) is None:
            return mask
        if not strict or last.is_float:  # rounding is monotone
            return mask | (least > 0 if strict else least >= 0)
        # numbers that differ by more than 1 have different codes, unless both are clamped: 1.5 and 2.5 both become 2
        return mask | ((least > 1) & (low > last.low) & (high < last.high))


@dataclass(frozen=True, eq=False)
class _Form:
    """Affine forms: `centre` and `own` are (boxes, n), `parts` is (boxes, symbols, n)."""

    centre: Floats
    parts: Floats
    own: Floats

    def sums(self, step: CodeStep) -> tuple[_Form, Floats]:
        """Return the sums of a layer, (boxes, N), whose `own` is their radius without it; and the error of all."""
        weights, (boxes, symbols, depth) = step.weights.astype(np.float64), self.parts.shape
        parts = (self.parts.reshape(-1, depth) @ weights).reshape(boxes, symbols, weights.shape[1])
        parts = np.concatenate([parts, self.own[:, :, None] * weights], axis=1)
        size = (np.abs(self.centre) + np.abs(self.parts).sum(axis=1) + self.own) @ np.abs(weights) + np.abs(step.offset)
        error = 4 * (depth + parts.shape[1] + 8) * UNIT * size + 2.0**-1000
        return _Form(self.centre @ weights + step.offset, parts, np.abs(parts).sum(axis=1)), error


def interval(network: CodeNetwork, low: CodeArray, high: CodeArray) -> Bounds:
    """Return the bounds of boxes of codes `low` to `high`, (boxes, inputs) each, from exact intervals."""
    least, most = low.astype(np.float64), high.astype(np.float64)
    for step in network.steps:
        least, most = (_outputs(step, sums) for sums in _sums(step, least, most))
    return Bounds(network, least, most, {}, np.empty((len(low), 0, low.shape[1]), np.uint8))


def zonotope(network: CodeNetwork, rule: Rule, low: CodeArray, high: CodeArray) -> Bounds:
    """Return the bounds of boxes of codes `low` to `high`, (boxes, inputs) each, from a zonotope and intervals."""
    *_, (sums, error, least, most) = _sums_of_zonotope(network, low, high)
    step = network.steps[-1]
    first, last = _outputs(step, least), _outputs(step, most)
    multiplier = step.multiplier.astype(np.float64)
    errors = (error + np.maximum(np.abs(least), np.abs(most)) * FLOAT32) * multiplier + 2.0**-149
    errors += 4 * (sums.parts.shape[1] + 8) * UNIT * ((np.abs(sums.centre) + sums.own) * multiplier + errors)
    centre, parts = sums.centre * multiplier, sums.parts * multiplier
    least_of, corners = {}, list[CodeArray]()
    for left, right in _pairs(network, rule):
        slopes = parts[:, :, left] - (parts[:, :, right] if right >= 0 else 0)
        upwards = slopes[:, : low.shape[1]] > 0
        corners += [np.where(upwards, high, low), np.where(upwards, low, high)][: MOST_CORNERS - len(corners)]
        if right >= 0:
            middle = centre[:, left] - centre[:, right]
            radius = np.abs(slopes).sum(axis=1) + errors[:, left] + errors[:, right]
            least_of[left, right], least_of[right, left] = middle - radius, -middle - radius
    return Bounds(network, first, last, least_of, np.stack(corners, axis=1).astype(np.uint8))


def accumulators(network: Network) -> dict[str, tuple[Floats, Floats]]:
    """Return bounds of the accumulators, (1, N) each, by the name of the layer, for all inputs in the box.

    They are those of the zonotope; none for a network that is no chain of dense layers of codes.
    """
    try:
        found = code_network.of(network)
    except RequestError:
        return {}
    low, high = found.codes(network.box[:1]), found.codes(network.box[1:])
    bounds = ((least, most) for _, _, least, most in _sums_of_zonotope(found, low, high))
    names = (layer.name for layer in network.layers if layer.sums and layer.sums.code_sums())
    return dict(zip(names, bounds, strict=True))


def _sums_of_zonotope(
    network: CodeNetwork, low: CodeArray, high: CodeArray
) -> Iterator[tuple[_Form, Floats, Floats, Floats]]:
    """Yield the sums of each layer, the error of their numbers, and the least and the greatest sum, (boxes, N)."""
    first, last = low.astype(np.float64), high.astype(np.float64)
    form = _Form((first + last) / 2, np.empty((len(low), 0, low.shape[1])), (last - first) / 2)
    for step in network.steps:
        sums, error = form.sums(step)
        least, most = _sums(step, first, last)  # integers, to which the zonotope's bounds are rounded inwards
        least = np.maximum(least, np.ceil(sums.centre - sums.own - error))
        most = np.minimum(most, np.floor(sums.centre + sums.own + error))
        yield sums, error, least, most
        first, last = _outputs(step, least), _outputs(step, most)
        if step is not network.steps[-1]:
            form = _activations(step, sums, error, least, most)


def _pairs(network: CodeNetwork, rule: Rule) -> list[tuple[int, int]]:
    """Return the pairs of scores that a rule compares; -1 is a constant."""
    compared = [(each.left, -1 if each.right is None else each.right) for half in rule.half_spaces for each in half]
    return list(dict.fromkeys(compared)) or list(itertools.combinations(range(network.outputs), 2))


def _sums(step: CodeStep, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the exact least and greatest sums, (boxes, N), of codes `low` to `high`, (boxes, K)."""
    above, below = (limit(step.weights, 0).astype(np.float64) for limit in (np.maximum, np.minimum))
    return low @ above + high @ below + step.offset, high @ above + low @ below + step.offset


def _rounded(step: CodeStep, sums: Floats) -> Floats:
    """Return the integers of sums before they are clamped, as the layer computes them in float32."""
    found: Floats = np.rint(sums.astype(np.float32) * step.multiplier).astype(np.float64) + step.zero_point
    return found


def _outputs(step: CodeStep, sums: Floats) -> Floats:
    """Return the codes of sums, or their float32 scores if the layer has these."""
    if step.is_float:
        return (sums.astype(np.float32) * step.multiplier).astype(np.float64)
    return np.clip(_rounded(step, sums), step.low, step.high)


def _activations(step: CodeStep, sums: _Form, error: Floats, least: Floats, most: Floats) -> _Form:
    """Return the codes of sums within `least` to `most`.

    With x the integer before the clamp, the code is slope * x + a remainder that is piecewise linear in x: its bounds
    are at the ends and at the limits of the clamp.  x is sum * multiplier + zero_point within `rounding`.
    """
    multiplier = step.multiplier.astype(np.float64)
    from_, to = _rounded(step, least), _rounded(step, most)
    low, high = _outputs(step, least), _outputs(step, most)
    slope = (high - low) / np.maximum(to - from_, 1)
    points = np.stack([from_, to, np.clip(step.low, from_, to), np.clip(step.high, from_, to)])
    remainders = np.clip(points, step.low, step.high) - slope * points
    middle, half = ((remainders.max(axis=0) + sign * remainders.min(axis=0)) / 2 for sign in (1, -1))
    largest, factor = np.maximum(np.abs(from_), np.abs(to)), slope * multiplier
    rounding = ROUNDING + np.maximum(np.abs(least), np.abs(most)) * multiplier * FLOAT32 + 2.0**-149
    size = factor * (np.abs(sums.centre) + sums.own) + slope * (largest + abs(step.zero_point)) + np.abs(middle) + 255
    own = (factor * error + slope * rounding + half + 16 * UNIT * size) * (1 + 16 * UNIT)
    centre, constant = factor * sums.centre + slope * step.zero_point + middle, (high - low) / 2 <= own
    return _Form(
        np.where(constant, (low + high) / 2, centre),
        sums.parts * np.where(constant, 0, factor)[:, None, :],
        np.where(constant, (high - low) / 2, own),
    )
