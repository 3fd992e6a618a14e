"""The object files of IREE: what is checked in them, and the symbols that the board program calls.

An object keeps nothing: it has no variables, so that a dispatch writes only through the pointers that it is given.  The
functions of dispatches are local symbols; they become global ones, so that the program calls each by its name.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from harness.core.errors import ToolError
from harness.targets.machine_code import FUSED, instructions

QUERY = "_library_query"
FUNCTIONS = frozenset({"memcpy", "memmove", "memset", "roundf", "roundevenf", "rintf", "floorf", "ceilf", "truncf"})
"""Functions of the C library whose results follow from their arguments alone, and whose values are exact."""
WRITE, ALLOCATED, EXECUTABLE = 1, 2, 4
SYMBOL_BYTES, GLOBAL_FUNCTION = 24, 0x12
FIRST_GLOBAL = 44  # sh_info of a 64-bit section header


class Object:
    """An object file for one processor; `what` names its layer in messages."""

    def __init__(self, content: bytes, what: str) -> None:
        self.content = content
        self._what = what
        self._elf = ELFFile(io.BytesIO(content))
        found = self._elf.get_section_by_name(".symtab")
        if not isinstance(found, SymbolTableSection):
            raise ToolError(f"IREE's object for {what} has no symbols", "install the pinned version again")
        self._table = found
        self._symbols = list(found.iter_symbols())

    @property
    def library(self) -> str:
        """The name of the library, whose query function is the only global symbol."""
        names = [
            symbol.name for symbol in self._symbols if symbol["st_info"]["bind"] == "STB_GLOBAL" and _is_here(symbol)
        ]
        if len(names) != 1 or not names[0].endswith(QUERY):
            raise ToolError(f"IREE's object for {self._what} defines {', '.join(names)}, not one library", _ADVICE)
        return names[0].removesuffix(QUERY)

    def require_pure(self) -> None:
        """Raise ToolError if the object has variables, or calls other functions than a few of the C library."""
        for section in self._elf.iter_sections():
            flags, size = section["sh_flags"], section["sh_size"]
            if flags & ALLOCATED and flags & WRITE and size and not section.name.startswith(".data.rel.ro"):
                raise ToolError(f"IREE's object for {self._what} has variables, in {section.name}", _ADVICE)
        missing = {symbol.name for symbol in self._symbols if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name}
        if unknown := sorted(missing - FUNCTIONS):
            raise ToolError(f"IREE's object for {self._what} calls {', '.join(unknown)}", _ADVICE)

    def fused(self, functions: Sequence[str]) -> list[str]:
        """Return the instructions that multiply and add with one rounding, in functions and in what they call."""
        machine = self._elf["e_machine"]
        return [
            text
            for section in self._reached(functions)
            for text in instructions(machine, section.data())
            if text.startswith(FUSED)
        ]

    def _reached(self, functions: Sequence[str]) -> Iterator[Section]:
        """Yield the sections of functions and of all local functions that their relocations name."""
        waiting = [self._symbol(name)["st_shndx"] for name in functions]
        seen: set[int] = set()
        while waiting:
            index = waiting.pop()
            if index in seen:
                continue
            seen.add(index)
            section = self._elf.get_section(index)
            if section["sh_flags"] & EXECUTABLE:
                yield section
            for table in self._elf.iter_sections():
                if isinstance(table, RelocationSection) and table["sh_info"] == index:
                    named = (self._symbols[each["r_info_sym"]] for each in table.iter_relocations())
                    waiting.extend(each["st_shndx"] for each in named if _is_here(each))

    def _symbol(self, name: str) -> Any:
        found = [symbol for symbol in self._symbols if symbol.name == name and symbol["st_info"]["type"] == "STT_FUNC"]
        if len(found) != 1:
            raise ToolError(f"IREE's object for {self._what} has no function {name}", _ADVICE)
        return found[0]

    def published(self, functions: Sequence[str]) -> bytes:
        """Return the file with these functions as global symbols, which come last in the table of symbols."""
        content, count = bytearray(self.content), self._table["sh_info"]
        chosen = [self._symbols.index(self._symbol(name)) for name in functions]
        local = [index for index in range(count) if index not in chosen]
        order = [*local, *chosen, *range(count, len(self._symbols))]
        place_of = {index: place for place, index in enumerate(order)}
        start = self._table["sh_offset"]
        entries = [content[start + SYMBOL_BYTES * index :][:SYMBOL_BYTES] for index in order]
        for place in range(len(local), count):
            entries[place][4] = GLOBAL_FUNCTION
        content[start : start + SYMBOL_BYTES * len(order)] = b"".join(entries)
        for number, section in enumerate(self._elf.iter_sections()):
            if isinstance(section, RelocationSection):
                for relocation in range(section["sh_size"] // section["sh_entsize"]):
                    field = section["sh_offset"] + relocation * section["sh_entsize"] + 12
                    [symbol] = struct.unpack_from("<I", content, field)
                    struct.pack_into("<I", content, field, place_of[symbol])
            elif section.name == ".symtab":
                header = self._elf["e_shoff"] + number * self._elf["e_shentsize"]
                struct.pack_into("<I", content, header + FIRST_GLOBAL, len(local))
        return bytes(content)


_ADVICE = "use target c for this layer, or install the pinned version of iree-base-compiler again"


def _is_here(symbol: Any) -> bool:
    return isinstance(symbol["st_shndx"], int)
