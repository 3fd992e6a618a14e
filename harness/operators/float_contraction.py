"""Contractions of float32 values: sums of products in a specified order, each operation rounded to float32.

    acc = bias[n] + 0                                    a bias of -0 counts as 0, so that padding changes no sum
    acc = acc + a[k] * weights[k, n]                     for k = 0 to K - 1: the product is rounded, then the sum
    y[n] = acc

ONNX fixes no order, and ONNX Runtime has another one.  A sum of n products in any order lies within
gamma_n * sum |a||w| of the exact sum, gamma_n = n u / (1 - n u), u = 2^-24 (Higham, Accuracy and Stability, 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Ability, Constants, Evaluate
from harness.operators.exact import fused
from harness.operators.fault_models import FaultModel, through_float16
from harness.operators.float_errors import UNDERFLOW, Errors, Perturbed, gamma, within_range
from harness.operators.float_samples import of_exponents
from harness.operators.linear import Linear
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, ProofStep, StageKind
from harness.operators.product import Runtime
from harness.operators.sum_orders import OrderedSum, SumOrder
from harness.operators.tensor import FLOAT32, LARGEST

TERMS_AT_ONCE = 1 << 17
"""Accumulators that are updated together: few enough for the second-level cache."""
WORK_OF_A_PROOF = 1 << 27
"""Products of the vectors that a proof passes through one layer."""
FOLDED = 8
"""Roundings of weights into which ONNX Runtime folds a BatchNormalization (four) and factors."""
BLOCK = 1 << 22  # bytes of weights
ORDER = "the bias, then the products in the order of the formula, each rounded to float32"


@dataclass(frozen=True, eq=False)
class FloatContraction(Linear):
    """A layer of float32 sums: `weights` float32 (K, N), `bias` float32 (N,), both finite."""

    # its roundings are those of `radius`, and those of constants that ONNX Runtime folds into the weights
    runtime = Ability[Runtime](lambda layer: Runtime(layer, begins=len(layer.weights) + 3 + FOLDED))
    text = Linear.text.but(
        facts_of=lambda layer: {"terms": len(layer.weights), "order": ORDER},
        summary_of=lambda layer: (
            f"weights {text.floats(layer.weights.reshape(-1))}",
            f"bias {text.floats(layer.bias)}",
        ),
    )
    errors = Ability[Errors](
        lambda layer: Errors(
            layer, specified=layer.specified, bounds=layer.output_bounds, linear=layer.linear, change=layer.change,
            rounding=layer.rounding,
        )
    )  # fmt: skip
    sum_order = Ability[SumOrder](lambda layer: SumOrder(layer, layer.ordered_sum, layer.sum_faults))

    bias: npt.NDArray[np.float32]

    def numbers(self) -> dict[str, Array]:
        """Return weights and bias."""
        return {"weights": self.weights, "bias": self.bias}

    def prepare(self) -> Evaluate:
        """Return the function that adds one product after the other, for many sums at once."""
        return lambda a: self.summed(a, in_order)

    def summed(self, values: Array, add: Callable[[Array, Array, Array], Array]) -> Array:
        """Return the outputs; `add` gives the sums of patches (n, K), weights (K, N) and bias (N,)."""
        with np.errstate(all="ignore"):
            found = [
                add(patch, self.weights[:, channels], self.bias[channels])
                for channels, patch in self.patches(values, 0)
            ]
        return self.arranged(np.concatenate(found, axis=1))

    def constants(self) -> Constants:
        """Return weights and bias."""
        return {"weights": self.weights, "bias": self.bias}

    def of_channels(self, taken: slice) -> dict[str, Any]:
        """Return weights and bias of these channels."""
        return super().of_channels(taken) | {"bias": self.bias[taken]}

    def bound_of_output(self) -> float:
        """Return the largest |y| for inputs within their bound; infinite if a sum can overflow."""
        with np.errstate(over="ignore"):
            largest = (self.input.bound * _absolute_sums(self.weights) + np.abs(self.bias)).max()
        largest *= 1 + gamma(len(self.weights) + 1)
        return float(largest) if largest <= LARGEST else math.inf

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return the bounds of the exact sum, and the largest error of a sum in any order beyond them."""
        middle, half = ((high[0].astype(np.float64) + sign * low[0].astype(np.float64)) / 2 for sign in (1, -1))
        centre, magnitude = self.exact(middle)
        radius = self.contract(half, np.abs(self.weights.astype(np.float64)))
        radius += 2 * self.radius(magnitude + radius)  # once for the sum, and more than float64 rounds here
        with np.errstate(invalid="ignore"):
            unknown = ~np.isfinite(centre + radius)
            least, most = np.where(unknown, -np.inf, centre - radius), np.where(unknown, np.inf, centre + radius)
        with np.errstate(over="ignore"):  # one step outwards, as the conversion can round inwards
            return np.nextafter(least.astype(np.float32), -np.inf), np.nextafter(most.astype(np.float32), np.inf)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:
        """Return the a-priori bound of a sum in any order around the exact sum, seen from `output`.

        The distance of `output` from the exact sum counts only as far as the bound allows it for this order, too: a
        specification that is wrong by more is not confirmed.
        """
        exact, magnitude = self.exact(inputs[0])
        radius = self.radius(magnitude)
        with np.errstate(invalid="ignore"):
            own_error = np.minimum(np.abs(output - exact), radius)
        return within_range(radius + own_error, magnitude)

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the sums without the bias."""
        return self.contract(rows[0], self.weights.astype(np.float64))

    def change(self, at: Perturbed) -> Array:
        """Return the sum of e|w|."""
        return self.contract(at.errors[0], np.abs(self.weights.astype(np.float64)))

    def rounding(self, at: Perturbed) -> Array:
        """Return the radius of the other sum, of magnitudes up to |a| + e, and the error of the specified one.

        The latter counts only as far as the former, as in `tolerance`.
        """
        count, w, bias = self.runtime.begins, self.weights.astype(np.float64), self.bias.astype(np.float64)
        magnitude = self.contract(at.magnitudes()[0], np.abs(w)) + self.spread(np.abs(bias))
        radius = gamma(count) * magnitude + count * UNDERFLOW
        exact = self.contract(at.values[0].astype(np.float64), w) + self.spread(bias)
        return within_range(radius + np.minimum(np.abs(at.output - exact), radius), magnitude)

    def exact(self, values: Array) -> tuple[Array, Array]:
        """Return sum and sum of magnitudes in float64, (vectors, size) each."""
        a, w, bias = (each.astype(np.float64) for each in (values, self.weights, self.bias))
        with np.errstate(all="ignore"):
            exact = self.contract(a, w) + self.spread(bias)
            magnitude = self.contract(np.abs(a), np.abs(w)) + self.spread(np.abs(bias))
        return exact, magnitude

    def radius(self, magnitude: Array) -> Array:
        """Return the largest error of a sum in any order; two more roundings are those of alpha and beta in Gemm."""
        count = len(self.weights) + 3
        bound: Array = gamma(count) * magnitude + count * UNDERFLOW
        return bound

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - of the interface
        """Return where the sum is a number: IEEE 754 leaves the bits of a computed NaN open."""
        return ~np.isnan(expected)

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of products, which begin with the bias."""
        with np.errstate(all="ignore"):
            products = [
                patch.T[:, :, None] * self.weights[:, None, channels] for channels, patch in self.patches(inputs[0], 0)
            ]
        start = self.bias if self.bias.any() else None
        return OrderedSum(
            np.concatenate(products, axis=2),
            lambda sums: self.arranged(sums + np.float32(0)),  # with a bias of 0 no sum is -0
            start,
            partial(self._exact, inputs[0]),
        )

    def _exact(self, values: Array, place: int) -> Array:
        """Return the products of one place before they are rounded, float64 (n * positions, N)."""
        products = [
            patch[:, place, None].astype(np.float64) * self.weights[place, channels]
            for channels, patch in self.patches(values, 0)
        ]
        return np.concatenate(products, axis=1)

    def sum_faults(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield another place of the bias, and contracted products."""
        for cause, add in CONTRACTED_SUMS.items():
            if add is not _bias_last or self.bias.any():
                yield FaultModel(cause, ORDER, self.summed(inputs[0], add))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield sums in other orders and with other roundings."""
        [a] = inputs
        yield from self.sum_order.faults(a)
        yield FaultModel("the bias is left out", ORDER, self.summed(a, _without_bias))
        right = self.prepare()(a)
        yield FaultModel("the output is rounded to float16", "float32", through_float16(right))
        small = np.finfo(np.float32).tiny
        flushed = np.where(np.abs(right) < small, right * np.float32(0), right)
        yield FaultModel("a subnormal result is flushed to zero", "it is kept", flushed)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:
        """Yield single inputs, which show every weight, and vectors whose sums differ in every other known order."""
        evaluate, size = self.prepare(), self.input.size
        most = max(WORK_OF_A_PROOF // (len(self.weights) * self.size), 4)
        singles = min(2 * size, most)
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "every weight takes part at its place",
            f"{singles:,} vectors with one input other than 0, a power of two that leaves the bits of its weights",
            singles * self.size,
            Outputs(lambda: _single_inputs(size, singles), evaluate),
            complete=False,
        )
        count = min(most, extent.random_vectors)
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "the sum has the specified order and roundings",
            f"{count:,} vectors of exponents -12 to 12, with which another order gives other bits; not complete",
            count * self.size,
            Outputs(lambda: _mixed_magnitudes(size, count), evaluate),
            complete=False,
        )
        yield from of_exponents(self)

    def assumptions(self) -> Iterator[str]:
        """Yield what follows from IEEE 754, and what samples do not show."""
        yield (
            f"Layer {self.name} adds the products of each sum in one order for all inputs, and each operation is "
            "rounded as IEEE 754 requires: vectors were tried with which every known other order gives other bits, but "
            "for those that its claims list."
        )


