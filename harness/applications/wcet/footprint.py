"""The memory that a layer accesses, compared with the plan: the second source of its loop bounds.

The bounds of loops follow from the machine code.  The plan knows the sizes of all tensors and tables: a layer writes
every byte of its output and no other buffer, reads its sources inside them, and reads every table that it reads from
the first to the last byte.  With one iteration more or less, a loop would miss the end of one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.analysis.inspection.program import Program
from harness.applications.wcet.execution import Accessed, Execution
from harness.applications.wcet.state import STACK_BYTES, STACK_TOP
from harness.build import codegen
from harness.build.codegen import ARENA
from harness.operators.base import Layer
from harness.targets.generated import Table

LINKER_SECTIONS = (".got", ".got.plt")
FILLED_UP = "c:vector"
"""The variant whose tables are filled up to whole panels, which it need not read to their ends."""


@dataclass(frozen=True)
class Extent:
    """The bytes of an object from `start` to `end` that a layer reads or writes, and instructions at its ends."""

    name: str
    write: bool
    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True)
class Disagreement:
    """Statement of the plan that the machine code contradicts: in words, with the address of an instruction.

    `table` is a constant that the code does not read from end to end, because a compiler put some of its values into
    instructions.  gcc does so for iterations that it moves before a loop; the code then still reads the last byte of
    the table: `reaches_end`.
    """

    words: str
    address: int
    table: str = ""
    reaches_end: bool = False


@dataclass(frozen=True)
class _Planned:
    """Bytes at an address that a layer may access; `whole` if it accesses all, `written` if it may write.

    `unneeded` are bytes at the start and at the end that it need not access.
    """

    name: str
    address: int
    size: int
    whole: bool
    written: bool
    unneeded: tuple[int, int] = (0, 0)


def extents(generated: codegen.Program, index: int, execution: Execution, program: Program) -> tuple[Extent, ...]:
    """Return what the layer of a task accesses of the objects that the plan gives it."""
    return tuple(found for _, _, found in _found(generated, index, execution, program) if found is not None)


def disagreements(
    generated: codegen.Program, index: int, execution: Execution, program: Program
) -> Iterator[Disagreement]:
    """Yield where the layer of a task, the one with this index, does not access what the plan says."""
    yield from _unplanned(generated, index, execution, program)
    for planned, write, extent in _found(generated, index, execution, program):
        if extent is None:
            if planned.whole and planned.written and write:
                yield Disagreement(f"never writes {planned.name}", execution.root.function)
        elif planned.whole and extent.write is planned.written and not _covers(extent, planned):
            yield _partial(planned, extent)


def _unplanned(
    generated: codegen.Program, index: int, execution: Execution, program: Program
) -> Iterator[Disagreement]:
    """Yield accesses of objects of the program that are none of the task's, and of places without any object."""
    planned, places = _planned(generated, index, program), _places(generated, program)
    stored = [storage for storage in generated.storage if storage.name in places]
    known = [_Planned(storage.name, places[storage.name], storage.size, False, False) for storage in stored]
    for access in execution.recorded.accessed:
        if any(_inside(access, part) for part in planned):
            continue
        is_stored = any(_touches(access, part) for part in known)
        if not is_stored and _may_access(access, program):
            continue
        before = [part for part in planned if part.address <= _start(access)]
        near = max(before, key=lambda part: part.address, default=None)
        where = f", {_start(access) - near.address:,} bytes behind the start of {near.name}" if near else ""
        does = "writes" if access.write else "reads"
        yield Disagreement(f"{does} {access.size} bytes at {_start(access):#x}{where}", access.site)


def _partial(planned: _Planned, extent: Extent) -> Disagreement:
    """Return the disagreement of a task that accesses a part of an object, all of which it should."""
    does = "writes" if extent.write else "reads"
    missed = extent.last if extent.end < planned.size else extent.first
    return Disagreement(
        f"{does} the bytes {extent.start:,} to {extent.end - 1:,} of {planned.name}, which has {planned.size:,}",
        missed,
        "" if planned.written else planned.name,
        extent.end >= planned.size - planned.unneeded[1],
    )


def _covers(found: Extent, of: _Planned) -> bool:
    """Return whether all bytes are accessed but those that no window of a convolution needs."""
    return found.start <= of.unneeded[0] and found.end >= of.size - of.unneeded[1]


