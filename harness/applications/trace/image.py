"""A linked application: its symbols, the bytes at its addresses, what its loader writes, and where veneers lead."""

from __future__ import annotations

import io
import struct
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from harness.applications.trace.relocations import signed
from harness.core.errors import RequestError

ALLOCATED = 2
RELATIVE = {"EM_X86_64": {8}, "EM_AARCH64": {1027}, "EM_ARM": {23}}
"""Dynamic relocations by which a loader adds its base to an address."""
NAMED = {"EM_X86_64": {6, 7}, "EM_AARCH64": {1025, 1026}, "EM_ARM": {21, 22}}
"""Dynamic relocations by which a loader writes the address of a symbol: GLOB_DAT, JUMP_SLOT."""
MOST_HOPS = 4
"""Jumps of a veneer that are followed."""


@dataclass(frozen=True)
class Symbol:
    """A defined symbol; of Arm the address of Thumb code has its lowest bit set in `value`."""

    name: str
    value: int
    size: int
    kind: str
    section: int | str
    is_local: bool


@dataclass(frozen=True)
class Dynamic:
    """A relocation of the loader: its type, its symbol, and its addend, None if that is in the bytes."""

    number: int
    symbol: str
    addend: int | None


def opened(content: bytes, name: str) -> ELFFile:
    """Return an ELF file; RequestError if it is none, or not of a little-endian processor."""
    try:
        elf = ELFFile(io.BytesIO(content))
    except ELFError as error:
        raise RequestError(f"cannot read {name}: no ELF file: {error}", "name the linked application") from error
    if not elf.little_endian:
        raise RequestError(f"cannot read {name}: it is big-endian", "boards of harness are little-endian")
    return elf


def symbols_of(elf: ELFFile) -> list[Symbol]:
    """Return the defined and named symbols of a file, without marks of data in Arm code and labels of compilers."""
    sections = (section for section in elf.iter_sections() if isinstance(section, SymbolTableSection))
    tables = (section for section in sections if section.name == ".symtab")
    return [
        Symbol(
            entry.name,
            entry["st_value"],
            entry["st_size"],
            entry["st_info"]["type"],
            entry["st_shndx"],
            entry["st_info"]["bind"] == "STB_LOCAL",
        )
        for table in tables
        for entry in table.iter_symbols()
        if entry.name
        and entry["st_shndx"] != "SHN_UNDEF"
        and entry["st_info"]["type"] not in {"STT_FILE", "STT_SECTION"}
        and not entry.name.startswith(("$", ".L"))
    ]


