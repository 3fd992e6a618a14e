"""Facts about the tensors of a graph: type, shape with symbols and value, each perhaps unknown, and its reason.

After R. Liautaud, Optimizing neural network inference on embedded devices (2018), section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators.node import element_type
from harness.operators.sizes import Size

Aspect: TypeAlias = int | str
"""The part of a fact: "type", "rank", "value", or the number of an axis."""
LONGEST_VALUE = 1 << 10
"""The most values of a tensor of integers whose values are followed one by one."""


class Origin(NamedTuple):
    """The reason of a fact: a node, or the empty name for the file and the hints, and the rule."""

    node: str
    rule: str

    def __str__(self) -> str:
        """Return the reason for a message."""
        return f"{self.rule} (node {self.node})" if self.node else self.rule


class Contradiction(Exception):
    """Two facts that no tensor has: about `edge`, known from `first`, and other by `second`, a rule of `node`."""

    def __init__(self, edge: str, node: str, problem: str, first: Origin | None, second: Origin) -> None:
        super().__init__(problem)
        self.edge, self.node, self.problem, self.first, self.second = edge, node, problem, first, second


@dataclass(eq=False)
class Fact:
    """All that is known of a tensor; `type` is a number of TensorProto.DataType.

    `value` is an array, or one of objects, Size or None, if it has integers of which some are unknown or symbols.
    `sizes` has the known axes; if `rank` is None there may be more axes.  `origins` has the reason of each part.
    """

    name: str
    type: int | None = None
    rank: int | None = None
    sizes: dict[int, Size] = field(default_factory=dict)
    value: Array | None = None
    origins: dict[Aspect, Origin] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The sizes of all axes as integers; None if one is unknown or has symbols."""
        if self.rank is None:
            return None
        found = [size.constant if (size := self.sizes.get(axis)) else None for axis in range(self.rank)]
        return None if None in found else tuple(size for size in found if size is not None)

    @property
    def type_text(self) -> str:
        """The name of the type, "?" if it is unknown."""
        return "?" if self.type is None else TYPE_NAMES.get(self.type, element_type(self.type))

    @property
    def shape_text(self) -> str:
        """The shape as the report writes it: [N, 3, _], and [1, ..] where more axes may follow."""
        known = self.rank if self.rank is not None else max(self.sizes, default=-1) + 1
        sizes = [str(self.sizes.get(axis, "_")) for axis in range(known)]
        return f"[{', '.join(sizes if self.rank is not None else [*sizes, '..'])}]"

    @property
    def value_text(self) -> str:
        """The value, "?" if it is unknown, and the number of values if they are many."""
        if self.value is None:
            return "?"
        if self.value.size > 8:
            return f"{self.value.size:,} values"
        return str([*map(_text_of, self.value.ravel())] if self.value.ndim else _text_of(self.value[()])).replace(
            "'", ""
        )

    @property
    def concrete(self) -> Array | None:
        """The value, if all of it is known without symbols."""
        return None if self.value is None or self.value.dtype == object else self.value


def _text_of(value: Any) -> str:
    return "_" if value is None else f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


TYPE_NAMES: dict[int, str] = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.DOUBLE: "float64"}


