"""Composition check: the items together compute exactly their network.

Every operation of the network is done by one item, or its columns by several, each once, on the same tensors with the
same constants.  What a local name means follows from the texts: a tensor that was got is what its writer sent.  That
items hand over in a way that makes sense is decided by `harness.plan.items.checks`.

Source: Gauffriau et al., ERTS 2024 (see graphs.py), section IV.B: "The composition of item descriptions shall respect
the semantics of the full NNEF description."  Every mistake is a RequestError that names variable, item and file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.plan.items.checks import examine
from harness.plan.items.description import COLUMNS, layer_of
from harness.plan.items.graphs import Description, External, Get, Graph, ItemGraph, Operation, Send, Variable
from harness.plan.items.translation import Origins, by_item
from harness.plan.nnef.fragments import known

CAUSES = ("one writer", "sends and gets")
"""The checks whose counterexamples are reported first: their failures make others fail."""

WAITING = "order of the text"
"""The check with all its counterexamples reported: together they show which items wait for each other."""


@dataclass(frozen=True)
class Columns:
    """Columns `start` to `stop` of a tensor of the network: a layer's result, or the input."""

    layer: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"columns {self.start} to {self.stop - 1} of {self.layer}"


@dataclass(frozen=True)
class Work:
    """The columns that an item computes, and its tensor with them; `item` is its name."""

    item: str
    tensor: str
    columns: Columns


def require_network(description: Description, wanted: Graph, parameters: Mapping[str, Array], file: str) -> None:
    """Raise RequestError unless the network of a description, from `file`, is `wanted` with its `parameters`."""
    whole = _Whole.of(wanted, parameters)
    found = _Parts({"": description.network}, description.parameters, whole, _Reporter({"": file}, "the model"))
    for work in found.compared():
        if work.tensor != work.columns.layer:
            found.reporter.refuse("", f"{work.tensor} is a part of {work.columns.layer}", "a network has whole layers")


def check(description: Description, files: Mapping[str, str]) -> tuple[Work, ...]:
    """Return all that the items compute, if they compose to the network; else RequestError.

    `files` are the items' files by the items' names, for the messages.
    """
    items = by_item(description.items)
    reporter = _Reporter(files, "the network")
    for name, item in items.items():
        if not any(isinstance(entry, Operation) for entry in item.instructions):
            reporter.refuse(name, "it is left without work", "leave it out, or give it a layer")
    failed = [each for each in examine(description.items, limit=0).checks if not each.holds]
    for each in sorted(failed, key=lambda each: each.name not in CAUSES):
        reporter.refuse_all("; ".join(each.counterexamples[: None if each.name == WAITING else 1]))
    whole = _Whole.of(description.network, description.parameters)
    return _Parts(items, description.parameters, whole, reporter).compared()


@dataclass(frozen=True)
class _Reporter:
    """The facts for messages: files of the items by name ("" for that of a network), and subject of the comparison."""

    files: Mapping[str, str]
    whole: str

    def refuse(self, item: str, what: str, hint: str = "") -> NoReturn:
        """Raise the error of a mistake in the text of one item."""
        raise RequestError(f"{self.files[item]}: {f'item {item}: ' if item else ''}{what}", hint)

    def refuse_all(self, what: str) -> NoReturn:
        """Raise the error `what` about a mistake between items."""
        named = [file for item, file in self.files.items() if item in re.findall(r"\w+", what)]
        raise RequestError(f"{what} ({', '.join(named or self.files.values())})")

    def require_same(self, item: str, what: str, found: object, wanted: object) -> None:
        """Compare by text, which distinguishes 1 from 1.0 and from true, and 0.0 from -0.0."""
        if repr(found) != repr(wanted):
            self.refuse(item, f"{what} {_text(found)}, but in {self.whole} {_text(wanted)}")


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " and ".join(map(_text, value)) or "nothing"
    if isinstance(value, float):
        return str(np.float32(value))
    return value.output if isinstance(value, Variable) else str(value)


@dataclass(frozen=True, eq=False)
class _Whole:
    """The network that items are compared with, by names; `widths` is how many columns every tensor has."""

    graph: Graph
    external: External
    operations: dict[str, Operation]
    tables: dict[str, Array]
    widths: dict[str, int]

    @staticmethod
    def of(graph: Graph, parameters: Mapping[str, Array]) -> _Whole:
        (external,) = (entry for entry in graph.instructions if isinstance(entry, External))
        operations = {entry.output: entry for entry in graph.instructions if isinstance(entry, Operation)}
        tables = {entry.output: parameters[entry.label] for entry in graph.instructions if isinstance(entry, Variable)}
        widths = {external.output: external.shape[-1]}
        for name, operation in operations.items():
            widths[name] = _width(operation, widths)
        return _Whole(graph, external, operations, tables, widths)

    def columns(self, name: str) -> Columns:
        """Return all of a tensor."""
        return Columns(name, 0, self.widths[name])


