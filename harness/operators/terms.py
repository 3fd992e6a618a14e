"""Base class of Add, Sub, Mul and Div: two float32 activations, or one and a constant, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import broadcast, text
from harness.operators.base import Constants, Evaluate, Layer
from harness.operators.exact import bits_of
from harness.operators.fault_models import LITTLE_ENDIAN, FaultModel, through_float16, toward_zero
from harness.operators.float_errors import UNDERFLOW, UNIT_ROUNDOFF, Perturbed, gamma, within_range
from harness.operators.float_samples import of_exponents, of_samples
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    mixed,
    samples,
)
from harness.operators.region import Pieces, Way
from harness.operators.rules import Rules
from harness.operators.softfloat import Integers
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment


def activations(node: Node, verb: str) -> list[Tensor]:
    """Return the activations that the node reads, in order; refuse two constants, and shapes that do not fit."""
    node.require_inputs(2, 2)
    node.attributes({})
    return broadcast.activations(node, verb)


def constant(node: Node, sources: Sequence[Tensor], what: str) -> npt.NDArray[np.float32] | None:
    """Return the constant term of a node that reads one of `sources`, finite; None if it reads two.

    A single number is repeated for each value.
    """
    if len(sources) > 1:
        return None
    position = next(i for i, name in enumerate(node.inputs) if name in node.constants)
    value = broadcast.constant(node, position, sources, what)
    return np.broadcast_to(value.reshape(()), sources[0].shape).astype(np.float32) if value.size == 1 else value


def shape(sources: Sequence[Tensor], term: npt.NDArray[np.float32] | None) -> tuple[int, ...]:
    """Return the shape of the output."""
    return broadcast.output_shape([*(source.shape for source in sources), () if term is None else term.shape])


def bound_of_sum(sources: Sequence[Tensor], addend: npt.NDArray[np.float32] | None) -> float:
    """Return the largest |a + b| or |a - b|; infinite if one can overflow."""
    with np.errstate(over="ignore"):  # rounding changes no order, so the bound holds for rounded sums too
        bounds = [np.float32(source.bound) for source in sources]
        return float(bounds[0] + (bounds[1] if addend is None else np.abs(addend).max()))


def require_kept_zero(node: Node, source: Tensor, term: npt.NDArray[np.float32] | None, zero: float) -> None:
    """Refuse a constant of one number that turns -0 into 0: ONNX Runtime 1.31 leaves the node out, and -0 stays."""
    is_single = any(name in node.constants and node.constants[name].size == 1 for name in node.inputs)
    if term is not None and is_single and source.negative_zero and includes(term, zero):
        raise node.refusal(f"does nothing but turn -0 into 0, and {source.name!r} can be -0", "leave it out")


def includes(values: npt.NDArray[np.float32] | None, zero: float) -> bool:
    """Return whether a constant has a zero of this sign; False without a constant."""
    return values is not None and bool(((values == 0) & (np.signbit(values) == np.signbit(zero))).any())


KINDS_OF_PAIRS = 5
SPECIAL_TERMS = np.array([0, 1e-45, 2.0**-126, 1, 1 + 2.0**-23, 1e38], np.float32)
SPECIAL_TERMS = np.append(SPECIAL_TERMS, -SPECIAL_TERMS)


EITHER = "float32 (vectors, N), or a constant (1, N)"


def fragment(name: str, order: int, operator: str, formula: str, second: str = EITHER) -> Fragment:
    """Return the NNEF operation of an ONNX operator; `second` describes its second argument."""
    return Fragment(
        name,
        order,
        f"""\
# ONNX {operator}: one IEEE float32 operation.
fragment {name}(
    a: tensor<scalar>,                      # float32 (vectors, N)
    b: tensor<scalar>,                      # {second}
    type: string)
-> (y: tensor<scalar>)
{{
    y = {formula};
}}
""",
    )


def fragment_of_axes(name: str, order: int, operator: str) -> Fragment:
    """Return the NNEF operation of an ONNX operator with broadcasting."""
    return Fragment(
        f"{name}_axes",
        order,
        f"""\
# ONNX {operator} with broadcasting: one IEEE float32 operation; a term with an axis of size 1 is repeated along it.
fragment {name}_axes(
    a: tensor<scalar>,                      # the terms in any order: activations (vectors, N), then constants (1, N)
    b: tensor<scalar>,
    axes: tensor<integer>,                  # int32 (2, axes): the sizes of the first and of the second term
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )


