"""The text of one MLIR function: tensors of static shapes, and scalar operations on their elements.

Each written operation is one operation of the dialects arith and math, without fast-math flags.  Constants have their
bits: float32 in hexadecimal, tensors as the hexadecimal bytes of their elements, little endian.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from harness.core.arrays import Array
from harness.operators.tensor import STORED, Tensor

ELEMENTS = {
    "float32": "f32", "bool": "i8", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32",
    "uint32": "i32", "int64": "i64", "uint64": "i64",
    **{kind.name: f"i{8 * kind.itemsize}" for kind in STORED},
}  # fmt: skip
"""MLIR's integers have no sign; an operation that needs one names it."""
ZERO = "unknown_zero"
"""The global of a module that is 0, which the compiler may not use; see `Block.product`."""


@dataclass(frozen=True)
class Scalar:
    """A value of one element."""

    name: str
    type: str


@dataclass(frozen=True)
class Value:
    """A tensor in a function; the first axis of an activation is that of the vectors."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def type(self) -> str:
        """Its type in MLIR."""
        return tensor_type(self.shape, self.dtype)

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


Body: TypeAlias = Callable[..., "Scalar"]
"""Function from a block and the elements of the operands to the result."""


class Block:
    """The scalar operations on the elements of some tensors; `zero` is an int32 that the compiler does not know."""

    def __init__(self, function: Function, zero: Scalar | None = None) -> None:
        self._function, self._zero = function, zero

    def __call__(self, operation: str, *operands: Scalar, name: str = "v", to: str = "") -> Scalar:
        """Add an operation whose type is that of its last operand; `to` is the type of a conversion's result."""
        kind = operands[-1].type
        suffix = f"{kind} to {to}" if to else kind
        return self._add(f"{operation} {', '.join(operand.name for operand in operands)} : {suffix}", name, to or kind)

    def product(self, a: Scalar, b: Scalar, name: str = "product") -> Scalar:
        """Add a float32 product that no compiler contracts with a sum: its bits pass an exclusive or with `zero`."""
        return self.unchanged(self("arith.mulf", a, b), name)

    def quotient(self, a: Scalar, b: Scalar, name: str = "quotient") -> Scalar:
        """Add a float32 quotient; that by a power of two is a product, which no compiler contracts with a sum."""
        return self.unchanged(self("arith.divf", a, b), name)

    def unchanged(self, value: Scalar, name: str) -> Scalar:
        """Return 32 bits as they are, which no compiler knows: an exclusive or with `zero`."""
        if self._zero is None:
            raise ValueError("products and quotients need loops with `products`")
        bits = value if value.type == "i32" else self("arith.bitcast", value, to="i32", name="bits")
        same = self("arith.xori", bits, self._zero, name="bits")
        return same if value.type == "i32" else self("arith.bitcast", same, to=value.type, name=name)

    def compare(self, predicate: str, a: Scalar, b: Scalar) -> Scalar:
        """Add a comparison: `ogt` and others for floats, `sgt` and others for integers."""
        operation = "cmpf" if a.type == "f32" else "cmpi"
        return self._add(f"arith.{operation} {predicate}, {a.name}, {b.name} : {a.type}", "is", "i1")

    def select(self, condition: Scalar, a: Scalar, b: Scalar, name: str = "v") -> Scalar:
        """Add a selection."""
        return self._add(f"arith.select {condition.name}, {a.name}, {b.name} : {a.type}", name, a.type)

    def number(self, value: float | np.generic, kind: str = "f32", name: str = "c") -> Scalar:
        """Return a constant: float32 by its bits, or an integer."""
        return self._add(f"arith.constant {literal(value, kind)} : {kind}", name, kind)

    def index(self, axis: int) -> Scalar:
        """Return the place of the element along an axis of the loops."""
        return self._add(f"linalg.index {axis} : index", "at", "index")

    def affine(self, axes: int, text: str) -> Scalar:
        """Return an affine expression of d0, d1, ..., the places of the element along so many axes of the loops."""
        indices = ", ".join(self.index(axis).name for axis in range(axes))
        dims = ", ".join(f"d{axis}" for axis in range(axes))
        return self._add(f"affine.apply affine_map<({dims}) -> ({text})>({indices})", "at", "index")

    def element(self, table: Value, place: Scalar, vector: Scalar | None = None) -> Scalar:
        """Return the element of a table (N,), or of a vector of a tensor (vectors, N), at a place of 0 or more."""
        if place.type != "index":
            place = self._add(f"arith.index_castui {place.name} : {place.type} to index", "at", "index")
        kind = ELEMENTS[table.dtype.name]
        at = ", ".join(each.name for each in (vector, place) if each)
        return self._add(f"tensor.extract {table.name}[{at}] : {table.type}", "entry", kind)

    def entry(self, table: Value, code: Scalar, dtype: np.dtype[Any]) -> Scalar:
        """Return the entry of a code in a table that has one for each, from the least code on."""
        return self.element(table, self.place(code, dtype))

    def place(self, code: Scalar, dtype: np.dtype[Any]) -> Scalar:
        """Return the number of codes below, int32."""
        low = self.number(-np.iinfo(dtype).min, "i32", name="low")
        return self("arith.addi", self.wide(code, dtype), low, name="place")

    def wide(self, code: Scalar, dtype: np.dtype[Any]) -> Scalar:
        """Return a code as int32."""
        return self("arith.extui" if dtype.kind == "u" else "arith.extsi", code, to="i32", name="wide")

    def _add(self, text: str, name: str, kind: str) -> Scalar:
        scalar = Scalar(self._function.unique(name), kind)
        self._function.add(f"  {scalar.name} = {text}")
        return scalar


