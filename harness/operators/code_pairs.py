"""Base class of operators with a function of two codes: QLinearAdd and QLinearMul.

A node reads two activations, or one and a constant, with broadcasting; each has a quantisation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import broadcast, text
from harness.operators.base import Ability, Constants, fields, limits
from harness.operators.codes import Affine, DefinedCodes, in_nnef, rounded_classes
from harness.operators.counters import VALUES
from harness.operators.elements import Operand
from harness.operators.exact.expression import INT32, UINT8, ordered
from harness.operators.fault_models import Single
from harness.operators.float_errors import Errors
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    all_codes,
    every_byte,
    every_code,
    mixed_parts,
)
from harness.operators.region import WAYS, Division, Region
from harness.operators.rules import Rules
from harness.operators.tensor import INT8
from harness.operators.text import ROUND_HALF_EVEN, Fragment, Text

BYTES_AT_ONCE = 1 << 25
"""Pairs of codes for a proof that are in memory together."""
LIMIT = float(1 << 31)
"""ONNX Runtime converts to int32 before it saturates: from here on its result is the lowest code."""


ACTIVATIONS = (
    "    a: tensor<scalar>,                      # codes (vectors, N)",
    "    b: tensor<scalar>,                      # codes (vectors, N)",
)
WITH_AXES = (
    "    a: tensor<scalar>,                      # codes (vectors, A): both are repeated along their axes of size 1",
    "    b: tensor<scalar>,                      # codes (vectors, B)",
    "    axes: tensor<integer>,                  # int32 (2, axes): the sizes of a and of b",
)
ONE_ACTIVATION = """\
    {}: tensor<scalar>,                      # codes (vectors, N)
    constant: tensor<integer>,              # codes (1, N): {}"""
CODE_LIMITS = "    low: integer, high: integer,            # the least and the greatest code"
COLUMNS = (
    "    columns: integer[],                     # which N columns of its layer: the first, and the first behind them"
)


