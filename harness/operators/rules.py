"""Rules between the facts of a node's tensors, as operators state them in `Layer.rules`.

After R. Liautaud, Optimizing neural network inference on embedded devices (2018), section 2.3: a rule is an equation
(equals, all equal, sum is zero), or adds more rules once facts are known (given, then).  It has no direction: it
carries facts from inputs to outputs and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators.node import domain_of
from harness.operators.sizes import Size
from harness.operators.tensor_facts import Contradiction, Fact, Facts, Origin, Term, Variable

Operand: TypeAlias = Term | Size | int
Rule: TypeAlias = Callable[[], bool]
"""Function that adds facts and returns whether it has added all that it can, once and for all."""


class TypeNumber(int):
    """The number of a type of ONNX, a constant of rules."""

    @property
    def name(self) -> str:
        """The name of the type."""
        return Fact("", self).type_text


def _value(operand: Operand) -> Any:
    return operand.get() if isinstance(operand, Term) else operand


def _side(terms: Sequence[tuple[int, Operand]], sign: int) -> str:
    """Return the terms of one sign as one side of an equation."""
    texts = [f"{abs(factor)}*{term}" if abs(factor) != 1 else f"{term}" for factor, term in terms if factor * sign > 0]
    return " + ".join(text for text in texts if text != "0") or "0"


def _text(operand: Operand | TypeNumber) -> str:
    return operand.name if isinstance(operand, TypeNumber) else str(operand)


class Rules:
    """The rules of a node; an operator states them in `Layer.rules`.

    `inputs` and `outputs` are the tensors by position; optional ones left out are None.
    """

    def __init__(self, facts: Facts, proto: onnx.NodeProto, name: str, opset: int, roles: Sequence[str] = ()) -> None:
        self.facts, self.proto, self.name, self.opset = facts, proto, name, opset
        self.pending: list[Rule] = []
        self.stated: dict[str, None] = {}
        """The equations between facts, in the order in which they were stated."""
        schema = schema_of(proto, opset)
        self.inputs = self._variables(proto.input, roles or _roles(schema.inputs if schema else (), len(proto.input)))
        self.outputs = self._variables(
            proto.output, _roles(schema.outputs if schema else (), len(proto.output)) or ["y"]
        )

    def _variables(self, names: Sequence[str], roles: Sequence[str]) -> tuple[Variable | None, ...]:
        known = (roles[at] if at < len(roles) else f"tensor {at}" for at in range(len(names)))
        return tuple(
            Variable(self.facts, each, role) if each else None for each, role in zip(names, known, strict=True)
        )

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes that the node states."""
        return {each.name: onnx.helper.get_attribute_value(each) for each in self.proto.attribute}

    @property
    def x(self) -> Variable:
        """The first input."""
        return self.input(0)

    @property
    def y(self) -> Variable:
        """The first output."""
        return self.output(0)

    def input(self, position: int) -> Variable:
        """Return an input that the node has; raise Contradiction if it has none."""
        if (found := self.has(position)) is None:
            raise self.broken(f"has {len(self.proto.input)} inputs, and needs input {position}", "number of inputs")
        return found

    def output(self, position: int) -> Variable:
        """Return an output of the node; raise Contradiction if it has none."""
        found = self.outputs[position] if position < len(self.outputs) else None
        if found is None:
            raise self.broken(f"has {len(self.proto.output)} outputs", "number of outputs")
        return found

    def has(self, position: int) -> Variable | None:
        """Return an optional input, None if it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def given_inputs(self) -> list[Variable]:
        """The inputs that are not left out."""
        return [each for each in self.inputs if each is not None]

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute, or its default."""
        found = self.attributes.get(name, default)
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    def _origin(self, equation: str) -> Origin:
        """Return the origin of facts that an equation gives, which is listed in `stated`."""
        self.stated[equation] = None
        return Origin(self.name, equation)

    # The rules

    def equals(self, left: Operand, right: Operand) -> Rules:
        """State that two expressions are equal."""
        return self.all_equal(left, right)

    def all_equal(self, *operands: Operand) -> Rules:
        """State that expressions are equal."""
        origin = self._origin(" = ".join(map(_text, operands)))
        terms = [operand for operand in operands if isinstance(operand, Term)]
        constants = [operand for operand in operands if not isinstance(operand, Term)]
        assert len(constants) < 2, constants  # noqa: S101 - the terms of a rule are compared with one at most

        def unify() -> bool:
            known = [*constants, *(value for term in terms if (value := term.get()) is not None)]
            if known:
                best = next((v for v in known if not isinstance(v, Size) or v.constant is not None), known[0])
                for term in terms:
                    term.set(constants[0] if constants else best, origin)
            return False

        self.pending.append(unify)
        return self

    def each_equal(self, pairs: Iterable[tuple[Operand, Operand]]) -> Rules:
        """State that both expressions of each pair are equal."""
        for left, right in pairs:
            self.equals(left, right)
        return self

    def sum_is_zero(self, *terms: tuple[int, Operand]) -> Rules:
        """State that the sum of factor * expression is zero."""
        origin = self._origin(f"{_side(terms, -1)} = {_side(terms, 1)}")

        def solve() -> bool:
            values = [_value(term) for _, term in terms]
            missing = [at for at, value in enumerate(values) if value is None]
            if len(missing) > 1:
                return False
            at = missing[0] if missing else next(at for at, (_, term) in enumerate(terms) if isinstance(term, Term))
            others = [
                (factor, value)
                for place, ((factor, _), value) in enumerate(zip(terms, values, strict=True))
                if place != at
            ]
            rest = sum((Size.of(value) * -factor for factor, value in others), Size(()))
            factor, term = terms[at]
            if (quotient := rest.exactly_divided(Size.of(factor))) is None:
                raise self.broken(f"{term} would be {rest} / {factor}", origin.rule)
            assert isinstance(term, Term)  # noqa: S101 - integers are never missing
            term.set(quotient, origin)
            return False

        self.pending.append(solve)
        return self

    def given(self, *operands: Operand) -> Given:
        """Return the rule that waits for the values of expressions; `then` adds to it."""
        return Given(self, operands)

    def broadcast(self, output: Variable, inputs: Sequence[Variable]) -> Rules:
        """State that the shape of the output is that of all inputs, in which sizes of 1 are repeated (ONNX)."""

        def ranks_known(*ranks: int) -> None:
            rank = max(ranks)
            self.equals(output.rank, rank)
            for axis in range(rank):
                sizes = [each.size(axis - rank) for each, own in zip(inputs, ranks, strict=True) if rank - axis <= own]
                self.broadcast_sizes(output.size(axis), sizes)

        return self.given(*(each.rank for each in inputs)).then(ranks_known)

    def broadcast_sizes(self, output: Term, sizes: Sequence[Term]) -> Rules:
        """State that a size is that of all others that are not 1."""
        if len(sizes) == 1:
            return self.equals(output, sizes[0])
        self.pending.append(lambda: self._broadcast(output, sizes))
        return self

    def _broadcast(self, output: Term, terms: Sequence[Term]) -> bool:
        origin = self._origin(f"{output} = {' = '.join(map(str, terms))}, where not 1")
        sizes = [term.get() for term in terms]
        terms_and_sizes = list(zip(terms, sizes, strict=True))
        larger = [(term, size) for term, size in terms_and_sizes if _is_larger(size)]
        common = {size for size in sizes if size is not None and size.constant != 1}
        if larger:
            whole = larger[0][1]
            output.set(whole, origin)
            for term, size in larger[1:]:
                if size != whole:
                    term.set(whole, origin)
        elif None not in sizes and len(common) <= 1:
            output.set(common.pop() if common else 1, origin)
        elif _is_one(output.get()):
            for term in terms:
                term.set(1, origin)
        others = [term for term, size in terms_and_sizes if not _is_one(size)]
        if len(others) == 1 and (known := output.get()) is not None:
            others[0].set(known, origin)
        return False

    def require(self, holds: bool, problem: str) -> Rules:
        """Raise Contradiction unless a condition holds."""
        if not holds:
            raise self.broken(problem, problem)
        return self

    def broken(self, problem: str, rule: str, edge: str = "") -> Contradiction:
        """Return the contradiction of a node with itself, or with facts of its tensors."""
        edge = edge or next(iter([*self.proto.output, *self.proto.input]), "")
        return Contradiction(edge, self.name, problem, None, Origin(self.name, rule))

    def parameter(self, name: str, position: int, default: Any = None) -> Given:
        """Return the rule that waits for integers: an attribute, an input in later opsets, or the default."""
        if name in self.attributes:
            return Given(self, (), [np.atleast_1d(self.attributes[name])])
        variable = self.has(position)
        if variable is None:
            return Given(self, (), [None if default is None else np.atleast_1d(default)])
        self.given(variable.rank).then(lambda rank: self.require(rank <= 1, f"{name} has {rank} axes"))
        return Given(self, (variable.value,))

    def parameters(self, places: Iterable[tuple[str, int]], add: Callable[..., Any]) -> Rules:
        """Add the rules that `add` states for several parameters, each None if it is not given."""
        (name, position), *others = places
        if not others:
            return self.parameter(name, position).then(add)
        return self.parameter(name, position).then(
            lambda value: self.parameters(others, lambda *more: add(value, *more))
        )

    # What several operators state

    def holds(self, variable: Variable, value: Array) -> Rules:
        """State the value of a tensor."""
        if variable.fact.value is None:
            self.facts.set(variable.fact, "value", value, Origin(self.name, f"{variable.role}.value is constant"))
        return self

    def follow(self, variable: Variable, shape: tuple[int, ...], items: Sequence[Operand]) -> Rules:
        """State the values of a tensor of integers one by one, each perhaps unknown."""
        origin = self._origin(f"{variable.role}.value = [{', '.join(map(str, items))}]")

        def set_values() -> bool:
            values = np.empty(len(items), object)
            values[:] = [None if (value := _value(item)) is None else Size.of(value) for item in items]
            self.facts.set(variable.fact, "value", values.reshape(shape), origin)
            return False

        self.pending.append(set_values)
        return self

    def reduces(self, axes: Given, *, keep: bool, keeps_all: bool = False) -> Rules:
        """State that axes of the first input get the size 1 in the output, or vanish; all axes if none are given."""

        def shape(given: Array | None, rank: int) -> None:
            found = [] if given is None else [self.axis(int(axis), rank) for axis in given]
            self.require(len({*found}) == len(found), f"axes {found} has one twice")
            reduced = {*found} if found or keeps_all else {*range(rank)}
            left = [axis for axis in range(rank) if keep or axis not in reduced]
            self.equals(self.y.rank, len(left))
            for place, axis in enumerate(left):
                self.equals(self.y.size(place), 1 if axis in reduced else self.x.size(axis))

        return axes.then(lambda given: self.given(self.x.rank).then(lambda rank: shape(given, rank)))

    def same(self, *variables: Variable | None) -> Rules:
        """State that tensors have one type and one shape."""
        given = [variable for variable in variables if variable is not None]
        return self.same_type(*given).same_shape(*given)

    def same_type(self, *variables: Variable | None) -> Rules:
        """State that tensors have one type."""
        return self.all_equal(*(variable.type for variable in variables if variable is not None))

    def same_shape(self, *variables: Variable) -> Rules:
        """State that tensors have one shape."""
        ranks = [variable.rank for variable in variables]
        self.all_equal(*ranks)
        return self.given(ranks[0]).then(
            lambda rank: [self.all_equal(*(variable.size(axis) for variable in variables)) for axis in range(rank)]
        )

    def is_type(self, variable: Variable | None, dtype: Any) -> Rules:
        """State the type of a tensor, as a numpy type or a number of ONNX."""
        number = dtype if isinstance(dtype, int) else onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self if variable is None else self.equals(variable.type, TypeNumber(number))

    def product_is_kept(self, left: Sequence[Operand], right: Sequence[Operand]) -> Rules:
        """State that two lists of sizes have the same product."""
        origin = self._origin(f"{'*'.join(map(str, left)) or 1} = {'*'.join(map(str, right)) or 1}")

        def unify() -> bool:
            missing: list[tuple[int, Term]] = []
            products = [Size.of(1), Size.of(1)]
            for side, terms in enumerate((left, right)):
                for term in terms:
                    value = _value(term)
                    if value is None and isinstance(term, Term):
                        missing.append((side, term))
                    else:
                        products[side] = products[side] * Size.of(value)
            if not missing:
                self.facts.unified(products[0], products[1], Fact(self.proto.output[0]), "number of values", origin)
            elif len(missing) == 1:
                [(side, term)] = missing
                quotient = products[1 - side].exactly_divided(products[side])
                if quotient is not None:
                    term.set(quotient, origin)
                elif products[0].constant and products[1].constant:
                    raise self.broken(f"{term} would be {products[1 - side]} / {products[side]}", origin.rule)
            return False

        self.pending.append(unify)
        return self

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis from 0 on; raise Contradiction if there is none."""
        self.require(-rank <= axis < rank, f"axis {axis} of {rank} axes")
        return axis % rank

    def quantised(self, position: int) -> Rules:
        """State that the scale at `position` is float32 and has the shape of the zero point behind it."""
        scale, zero_point = self.has(position), self.has(position + 1)
        if domain_of(self.proto):  # other types of ONNX's own operators are in its schema
            self.is_type(scale, np.float32)
        return self.same_shape(scale, zero_point) if scale and zero_point else self

    def per_tensor(self, position: int) -> Rules:
        """State that the scale at `position` and the zero point behind it are single values."""

        def single(variable: Variable, rank: int) -> None:
            self.each_equal((variable.size(axis), 1) for axis in range(rank))

        self.quantised(position)
        for each in filter(None, (self.has(position), self.has(position + 1))):
            self.given(each.rank).then(lambda rank, each=each: single(each, rank))
        return self

    def per_channel(self, position: int, channels: Term) -> Rules:
        """State that scale and zero point, at `position` and behind it, are single values or one for each channel."""
        self.quantised(position)
        scale = self.input(position)
        return self.given(scale.size(0)).then(lambda size: size.constant == 1 or self.equals(scale.size(0), channels))

    def scaled_by_axis(self) -> Rules:
        """State that a quantiser has one scale, or one for each value along an axis."""

        def scales(count: Size) -> None:
            if count.constant != 1 and not self.attribute("block_size", 0):
                self.equals(self.x.size(self.attribute("axis", 1)), self.input(1).size(0))

        return self.given(self.input(1).size(0)).then(scales)

    def windows(self, first: int, kernel: Sequence[Operand], *, ceil: bool = False) -> Rules:
        """State the sizes of windows of the first input along the axes from `first` on (ONNX Conv and pools)."""
        count, how = len(kernel), self.attribute("auto_pad", "NOTSET")
        strides, dilations = (list(self.attribute(name, [1] * count)) for name in ("strides", "dilations"))
        pads = list(self.attribute("pads", [0] * 2 * count)) if how == "NOTSET" else [0] * 2 * count
        self.require(
            len(strides) == len(dilations) == count and len(pads) == 2 * count and min([*strides, *dilations, 1]) > 0,
            f"strides, dilations and pads are for {count} axes, strides and dilations 1 or more",
        )
        for at, size in enumerate(kernel):
            x, y = self.x.size(first + at), self.y.size(first + at)
            stride, dilation, padding = strides[at], dilations[at], pads[at] + pads[at + count]
            if how.startswith("SAME"):
                self.given(x).then(lambda x, y=y, stride=stride: self.equals(y, -(-x // stride)))
            elif stride == 1:
                self.sum_is_zero((1, x), (-1, y), (-dilation, size), (1, Size.of(padding + dilation)))
            else:
                self.given(x, size).then(
                    lambda x, size, y=y, stride=stride, dilation=dilation, padding=padding, before=pads[at]: (
                        self.equals(y, _windows(x + padding - (size - 1) * dilation - 1, stride, x + before, ceil=ceil))
                    )
                )
            self.given(y).then(
                lambda y, at=at: self.require(
                    y.constant is None or y.constant > 0, f"the kernel fits along axis {first + at}"
                )
            )
        return self


def _is_one(size: Size | None) -> bool:
    return size is not None and size.constant == 1


def _is_larger(size: Size | None) -> bool:
    """Return whether a size is known to be that of the broadcast axis: 0, or more than 1."""
    return size is not None and (size == Size(()) or (size.constant or 0) > 1)


def _windows(room: Size, stride: int, begin_of_padding: Size, *, ceil: bool) -> Size:
    """Return the number of windows along an axis; with `ceil` a last one begins before the padding behind the image."""
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    beyond = (count - 1) * stride - begin_of_padding
    return count - 1 if (beyond.constant if beyond.constant is not None else -1) >= 0 else count


@dataclass(frozen=True)
class Given:
    """A rule that waits until expressions have values."""

    rules: Rules
    operands: Sequence[Operand]
    known: Sequence[Any] = ()

    def then(self, add: Callable[..., Any]) -> Rules:
        """Add the rules that `add` states for the values."""

        def apply() -> bool:
            values = [*self.known, *map(_value, self.operands)]
            incomplete = (
                isinstance(v, np.ndarray) and v.dtype == object and None in v.ravel().tolist() for v in values
            )
            if any(v is None for v in values[len(self.known) :]) or any(incomplete):
                return False
            add(*values)
            return True

        self.rules.pending.append(apply)
        return self.rules


def schema_of(proto: onnx.NodeProto, opset: int) -> onnx.defs.OpSchema | None:
    """Return ONNX's own schema of a node's operator; None for operators of other domains."""
    if domain_of(proto):
        return None
    try:
        return onnx.defs.get_schema(proto.op_type, opset)
    except onnx.defs.SchemaError:
        return None


def _roles(parameters: Iterable[Any], count: int) -> list[str]:
    found = list(parameters)
    names = [each.name for each in found]
    if found and found[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
        last = names.pop()
        names += [f"{last}[{at}]" for at in range(count - len(names))]
    return names
