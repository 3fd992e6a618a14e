"""The debug data (DWARF) of a program: the source line of each function, object and instruction, and inlined calls."""

from __future__ import annotations

import bisect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from elftools.dwarf.ranges import BaseAddressEntry as RangesBase
from elftools.elf.elffile import ELFFile

from harness.core.errors import ToolError

STATIC_ADDRESS = 0x03  # DW_OP_addr
STACK_VALUES = "exprloc"


class Place(NamedTuple):
    """A line of a source: its path in the bundle, or an absolute path, and the line's number from 1."""

    file: str
    line: int

    @property
    def text(self) -> str:
        """Return it as compilers write it."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Inlined:
    """A function whose code is part of another: where it is defined, and for each call its place and its code."""

    name: str
    place: Place
    calls: tuple[tuple[Place, tuple[tuple[int, int], ...]], ...]

    @property
    def size(self) -> int:
        """Return the bytes of its code in all calls."""
        return sum(end - start for _, ranges in self.calls for start, end in ranges)


@dataclass(frozen=True)
class Defined:
    """A function or an object of a source: `unit` is the path of the .c file that was compiled."""

    name: str
    unit: str
    place: Place
    inlined: tuple[Inlined, ...] = ()


@dataclass(frozen=True)
class DebugData:
    """Functions and objects by their addresses, and (address, end, place) of the code of each line in order."""

    functions: Mapping[int, Defined]
    objects: Mapping[int, Defined]
    lines: Sequence[tuple[int, int, Place]]

    def place_at(self, address: int) -> Place | None:
        """Return the line of the instruction at `address`."""
        index = bisect.bisect_right(self._starts, address) - 1
        return self.lines[index][2] if index >= 0 and address < self.lines[index][1] else None

    def inlined_at(self, function: int, address: int) -> list[tuple[Inlined, Place]]:
        """Return the functions that are inlined at an address of a function, the outer first, each with its call."""
        defined = self.functions.get(function)
        found = [
            (sum(end - start for start, end in ranges), one, called)
            for one in (defined.inlined if defined else ())
            for called, ranges in one.calls
            if any(start <= address < end for start, end in ranges)
        ]
        return [(one, called) for _, one, called in sorted(found, key=lambda each: -each[0])]

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _, _ in self.lines]


def read(path: Path) -> DebugData:
    """Read the debug data of a program; ToolError if it has none."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        if not elf.has_dwarf_info():
            raise ToolError(f"{path}: the program has no debug data", "name a compiler that understands -g")
        dwarf = elf.get_dwarf_info()
        functions: dict[int, Defined] = {}
        objects: dict[int, Defined] = {}
        lines: list[tuple[int, int, Place]] = []
        for unit in dwarf.iter_CUs():
            found = _Unit(dwarf, unit)
            lines += found.lines()
            for address, function in found.functions():
                functions.setdefault(address, function)
            for address, item in found.objects():
                objects.setdefault(address, item)
    return DebugData(functions, objects, sorted(lines))


UNNAMED = "-"
LIBRARY_OF = re.compile(r"(\w+?)_(?:dispatch_\d+|linked)")
"""The name of a library of IREE or of a function in it, after the stage that it computes."""