class Facts:
    """The facts of all tensors of a graph, and the sizes for which symbols stand."""

    def __init__(self) -> None:
        self.by_name: dict[str, Fact] = {}
        self.bindings: dict[str, tuple[Size, Origin]] = {}
        self.changes = 0
        self.changed: set[str] = set()

    def of(self, name: str) -> Fact:
        """Return the fact of a tensor, at first without knowledge."""
        return self.by_name.setdefault(name, Fact(name))

    def resolved(self, size: Size) -> Size:
        """Return the size with the values of its symbols."""
        while size.symbols & self.bindings.keys():
            size = size.substituted({name: value for name, (value, _) in self.bindings.items()})
        return size

    def unified(self, known: Size, other: Size, fact: Fact, aspect: Aspect, origin: Origin) -> Size:
        """Return the size that both are, by the value of a symbol if need be; raise Contradiction if there is none."""
        known, other = self.resolved(known), self.resolved(other)
        if known == other:
            return known
        difference = known - other
        solved = difference.solved()
        if difference.constant is not None or (solved and (solved[1].constant or 0) < 0):
            where = f"size {aspect}" if isinstance(aspect, int) else aspect
            raise self.contradiction(fact, aspect, f"{where} is {known} and {other}", origin)
        if solved:
            self.bindings[solved[0]] = (solved[1], origin)
            self.changes += 1
            self.changed.update(self.by_name)  # every size can have the symbol
        return known if known.constant is not None else other

    @staticmethod
    def contradiction(fact: Fact, aspect: Aspect, problem: str, origin: Origin) -> Contradiction:
        """Return the contradiction between a known part of a fact and the rule `origin`."""
        return Contradiction(fact.name, origin.node, problem, fact.origins.get(aspect), origin)

    def set(self, fact: Fact, aspect: Aspect, value: Any, origin: Origin) -> None:
        """Add to a fact; raise Contradiction if it is known to be different."""
        if isinstance(aspect, int):
            self._set_size(fact, aspect, self.resolved(Size.of(value)), origin)
        elif aspect == "value":
            self._set_value(fact, value, origin)
        else:
            known = getattr(fact, aspect)
            if known is None:
                self._note(fact, aspect, origin)
                setattr(fact, aspect, value)
                for axis in [axis for axis in fact.sizes if aspect == "rank" and axis >= value]:
                    raise self.contradiction(fact, axis, f"has {value} axes and an axis {axis}", origin)
            elif known != value:
                texts = (
                    f"{known} and {value}" if aspect == "rank" else f"{fact.type_text} and {Fact('', value).type_text}"
                )
                raise self.contradiction(fact, aspect, f"{aspect} is {texts}", origin)

    def _note(self, fact: Fact, aspect: Aspect, origin: Origin) -> None:
        fact.origins[aspect] = origin
        self._count(fact)

    def _count(self, fact: Fact) -> None:
        self.changes += 1
        self.changed.add(fact.name)

    def _set_size(self, fact: Fact, axis: int, size: Size, origin: Origin) -> None:
        if fact.rank is not None and axis >= fact.rank:
            raise self.contradiction(fact, "rank", f"has {fact.rank} axes and an axis {axis}", origin)
        if (size.constant or 0) < 0:
            raise self.contradiction(fact, axis, f"size {axis} is {size}, below 0", origin)
        known = fact.sizes.get(axis)
        if known is None:
            self._note(fact, axis, origin)
            fact.sizes[axis] = size
        elif (both := self.unified(known, size, fact, axis, origin)) != known:
            self._count(fact)
            fact.sizes[axis] = both

    def _set_value(self, fact: Fact, value: Array, origin: Origin) -> None:
        self.set(fact, "rank", value.ndim, origin)
        for axis, size in enumerate(value.shape):
            self.set(fact, axis, size, origin)
        if value.dtype == object:
            resolved = [None if each is None else self.resolved(Size.of(each)) for each in value.ravel()]
            whole = [None if each is None else each.constant for each in resolved]
            value = np.empty(value.shape, object) if None in whole else np.array(whole, np.int64).reshape(value.shape)
            if value.dtype == object:
                value.ravel()[:] = np.array([*resolved, None], object)[:-1]
        if fact.value is None:
            self._note(fact, "value", origin)
            fact.value = value
        elif fact.value.dtype == value.dtype != object:
            if fact.value.tobytes() != value.tobytes():
                raise self.contradiction(fact, "value", f"value is {fact.value_text} and another", origin)
        elif fact.value is not value:
            pairs = zip(fact.value.ravel().tolist(), value.ravel().tolist(), strict=True)
            merged = [self._item(pair, fact, origin) for pair in pairs]
            if any(
                (a is None) != (b is None) or a != b for a, b in zip(merged, fact.value.ravel().tolist(), strict=True)
            ):
                self._count(fact)
                fact.value = None
                self._set_value(fact, np.array([*merged, None], object)[:-1].reshape(value.shape), origin)

    def _item(self, pair: tuple[Any, Any], fact: Fact, origin: Origin) -> Any:
        known, other = pair
        if known is None or other is None:
            return other if known is None else known
        return self.unified(Size.of(known), Size.of(other), fact, "value", origin)


class Term:
    """An integer or a part of a fact, in a rule."""

    def __init__(self, facts: Facts, fact: Fact, aspect: Aspect, text: str, item: int | None = None) -> None:
        self.facts, self.fact, self.aspect, self.text, self.item = facts, fact, aspect, text, item

    def get(self) -> Any:
        """Return what it is; None if that is not known."""
        fact = self.fact
        if isinstance(self.aspect, int):
            axis = self.aspect if self.aspect >= 0 else (-1 if fact.rank is None else self.aspect + fact.rank)
            size = fact.sizes.get(axis)
            return None if size is None else self.facts.resolved(size)
        if self.aspect != "value":
            return getattr(fact, self.aspect)
        if fact.value is None or fact.value.size > LONGEST_VALUE * (self.item is not None):
            return fact.value if self.item is None else None
        if self.item is None:
            return fact.value
        found = fact.value.ravel()[self.item] if self.item < fact.value.size else None
        return None if found is None else self.facts.resolved(Size.of(found))

    def set(self, value: Any, origin: Origin) -> None:
        """Make it equal to `value`; raise Contradiction if it is another."""
        if isinstance(self.aspect, int):
            axis = self.aspect + (self.fact.rank or 0) if self.aspect < 0 else self.aspect
            if axis < 0:
                if self.fact.rank is None:
                    return
                problem = f"has {self.fact.rank} axes and an axis {self.aspect}"
                raise self.facts.contradiction(self.fact, "rank", problem, origin)
            self.facts.set(self.fact, axis, value, origin)
        elif self.item is None:
            self.facts.set(self.fact, self.aspect, value.constant if isinstance(value, Size) else value, origin)
        elif self.fact.value is not None and self.item < self.fact.value.size and self.get() != value:
            known = self.fact.value.astype(object)
            known.ravel()[self.item] = None if self.get() is None else self.get()
            merged = np.full(known.shape, None, object)
            merged.ravel()[self.item] = value
            self.facts.set(self.fact, "value", merged, origin)

    def __str__(self) -> str:
        """Return the term as rules write it."""
        return self.text


class Variable:
    """A tensor of a node in its rules, under the name of the ONNX input or output."""

    def __init__(self, facts: Facts, name: str, role: str) -> None:
        self.facts, self.fact, self.role = facts, facts.of(name), role
        self.type, self.rank, self.value = (
            Term(facts, self.fact, aspect, f"{role}.{aspect}") for aspect in ("type", "rank", "value")
        )

    def size(self, axis: int) -> Term:
        """Return the size of an axis; below 0 it counts from the last one."""
        return Term(self.facts, self.fact, axis, f"{self.role}.shape[{axis}]")

    def item(self, number: int) -> Term:
        """Return one of its integer values."""
        return Term(self.facts, self.fact, "value", f"{self.role}.value[{number}]", number)