class Image:
    """A linked application at `path`; RequestError if it is not linked, or has no symbols."""

    def __init__(self, path: Path) -> None:
        try:
            self.content = path.read_bytes()
        except OSError as error:
            raise RequestError(f"cannot read {path}: {error.strerror}", "name the linked application") from error
        self.path = path
        self.elf = opened(self.content, str(path))
        self.machine = str(self.elf["e_machine"])
        if self.elf["e_type"] not in {"ET_EXEC", "ET_DYN"}:
            raise RequestError(f"{path}: not linked", "name the application as it is loaded, not an object or archive")
        self.symbols = symbols_of(self.elf)
        if not self.symbols:
            raise RequestError(
                f"{path}: it has no symbols, so functions and tables cannot be told apart: several have equal bytes",
                "compare it before `strip` and objcopy, and strip a copy: the bytes in memory stay the same",
            )

    @property
    def word_size(self) -> int:
        """The number of bytes that the loader writes at an address."""
        return int(self.elf.elfclass) // 8

    @cached_property
    def by_name(self) -> dict[str, list[Symbol]]:
        """The symbols by their names."""
        symbols_of_name: dict[str, list[Symbol]] = defaultdict(list)
        for symbol in self.symbols:
            symbols_of_name[symbol.name].append(symbol)
        return symbols_of_name

    @cached_property
    def _sections(self) -> list[tuple[int, int, bytes | None, str]]:
        """The sections in memory: begin, end, content (None without bytes in the file), and name."""
        return [
            (section["sh_addr"], section["sh_addr"] + section["sh_size"], _content(section), section.name)
            for section in self.elf.iter_sections()
            if section["sh_flags"] & ALLOCATED
            and section["sh_size"]
            and not section["sh_flags"] & 0x400  # not thread-local
        ]

    def bytes_at(self, address: int, size: int) -> bytes | None:
        """Return the initial bytes of memory; None outside the sections.  Without bytes in the file they are zero."""
        result = b""
        while size:
            holder = next((section for section in self._sections if section[0] <= address < section[1]), None)
            if holder is None:
                return None
            begin, end, content, _ = holder
            count = min(size, end - address)
            result += bytes(count) if content is None else content[address - begin : address - begin + count]
            address, size = address + count, size - count
        return result

    @cached_property
    def dynamic(self) -> dict[int, Dynamic]:
        """The relocations of the loader, by their addresses."""
        relocations = {}
        for section in self.elf.iter_sections():
            if isinstance(section, RelocationSection) and section["sh_flags"] & ALLOCATED:
                table: Any = self.elf.get_section(section["sh_link"])
                for entry in section.iter_relocations():
                    number = entry["r_info_sym"]
                    name = table.get_symbol(number).name if number else ""
                    addend = entry["r_addend"] if section.is_RELA() else None
                    relocations[entry["r_offset"]] = Dynamic(entry["r_info_type"], name, addend)
        return relocations

    def value_at(self, address: int, size: int) -> bytes | None:
        """Return the bytes at an address as the loader leaves them; None if it writes something unknown there."""
        written = self.dynamic.get(address)
        if written is None:
            return self.bytes_at(address, size)
        if written.number not in RELATIVE[self.machine] or size != self.word_size:
            return None
        if written.addend is None:
            return self.bytes_at(address, size)
        return (written.addend & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def destination(self, address: int) -> int | str:
        """Return where code at `address` leads if it is a veneer: an address, or the name of an imported function."""
        for _ in range(MOST_HOPS):
            step = _HOPS[self.machine](self, address)
            if step is None or isinstance(step, str):
                return address if step is None else step
            address = step
        return address

    def word(self, address: int, size: int = 4) -> int:
        """Return a word of memory; 0 outside the sections, which is no jump on any of the processors."""
        return int.from_bytes(self.bytes_at(address, size) or b"", "little")

    def slot(self, address: int) -> int | str | None:
        """Return what a slot of the global offset table has after loading."""
        written = self.dynamic.get(address)
        if written is not None and written.number in NAMED[self.machine] and written.symbol:
            return written.symbol
        value = self.value_at(address, self.word_size)
        return None if value is None else int.from_bytes(value, "little")


def _content(section: Any) -> bytes | None:
    return None if section["sh_type"] == "SHT_NOBITS" else bytes(section.data())


def _x86(image: Image, address: int) -> int | str | None:
    """Follow endbr64, jmp to an address, and jmp through a slot, with or without the prefix bnd."""
    if image.word(address) == 0xFA1E0FF3:
        address += 4
    code = image.bytes_at(address, 7) or bytes(7)
    if code[0] == 0xE9:
        return int(address + 5 + struct.unpack_from("<i", code, 1)[0])
    if code[0] == 0xF2:
        address, code = address + 1, code[1:] + b"\0"
    if code[:2] == b"\xff\x25":
        return image.slot(address + 6 + struct.unpack_from("<i", code, 2)[0])
    return None


def _aarch64(image: Image, address: int) -> int | str | None:
    """Follow b, and a branch by x16 or x17 to a page and an offset in it, a literal, or a slot."""
    first = image.word(address)
    if first == 0xD503245F:  # bti c
        address += 4
        first = image.word(address)
    second, third = image.word(address + 4), image.word(address + 8)
    if first >> 26 == 0b000101:
        return address + 4 * signed(first & 0x3FFFFFF, 26)
    if first & 0x9F00001F == 0x90000010:  # adrp x16
        page = (address >> 12) + signed((first >> 5 & 0x7FFFF) << 2 | first >> 29 & 3, 21) << 12
        if second & 0xFFC003FF == 0x91000210 and third == 0xD61F0200:  # add x16, x16, #n; br x16
            return page + (second >> 10 & 0xFFF)
        if second & 0xFFC003FF == 0xF9400211 and image.word(address + 12) == 0xD61F0220:  # ldr x17; add; br x17
            return image.slot(page + (second >> 10 & 0xFFF) * 8)
    if first == 0x58000050 and second == 0xD61F0200:  # ldr x16, #8; br x16
        return image.slot(address + 8)
    return None


def _arm(image: Image, address: int) -> int | str | None:
    """Follow jumps to a literal and branches, in Thumb code (its lowest bit is set) and in Arm code."""
    if address & 1:
        return _thumb(image, address & ~1)
    word = image.word(address)
    if word == 0xE51FF004:  # ldr pc, [pc, #-4]
        return image.word(address + 4)
    if word == 0xE59FC000 and image.word(address + 4) == 0xE12FFF1C:  # ldr ip, [pc]; bx ip
        return image.word(address + 8)
    if word >> 24 == 0xEA:  # b
        return address + 8 + 4 * signed(word & 0xFFFFFF, 24)
    return None


def _thumb(image: Image, place: int) -> int | None:
    first, second = image.word(place, 2), image.word(place + 2, 2)
    if first == 0x4778 and second in {0x46C0, 0xE7FD}:  # bx pc
        return place + 4
    if first & 0xFF7F == 0xF85F and second & 0xF000 == 0xF000:  # ldr.w pc, [pc, #n]
        offset = second & 0xFFF
        return image.word((place & ~3) + 4 + (offset if first & 0x80 else -offset))
    return None


_HOPS = {"EM_X86_64": _x86, "EM_AARCH64": _aarch64, "EM_ARM": _arm}