class _Unit:
    """One compiled source."""

    def __init__(self, dwarf: Any, unit: Any) -> None:
        self.dwarf, self.unit, self.top = dwarf, unit, unit.get_top_DIE()
        self.program = dwarf.line_program_for_CU(unit)
        self.base = self.top.attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in self.top.attributes else 0
        self.name = _path("", _text(self.top, "DW_AT_name"))
        self.files = self._files()
        if self.name == UNNAMED:
            self.name = self._module()
            self.files = dict.fromkeys(self.files, self.name)

    def _module(self) -> str:
        """Return the source of a unit of IREE, which has the lines of one module and does not name it."""
        names = (_text(entry, "DW_AT_name") for entry in self.unit.iter_DIEs() if entry.tag == "DW_TAG_subprogram")
        found = next(filter(None, map(LIBRARY_OF.match, names)), None)
        return f"iree/{found[1]}.mlir" if found else UNNAMED

    def _files(self) -> dict[int, str]:
        if self.program is None:
            return {}
        header = self.program.header
        first = 0 if header.version >= 5 else 1
        folders = [_decoded(each) for each in header.include_directory]
        if first:
            folders.insert(0, "")
        elif folders:
            folders[0] = ""  # the folder in which the compiler was started: the bundle
        return {
            number: _path(folders[entry.dir_index] if entry.dir_index < len(folders) else "", _decoded(entry.name))
            for number, entry in enumerate(header.file_entry, first)
        }

    def lines(self) -> Iterator[tuple[int, int, Place]]:
        """Yield the code of each line."""
        before = None
        for entry in self.program.get_entries() if self.program else ():
            state = entry.state
            if state is None:
                continue
            if before is not None and state.address > before[0]:
                yield before[0], state.address, before[1]
            place = Place(self.files.get(state.file, "?"), state.line)
            before = None if state.end_sequence else (state.address, place)

    def functions(self) -> Iterator[tuple[int, Defined]]:
        """Yield the functions that have code, with what is inlined into them."""
        for entry in self.unit.iter_DIEs():
            if entry.tag == "DW_TAG_subprogram":
                ranges = list(self._ranges(entry))
                if ranges:
                    made = Defined(self._name(entry), self.name, self._place(entry), tuple(self._inlined(entry)))
                    for start, _ in ranges:
                        yield start, made

    def objects(self) -> Iterator[tuple[int, Defined]]:
        """Yield the variables and constants with an address of their own."""
        for entry in self.unit.iter_DIEs():
            location = entry.attributes.get("DW_AT_location") if entry.tag == "DW_TAG_variable" else None
            if location is not None and location.form == "DW_FORM_exprloc" and location.value[:1] == [STATIC_ADDRESS]:
                address = int.from_bytes(bytes(location.value[1:]), "little")
                yield address, Defined(self._name(entry), self.name, self._place(entry))

    def _inlined(self, function: Any) -> Iterator[Inlined]:
        """Yield what is inlined, each function once."""
        found: dict[tuple[str, Place], list[Any]] = {}
        todo = list(function.iter_children())
        while todo:
            entry = todo.pop(0)
            if entry.tag == "DW_TAG_inlined_subroutine":
                called = Place(
                    self.files.get(_number(entry, "DW_AT_call_file"), "?"), _number(entry, "DW_AT_call_line")
                )
                found.setdefault((self._name(entry), self._place(entry)), []).append(
                    (called, tuple(self._ranges(entry)))
                )
            if entry.tag in {"DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"}:
                todo += entry.iter_children()
        for (name, place), calls in found.items():
            yield Inlined(name, place, tuple(calls))

    def _origin(self, entry: Any) -> Any:
        """Return the entry that has the name, of code that was inlined or copied."""
        for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
            while link in entry.attributes and "DW_AT_decl_line" not in entry.attributes:
                entry = entry.get_DIE_from_attribute(link)
        return entry

    def _name(self, entry: Any) -> str:
        return _text(self._origin(entry), "DW_AT_name") or _text(entry, "DW_AT_name")

    def _place(self, entry: Any) -> Place:
        origin = self._origin(entry)
        return Place(self.files.get(_number(origin, "DW_AT_decl_file"), "?"), _number(origin, "DW_AT_decl_line"))

    def _ranges(self, entry: Any) -> Iterator[tuple[int, int]]:
        """Yield start and end of the pieces of the entry's code."""
        attributes = entry.attributes
        if "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
            start, end = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
            yield start, end.value if end.form == "DW_FORM_addr" else start + end.value
        elif "DW_AT_ranges" in attributes:
            base = self.base
            at, lists = attributes["DW_AT_ranges"].value, self.dwarf.range_lists()
            for each in lists.get_range_list_at_offset(at, cu=self.unit):
                if isinstance(each, RangesBase):
                    base = each.base_address
                else:
                    offset = 0 if getattr(each, "is_absolute", False) else base
                    yield each.begin_offset + offset, each.end_offset + offset


def _number(entry: Any, name: str) -> int:
    found = entry.attributes.get(name)
    return int(found.value) if found is not None else 0


def _text(entry: Any, name: str) -> str:
    found = entry.attributes.get(name)
    return _decoded(found.value) if found is not None else ""


def _decoded(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def _path(folder: str, name: str) -> str:
    return os.path.normpath(Path(folder) / name).removeprefix("bundle/")