def in_order(patch: Array, weights: Array, bias: Array) -> Array:
    """Return the specified sums, float32 (n, N), of patches (n, K), weights (K, N) and bias (N,)."""
    acc = np.empty((len(patch), weights.shape[1]), np.float32)
    rows = max(TERMS_AT_ONCE // weights.shape[1], 1)
    for start in range(0, len(patch), rows):
        acc[start : start + rows] = _in_order(patch[start : start + rows], weights, bias)
    return acc


def _in_order(patch: Array, weights: Array, bias: Array) -> Array:
    """Return the same; the longer axis comes last, so that one call of numpy has much to do."""
    across = len(patch) > weights.shape[1]
    terms = np.ascontiguousarray(patch.T)
    acc = np.zeros((weights.shape[1], len(patch)) if across else (len(patch), weights.shape[1]), np.float32)
    acc += bias[:, None] if across else bias
    products = np.empty_like(acc)
    for a, w in zip(terms, weights, strict=True):
        if across:
            np.multiply(w[:, None], a, out=products)
        else:
            np.multiply(a[:, None], w, out=products)
        np.add(acc, products, out=acc)
    return acc.T if across else acc


def _absolute_sums(weights: Array) -> Array:
    """Return the sum of |w| of each column, float64: some columns at once, as all would need much memory."""
    most = max(weights.shape[1] // 2, 1)  # numpy sums single columns in another order
    count = min(1 + weights.nbytes // BLOCK, most)
    blocks = np.array_split(weights, count, axis=1)
    return np.concatenate([np.abs(block.astype(np.float64)).sum(axis=0) for block in blocks])


def read_finite(node: Node, position: int, what: str) -> Array:
    """Return a constant float32 input, all of whose values are finite."""
    value = node.constant(position, what, [FLOAT32])
    strange = value[~np.isfinite(value)]
    if strange.size:
        raise node.refusal(f"the {what} holds {strange.flat[0]} ({strange.size} values)", "finite numbers")
    return value


def _bias_last(patch: Array, weights: Array, bias: Array) -> Array:
    return in_order(patch, weights, np.zeros_like(bias)) + bias


def _without_bias(patch: Array, weights: Array, bias: Array) -> Array:
    return in_order(patch, weights, np.zeros_like(bias))


def contracted(patch: Array, weights: Array, bias: Array) -> Array:
    """Return sums of fused multiply-adds: the product is not rounded."""
    acc = np.broadcast_to(bias + np.float32(0), (len(patch), len(bias)))
    for a, w in zip(patch.T.astype(np.float64), weights.astype(np.float64), strict=True):
        acc = fused(a[:, None] * w, np.float32(1), acc)  # the product is exact
    return acc


def _in_double(patch: Array, weights: Array, bias: Array) -> Array:
    exact: Array = (patch.astype(np.float64) @ weights.astype(np.float64) + bias).astype(np.float32)
    return exact


def _in_contracted_lanes(lanes: int) -> Callable[[Array, Array, Array], Array]:
    """Return the sum by `lanes` partial sums, which are added from the first to the last, then the bias."""

    def add(patch: Array, weights: Array, bias: Array) -> Array:
        total, none = np.zeros((len(patch), len(bias)), np.float32), np.zeros_like(bias)
        for lane in range(min(lanes, len(weights))):
            total = total + contracted(patch[:, lane::lanes], weights[lane::lanes], none)
        return total + bias

    return add


CONTRACTED_SUMS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "multiplications and additions are contracted (FMA)": contracted,
    "the bias is added last": _bias_last,
    **{f"{lanes} contracted partial sums (FMA) are added at the end": _in_contracted_lanes(lanes)
       for lanes in (4, 8, 16)},
    "products and sum are computed in double precision": _in_double,
}  # fmt: skip
"""Sums of patches (n, K), weights (K, N) and bias (N,) by their faults."""


def _single_inputs(size: int, count: int) -> Iterator[Array]:
    """Yield vectors of one input that is 1 or 2^40, for inputs spread evenly; a few at once."""
    inputs = np.linspace(0, size - 1, count // 2).round().astype(np.intp)
    at_once = max(TERMS_AT_ONCE // size, 1)
    for power in (1.0, 2.0**40):
        for start in range(0, len(inputs), at_once):
            chosen = inputs[start : start + at_once]
            vectors = np.zeros((len(chosen), size), np.float32)
            vectors[np.arange(len(chosen)), chosen] = power
            yield vectors


def _mixed_magnitudes(size: int, count: int) -> Iterator[Array]:
    """Yield vectors of random signs, fractions and exponents -12 to 12; a few at once."""
    rng = np.random.default_rng(0)
    at_once = max(TERMS_AT_ONCE // size, 1)
    for start in range(0, count, at_once):
        shape = min(at_once, count - start), size
        values = np.ldexp(rng.uniform(-1, 1, shape), rng.integers(-12, 13, shape))
        yield values.astype(np.float32)