@dataclass(frozen=True, eq=False)
class CodePairs(DefinedCodes):
    """A layer with a function of two codes, `a` and `b`; the zero point `y` is added before the rounding.

    The constant `operand`, codes (N,), takes the place of b, or of a if `constant_first`.
    """

    text = Text(
        roles=("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "y_scale", "y_zero_point"),
        parameters=(0, 3),
        chosen=lambda layer: 2 * layer.broadcasts if layer.operand is None else 1 + 2 * layer.constant_first,
        summary_of=lambda layer: (
            " and ".join(
                text.floats(layer.numbers()[name]) for name in layer.numbers() if name in layer.named_in_summary
            ),
            f"{layer.a.zero_point} and {layer.b.zero_point} to {layer.y.zero_point}",
        ),
    )
    errors = Ability(lambda layer: Errors(layer, bounds=layer.output_bounds))
    division = Ability(lambda layer: Division(layer, WAYS, uniform=True, fields=layer.of_region))
    operand_names = ("a", "b")
    operand_role: ClassVar[str]
    """The name of the constant."""
    named_in_summary: ClassVar[tuple[str, ...]]
    """The numbers that a summary shows."""
    stem: ClassVar[str]
    """The first part of the names of its fragments."""
    orders: ClassVar[tuple[int, ...]]
    """The places of the fragments: of two activations, of a constant b, with broadcasting, of a constant a."""
    comment: ClassVar[str]
    """The first lines of the fragments."""

    a: Affine
    b: Affine
    y: Affine
    operand: Array | None
    constant_first: bool

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        pair = [node.x, node.input(3)]
        node.same_type(*pair, node.y, node.has(2), node.has(5), node.has(7)).broadcast(node.y, pair)
        for position in (1, 4, 6):
            node.per_tensor(position)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kinds = ("", "_constant", "_axes", "_to_constant")
        own = (cls._fragment(kind, order) for kind, order in zip(kinds, cls.orders, strict=False))
        cls.text = cls.text.but(fragments=tuple(own))

    @classmethod
    def _fragment(cls, kind: str, order: int) -> Fragment:
        name, is_constant, has_axes = f"{cls.stem}{kind}", kind.endswith("_constant"), kind == "_axes"
        one, other = "ba" if kind == "_to_constant" else "ab"
        heads = {"": ACTIVATIONS, "_axes": WITH_AXES}
        head = heads.get(kind, (ONE_ACTIVATION.format(one, other),))
        root, constants = cls.reduced(UINT8)
        numbers = [", ".join(f"{number}: scalar" for number in constants)]
        zero_points = [x.name for x in ordered(root) if x.operation == "argument" and x.dtype == INT32]
        if zero_points:
            numbers.append(", ".join(f"{number}: integer" for number in zero_points))
        body = f"    {other} = cast<scalar>(constant);\n{in_nnef(root)}" if is_constant else in_nnef(root)
        lines = [*head, *(f"    {line}," for line in numbers), CODE_LIMITS, *([COLUMNS] if has_axes else [])]
        end = ";" if has_axes else f"\n{{\n{body}}}"
        text = "\n".join(
            [cls.comment, f"fragment {name}(", *lines, "    type: string)", f"-> (y: tensor<scalar>){end}\n"]
        )
        return Fragment(name, order, text, () if has_axes else (ROUND_HALF_EVEN,))

    @staticmethod
    def read_fields(node: Node) -> dict[str, Any]:
        """Return the fields of the layer that a node describes."""
        node.require_inputs(8, 8)
        node.attributes({})
        sources = broadcast.activations(node, "computes with", (0, 3), [UINT8, INT8])
        dtype = sources[0].dtype
        if any(source.dtype != dtype for source in sources):
            raise node.refusal(f"its inputs are {' and '.join(str(source.dtype) for source in sources)}", "one type")
        first = node.inputs[0] in node.constants
        operand = (
            broadcast.constant(node, 0 if first else 3, sources, "constant operand") if len(sources) == 1 else None
        )
        shapes = [source.shape for source in sources]
        if operand is not None:
            shapes.insert(0 if first else 1, operand.shape)
        shape = broadcast.output_shape(shapes)
        if operand is not None and shape != sources[0].shape:
            raise node.refusal(f"the constant operand has shape {operand.shape}", "axes of the activation")
        quantisations = {
            name: Affine.read(node, position, name, dtype) for name, position in (("a", 1), ("b", 4), ("y", 6))
        }
        read = fields(node, sources, shape, dtype) | quantisations
        if _repeats_first(shape, shapes):  # ONNX Runtime exchanges the operands
            read |= {"a": read["b"], "b": read["a"], "inputs": tuple(reversed(sources))}
            first = False
        row = None if operand is None else np.broadcast_to(operand, shape).reshape(-1).copy()
        return read | {"operand": row, "constant_first": first}

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return the least and the largest of all corners, as values rise or fall with each code."""
        ends = [self.prepare()(*corner) for corner in itertools.product(*zip(low, high, strict=True))]
        return np.minimum.reduce(ends), np.maximum.reduce(ends)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of a and b if both are activations."""
        return broadcast.shapes(self.inputs, [None] * len(self.inputs))

    @property
    def broadcasts(self) -> bool:
        """True if some value of an activation is used for several values of the output."""
        return any(tensor.size != self.size for tensor in self.inputs)

    def by_activation(self, table: Array) -> Array:
        """Return a table of all pairs by the code of the first activation, then by the other code; or the reverse."""
        return table.T if self.constant_first else table

    def check_table(self, table: Array) -> tuple[int, str]:
        """Compare the outputs for all pairs, by the code of the first activation, then by the other code."""
        return super().check_table(self.by_activation(table))

    def of_region(self, region: Region) -> dict[str, Any]:
        """Return the values of a constant operand."""
        return {"operand": None if self.operand is None else self.operand[region.indices(self.size)]}

    def require_int32(self, node: Node) -> None:
        """Refuse results that ONNX Runtime cannot convert to int32."""
        largest = float(np.abs(self.unrounded()).max())
        if not largest < LIMIT:
            raise node.refusal(f"its results reach {largest:.8g} codes", "a larger y_scale: less than 2^31 codes")

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands of the definition: codes, and numbers."""
        of_codes = [Operand(name, shape) for name, shape in zip("ab", self._shapes_of_codes, strict=True)]
        if self.operand is not None:
            place = 0 if self.constant_first else 1
            of_codes[place] = Operand("ab"[place], self.output.shape, self.operand, self.operand_role)
        ones = (1,) * len(self.output.shape)
        numbers = (Operand(name, ones, np.atleast_1d(value), name) for name, value in self.numbers().items())
        return (*of_codes, *numbers)

    @property
    def _shapes_of_codes(self) -> list[tuple[int, ...]]:
        return self.shapes if self.operand is None else [self.output.shape] * 2

    def places(self, *inputs: Array) -> npt.NDArray[np.integer[Any]]:
        """Return the number of the pair of codes at each place; a proof asks for thousands of millions."""
        flip = np.uint8(-np.iinfo(self.dtype).min)
        a, b = (values.view(np.uint8) ^ flip for values in self.both(*inputs))
        return (a.astype(np.uint16) << np.uint16(8)) | b

    def both(self, *inputs: Array) -> tuple[Array, Array]:
        """Return a and b, (vectors, size) or (size,)."""
        if self.operand is None:
            a, b = inputs
            if self.broadcasts:
                of_a, of_b = broadcast.places(self.output.shape, self.shapes)
                return a[..., of_a], b[..., of_b]
            return a, b
        return (self.operand, inputs[0]) if self.constant_first else (inputs[0], self.operand)

    def reachable(self) -> Iterator[Single]:
        """Yield a row for each code beside a constant, otherwise one for each class of float32."""
        if self.operand is None:
            for value in rounded_classes(self.unrounded(), self.codes):
                yield np.full(self.size, value)
            return
        for code in all_codes(self.dtype):
            yield self.rounded_from(np.full(self.size, code))

    def constants(self) -> Constants:
        """Return the constant operand, if there is one, and the numbers of the function."""
        operand: dict[str, Any] = {} if self.operand is None else {self.operand_role: self.operand}
        if self.broadcasts:
            operand = {"axes": np.array(self.shapes, np.int32)}
        numbers = {name: int(value) if value.dtype == INT32 else value for name, value in self.numbers().items()}
        return operand | numbers | limits(self.dtype)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:
        """Yield all pairs of codes, or all codes beside a constant."""
        evaluate = self.prepare()
        if self.operand is not None:
            yield every_code(self.size, self.size, self.dtype, evaluate)
            return
        pairs, where = self._pairs_at_every_place, "every place, at each in an order of its own"
        vectors = VALUES * VALUES
        if self.broadcasts:
            where = "every place, or one place at least of the places that share a value of b"
            vectors = VALUES * len(range(0, VALUES, self._repeated()))
        elif not extent.every_position and self.size > VALUES:
            pairs, where, vectors = self._pairs_at_some_places, "one place at least", VALUES
        sizes = [tensor.size for tensor in self.inputs]
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "every pair of codes becomes the right code, at its place",
            f"all 65,536 pairs of codes pass through {where}; {MIXED}",
            (vectors + VECTORS) * self.size,
            Outputs(
                lambda: itertools.chain(pairs(), mixed_parts(all_codes(self.dtype), sum(sizes))),
                lambda both: evaluate(*np.split(both, sizes[:1], axis=1)),
            ),
        )

    def _pairs_at_some_places(self) -> Iterator[Array]:
        """Yield 256 vectors of a, then b, in which every pair is at one place at least."""
        at_once = max(BYTES_AT_ONCE // (16 * self.size), 1)
        for start in range(0, VALUES, at_once):
            vectors = np.arange(start, min(start + at_once, VALUES))
            pairs = vectors[:, None] * (self.size - 1) + np.arange(self.size)
            halves = [half.astype(np.uint8) for half in (pairs // VALUES, pairs)]
            yield np.concatenate(halves, axis=1).view(self.dtype)

    def _repeated(self) -> int:
        """Return how many adjacent values of a are combined with one value of b; a is not the one that is repeated."""
        length, steps = broadcast.axes(self.output.shape, self.shapes)[-1]
        return length if steps == [1, 0] else 1

    def _pairs_at_every_place(self) -> Iterator[Array]:
        """Yield vectors of a, then b, in which every place has every pair; every run along which b is repeated, if any.

        Vectors of the numbers n have the codes n, n + 1, ... in a, beside all codes of b.
        """
        (first_size, second_size), step = (tensor.size for tensor in self.inputs), self._repeated()
        second, places = every_byte(second_size, UINT8), np.arange(first_size)
        count = max(BYTES_AT_ONCE // (VALUES * (first_size + second_size)), 1) * step
        for start in range(0, VALUES, count):
            numbers = np.arange(start, min(start + count, VALUES), step)
            first = np.repeat((numbers[:, None] + places).astype(np.uint8), VALUES, axis=0)
            yield np.concatenate([first, np.tile(second, (len(numbers), 1))], axis=1).view(self.dtype)


def _repeats_first(shape: tuple[int, ...], of_operands: Sequence[tuple[int, ...]]) -> bool:
    """Return whether the first operand alone is one value along the last axis that is longer than 1."""
    aligned = [(*(1,) * (len(shape) - len(sizes)), *sizes) for sizes in of_operands]
    first, second = broadcast.axes(shape, aligned)[-1][1]
    return first == 0 < second
