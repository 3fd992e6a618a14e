"""ELF programs: sections, symbols by source file, relocations, and the objects at addresses."""

from __future__ import annotations

import bisect
import hashlib
import io
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from harness.core.errors import ToolError

MACHINES = {"EM_X86_64": "x86-64", "EM_AARCH64": "aarch64", "EM_ARM": "thumb"}
BITS = {"thumb": 32}
WRITE, ALLOCATED, EXECUTABLE, THREAD_LOCAL = 1, 2, 4, 0x400
POINTER_BYTES = 8
# Relocation types by machine: the loader stores the address of the image plus the addend.
RELATIVE = {"x86-64": (8, 37), "aarch64": (1027, 1032)}  # *_RELATIVE and *_IRELATIVE
COPY = {"x86-64": 5, "aarch64": 1024}
FUNCTIONS = {"STT_FUNC", "STT_LOOS"}


@dataclass(frozen=True)
class Section:
    """A section that the loader places in memory; `writable` is false where it is read-only after the start."""

    name: str
    address: int
    size: int
    writable: bool
    executable: bool
    thread_local: bool
    alignment: int
    content: bytes

    @property
    def end(self) -> int:
        """Return the first address after it."""
        return self.address + self.size


@dataclass(frozen=True)
class Symbol:
    """A function or an object; `file` is the source file of a local symbol, empty for a global one."""

    name: str
    address: int
    size: int
    section: str
    file: str

    @property
    def end(self) -> int:
        """Return the first address after it."""
        return self.address + self.size


@dataclass(frozen=True)
class Program:
    """A linked program; `pointers` maps addresses of data to the address or the import that the loader stores there."""

    machine: str
    position_independent: bool
    sha256: str
    sections: tuple[Section, ...]
    functions: tuple[Symbol, ...]
    objects: tuple[Symbol, ...]
    thread_locals: tuple[Symbol, ...]
    pointers: Mapping[int, int | str]
    copied: frozenset[str]
    marks: frozenset[int] = field(repr=False)
    """Addresses of symbols without a size: parts of the C start files."""
    exported: frozenset[str] = frozenset()
    """Its functions in the place of libraries' ones, but for those that C++ defines in several places."""
    literals: tuple[tuple[int, int], ...] = ()
    """First and end address of constants between instructions, in the order of addresses; Arm marks them."""

    def section_at(self, address: int) -> Section | None:
        """Return the section, thread-local ones excluded, that holds `address`."""
        return next((s for s in self._placed if s.address <= address < s.end), None)

    @cached_property
    def _placed(self) -> tuple[Section, ...]:
        return tuple(section for section in self.sections if not section.thread_local)

    def object_at(self, address: int) -> Symbol | None:
        """Return the object that holds `address`."""
        return _holder(self._objects, self._object_starts, address)

    @cached_property
    def _objects(self) -> list[Symbol]:
        return sorted((o for o in self.objects if o.size), key=lambda o: (o.address, o.size))

    @cached_property
    def _object_starts(self) -> list[int]:
        return [each.address for each in self._objects]

    @cached_property
    def function_starts(self) -> Mapping[int, Symbol]:
        """Return the functions by their addresses; of several names for one address the first."""
        found: dict[int, Symbol] = {}
        for function in self.functions:
            found.setdefault(function.address, function)
        return found

    def content(self, address: int, size: int) -> bytes:
        """Return bytes of the file that the loader places at `address`; fewer where the section ends."""
        section = self.section_at(address)
        if section is None:
            return b""
        return section.content[address - section.address :][:size]

    def pointers_in(self, start: int, end: int) -> Iterator[tuple[int, int | str]]:
        """Yield the places from `start` to `end` where the program holds an address, with that address."""
        yield from ((place, to) for place, to in self.pointers.items() if start <= place < end)


def _holder(symbols: Sequence[Symbol], starts: Sequence[int], address: int) -> Symbol | None:
    index = bisect.bisect_right(starts, address) - 1
    while index >= 0:
        if address < symbols[index].end:
            return symbols[index]
        if not index or symbols[index - 1].end <= symbols[index].address:
            return None
        index -= 1
    return None


def read(path: Path) -> Program:
    """Read the program; ToolError if it is no ELF program of a known processor or has no symbols."""
    content = path.read_bytes()
    try:
        return _read(content)
    except (ELFError, struct.error, KeyError) as error:
        raise ToolError(f"{path}: cannot be read as an ELF program: {error}", "build the bundle again") from error


def _read(content: bytes) -> Program:
    elf = ELFFile(io.BytesIO(content))
    machine = MACHINES.get(elf["e_machine"])
    if machine is None or elf.elfclass != BITS.get(machine, 64) or not elf.little_endian:
        raise ToolError(
            f"the structure of programs for {elf['e_machine']} cannot be checked",
            f"choose a compiler for {' or '.join(MACHINES.values())}, little-endian",
        )
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        raise ToolError(
            "the program has no symbol table",
            "remove -s and --strip-all from the toolchain's flags; with zig, -Os and -Oz too",
        )
    if any(symbol.name.startswith(("ubsan_rt", "__ubsan_")) for symbol in table.iter_symbols()):
        raise ToolError(
            "the structure of a program with the compiler's run-time checks (UBSan) cannot be checked",
            "set -O1, -O2 or -O3 in the profile's toolchain",
        )
    if elf.get_section_by_name(".interp") is None and machine != "thumb":
        raise ToolError(
            "the structure of a statically linked program cannot be checked: it holds the C library's variables",
            "remove static and -static from the profile's toolchain, and name a compiler for the board's glibc",
        )
    sections = _sections(elf)
    names = {index: section.name for index, section in enumerate(elf.iter_sections())}
    symbols = _symbols(table, names, thumb=machine == "thumb")
    pointers, copied = _relocations(elf, machine)
    if elf["e_type"] == "ET_EXEC" and machine != "thumb":
        pointers = _words(sections) | pointers
    return Program(
        machine,
        elf["e_type"] == "ET_DYN",
        hashlib.sha256(content).hexdigest(),
        sections,
        tuple(symbol for kind, symbol in symbols if kind in FUNCTIONS and symbol.size),
        tuple(symbol for kind, symbol in symbols if kind in {"STT_OBJECT", "STT_COMMON"}),
        tuple(symbol for kind, symbol in symbols if kind == "STT_TLS" and symbol.size),
        pointers,
        copied,
        frozenset(symbol.address for _, symbol in symbols if not symbol.size),
        _exported(elf),
        _literals(table, sections) if machine == "thumb" else (),
    )


