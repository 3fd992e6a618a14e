"""Composition check: the items together compute exactly their network.

Every operation of the network is done by one item, or its columns by several, each once, on the same tensors with the
same constants.  What a local name means follows from the texts: a tensor that was got is what its writer sent.  That
items hand over in a way that makes sense is decided by `harness.plan.items.checks`.

Source: Gauffriau et al., ERTS 2024 (see graphs.py), section IV.B: "The composition of item descriptions shall respect
the semantics of the full NNEF description."  Every mistake is a RequestError that names variable, item and file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.region import Region
from harness.plan.items.checks import examine
from harness.plan.items.description import COLUMNS, columns_text, identifier, layer_of, step
from harness.plan.items.graphs import (
    Description,
    External,
    Get,
    Graph,
    ItemGraph,
    Join,
    Operand,
    Operation,
    Part,
    Send,
    Variable,
)
from harness.plan.items.translation import Origins, by_item
from harness.plan.nnef.fragments import known

CAUSES = ("one writer", "sends and gets")
"""The checks whose counterexamples are reported first: their failures make others fail."""

WAITING = "order of the text"
"""The check with all its counterexamples reported: together they show which items wait for each other."""


@dataclass(frozen=True)
class Columns:
    """Columns `start` to `stop` of each of `runs` runs of a tensor of the network: a layer's result, or the input."""

    layer: str
    start: int
    stop: int
    runs: int = 1

    @property
    def region(self) -> Region:
        """The columns without their tensor."""
        return Region(self.start, self.stop, self.runs)

    def __str__(self) -> str:
        return f"{columns_text(self.region)} of {self.layer}"


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


