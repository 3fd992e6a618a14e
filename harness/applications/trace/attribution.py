"""The owner of every byte of a program: tasks of the plan, items, or support code of the board program."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from harness.analysis.inspection.flow import Analysis
from harness.analysis.inspection.program import Section, Symbol
from harness.analysis.proof.structure import NETWORK
from harness.applications.trace import references
from harness.applications.trace.debug_data import LIBRARY_OF, DebugData, Defined
from harness.applications.trace.document import (
    ConstantEntry,
    FunctionEntry,
    Gap,
    InlinedEntry,
    OwnerEntry,
    SectionEntry,
)
from harness.build import codegen
from harness.plan.launches import input_array
from harness.targets import Table

DESCRIPTORS = "plan as tables (network.c)"
INPUT = "input of the network (network.c)"
START = "C start files"
LIBRARY = "compiler's library"
LINKER = "linker and loader"
UNWIND = "unwind tables"
SHARED = "arena of shared buffers (network.c)"
LOADED = re.compile(
    r"\.(interp|note.*|gnu\..*|dyn.*|rela?\..*|got.*|plt.*|init_array|fini_array|relr.*|hash|tbss|tdata)"
)
UNWINDING = re.compile(r"\.(eh_frame.*|gcc_except_table.*)")
START_NAMES = {"_start", "_init", "_fini", "frame_dummy", "register_tm_clones", "deregister_tm_clones",
               "call_weak_fn", "__do_global_dtors_aux", "_IO_stdin_used", "__abi_tag", "atexit"}  # fmt: skip
START_FILES = {"crtstuff.c", "start.S", "crti.S", "crtn.S"}
LIBRARY_FILES = {"lse-init.c", "compiler_rt", "compiler_rt.zig"}
LIBRARY_NAMES = re.compile(r"__aarch64_(cas|swp|ldadd|ldclr|ldeor|ldset|have_lse).*|init_have_lse_atomics|DW\.ref\..*")
CALLS = "iree/calls.c"
PRINTABLE = frozenset({*range(32, 127), *b"\t\n\r"})
SHORT = 3
"""Characters of a word that a table of numbers can hold by chance."""
DIGITS = 16
SHOWN = 60
"""Characters of a text that the document has."""


@dataclass(frozen=True)
class Owner:
    """Tasks, items, or support code; several where code or data is shared."""

    tasks: frozenset[str] = frozenset()
    items: frozenset[str] = frozenset()
    support: frozenset[str] = frozenset()

    def __or__(self, other: Owner) -> Owner:
        return Owner(self.tasks | other.tasks, self.items | other.items, self.support | other.support)

    def __bool__(self) -> bool:
        return bool(self.tasks or self.items or self.support)

    def entry(self, order: Sequence[str]) -> OwnerEntry:
        """Return the owner for a document, its tasks in the order of the plan."""
        return OwnerEntry(
            tasks=sorted(self.tasks, key=order.index), items=sorted(self.items), support=sorted(self.support)
        )


NOBODY = Owner()


def of_task(name: str) -> Owner:
    """Return the owner of what a task alone has."""
    return Owner(tasks=frozenset({name}))


def of_support(text: str) -> Owner:
    """Return the owner of what support code has."""
    return Owner(support=frozenset({text}))


def united(owners: Iterable[Owner]) -> Owner:
    """Return the owner of what several share."""
    found = NOBODY
    for owner in owners:
        found |= owner
    return found


@dataclass(frozen=True)
class Attributed:
    """Code or data, and its owner."""

    symbol: Symbol
    kind: str
    owner: Owner
    defined: Defined | None
    named: bool = True
    used_by: frozenset[str] = frozenset()


class Attribution:
    """The attribution of one program, built from `generated` and the bundle's sources, by their paths."""

    def __init__(
        self, generated: codegen.Program, analysis: Analysis, debug: DebugData, sources: AbstractSet[str]
    ) -> None:
        self.generated, self.analysis, self.debug = generated, analysis, debug
        self.program = analysis.program
        self.order = [task.name for task in generated.plan.tasks]
        self._by_base = {path.rpartition("/")[2]: path for path in sorted(sources, reverse=True)}
        self._named = _names(generated)

    @cached_property
    def lines(self) -> Mapping[str, tuple[int, int]]:
        """Return the first and the last line of network.c of each task."""
        found, edges = {}, self._edges
        for (start, owner), (end, _) in zip(edges, [*edges[1:], (len(self.text) + 1, NOBODY)], strict=True):
            if owner.tasks:
                found[next(iter(owner.tasks))] = (start, end - 1)
        return found

    @cached_property
    def text(self) -> list[str]:
        """Return the lines of network.c."""
        return self.generated.source.splitlines()

    @cached_property
    def references(self) -> references.References:
        """Return the calls and the uses of data."""
        return references.read(self.analysis)

    @cached_property
    def _edges(self) -> list[tuple[int, Owner]]:
        """Return the first line of each part of network.c, from 1, with its owner."""
        tasks, items = iter(self.generated.plan.tasks), iter(self.generated.plan.items)
        found = [(1, of_support(DESCRIPTORS))]
        for number, line in enumerate(self.text, 1):
            if re.match(r"/\* Layer \d+, ", line):
                found.append((number, of_task(next(tasks).name)))
            elif re.match(r"/\* Item \w+, target ", line):
                found.append((number, Owner(items=frozenset({next(items).name}))))
            elif re.match(r"static const struct (task tasks|hand_over hand_overs)\[\]", line):
                found.append((number, of_support(DESCRIPTORS)))
        if next(tasks, None) or next(items, None):
            raise ValueError("network.c does not have a part for each task and item")
        return found

    @cached_property
    def _defined(self) -> Mapping[str, int]:
        """Return the lines of functions; GCC may give one of two equal functions no debug data."""
        starts = (
            (re.match(r"static (?:ONE_CODE )?\w+ \*?(\w+)\(", line), number) for number, line in enumerate(self.text, 1)
        )
        return {found[1]: number for found, number in starts if found}

    def _in_network(self, line: int) -> Owner:
        return next(owner for start, owner in reversed(self._edges) if start <= line)

    @cached_property
    def functions(self) -> list[Attributed]:
        """Return all code in the order of its addresses, padding excluded."""
        direct = {function.address: self._function(function) for function in self.analysis.functions}
        callers: dict[int, set[int]] = {}
        for caller, called in self.references.calls.items():
            for callee in called:
                callers.setdefault(callee, set()).add(caller)
        found = []
        for function in self.analysis.functions:
            kind, owner = direct[function.address]
            if kind == "kernel":
                owner = self._of_callers(function.address, direct, callers)
            if kind != "padding":
                defined = self.debug.functions.get(function.address)
                found.append(Attributed(function, kind, owner, defined, defined is not None or bool(function.file)))
        return found

    def _of_callers(
        self, address: int, direct: Mapping[int, tuple[str, Owner]], callers: Mapping[int, AbstractSet[int]]
    ) -> Owner:
        """Return the tasks and items whose code leads to a function that several can share."""
        found, todo, seen = NOBODY, [address], {address}
        while todo:
            for caller in callers.get(todo.pop(), ()):
                kind, owner = direct[caller]
                found |= owner
                if kind == "kernel" and caller not in seen:
                    seen.add(caller)
                    todo.append(caller)
        return found

    def _function(self, function: Symbol) -> tuple[str, Owner]:
        """Return kind and owner of code; of a function of a kernel no owner, because its callers are the owners."""
        defined = self.debug.functions.get(function.address)
        of_library = self._of_library(function)
        if of_library:
            return "compiled", of_library
        is_shared = function.file == NETWORK and function.name.partition(".")[0].removesuffix("_value") in self._shared
        if is_shared or (defined and defined.place.file != NETWORK and defined.unit in {NETWORK, CALLS}):
            return "kernel", NOBODY
        if defined is None and function.file == NETWORK and function.name in self._defined:
            return self._kind_in_network(function.name), self._in_network(self._defined[function.name])
        if defined is None:
            return self._without_source(function)
        if defined.place.file == NETWORK:
            return self._kind_in_network(defined.name), self._in_network(defined.place.line)
        return "support", self._support(defined.unit)

    def _kind_in_network(self, name: str) -> str:
        if name in self._stages:
            return "stage"
        if name.removesuffix("_stage") in self._stages:
            return "probe"
        last = name.rpartition("_")[2]
        return last if last in {"forward", "init", "close"} else "function"

    @cached_property
    def _shared(self) -> frozenset[str]:
        return frozenset(name for code in self.generated.tasks for name in code.shared)

    @cached_property
    def _stages(self) -> frozenset[str]:
        return frozenset(stage.name for code in self.generated.tasks for stage in code.stages)

    def _of_library(self, symbol: Symbol) -> Owner:
        """Return the task of whose stage another compiler has made this function or object: by its file or its name."""
        found = LIBRARY_OF.match(symbol.file or symbol.name)
        return of_task(self._tasks[found[1]]) if found and found[1] in self._tasks else NOBODY

    @cached_property
    def _tasks(self) -> Mapping[str, str]:
        """Return the tasks by the names of their stages."""
        pairs = zip(self.generated.plan.tasks, self.generated.tasks, strict=True)
        return {stage.name: task.name for task, code in pairs if code.indirect for stage in code.stages}

    def _without_source(self, function: Symbol) -> tuple[str, Owner]:
        """Return kind and owner of code that no source of the bundle has."""
        name, unnamed = function.name, function.name.startswith("code at")
        if unnamed and self.analysis.is_padding(function):
            return "padding", NOBODY
        if function.section.startswith(".plt") or (unnamed and self.analysis.is_veneers(function)):
            return "support", of_support(LINKER)
        starts = function.section in {".init", ".fini"} or name in START_NAMES or function.file in START_FILES
        if starts or (unnamed and function.address in self.program.marks):
            return "support", of_support(START)
        if LIBRARY_NAMES.fullmatch(name) or function.file in LIBRARY_FILES:
            return "support", of_support(LIBRARY)
        return "unknown", NOBODY

    def _support(self, unit: str) -> Owner:
        """Return the owner of a source other than network.c: an item if it was generated for it, else support code."""
        if "/" not in unit:
            return Owner(items=frozenset(i.name for i in self.generated.plan.items if unit.startswith(f"{i.name}_")))
        _, folder, *_ = unit.split("/")
        return of_support(f"board program ({unit})" if folder == "program" else f"driver of target {folder} ({unit})")

    @cached_property
    def _owners(self) -> Mapping[str, Owner]:
        """Return the owners of functions and objects by the names that references give."""
        return {each.symbol.name: each.owner for each in self.objects} | self._of_functions

    @cached_property
    def _of_functions(self) -> dict[str, Owner]:
        return {self.analysis.name(function.symbol): function.owner for function in self.functions}

    @cached_property
    def objects(self) -> list[Attributed]:
        """Return the data with a name, in the order of its addresses.

        Data that no source names, such as a copy of an array, belongs to the code and the data that refer to it.
        """
        symbols = {symbol.address: symbol for symbol in reversed(self.program.objects) if symbol.size}
        found = [self._object(symbols[address]) for address in sorted(symbols)]
        owners = {each.symbol.name: each.owner for each in found} | self._of_functions
        return [
            each if each.owner else replace(each, owner=united(owners.get(name, NOBODY) for name in each.used_by))
            for each in found
        ]

    def _object(self, symbol: Symbol) -> Attributed:
        name, defined = symbol.name.partition("@")[0], self.debug.objects.get(symbol.address)
        kind, owner = "data", NOBODY
        if of_library := self._of_library(symbol):
            owner = of_library
        elif symbol.file in {NETWORK, ""} and name in self._named:
            kind, owner = self._named[name]
        elif defined is not None and defined.place.file == NETWORK:
            owner = self._in_network(defined.place.line)
        elif defined is not None and defined.unit != NETWORK:
            owner = self._support(defined.unit)
        elif name in self.program.copied:
            owner = of_support("C library")
        elif name in START_NAMES or symbol.file in START_FILES:
            owner = of_support(START)
        elif LIBRARY_NAMES.fullmatch(name) or symbol.file in LIBRARY_FILES:
            owner = of_support(LIBRARY)
        elif symbol.file in self._by_base and symbol.file != NETWORK:
            owner = self._support(self._by_base[symbol.file])
        users = frozenset(self.references.data.get(symbol.address, ()))
        return Attributed(symbol, kind, owner, defined, used_by=users)

    @cached_property
    def constants(self) -> list[Attributed]:
        """Return all data in the order of its addresses: named objects, and what only addresses name."""
        return sorted(
            [*self.objects, *(piece for section in self._data for piece in self._pieces(section))],
            key=lambda each: each.symbol.address,
        )

    @property
    def _data(self) -> list[Section]:
        return [
            section
            for section in self.program.sections
            if section.content and not section.executable and not _by_tool(section.name)
        ]

    def _pieces(self, section: Section) -> Iterator[Attributed]:
        """Yield the data of a section between named objects, each with the owners of the code that refers to it."""
        users: dict[int, set[str]] = {
            at: set(names) for at, names in self.references.data.items() if section.address <= at < section.end
        }
        named = [each.symbol for each in self.objects if each.symbol.section == section.name]
        spaces = list(_between(section, named))
        for start, end in spaces:
            marks = [*sorted(at for at in users if start <= at < end), end]
            named += [Symbol("", at, stop - at, section.name, "") for at, stop in pairwise(marks)]
        for piece in named:  # tables of distances lead to further data
            for to in references.relative(section, piece):
                users.setdefault(to, set()).update(users.get(piece.address, ()))
        for start, end in spaces:
            marks = sorted({start, end, *(at for at in users if start <= at < end)})
            before: set[str] = set()
            for at, stop in pairwise(marks):
                content = section.content[at - section.address : stop - section.address]
                names = users.get(at, before if at != start else set())
                yield from self._split(at, content, section.name, frozenset(names))
                before = names

    def _split(self, at: int, content: bytes, section: str, users: frozenset[str]) -> Iterator[Attributed]:
        """Yield what an address refers to; of texts only the first, as each further one has an address of its own."""
        end = content.find(b"\0") + 1
        words = content.split(b"\0")
        is_text = bool(words[0]) and set(content) <= PRINTABLE | {0}
        own = content[:end] if is_text and any(len(word) > SHORT for word in words[1:]) else content
        if users or own.strip(b"\0"):
            kind = "text" if is_text else "number"
            symbol = Symbol(f"{kind} at {at:#x}", at, len(own), section, "")
            owner = united(self._owners.get(name, NOBODY) for name in users)
            yield Attributed(symbol, kind, owner, None, named=False, used_by=users)
        rest = content[len(own) :].lstrip(b"\0")
        if rest:
            yield from self._split(at + len(content) - len(rest), rest, section, frozenset())

    # Entries of the document.

    def function_entries(self) -> list[FunctionEntry]:
        """Return the functions for the document."""
        return [self._function_entry(function) for function in self.functions]

    def _function_entry(self, each: Attributed) -> FunctionEntry:
        symbol, place = each.symbol, each.defined.place if each.defined else None
        called = self.references.calls[symbol.address]
        names = sorted(self.analysis.name(to) for at in called if (to := self.analysis.function_at(at)))
        return FunctionEntry(
            name=symbol.name,
            kind=each.kind,
            address=symbol.address,
            size=symbol.size,
            section=symbol.section,
            file=place.file if place else symbol.file or None,
            line=place.line if place else None,
            owner=each.owner.entry(self.order),
            inlined=[
                InlinedEntry(
                    name=one.name, file=one.place.file, line=one.place.line, calls=len(one.calls), size=one.size
                )
                for one in (each.defined.inlined if each.defined else ())
            ],
            calls=[name for name in names if not name.startswith("code at")],
            fused=self.references.fused[symbol.address],
        )

    def constant_entries(self) -> list[ConstantEntry]:
        """Return the data for the document."""
        tables = {table.name: table for table in self.generated.tables}
        return [self._constant_entry(constant, tables.get(constant.symbol.name)) for constant in self.constants]

    def _constant_entry(self, each: Attributed, table: Table | None) -> ConstantEntry:
        symbol, place = each.symbol, each.defined.place if each.defined else None
        table = table if each.kind == "table" else None
        content = self.program.content(symbol.address, symbol.size)
        return ConstantEntry(
            name=symbol.name if each.named else None,
            kind=each.kind,
            address=symbol.address,
            size=symbol.size,
            section=symbol.section,
            file=place.file if place else symbol.file or None,
            line=place.line if place else None,
            owner=each.owner.entry(self.order),
            dtype=table.values.dtype.name if table else None,
            shape=list(table.values.shape) if table else None,
            sha256=_short(content) if content else None,
            expected_sha256=_short(table.content) if table else None,
            origin=_origin(each.kind, table, content),
            used_by=sorted(each.used_by),
        )

    def section_entries(self) -> list[SectionEntry]:
        """Return how many bytes of each section have which owner."""
        spans = [(each.symbol, each.owner) for each in (*self.functions, *self.constants)]
        return [self._section(section, [one for one in spans if one[0].section == section.name])
                for section in self.program.sections if section.size]  # fmt: skip

    def _section(self, section: Section, spans: Sequence[tuple[Symbol, Owner]]) -> SectionEntry:
        count: Counter[str] = Counter()
        edge = section.address
        for symbol, owner in sorted(spans, key=lambda one: (one[0].address, -one[0].size)):
            size = max(symbol.end - max(symbol.address, edge), 0)
            count[_kind(owner)] += size
            if symbol.address > edge:
                count[self._gap(section, edge, symbol.address)] += symbol.address - edge
            edge = max(edge, symbol.end)
        if _by_tool(section.name):
            count, edge = Counter(support=section.size), section.end
        if edge < section.end:
            count[self._gap(section, edge, section.end)] += section.end - edge
        return SectionEntry(
            name=section.name,
            address=section.address,
            size=section.size,
            **{kind: count[kind] for kind in ("nodes", "items", "support", "padding", "unattributed")},
        )

    def _gap(self, section: Section, start: int, end: int) -> str:
        """Return whether bytes without a name are padding: zeros, or instructions that do nothing."""
        if section.executable:
            fills = self.analysis.is_padding(Symbol("", start, end - start, section.name, ""))
            return "padding" if fills else "unattributed"
        content = self.program.content(start, end - start)
        return "padding" if not content.strip(b"\0") else "unattributed"

    def gaps(self) -> list[Gap]:
        """Return code and data without an owner."""
        found = [
            Gap(address=each.symbol.address, size=each.symbol.size, section=each.symbol.section, text=each.symbol.name)
            for each in (*self.functions, *self.constants)
            if not each.owner
        ]
        return sorted(found, key=lambda gap: gap.address)

    def differing(self) -> list[str]:
        """Return the names of tables whose bytes in the program are not those that the model gives, or are missing."""
        held = {constant.symbol.name: constant.symbol for constant in self.constants if constant.kind == "table"}
        return [
            table.name
            for table in self.generated.tables
            if table.name not in held
            or held[table.name].size != table.values.nbytes
            or (not table.computed and self._content(held[table.name]) != table.content)
        ]

    def _content(self, symbol: Symbol) -> bytes:
        return self.program.content(symbol.address, symbol.size)