def _width(operation: Operation, widths: Mapping[str, int]) -> int:
    """Return the number of columns of a result: that of the operation or its fragment, or else that of its input."""
    if named := _named_columns(operation):
        return named[1] - named[0]
    first = operation.inputs[0]
    read = sum(widths[name] for name in ((first,) if isinstance(first, str) else first))
    return known()[operation.operation].columns or read


def _named_columns(operation: Operation) -> tuple[int, int] | None:
    """Return the columns of its layer that an operation states, if any."""
    match dict(operation.attributes).get(COLUMNS):
        case (int(start), int(stop)):
            return start, stop
    return None


WINDOW = "window"
"""The role of the one table that all channels of a layer share."""

_Meaning: TypeAlias = "Variable | tuple[Columns, ...]"
"""The operand of an operation: a parameter, or columns side by side."""


class _Parts:
    """The works of several graphs, compared with the whole network."""

    def __init__(
        self, graphs: Mapping[str, Graph], parameters: Mapping[str, Array], whole: _Whole, reporter: _Reporter
    ) -> None:
        self.graphs, self.parameters, self.whole, self.reporter = graphs, parameters, whole, reporter
        self.origins = Origins(graphs)
        self.works = {(work.item, work.tensor): work for work in self._works()}

    def compared(self) -> tuple[Work, ...]:
        """Return all that is computed; raise RequestError if it is not the whole."""
        for name in self.whole.operations:
            self._require_each_once(name)
        for item, graph in self.graphs.items():
            self._require_declarations(item, graph)
            for entry in graph.instructions:
                if isinstance(entry, Operation):
                    self._require_operation(self.works[item, entry.output], entry)
        return tuple(self.works.values())

    def _works(self) -> Iterator[Work]:
        for item, graph in self.graphs.items():
            for entry in graph.instructions:
                if isinstance(entry, Operation):
                    yield Work(item, entry.output, self._columns(item, entry))

    def _columns(self, item: str, operation: Operation) -> Columns:
        name = layer_of(operation.output, self.whole.operations)
        if name is None:
            known = f"its layers are: {', '.join(self.whole.operations)}"
            self.reporter.refuse(
                item, f"{operation.output} is no layer of {self.reporter.whole}, nor part of one", known
            )
        if COLUMNS not in dict(operation.attributes):
            return self.whole.columns(name)
        width = self.whole.widths[name]
        start, stop = _named_columns(operation) or (0, 0)
        if not 0 <= start < stop <= width:
            self.reporter.refuse(item, f"{operation.output}: {COLUMNS} are not among the {width} of {name}")
        return Columns(name, start, stop)

    def _require_each_once(self, name: str) -> None:
        """Require that all columns of an operation of the whole are computed once."""
        done = 0
        for work in sorted((w for w in self.works.values() if w.columns.layer == name), key=lambda w: w.columns.start):
            if work.columns.start < done:
                twice = Columns(name, work.columns.start, min(done, work.columns.stop))
                self.reporter.refuse(work.item, f"{work.tensor} computes {twice} a second time")
            self._require_none_between(name, done, work.columns.start)
            done = work.columns.stop
        self._require_none_between(name, done, self.whole.widths[name])

    def _require_none_between(self, name: str, done: int, start: int) -> None:
        if done < start:
            self.reporter.refuse_all(f"nothing computes {Columns(name, done, start)}")

    def _require_operation(self, work: Work, found: Operation) -> None:
        """Require that an operation computes columns of the whole's: from the same tensors, with the same constants."""
        wanted = self.whole.operations[work.columns.layer]
        self.reporter.require_same(work.item, f"{work.tensor} is computed by", found.operation, wanted.operation)
        constants = dict(found.attributes)
        for name, value in wanted.attributes:
            if name != COLUMNS:
                self.reporter.require_same(work.item, f"{work.tensor}: {name} is", constants.get(name), value)
        self.reporter.require_same(
            work.item, f"{work.tensor}: the number of inputs is", len(found.inputs), len(wanted.inputs)
        )
        for given, source in zip(found.inputs, wanted.inputs, strict=True):
            self._require_input(work, self._meaning(work.item, given), source)

    def _meaning(self, item: str, given: str | tuple[str, ...]) -> _Meaning:
        """Return a parameter, or columns, those that follow each other joined."""
        columns: list[Columns] = []
        for name in (given,) if isinstance(given, str) else given:
            part = self._source(item, name)
            if isinstance(part, Variable):
                if isinstance(given, str):
                    return part
                self.reporter.refuse(item, f"{name} is a parameter in a list of results")
            if columns and (columns[-1].layer, columns[-1].stop) == (part.layer, part.start):
                part = Columns(part.layer, columns.pop().start, part.stop)
            columns.append(part)
        return tuple(columns)

    def _source(self, item: str, name: str) -> Variable | Columns:
        """Return the parameter or the columns of a local name."""
        origin = self.origins.origin(item, name)
        declared = self.origins.declared.get(origin)
        if isinstance(declared, Variable):
            return declared
        return self.whole.columns(self.whole.external.output) if declared else self.works[origin].columns

    def _require_input(self, work: Work, found: _Meaning, source: str | tuple[str, ...]) -> None:
        """Require that an operation reads the tensors `source` of the whole; of a parameter its columns."""
        names = (source,) if isinstance(source, str) else source
        wanted = self.whole.tables.get(names[0])
        if wanted is None:
            columns = tuple(self.whole.columns(name) for name in names)
            self.reporter.require_same(work.item, f"{work.tensor} reads", found, columns)
        elif isinstance(found, Variable):
            self._require_table(work, found, self._of_columns(found.output, wanted, work.columns))
        else:
            self.reporter.refuse(work.item, f"{work.tensor} reads {_text(found)}, but {self.reporter.whole} {names[0]}")

    def _of_columns(self, name: str, table: Array, columns: Columns) -> Array:
        """Return what a part of a layer has of a table: all of it, or the columns of the channels that it computes."""
        width = self.whole.widths[columns.layer]
        if columns.stop - columns.start == width or name.endswith(f"__{WINDOW}"):
            return table
        positions = width // table.shape[1]
        return table[:, columns.start // positions : columns.stop // positions]

    def _require_table(self, work: Work, variable: Variable, wanted: Array) -> None:
        """Require that a parameter has the same type, shape and bits."""
        found = self.parameters[variable.label]
        what = f"{variable.output} ({variable.label}.dat)"
        self.reporter.require_same(work.item, f"{what} is", _form(found), _form(wanted))
        bits = np.dtype(f"u{wanted.dtype.itemsize}")
        differing = np.argwhere(np.ascontiguousarray(found).view(bits) != np.ascontiguousarray(wanted).view(bits))
        if len(differing):
            index = tuple(map(int, differing[0]))
            self.reporter.require_same(work.item, f"{what} is at {list(index)}", found[index], wanted[index])

    def _require_declarations(self, item: str, graph: Graph) -> None:
        """Require that a graph declares exactly the inputs and outputs of its instructions."""
        taken, given = set(), {work.tensor for work in self.works.values() if self._is_output(item, work)}
        for entry in graph.instructions:
            if isinstance(entry, External):
                self.reporter.require_same(item, "the input is", _declared(entry), _declared(self.whole.external))
                taken.add(entry.output)
            elif isinstance(entry, Get):
                taken.add(entry.shared)
            elif isinstance(entry, Send):
                given.add(entry.shared)
                self._require_shape(item, entry)
        self._require_names(item, "inputs", graph.inputs, taken)
        self._require_names(item, "outputs", graph.outputs, given)

    def _is_output(self, item: str, work: Work) -> bool:
        return work.item == item and work.columns.layer in self.whole.graph.outputs

    def _require_names(self, item: str, what: str, declared: Sequence[str], used: set[str]) -> None:
        for name in sorted(set(declared) ^ used):
            reason = "is not among" if name in used else "has no place among"
            self.reporter.refuse(item, f"{name} {reason} the {what} of {self.graphs[item].name}")

    def _require_shape(self, item: str, send: Send) -> None:
        """Require that all declarations of a shared variable have the shape of the sent tensor."""
        sent = self._source(item, send.data)
        if isinstance(sent, Variable):
            self.reporter.refuse(
                item, f"{send.data} is a parameter, and is sent", "items declare what they need of them"
            )
        wanted = (1, sent.stop - sent.start)
        for other, each in self.graphs.items():
            for shared in each.shared if isinstance(each, ItemGraph) else ():
                if shared.name == send.shared and shared.shape != wanted:
                    text = f"{shared.name} is of shape {list(shared.shape)}, but {item} sends {list(wanted)}"
                    self.reporter.refuse(other, text)


def _declared(external: External) -> str:
    return f"{external.output} of shape {list(external.shape)}"


def _form(table: Array) -> str:
    return f"{table.dtype.name} of shape {list(table.shape)}"
