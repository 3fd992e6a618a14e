"""ELF objects of a library: their bytes in memory, a symbol under another name, and the archive that holds them."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

WRITABLE, ALLOCATED, EXECUTABLE = 1, 2, 4  # flags of sections
SECTION_HEADERS = {32: ("I", 16, 20), 64: ("Q", 24, 32)}
"""Format of an offset, and places of sh_offset and sh_size in a header of a section, by the class of the file."""
MAGIC = b"!<arch>\n"


@dataclass(frozen=True)
class Sizes:
    """Bytes of an object in memory; constants that a loader relocates are constants."""

    code: int
    constants: int
    ram: int


def sizes(content: bytes) -> Sizes:
    """Return the bytes that the sections of an object take in memory, without tables for exceptions."""
    code = constants = ram = 0
    for section in ELFFile(io.BytesIO(content)).iter_sections():
        flags, size = section["sh_flags"], section["sh_size"]
        if not flags & ALLOCATED or section.name.startswith((".eh_frame", ".ARM.ex")):
            continue
        if flags & EXECUTABLE:
            code += size
        elif flags & WRITABLE and not section.name.startswith(".data.rel.ro"):
            ram += size
        else:
            constants += size
    return Sizes(code, constants, ram)


def renamed(content: bytes, symbol: str, name: str) -> bytes:
    """Return an object with a global symbol under another name; no section but the table of names changes.

    The new table of names is behind the rest of the file.
    """
    elf = ELFFile(io.BytesIO(content))
    table: Any = elf.get_section_by_name(".symtab")
    names = elf.get_section(table["sh_link"])
    number = next(index for index, own in enumerate(table.iter_symbols()) if own.name == symbol)
    order = "<" if elf.little_endian else ">"
    word, offset_at, size_at = SECTION_HEADERS[elf.elfclass]
    text = names.data() + name.encode() + b"\0"
    result = bytearray(content) + bytes(-len(content) % 8)
    header = elf["e_shoff"] + table["sh_link"] * elf["e_shentsize"]
    struct.pack_into(f"{order}{word}", result, header + offset_at, len(result))
    struct.pack_into(f"{order}{word}", result, header + size_at, len(text))
    entry = table["sh_offset"] + number * table["sh_entsize"]
    struct.pack_into(f"{order}I", result, entry, len(names.data()))
    return bytes(result) + text


def archive(members: Mapping[str, bytes]) -> bytes:
    """Return a static library in the System V format, without dates and owners, with its index of symbols."""
    defined = {name: _defined(content) for name, content in members.items()}
    symbols = [symbol for of_member in defined.values() for symbol in of_member]
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    index_size = 4 + 4 * len(symbols) + len(names)
    at = len(MAGIC) + 60 + index_size + index_size % 2
    offsets = []
    parts = []
    for name, content in members.items():
        offsets += [at] * len(defined[name])
        parts.append(_member(f"{name}/", content))
        at += len(parts[-1])
    index = struct.pack(f">{1 + len(offsets)}I", len(offsets), *offsets) + names
    return MAGIC + _member("/", index) + b"".join(parts)


def _member(name: str, content: bytes) -> bytes:
    if len(name) > 16:
        raise ValueError(f"the name {name} of a member has more than 16 characters")
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(content):<10}`\n"
    return header.encode() + content + b"\n" * (len(content) % 2)


def _defined(content: bytes) -> list[str]:
    """Return the global symbols that an object defines."""
    tables = (
        section for section in ELFFile(io.BytesIO(content)).iter_sections() if isinstance(section, SymbolTableSection)
    )
    return [
        symbol.name
        for table in tables
        for symbol in table.iter_symbols()
        if symbol["st_info"]["bind"] in {"STB_GLOBAL", "STB_WEAK"} and symbol["st_shndx"] != "SHN_UNDEF"
    ]