def _names(generated: codegen.Program) -> dict[str, tuple[str, Owner]]:
    """Return kind and owner of the tables and buffers of network.c by their names."""
    objects = {codegen.ARENA: ("buffer", of_support(SHARED)), "network": ("data", of_support(DESCRIPTORS))}
    network = generated.plan.network
    objects |= {input_array(network, tensor): ("buffer", of_support(INPUT)) for tensor in network.inputs}
    for task, code in zip(generated.plan.tasks, generated.tasks, strict=True):
        objects |= {table.name: ("table", of_task(task.name)) for table in code.tables}
        buffers = [f"{task.name}_output", f"{task.name}_copies"]
        buffers += [stage.name.removesuffix("_merge") for stage in code.stages if stage.part.value == "merge"]
        objects |= dict.fromkeys(buffers, ("buffer", of_task(task.name)))
    return objects


def _between(section: Section, named: Sequence[Symbol]) -> Iterator[tuple[int, int]]:
    """Yield start and end of the bytes between the named objects of a section."""
    edge = section.address
    for symbol in sorted(named, key=lambda each: each.address):
        if symbol.address > edge:
            yield edge, symbol.address
        edge = max(edge, symbol.end)
    if edge < section.end:
        yield edge, section.end


def _by_tool(section: str) -> bool:
    return bool(LOADED.fullmatch(section) or UNWINDING.fullmatch(section))


def _kind(owner: Owner) -> str:
    if owner.tasks:
        return "nodes"
    if owner.items:
        return "items"
    return "support" if owner.support else "unattributed"


def _origin(kind: str, table: Table | None, content: bytes) -> str | None:
    """Return the origin of a table's values, or the start of a text."""
    if table is not None:
        return table.comment or None
    return content[:SHOWN].rstrip(b"\0").decode() if kind == "text" else None


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]
