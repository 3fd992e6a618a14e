"""An object file as it will be in memory: its sections, symbols, and the fields that a linker relocates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from elftools.elf.relocation import RelocationSection

from harness.applications.trace import image, relocations
from harness.applications.trace.image import Symbol
from harness.applications.trace.relocations import Relocation

ALLOCATED, MERGE, STRINGS = 0x2, 0x10, 0x20
UNUSED = (".eh_frame", ".ARM.exidx", ".ARM.extab", ".note")
"""Sections that no instruction of the network reads: tables for exceptions and debuggers."""


@dataclass(frozen=True)
class Field:
    """A relocated field: its offset in a section, its type, and the symbol or section that it refers to.

    `section` and `offset` are the target in the object, without the addend's bias; `section` is None for a function
    elsewhere, whose name is `symbol`.
    """

    at: int
    relocation: Relocation
    section: int | None
    symbol: str
    value: int
    addend: int


@dataclass(frozen=True, eq=False)
class Section:
    """A section of the object in memory, with its symbols by value and its fields."""

    index: int
    name: str
    content: bytes
    flags: int
    has_bytes: bool
    entry_size: int
    symbols: Sequence[Symbol]
    fields: Sequence[Field]

    @property
    def is_merged(self) -> bool:
        """True if the linker may merge its strings or constants with equal ones."""
        return bool(self.flags & MERGE)

    def symbol_at(self, offset: int) -> str:
        """Return the symbol that has a byte, or the section."""
        names = [symbol.name for symbol in self.symbols if symbol.value <= offset < symbol.value + max(symbol.size, 1)]
        return names[-1] if names else self.name

    def entity(self, offset: int) -> bytes:
        """Return the string or constant at an offset of a merged section."""
        if self.flags & STRINGS:
            size = max(self.entry_size, 1)
            end = offset
            while any(self.content[end : end + size]):
                end += size
            return self.content[offset : end + size]
        size = max(self.entry_size, 1)
        return self.content[offset : (offset // size + 1) * size]


class Object:
    """An object file called `name`; RequestError if it has relocations of unknown types."""

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        self.elf = image.opened(content, name)
        self.machine = str(self.elf["e_machine"])
        self._thumb = self.machine == "EM_ARM"
        self.symbols = image.symbols_of(self.elf)
        fields = self._fields()
        self.sections = {
            index: Section(
                index,
                section.name,
                bytes(section["sh_size"]) if section["sh_type"] == "SHT_NOBITS" else bytes(section.data()),
                section["sh_flags"],
                section["sh_type"] != "SHT_NOBITS",
                section["sh_entsize"],
                sorted((s for s in self.placed_symbols() if s.section == index), key=lambda symbol: symbol.value),
                fields.get(index, []),
            )
            for index, section in enumerate(self.elf.iter_sections())
            if section["sh_flags"] & ALLOCATED and section["sh_size"] and not section.name.startswith(UNUSED)
        }

    def placed_symbols(self) -> list[Symbol]:
        """Return the symbols with the address of code in place of the kind of its instructions."""
        return [replace(symbol, value=self.plain_address(symbol.value, symbol.kind)) for symbol in self.symbols]

    def plain_address(self, value: int, kind: str) -> int:
        """Return the value of a symbol without the mark of Thumb code."""
        return value & ~1 if self._thumb and kind == "STT_FUNC" else value

    def _fields(self) -> dict[int, list[Field]]:
        fields: dict[int, list[Field]] = defaultdict(list)
        for table in self.elf.iter_sections():
            if not isinstance(table, RelocationSection):
                continue
            of: Any = self.elf.get_section(table["sh_info"])
            if not of["sh_flags"] & ALLOCATED or of.name.startswith(UNUSED):
                continue
            content = of.data()
            symbols: Any = self.elf.get_section(table["sh_link"])
            for entry in table.iter_relocations():
                if entry["r_info_type"] not in relocations.IGNORED[self.machine]:
                    symbol = symbols.get_symbol(entry["r_info_sym"])
                    fields[table["sh_info"]].append(self._field(entry, symbol, content, f"{self.name}, {of.name}"))
        return fields

    def _field(self, entry: Any, symbol: Any, content: bytes, where: str) -> Field:
        relocation = relocations.of(self.machine, entry["r_info_type"], where)
        at = entry["r_offset"]
        implicit = relocation.addend(content[at : at + relocation.size])
        addend = entry["r_addend"] if entry.is_RELA() else implicit
        section = symbol["st_shndx"] if isinstance(symbol["st_shndx"], int) else None
        return Field(at, relocation, section, symbol.name, symbol["st_value"], addend)
