"""The texts of a network and its items as values: instructions over named tensors (NNEF and its extension).

A graph is a list of instructions, each of which gives one tensor its value, once (static single assignment).  The
graph of an item also sends tensors to other items and gets theirs, by shared variables (`variablesync`) with one
writer each.  Source: Gauffriau, De Albuquerque Silva, Pagetti, "Formal description of ML models for unambiguous
implementation", ERTS 2024, sections II.B and IV.A.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.core.arrays import Array
from harness.operators.region import Region

Value: TypeAlias = "float | int | str | tuple[Value, ...]"
"""The value of an attribute: a number, a text, or a list of these."""


@dataclass(frozen=True)
class External:
    """`output = external(shape = [...])`: an input of the network, (vectors, width).

    The text states `dtype` in a comment.
    """

    output: str
    shape: tuple[int, ...]
    dtype: str = field(default="float32", compare=False)


@dataclass(frozen=True)
class Variable:
    """`output = variable(shape = [...], label = '...')`: a fixed parameter, in the file <label>.dat."""

    output: str
    shape: tuple[int, ...]
    label: str


@dataclass(frozen=True)
class Join:
    """`join([tensors...], runs = ...)`: tensors side by side in each of `runs` runs, such as the rows of channels."""

    tensors: tuple[str, ...]
    runs: int


@dataclass(frozen=True)
class Part:
    """`part(whole, runs = ..., begin = ..., end = ...)`: the values of a region."""

    whole: Operand
    region: Region


Operand: TypeAlias = "str | tuple[Operand, ...] | Join | Part"
"""The tensor that an operation reads: one with a name, several side by side (`concat`), or what these two make."""


def names(operand: Operand) -> Iterator[str]:
    """Yield the tensors of an operand, each as often as it has them."""
    match operand:
        case str():
            yield operand
        case Join():
            yield from operand.tensors
        case Part():
            yield from names(operand.whole)
        case tuple():
            for each in operand:
                yield from names(each)


@dataclass(frozen=True)
class Operation:
    """`output = operation(inputs..., attributes...)`: computes one tensor from others.

    `attributes` are constants by name, in the order of their appearance.
    """

    output: str
    operation: str
    inputs: tuple[Operand, ...]
    attributes: tuple[tuple[str, Value], ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """All tensors that it reads, each as often as it does."""
        return tuple(name for given in self.inputs for name in names(given))


@dataclass(frozen=True)
class Send:
    """`shared = send_var([destinations...], data)`: hand the tensor `data` to other items."""

    shared: str
    destinations: tuple[str, ...]
    data: str


@dataclass(frozen=True)
class Get:
    """`output = get_var(source, shared)`: the tensor that the item `source` has sent, as a local one."""

    output: str
    source: str
    shared: str


Instruction: TypeAlias = External | Variable | Operation | Send | Get


@dataclass(frozen=True)
class Shared:
    """`name = variablesync<scalar>(shape = [...])`: a variable that one item writes and others read."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """`graph name(inputs) -> (outputs)`: a whole network."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class ItemGraph(Graph):
    """`graphitem item name(inputs) -> (outputs)`: one item; its inputs and outputs are shared tensors too."""

    item: str = ""
    shared: tuple[Shared, ...] = ()


@dataclass(frozen=True, eq=False)
class Description:
    """A network and its items, with the parameters by label: the formal object of a plan."""

    network: Graph
    items: tuple[ItemGraph, ...]
    parameters: dict[str, Array]