def _may_access(access: Accessed, program: Program) -> bool:
    """Return whether a layer may access what is no object of the plan: its stack, constants, addresses of functions."""
    start = _start(access)
    if start >= STACK_TOP - STACK_BYTES:
        return start + access.size <= STACK_TOP
    section = program.section_at(start)
    if access.write or section is None:
        return False
    constant = not section.writable or section.name in LINKER_SECTIONS
    return constant and start + access.size <= section.end


def _found(
    generated: codegen.Program, index: int, execution: Execution, program: Program
) -> Iterator[tuple[_Planned, bool, Extent | None]]:
    for each in _planned(generated, index, program):
        for write in (True, False) if each.written else (False,):
            inside = [a for a in execution.recorded.accessed if a.write is write and _inside(a, each)]
            yield each, write, _extent(each, inside, write=write)


def _extent(of: _Planned, accesses: list[Accessed], *, write: bool) -> Extent | None:
    if not accesses:
        return None
    first = min(accesses, key=_start)
    last = max(accesses, key=lambda each: _start(each) + each.size)
    start, end = _start(first) - of.address, _start(last) + last.size - of.address
    return Extent(of.name, write, start, end, first.site, last.site)


def _start(access: Accessed) -> int:
    return access.start if isinstance(access.start, int) else 0


def _inside(access: Accessed, of: _Planned) -> bool:
    start = _start(access)
    return of.address <= start and start + access.size <= of.address + of.size


def _touches(access: Accessed, of: _Planned) -> bool:
    start = _start(access)
    return start < of.address + of.size and of.address < start + access.size


def _planned(generated: codegen.Program, index: int, program: Program) -> tuple[_Planned, ...]:
    """Return the objects of a task: its tables, its sources and its output, the latter two for the first vector."""
    plan, forward = generated.plan, generated.forwards[index]
    places = _places(generated, program)
    task = plan.tasks[index]
    part = plan.part(task)
    exact = plan.items[task.item].target != FILLED_UP
    found = [
        _Planned(table.name, places[table.name], table.values.nbytes, exact, False, _unneeded(part, table))
        for table in generated.tasks[index].tables
        if table.name in places
    ]
    sizes = {code_name: size for code_name, size in _vector_sizes(generated).items() if code_name in places}
    written = {*(buffers[-1] for _, buffers in forward.merges), *(buffers[-1] for _, buffers in forward.stages[-1:])}
    named = {name for _, buffers in (*forward.merges, *forward.stages) for name in buffers if name}
    named |= {name for name in sizes if f"{task.name}_forward" in _users(generated)[name]}
    for name in sorted(named & sizes.keys()):
        whole = name in written
        size = part.size * part.dtype.itemsize if whole and name == forward.stages[-1][1][-1] else sizes[name]
        found.append(_Planned(name, places[name], size, whole=whole, written=whole))
    return tuple(found)


def _unneeded(part: Layer, table: Table) -> tuple[int, int]:
    """Return the bytes at the begin and the end of weights that all windows have outside the image."""
    window = getattr(part, "window", None)
    if window is None or not table.name.endswith("_weights"):
        return 0, 0
    [needed] = np.nonzero(window.inside().any(axis=0))
    taps = window.size
    return int(needed[0]) * table.values.itemsize, int(taps - 1 - needed[-1]) * table.values.itemsize


def _users(generated: codegen.Program) -> Mapping[str, frozenset[str]]:
    return {each.name: each.users for each in generated.storage}


def _vector_sizes(generated: codegen.Program) -> Mapping[str, int]:
    """Return the bytes of a vector of each buffer."""
    plan = generated.plan
    tables = {table.name for table in generated.tables}
    copies = {f"{task.name}_copies": task.buffers for task in plan.tasks}
    return {
        each.name: each.size // plan.block // copies.get(each.name, 1)
        for each in generated.storage
        if each.name not in tables and each.name != ARENA
    }


def _places(generated: codegen.Program, program: Program) -> Mapping[str, int]:
    """Return the address of each buffer and table that the program has."""
    symbols = {each.name.partition("@")[0]: each.address for each in program.objects if each.file in {"network.c", ""}}
    arena = symbols.get(ARENA, 0)
    own = {each.name: symbols[each.name] for each in generated.storage if each.name in symbols}
    return own | {each.name: arena + each.offset for each in generated.storage if each.offset is not None}
