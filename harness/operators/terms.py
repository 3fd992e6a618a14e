"""Base class of Add, Sub, Mul and Div: two float32 activations, or one and a constant, with broadcasting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.core.arrays import Array
from harness.operators import broadcast, text
from harness.operators.base import Ability, Layer, fields
from harness.operators.elements import Bounds, Elements, bounds_of, divided
from harness.operators.exact import printing
from harness.operators.exact.expression import ARITHMETIC
from harness.operators.float_samples import of_exponents, of_samples
from harness.operators.half_elements import HalfElements
from harness.operators.integer_elements import IntegerElements, reads_integers
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
from harness.operators.product import Runtime
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT16, FLOAT32, Tensor
from harness.operators.text import Fragment

KINDS_OF_PAIRS = 5
SPECIAL_TERMS = np.array([0, 1e-45, 2.0**-126, 1, 1 + 2.0**-23, 1e38], np.float32)
SPECIAL_TERMS = np.append(SPECIAL_TERMS, -SPECIAL_TERMS)
RESULTS = dict(zip(ARITHMETIC, ("sum", "difference", "product", "quotient"), strict=True))
NOUNS = dict(zip(ARITHMETIC, ("addition", "subtraction", "multiplication", "division"), strict=True))
"""The nouns for the results of the operations, and for these."""
EITHER = "float32 (vectors, N), or a constant (1, N)"


def includes(values: Array | None, zero: float) -> bool:
    """Return whether a constant has a zero of this sign; False without a constant."""
    return values is not None and bool(((values == 0) & (np.signbit(values) == np.signbit(zero))).any())


def _summary(layer: BinaryLayer) -> tuple[str, ...]:
    """Return the terms."""
    pairs = zip(layer.definition.operands, layer.fixed, strict=True)
    names = {id(x): text.floats(values.reshape(-1)) for x, values in pairs if values is not None}
    return (printing.inline(layer.definition, names),)


@dataclass(frozen=True, eq=False)
class BinaryLayer(Elements):
    """A layer of one IEEE float32 operation per value; a constant of one number is repeated for each value."""

    names = ("A", "B")
    text = Elements.text.but(
        roles=("A", "B"),
        parameters=(0, 1),
        chosen=lambda layer: -1 if layer.broadcasts else layer.fixed[0] is not None,
        summary_of=_summary,
        operations_of=lambda layer: layer.size,
    )
    division = Ability(divided)
    runtime = Ability(lambda layer: Runtime(layer, transparent=layer.is_neutral, joins=True))
    verb: ClassVar[str]
    orders: ClassVar[tuple[int, ...]]
    """The places of the fragments in a file: of terms of one size, of a constant first, and with broadcasting."""
    with_first_constant: ClassVar[tuple[str, str]] = ("", "")
    """The name of the fragment whose constant is the first term, behind that of the operator, and its comment."""
    neutral_zero: ClassVar[float | None] = None
    """The second term with which it does nothing but turn a -0 into 0."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "orders" in cls.__dict__:
            cls.text = cls.text.but(fragments=tuple(_fragments(cls)))

    @property
    def is_neutral(self) -> bool:
        """True if its constant does nothing, so that ONNX Runtime may remove it."""
        neutral = 0 if self.defined().operation in {"add", "subtract"} else 1
        return self.fixed[1] is not None and bool((self.fixed[1] == neutral).all())

    @classmethod
    def result(cls) -> str:
        """Return the noun for its result."""
        return RESULTS[cls.defined().operation]

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        node.same_type(node.x, node.input(1), node.y)
        if node.attribute("broadcast", 0):  # before opset 7
            node.same_shape(node.x, node.y)
        else:
            node.broadcast(node.y, [node.x, node.input(1)])

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        if reads_integers(node):
            return IntegerElements.read(node)
        if reads_integers(node, [FLOAT16]):
            return HalfElements.read(node)
        node.require_inputs(2, 2)
        node.attributes({})
        sources = broadcast.activations(node, cls.verb)
        constants: dict[str, Any] = dict.fromkeys(cls.constant_roles)
        for position in (i for i, name in enumerate(node.inputs) if name in node.constants):
            role = cls.constant_roles[position % len(cls.constant_roles)]
            what = "constant term" if len(cls.constant_roles) > 1 else role
            value = broadcast.constant(node, position, sources, what, takes_infinities=cls.takes_infinities)
            constants[role] = np.broadcast_to(value, sources[0].shape).copy() if value.size == 1 else value
        fixed = (None, *constants.values())[-2:]
        bounds = cls.bounds(node, sources, fixed)
        if any(node.constants[name].size == 1 for name in node.inputs if name in node.constants):
            _require_kept_zero(node, sources[0], fixed[1], cls.neutral_zero)
        shape = broadcast.output_shape(broadcast.shapes(sources, fixed))
        written = fields(node, sources, shape, FLOAT32, bounds.bound, negative_zero=bounds.negative_zero)
        return cls(**written, **constants)

    @classmethod
    def bounds(cls, node: Node, sources: Sequence[Tensor], fixed: Sequence[Array | None]) -> Bounds:  # noqa: ARG003 - operators override it
        """Return the bounds of the results."""
        return bounds_of(cls.defined(), cls.names, sources, tuple(fixed))

    def constant_in_sum(self) -> Array | None:
        """Return the constant term, (N,), with the sign that it has in a sum; None if no term is constant."""
        constant = next((values for values in self.fixed if values is not None), None)
        if constant is None:
            return None
        row = np.broadcast_to(constant, self.output.shape).reshape(-1)
        return -row if self.defined().operation == "subtract" else row

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield pairs of terms at which roundings differ; their 2^64 pairs cannot be enumerated."""
        if any(tensor.size != self.size for tensor in self.inputs):
            yield from of_samples(self, f"{self.result()}s of the right terms are rounded to float32 as IEEE 754 says")
            return
        count = KINDS_OF_PAIRS * samples(self.size) + len(SPECIAL_TERMS) ** len(self.inputs) + VECTORS
        evaluate = self.prepare()
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            f"{self.result()}s are rounded to float32 as IEEE 754 says",
            f"{count:,} pairs a column: random bits, ties, cancellation, subnormals, zeros; {MIXED}; not complete",
            count * self.size,
            Outputs(
                lambda: [pairs(self, self.constant_in_sum())],
                lambda both: evaluate(*np.split(both, len(self.inputs), axis=1)),
            ),
            complete=False,
        )
        yield from of_exponents(self)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where terms and result are finite, or are numbers or infinities if these are allowed."""
        operands = broadcast.operands(self.inputs, [None] * len(inputs), inputs)
        values = (*operands, expected.reshape(len(expected), *self.output.shape))
        finite = [~np.isnan(value) if self.takes_infinities else np.isfinite(value) for value in values]
        both: Array = np.logical_and.reduce(np.broadcast_arrays(*finite)).reshape(expected.shape)
        return both

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that results are rounded as IEEE 754 requires."""
        noun = NOUNS[self.defined().operation]
        yield f"A float32 {noun} is rounded as IEEE 754 requires: its 2^64 pairs cannot be tried."


def pairs(layer: Layer, constant: Array | None) -> Array:
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


def _require_kept_zero(node: Node, source: Tensor, term: Array | None, zero: float | None) -> None:
    """Refuse a constant of one number that turns -0 into 0: ONNX Runtime 1.31 leaves the node out, and -0 stays."""
    if zero is not None and source.negative_zero and includes(term, zero):
        raise node.refusal(f"does nothing but turn -0 into 0, and {source.name!r} can be -0", "leave it out")


def _fragments(kind: type[BinaryLayer]) -> Iterator[Fragment]:
    """Yield the NNEF operations of terms of one size, of a constant that comes first, and with broadcasting."""
    operator, name, [first, *others] = kind.__name__, kind.__name__.lower(), kind.orders
    yield _fragment(kind, f"{name}_float32", first, "a", EITHER)
    if len(others) > 1:
        suffix, comment = kind.with_first_constant
        yield _fragment(kind, f"{name}_{suffix}_float32", others[0], "b", f"a constant (1, N), {comment}")
    yield Fragment(
        f"{name}_float32_axes",
        others[-1],
        f"""\
# ONNX {operator} with broadcasting: one IEEE float32 operation; a term with an axis of size 1 is repeated along it.
fragment {name}_float32_axes(
    a: tensor<scalar>,                      # the terms in any order: activations (vectors, N), then constants (1, N)
    b: tensor<scalar>,
    axes: tensor<integer>,                  # int32 (2, axes): the sizes of the first and of the second term
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )


def _fragment(kind: type[BinaryLayer], name: str, order: int, first: str, second: str) -> Fragment:
    """Return the operation of terms of one size, of which `first` is the left one; `second` describes b."""
    return Fragment(
        name,
        order,
        f"""\
# ONNX {kind.__name__}: one IEEE float32 operation.
fragment {name}(
    a: tensor<scalar>,                      # float32 (vectors, N)
    b: tensor<scalar>,                      # {second}
    type: string)
-> (y: tensor<scalar>)
{{
    y = {printing.inline(kind.defined(("a", "b") if first == "a" else ("b", "a")))};
}}
""",
    )