class Function:
    """A function under construction: the layer's operations, at the location of its node."""

    def __init__(self, location: str, vectors: int) -> None:
        self._pieces: list[str] = []
        self.vectors = vectors
        self._location = location
        self._names: set[str] = set()
        self._zero: Value | None = None

    def unique(self, name: str) -> str:
        """Return the name of a new value."""
        found = next(
            each for n in itertools.count() if (each := f"%{name}_{n}" if n else f"%{name}") not in self._names
        )
        self._names.add(found)
        return found

    def add(self, text: str, *, located: bool = True) -> None:
        """Add a line."""
        self._pieces.append(f"  {text}{f' loc({self._location})' if located else ''}\n")

    def argument(self, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Value:
        """Return a formal tensor, of all vectors."""
        return Value(self.unique(name), (self.vectors, *shape), dtype)

    def constant(self, name: str, values: Array) -> Value:
        """Add a constant, with the bytes of its elements."""
        value = Value(self.unique(name), values.shape, values.dtype)
        little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        # The bytes are a piece of their own, which is not copied before the whole text is joined.
        self._pieces += [f'  {value.name} = arith.constant dense<"0x', little.tobytes().hex(), '"> : ']
        self._pieces.append(f"{value.type} loc({self._location})\n")
        return value

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
        """Add a tensor whose elements are written next."""
        return self._value("empty", f"tensor.empty() : {tensor_type(shape, dtype)}", shape, dtype)

    def filled(self, number: float | np.generic, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
        """Return a tensor of one number."""
        scalar, init = self._number(number, dtype), self.empty(shape, dtype)
        text = f"linalg.fill ins({scalar} : {ELEMENTS[dtype.name]}) outs({init.name} : {init.type}) -> {init.type}"
        return self._value("filled", text, shape, dtype)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Return the same elements, in the same order, in another shape."""
        if shape == x.shape:
            return x
        if len(x.shape) == 1 or len(shape) == 1:
            whole = ", ".join(map(str, range(max(len(x.shape), len(shape)))))
            target = tensor_type(shape, x.dtype)
            if len(shape) < len(x.shape):
                text = f"tensor.collapse_shape {x.name} [[{whole}]] : {x.type} into {target}"
            else:
                sizes = ", ".join(map(str, shape))
                text = f"tensor.expand_shape {x.name} [[{whole}]] output_shape [{sizes}] : {x.type} into {target}"
            return self._value("shaped", text, shape, x.dtype)
        return self.reshape(self.reshape(x, (x.size,)), shape)

    def pad(self, x: Value, low: Sequence[int], high: Sequence[int], number: float) -> Value:
        """Return x with `number` around it; x itself if nothing is added."""
        if not any(low) and not any(high):
            return x
        shape = tuple(a + size + b for a, size, b in zip(low, x.shape, high, strict=True))
        kind = ELEMENTS[x.dtype.name]
        filler = self._number(number, x.dtype)
        value = Value(self.unique("padded"), shape, x.dtype)
        axes = ", ".join(f"%axis{n}: index" for n in range(len(shape)))
        self.add(f"{value.name} = tensor.pad {x.name} low{list(low)} high{list(high)} {{", located=False)
        self.add(f"^bb0({axes}):", located=False)
        self.add(f"  tensor.yield {filler} : {kind}")
        self.add(f"}} : {x.type} to {value.type}")
        return value

    def gathered(self, x: Value, places: Array, filler: float = 0) -> Value:
        """Return (vectors, *shape of places): value `places` of each vector of x, `filler` where it is -1."""
        flat = self.reshape(x, (self.vectors, x.size // self.vectors))
        table = self.constant("places", places.astype(np.int32))
        shape, missing = (self.vectors, *places.shape), bool((places < 0).any())

        def body(block: Block, place: Scalar) -> Scalar:
            none = block.number(0, "i32", name="none")
            taken = block("arith.maxsi", place, none) if missing else place
            value = block.element(flat, taken, vector=block.index(0))
            if not missing:
                return value
            number = block.number(filler, value.type, name="filler")
            return block.select(block.compare("slt", place, none), number, value)

        return self.elementwise(x.dtype, shape, [table], body)

    def joined(self, values: Sequence[Value], axis: int) -> Value:
        """Return the values side by side along an axis."""
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        names, types = ", ".join(v.name for v in values), ", ".join(v.type for v in values)
        dtype = values[0].dtype
        text = f"tensor.concat dim({axis}) {names} : ({types}) -> {tensor_type(shape, dtype)}"
        return self._value("joined", text, tuple(shape), dtype)

    def repeated(self, x: Value, places: str, shape: tuple[int, ...], *, products: bool = False) -> Value:
        """Return a tensor with the elements of x, at affine expressions of the axes of the result.

        With `products` it is no copy for the compiler: IREE refuses loops that begin with a copy of a small constant.
        """

        def body(block: Block, value: Scalar, _: Scalar) -> Scalar:
            return block.unchanged(value, "same") if products else value

        return self.loops(self.empty(shape, x.dtype), [(x, places)], body, products=products)

    def elementwise(
        self,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        inputs: Sequence[Value],
        body: Body,
        *,
        products: bool = False,
    ) -> Value:
        """Return a tensor of which each element depends on those of the inputs at its place.

        An input has the last axes of the result; one that has the size 1 along an axis is repeated.  `products` is
        that of `loops`.
        """
        axes, maps = len(shape), []
        for each in inputs:
            own = range(axes - len(each.shape), axes)
            kept = (f"d{n}" if size == shape[n] else "0" for n, size in zip(own, each.shape, strict=True))
            maps.append((each, ", ".join(kept)))
        return self.loops(
            self.empty(shape, dtype), maps, lambda block, *each: body(block, *each[:-1]), products=products
        )

    def loops(
        self,
        init: Value,
        inputs: Sequence[Value | tuple[Value, str]],
        body: Body,
        reductions: int = 0,
        *,
        products: bool = False,
    ) -> Value:
        """Return `init` after loops over its axes d0, d1, ..., and over further axes, which are reductions.

        An input has one affine expression of the axes for each of its own axes, by default the axes of `init`.  The
        body gets an element of each input, then that of the result so far; the last axis is the innermost loop.
        `products` is true if the body has float32 products or quotients.
        """
        axes = len(init.shape) + reductions
        place = ", ".join(f"d{n}" for n in range(len(init.shape)))
        pairs = [each if isinstance(each, tuple) else (each, place) for each in inputs]
        if products:
            pairs.append((self.unknown_zero(), ""))
        dims = ", ".join(f"d{n}" for n in range(axes))
        maps = ", ".join(f"affine_map<({dims}) -> ({each})>" for each in (*(each for _, each in pairs), place))
        kinds = ", ".join(['"parallel"'] * len(init.shape) + ['"reduction"'] * reductions)
        value = Value(self.unique("y"), init.shape, init.dtype)
        ins = ""
        if pairs:
            names, types = ", ".join(v.name for v, _ in pairs), ", ".join(v.type for v, _ in pairs)
            ins = f" ins({names} : {types})"
        self.add(f"{value.name} = linalg.generic {{", located=False)
        self.add(f"  indexing_maps = [{maps}],", located=False)
        self.add(f"  iterator_types = [{kinds}]}}", located=False)
        self.add(f" {ins} outs({init.name} : {init.type}) {{", located=False)
        scalars = [Scalar(self.unique(f"{v.name[1:]}_value"), ELEMENTS[v.dtype.name]) for v, _ in pairs]
        scalars.append(Scalar(self.unique("found"), ELEMENTS[init.dtype.name]))
        self.add(f"^bb0({', '.join(f'{scalar.name}: {scalar.type}' for scalar in scalars)}):", located=False)
        zero = scalars.pop(-2) if products else None
        result = body(Block(self, zero), *scalars)
        self.add(f"  linalg.yield {result.name} : {result.type}")
        self.add(f"}} -> {value.type}")
        return value

    def unknown_zero(self) -> Value:
        """Return the int32 of `Block.product`: the global ZERO of the module."""
        if self._zero is None:
            self._zero = self._value("zero", f"util.global.load @{ZERO} : tensor<i32>", (), np.dtype(np.int32))
        return self._zero

    @property
    def has_products(self) -> bool:
        """True if it reads the global ZERO."""
        return self._zero is not None

    def text(self, symbol: str, comment: Sequence[str], arguments: Sequence[Value], results: Sequence[Value]) -> str:
        """Return the function."""
        return "".join(self.pieces(symbol, comment, arguments, results))

    def pieces(
        self, symbol: str, comment: Sequence[str], arguments: Sequence[Value], results: Sequence[Value]
    ) -> list[str]:
        """Return the function in pieces, of which constants have some of their own."""
        given = ", ".join(f"{argument.name}: {argument.type}" for argument in arguments)
        types = ", ".join(result.type for result in results)
        self.add(f"return {', '.join(result.name for result in results)} : {types}")
        head = [f"// {line}".rstrip() + "\n" for line in comment]
        head.append(f"func.func @{symbol}({given}) -> ({types}) {{\n")
        return [*head, *self._pieces, f"}} loc({self._location})\n"]

    def call(self, symbol: str, inputs: Sequence[Value], output: Tensor, location: str) -> Value:
        """Return the result of a function, under its name; `output` is the tensor for one vector."""
        names, types = ", ".join(v.name for v in inputs), ", ".join(v.type for v in inputs)
        found = self.argument(symbol, output.shape, output.dtype)
        text = f"{found.name} = call @{symbol}({names}) : ({types}) -> {found.type} loc({location})"
        self.add(text, located=False)
        return found

    def _number(self, number: float | np.generic, dtype: np.dtype[Any]) -> str:
        """Add a number and return its name."""
        name, kind = self.unique("number"), ELEMENTS[dtype.name]
        self.add(f"{name} = arith.constant {literal(number, kind)} : {kind}")
        return name

    def _value(self, name: str, text: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
        value = Value(self.unique(name), shape, dtype)
        self.add(f"{value.name} = {text}")
        return value


def tensor_type(shape: Sequence[int], dtype: np.dtype[Any]) -> str:
    """Return the type of a tensor in MLIR."""
    return f"tensor<{'x'.join([*map(str, shape), ELEMENTS[dtype.name]])}>"


def literal(number: float | np.generic, kind: str) -> str:
    """Return a float32 by its bits, or an integer of an MLIR type with the sign that its bits have."""
    if kind == "f32":
        return f"0x{int(np.float32(number).view(np.uint32)):08X}"
    if isinstance(number, np.generic) and number.dtype in STORED:  # bits here
        number = int(np.asarray(number).view(f"u{number.dtype.itemsize}"))
    half = 1 << (int(kind[1:]) - 1)
    return str((int(number) + half) % (2 * half) - half)


def quoted(text: str) -> str:
    """Return a string of MLIR, which is on one line; bytes that are not printable ASCII have their number."""
    plain = (chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:02X}" for each in text.encode())
    return f'"{"".join(plain)}"'