def check(description: Description, files: Mapping[str, str], layers: Sequence[Layer]) -> tuple[Work, ...]:
    """Return all that the items compute, if they compose to the network of `layers`; else RequestError.

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
    whole = _Whole.of(description.network, description.parameters, layers)
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
    """The network that items are compared with, by names; `widths` is how many columns every tensor has.

    Of `layers` the parts are known; without them nothing is divided.
    """

    graph: Graph
    externals: dict[str, External]
    operations: dict[str, Operation]
    tables: dict[str, Array]
    widths: dict[str, int]
    layers: dict[str, Layer]

    @staticmethod
    def of(graph: Graph, parameters: Mapping[str, Array], layers: Sequence[Layer] = ()) -> _Whole:
        externals = {entry.output: entry for entry in graph.instructions if isinstance(entry, External)}
        operations = {entry.output: entry for entry in graph.instructions if isinstance(entry, Operation)}
        tables = {entry.output: parameters[entry.label] for entry in graph.instructions if isinstance(entry, Variable)}
        widths = {name: external.shape[-1] for name, external in externals.items()}
        for name, operation in operations.items():
            widths[name] = _width(operation, widths)
        return _Whole(graph, externals, operations, tables, widths, {identifier(layer.name): layer for layer in layers})

    def external(self, name: str) -> External:
        """Return the input of this name, or the first one, with which another name is then compared."""
        return self.externals.get(name) or next(iter(self.externals.values()))

    def columns(self, name: str, region: Region | None = None) -> Columns:
        """Return a region of a tensor, by default all of it."""
        start, stop, runs = (region.start, region.stop, region.runs) if region else (0, self.widths[name], 1)
        found = Region.of(start, stop, runs, self.widths[name])
        return Columns(name, found.start, found.stop, found.runs)

    def part(self, work: Work) -> tuple[Operation, dict[str, Array], list[Columns]]:
        """Return the operation that computes some columns of a layer, its tables by role, and the columns it reads."""
        name, region = work.columns.layer, work.columns.region
        layer = self.layers[name]
        sources = [str(source) for source in self.operations[name].inputs[: len(layer.inputs)]]
        part = step(layer.division.slice(region, work.tensor), name, sources, region)
        read = [self.columns(source, need) for source, need in zip(sources, layer.division.needs(region), strict=True)]
        return part.operation, part.tables, read


def _width(operation: Operation, widths: Mapping[str, int]) -> int:
    """Return the number of columns of a result: that of the operation or its fragment, or else that of its input."""
    if named := _named_columns(operation):
        return named.size
    first = Operation("", "", operation.inputs[:1])
    return known()[operation.operation].columns or sum(widths[name] for name in first.tensors)


def _named_columns(operation: Operation) -> Region | None:
    """Return the columns of its layer that an operation states, if any."""
    match dict(operation.attributes).get(COLUMNS):
        case (int(start), int(stop)):
            return Region(start, stop)
        case (int(start), int(stop), int(runs)) if runs > 1:
            return Region(start, stop, runs)
    return None


_Meaning: TypeAlias = "Variable | tuple[Columns, ...]"
"""The operand of an operation: a parameter, or columns side by side."""


class _Parts:
    """The works of several graphs, compared with the whole network."""

    def __init__(
        self, graphs: Mapping[str, Graph], parameters: Mapping[str, Array], whole: _Whole, reporter: _Reporter
    ) -> None:
        self.graphs, self.parameters, self.whole, self.reporter = graphs, parameters, whole, reporter
        self.origins = Origins(graphs)
        self.works: dict[tuple[str, str], Work] = {}
        self.operations = {
            (item, entry.output): entry
            for item, graph in graphs.items()
            for entry in graph.instructions
            if isinstance(entry, Operation)
        }
        for item, tensor in self.operations:
            self._work(item, tensor)

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

    def _work(self, item: str, tensor: str) -> Work:
        """Return what an operation computes; `works` keeps it, as those that read its result may depend on it."""
        if (item, tensor) not in self.works:
            columns = self._columns(item, self.operations[item, tensor])
            self.works[item, tensor] = Work(item, tensor, columns)
        return self.works[item, tensor]

    def _columns(self, item: str, operation: Operation) -> Columns:
        name = layer_of(operation.output, self.whole.operations)
        if name is None:
            known = f"its layers are: {', '.join(self.whole.operations)}"
            self.reporter.refuse(
                item, f"{operation.output} is no layer of {self.reporter.whole}, nor part of one", known
            )
        width, layer = self.whole.widths[name], self.whole.layers.get(name)
        if COLUMNS in dict(operation.attributes):
            region = _named_columns(operation) or Region(0, 0)
            if width % region.runs or not 0 <= region.start < region.stop <= width // region.runs:
                self.reporter.refuse(item, f"{operation.output}: {COLUMNS} are not among the {width} of {name}")
        elif layer and layer.division.uniform and operation.output != name:  # it computes the columns that it reads
            read = self._meaning(item, operation.inputs[0])
            region = read[0].region if isinstance(read, tuple) and len(read) == 1 else Region(0, width)
            if region.stop > width // region.runs:
                self.reporter.refuse(item, f"{operation.output} reads {_text(read)}, but {name} has {width} columns")
        else:
            return self.whole.columns(name)
        found = self.whole.columns(name, region)
        if found.region.size < width and not (layer and layer.division.divisible(found.region)):
            self.reporter.refuse(item, f"{operation.output}: {found} cannot be computed alone", f"whole: {name}")
        return found

    def _require_each_once(self, name: str) -> None:
        """Require that all columns of an operation of the whole are computed once."""
        done, runs = 0, 0
        for work in sorted((w for w in self.works.values() if w.columns.layer == name), key=lambda w: w.columns.start):
            runs = runs or work.columns.runs
            if work.columns.runs != runs:
                self.reporter.refuse(work.item, f"{work.tensor} computes {work.columns}, others columns of {runs} runs")
            if work.columns.start < done:
                twice = Columns(name, work.columns.start, min(done, work.columns.stop), runs)
                self.reporter.refuse(work.item, f"{work.tensor} computes {twice} a second time")
            self._require_none_between(name, done, work.columns.start, runs)
            done = work.columns.stop
        self._require_none_between(name, done, self.whole.widths[name] // (runs or 1), runs or 1)

    def _require_none_between(self, name: str, done: int, start: int, runs: int) -> None:
        if done < start:
            self.reporter.refuse_all(f"nothing computes {Columns(name, done, start, runs)}")

    def _require_operation(self, work: Work, found: Operation) -> None:
        """Require that an operation computes columns of the whole's: from the same tensors, with the same constants."""
        wanted, tables, read = self.whole.operations[work.columns.layer], self.whole.tables, None
        if work.columns != self.whole.columns(work.columns.layer):
            wanted, tables, read = self.whole.part(work)
        self.reporter.require_same(work.item, f"{work.tensor} is computed by", found.operation, wanted.operation)
        constants = dict(found.attributes)
        for name, value in wanted.attributes:
            if name != COLUMNS:
                self.reporter.require_same(work.item, f"{work.tensor}: {name} is", constants.get(name), value)
        self.reporter.require_same(
            work.item, f"{work.tensor}: the number of inputs is", len(found.inputs), len(wanted.inputs)
        )
        for position, (given, source) in enumerate(zip(found.inputs, wanted.inputs, strict=True)):
            columns = (read[position],) if read and position < len(read) else None
            self._require_input(work, self._meaning(work.item, given), source, tables, columns)

    def _meaning(self, item: str, given: Operand) -> _Meaning:
        """Return a parameter, or columns, those that follow each other joined."""
        match given:
            case str():
                found = self._source(item, given)
                return found if isinstance(found, Variable) else (found,)
            case Join():
                return self._side_by_side(item, given.tensors, given.runs)
            case Part():
                return (self._part(item, given),)
        return self._side_by_side(item, given, 1)

    def _side_by_side(self, item: str, given: Sequence[Operand], runs: int) -> tuple[Columns, ...]:
        """Return columns, those of as many runs that follow each other joined."""
        columns: list[Columns] = []
        for each in given:
            found = self._meaning(item, each)
            if isinstance(found, Variable):
                self.reporter.refuse(item, f"{found.output} is a parameter in a list of results")
            for part in found:
                last = columns[-1] if columns else None
                if last and (last.layer, last.stop, last.runs, runs) == (part.layer, part.start, part.runs, part.runs):
                    columns[-1] = self.whole.columns(part.layer, Region(last.start, part.stop, runs))
                else:
                    columns.append(part)
        if runs > 1 and len(columns) > 1:
            self.reporter.refuse(item, f"{_text(tuple(columns))} are not side by side in {runs} runs")
        return tuple(columns)

    def _part(self, item: str, given: Part) -> Columns:
        """Return the columns of a region of one tensor, or of a part of one that has the same runs."""
        found, region = self._meaning(item, given.whole), given.region
        if isinstance(found, Variable) or len(found) > 1:
            self.reporter.refuse(item, f"a part is taken of {_text(found)}, which are not one result")
        [columns] = found
        whole = columns == self.whole.columns(columns.layer)
        first, runs = (0, region.runs) if whole else (columns.start, columns.runs)
        inside = region.runs == runs and 0 <= region.start < region.stop <= columns.region.size // runs
        if not inside or columns.region.size % runs:
            self.reporter.refuse(item, f"{columns_text(region)} are no part of {columns}")
        return self.whole.columns(columns.layer, Region(first + region.start, first + region.stop, runs))

    def _source(self, item: str, name: str) -> Variable | Columns:
        """Return the parameter or the columns of a local name."""
        origin = self.origins.origin(item, name)
        declared = self.origins.declared.get(origin)
        if isinstance(declared, Variable):
            return declared
        return self.whole.columns(self.whole.external(origin[1]).output) if declared else self._work(*origin).columns

    def _require_input(
        self,
        work: Work,
        found: _Meaning,
        source: Operand,
        tables: Mapping[str, Array],
        columns: tuple[Columns, ...] | None,
    ) -> None:
        """Require that an operation reads the tensors `source` of the whole, or these columns; or one of its tables."""
        names = Operation("", "", (source,)).tensors
        wanted = tables.get(names[0])
        if wanted is None:
            columns = columns or tuple(self.whole.columns(name) for name in names)
            self.reporter.require_same(work.item, f"{work.tensor} reads", found, columns)
        elif isinstance(found, Variable):
            self._require_table(work, found, wanted)
        else:
            self.reporter.refuse(work.item, f"{work.tensor} reads {_text(found)}, but {self.reporter.whole} {names[0]}")

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
                wanted = _declared(self.whole.external(entry.output))
                self.reporter.require_same(item, "the input is", _declared(entry), wanted)
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
        wanted = (1, sent.region.size)
        for other, each in self.graphs.items():
            for shared in each.shared if isinstance(each, ItemGraph) else ():
                if shared.name == send.shared and shared.shape != wanted:
                    text = f"{shared.name} is of shape {list(shared.shape)}, but {item} sends {list(wanted)}"
                    self.reporter.refuse(other, text)


def _declared(external: External) -> str:
    return f"{external.output} of shape {list(external.shape)}"


def _form(table: Array) -> str:
    return f"{table.dtype.name} of shape {list(table.shape)}"