@dataclass(frozen=True, eq=False)
class BinaryLayer(Layer):
    """A layer of one IEEE float32 operation per value: y[n] = A[n] `symbol` B[n].

    A constant term is a field, float32, or None.  Its shape has at most the axes of the output.
    """

    roles = ("A", "B")
    parameters = (0, 1)
    uniform = True
    operations_of_value = 1
    symbol: ClassVar[str]
    operation: ClassVar[str]
    """The noun for the operation."""
    result: ClassVar[str]
    """The noun for its result."""
    apply: ClassVar[np.ufunc]
    """The operation on float32 or float64 terms."""
    wrong: ClassVar[Mapping[str, Callable[[Array, Array], Array]]]
    """Wrong results by their causes, as functions of both terms."""
    combine: ClassVar[staticmethod[[Integers, Integers], npt.NDArray[np.uint32]]]
    """The function from the bits of both terms to those of the results, by integer arithmetic."""
    takes_infinities: ClassVar[bool] = False
    """True if a term can be infinite; infinite terms of both signs, which give a NaN, have no specified result."""
    constant_roles: ClassVar[tuple[str, ...]]
    """The field that takes the place of B, after that of A if A can be constant too."""

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        node.same_type(node.x, node.input(1), node.y)
        if node.attribute("broadcast", 0):  # before opset 7
            node.same_shape(node.x, node.y)
        else:
            node.broadcast(node.y, [node.x, node.input(1)])

    def pieces(self, way: Way) -> Pieces | None:
        """Return channels or rows of terms of one shape; None with a constant of several values."""
        alike = all(term is None or term.size == 1 for term in self.terms)
        return super().pieces(way) if alike else None

    def constants(self) -> Constants:
        """Return the constant term, flat, if there is one; with broadcasting, the sizes of both terms."""
        found: dict[str, Array] = {role: term for role, term in self.facts().items() if term is not None}
        return found | ({"axes": np.array(self.shapes, np.int32)} if self.broadcasts else {})

    def facts(self) -> dict[str, Any]:
        """Return the terms that can be constant, flat; None for an activation."""
        terms = {role: getattr(self, role) for role in self.constant_roles}
        return {role: None if term is None else term.reshape(-1) for role, term in terms.items()}

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of both terms, with the number of axes of the output."""
        return broadcast.shapes(self.inputs, self.terms)

    @property
    def broadcasts(self) -> bool:
        """True if some value of a term is used for several values of the output."""
        return any(math.prod(shape) != self.size for shape in self.shapes)

    @property
    def fragment(self) -> Fragment:
        """The operation for terms of one size, or with broadcasting."""
        return self.fragments[-1 if self.broadcasts else 0]

    def summary(self) -> tuple[str, ...]:
        """Return the terms."""
        names = (name if term is None else text.floats(term) for name, term in zip(self.roles, self.terms, strict=True))
        return (f" {self.symbol} ".join(names),)

    def prepare(self) -> Evaluate:
        """Return the function that computes in integer arithmetic."""

        def evaluate(*values: Array) -> Array:
            a, b = map(bits_of, broadcast.operands(self.inputs, self.terms, values))
            return self.combine(a, b).view(np.float32).reshape(len(values[0]), -1)

        return evaluate

    @property
    def terms(self) -> tuple[npt.NDArray[np.float32] | None, ...]:
        """A and B if they are constant; None for an activation."""
        constant = [getattr(self, role) for role in self.constant_roles]
        return (*[None] * (len(self.roles) - len(constant)), *constant)

    def constant_in_sum(self) -> npt.NDArray[np.float32] | None:
        """Return the constant term, (N,), with the sign that it has in a sum; None if no term is constant."""
        constant = next((term for term in self.terms if term is not None), None)
        return None if constant is None else np.broadcast_to(constant, self.output.shape).reshape(-1)

    def change(self, at: Perturbed) -> Array:
        """Return the change of the exact result."""
        return self._terms_and_change(at)[2].reshape(at.output.shape)

    def rounding(self, at: Perturbed) -> Array:
        """Return one rounding of each result, and those of the terms in a sum before.

        ONNX Runtime may begin the sum of a layer before with the other term, which then passes its roundings.
        """
        a, b, change = self._terms_and_change(at)
        result = np.abs(self.apply(a, b)) + change
        added = np.abs(a) + np.abs(b) + change if self.takes_infinities else 0
        bound = 2 * UNIT_ROUNDOFF * result + UNDERFLOW + gamma(at.roundings) * added
        return within_range(bound, result + added).reshape(at.output.shape)

    def _terms_and_change(self, at: Perturbed) -> tuple[Array, Array, Array]:
        none = [None if term is None else np.zeros(term.shape) for term in self.terms]
        a, b = (term.astype(np.float64) for term in broadcast.operands(self.inputs, self.terms, at.values))
        return a, b, self.change_of_result(a, b, *broadcast.operands(self.inputs, none, at.errors))

    def linear(self, rows: Sequence[Array]) -> Array | None:
        """Return the sums or differences; None for products and quotients."""
        if not self.takes_infinities:
            return None
        none = [None if term is None else np.zeros(term.shape) for term in self.terms]
        changes: Array = self.apply(*broadcast.operands(self.inputs, none, rows))
        return changes.reshape(len(rows[0]), -1)

    @staticmethod
    def change_of_result(a: Array, b: Array, of_a: Array, of_b: Array) -> Array:  # noqa: ARG004 - operators override it
        """Return the most that the exact result of a and b changes if these change by up to `of_a` and `of_b`."""
        return np.full_like(a, np.inf)

    def roundings(self, before: int) -> int:
        """Return those of the inputs, as ONNX Runtime may compute the layer together with the sum before."""
        return before

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield pairs of terms at which roundings differ; their 2^64 pairs cannot be enumerated."""
        if any(tensor.size != self.size for tensor in self.inputs):
            yield from of_samples(self, f"{self.result}s of the right terms are rounded to float32 as IEEE 754 says")
            return
        count = KINDS_OF_PAIRS * samples(self.size) + len(SPECIAL_TERMS) ** len(self.inputs) + VECTORS
        evaluate = self.prepare()
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            f"{self.result}s are rounded to float32 as IEEE 754 says",
            f"{count:,} pairs a column: random bits, ties, cancellation, subnormals, zeros; {MIXED}; not complete",
            count * self.size,
            Outputs(
                lambda: [pairs(self, self.constant_in_sum())],
                lambda both: evaluate(*np.split(both, len(self.inputs), axis=1)),
            ),
            complete=False,
        )
        yield from of_exponents(self)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong operations, roundings and constants.

        Two faults are left out.  Terms that were not rounded to float32 before cannot be seen from the rounded terms.
        A double-precision operation on float32 terms, rounded to float32, gives the same result.
        """
        operands = np.broadcast_arrays(*broadcast.operands(self.inputs, self.terms, inputs))
        a, b = (operand.reshape(len(operand), -1) for operand in operands)
        right = f"a {self.symbol} b, rounded once"
        with np.errstate(over="ignore", invalid="ignore"):
            for cause, wrong in self.wrong.items():
                yield FaultModel(cause, right, wrong(a, b))
            truncated = toward_zero(self.apply(a.astype(np.float64), b.astype(np.float64)))
            yield FaultModel(f"the {self.result} is truncated toward zero", "rounded half to even", truncated)
            result = self.apply(a, b)
            flushed = np.where(np.abs(result) < np.finfo(np.float32).tiny, result * np.float32(0), result)
            yield FaultModel(f"a subnormal {self.result} is flushed to zero", "it is kept", flushed)
            yield FaultModel(f"the {self.result} is rounded to float16", right, through_float16(result))
            if len(inputs) == 1:
                swapped = [
                    a.byteswap() if self.terms[0] is not None else a,
                    b if self.terms[1] is None else b.byteswap(),
                ]
                cause = "the bytes of the constant are in the other order"
                yield FaultModel(cause, LITTLE_ENDIAN, self.apply(*swapped))

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where terms and result are finite, or are numbers or infinities if these are allowed."""
        operands = broadcast.operands(self.inputs, [None] * len(inputs), inputs)
        values = (*operands, expected.reshape(len(expected), *self.output.shape))
        finite = [~np.isnan(each) if self.takes_infinities else np.isfinite(each) for each in values]
        both: Array = np.logical_and.reduce(np.broadcast_arrays(*finite)).reshape(expected.shape)
        return both

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that results are rounded as IEEE 754 requires."""
        yield f"A float32 {self.operation} is rounded as IEEE 754 requires: its 2^64 pairs cannot be tried."


def pairs(layer: Layer, constant: npt.NDArray[np.float32] | None) -> Array:
    """Return pairs of finite terms whose sum is finite: (n, 2 N), or (n, N) if the other one is a constant."""
    rng = np.random.default_rng(0)
    shape = samples(layer.size), layer.size
    first = _finite(rng, shape)
    special = np.stack(np.meshgrid(*[SPECIAL_TERMS] * len(layer.inputs)), axis=-1).reshape(-1, len(layer.inputs))
    everywhere = np.repeat(special, layer.size, axis=1)
    if constant is not None:
        alike = mixed(_finite(rng, (1024, 1))[:, 0], layer.size)
        return np.concatenate([first, *_near(constant, first), everywhere, alike])
    others = [_finite(rng, shape), *_near(first, _finite(rng, shape))]
    alike = mixed(_finite(rng, (1024, 1))[:, 0], 2 * layer.size)
    return np.concatenate([*(np.concatenate([first, other], axis=1) for other in others), everywhere, alike])


def _finite(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return random signs, exponents below the largest, and fractions, subnormal numbers among them."""
    bits = rng.integers(0, 0xFE << 23, shape, dtype=np.uint32) | rng.integers(0, 2, shape, dtype=np.uint32) << 31
    return bits.view(np.float32) * np.float32(0.25)


def _near(to: Array, shaped: Array) -> Iterator[Array]:
    """Yield terms that cancel with `to` or nearly so, and such that lie half way between two sums."""
    opposite = np.broadcast_to(-to, shaped.shape).astype(np.float32)
    yield opposite
    yield np.nextafter(opposite, np.float32(0))
    yield (np.spacing(np.abs(opposite)) * np.float32(0.5)).astype(np.float32)
    yield (np.spacing(np.abs(opposite)) * np.float32(1.5)).astype(np.float32)