def _sections(elf: ELFFile) -> tuple[Section, ...]:
    """Return the sections in memory; those of PT_GNU_RELRO are read-only once the loader is done."""
    relro = [
        (segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"])
        for segment in elf.iter_segments()
        if segment["p_type"] == "PT_GNU_RELRO"
    ]
    found = []
    for section in elf.iter_sections():
        flags, start, size = section["sh_flags"], section["sh_addr"], section["sh_size"]
        if not flags & ALLOCATED:
            continue
        thread_local = bool(flags & THREAD_LOCAL)
        fixed = not thread_local and any(low <= start and start + size <= high for low, high in relro)
        found.append(
            Section(
                section.name,
                start,
                size,
                bool(flags & WRITE) and not fixed,
                bool(flags & EXECUTABLE),
                thread_local,
                section["sh_addralign"] or 1,
                b"" if section["sh_type"] == "SHT_NOBITS" else section.data(),
            )
        )
    return tuple(found)


def _symbols(table: SymbolTableSection, names: Mapping[int, str], *, thumb: bool) -> list[tuple[str, Symbol]]:
    """Return all defined symbols with their types; those of files, sections and the linker's marks excluded."""
    file, found = "", []
    for symbol in table.iter_symbols():
        kind, section = symbol["st_info"]["type"], symbol["st_shndx"]
        local = symbol["st_info"]["bind"] == "STB_LOCAL"
        if kind == "STT_FILE":
            file = symbol.name
        elif isinstance(section, int) and kind != "STT_SECTION" and not re.match(r"\$[a-z]", symbol.name):
            # The lowest bit of a function's address marks Thumb code.
            address = symbol["st_value"] & ~(thumb and kind in FUNCTIONS)
            found.append((kind, Symbol(symbol.name, address, symbol["st_size"], names[section], file if local else "")))
    return found


def _literals(table: SymbolTableSection, sections: Sequence[Section]) -> tuple[tuple[int, int], ...]:
    """Return the constants between instructions, which the symbols $d to $t enclose; ToolError for code in A32, $a."""
    code = [section for section in sections if section.executable]
    marks = [(symbol["st_value"], symbol.name[:2]) for symbol in table.iter_symbols() if symbol.name[:1] == "$"]
    places = sorted(mark for mark in marks if any(section.address <= mark[0] < section.end for section in code))
    if any(mark == "$a" for _, mark in places):
        raise ToolError("the instructions of A32 are not followed", "choose a processor with Thumb-2 alone: Cortex-M")
    following = [*(address for address, _ in places[1:]), max(section.end for section in code)]
    return tuple((start, stop) for (start, mark), stop in zip(places, following, strict=True) if mark == "$d")


def _exported(elf: ELFFile) -> frozenset[str]:
    table = elf.get_section_by_name(".dynsym")
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    return frozenset(
        symbol.name
        for symbol in symbols
        if symbol["st_info"]["type"] in FUNCTIONS
        and symbol["st_info"]["bind"] == "STB_GLOBAL"
        and isinstance(symbol["st_shndx"], int)
    )


def _relocations(elf: ELFFile, machine: str) -> tuple[dict[int, int | str], frozenset[str]]:
    """Return the values that the loader stores by address, and the names of the objects that it copies."""
    pointers: dict[int, int | str] = {}
    copied: set[str] = set()
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection) or not section["sh_flags"] & ALLOCATED:
            continue
        symbols: Any = elf.get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            kind, place = relocation["r_info_type"], relocation["r_offset"]
            if kind in RELATIVE[machine]:
                pointers[place] = relocation["r_addend"]
                continue
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            if kind == COPY[machine]:
                copied.add(symbol.name)
            elif isinstance(symbol["st_shndx"], int):
                pointers[place] = symbol["st_value"] + relocation["r_addend"]
            else:
                pointers[place] = symbol.name
    return pointers, frozenset(copied)


def _words(sections: Sequence[Section]) -> dict[int, int | str]:
    """Return the words of data that are addresses of the program, which is not relocated."""
    low, high = min(s.address for s in sections if s.address), max(s.end for s in sections)
    found: dict[int, int | str] = {}
    for section in sections:
        if (
            section.executable
            or section.thread_local
            or not section.name.startswith((".data", ".got", ".init_array", ".fini_array"))
        ):
            continue
        whole = len(section.content) // POINTER_BYTES * POINTER_BYTES
        for index, (word,) in enumerate(struct.iter_unpack("<Q", section.content[:whole])):
            if low <= word < high:
                found[section.address + POINTER_BYTES * index] = word
    return found
