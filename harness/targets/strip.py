"""Remove debug data from linked programs: it names folders, and the linker of zig removes it with all symbols only."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

LINKED = {"ET_EXEC", "ET_DYN"}
ALLOCATED = 2
SECTION_HEADER_OFFSET = 0x28  # e_shoff of a 64-bit ELF header
CONTENT_OFFSET, CONTENT_SIZE = 24, 32  # sh_offset and sh_size of a 64-bit section header
SYMBOL_BYTES, SYMBOL_SECTION, SYMBOL_VALUE = 24, 6, 8  # size, st_shndx and st_value of a 64-bit symbol


def debug_data(path: Path) -> None:
    """Empty the debug sections of a linked 64-bit ELF file; leave any other file as it is."""
    content = path.read_bytes() if path.is_file() else b""
    try:
        elf = ELFFile(io.BytesIO(content))
    except ELFError:
        return
    if elf.elfclass == 64 and elf["e_type"] in LINKED and elf.has_dwarf_info():
        path.write_bytes(_stripped(elf, content))


def _stripped(elf: ELFFile, content: bytes) -> bytes:
    """Return the file with what is not loaded written again behind the rest; symbols keep their section numbers."""
    order = "<" if elf.little_endian else ">"
    sections = list(enumerate(elf.iter_sections()))
    kept = [(i, s) for i, s in sections if not s["sh_flags"] & ALLOCATED and s["sh_type"] != "SHT_NULL"]
    emptied = {index for index, section in kept if section.name.startswith(".debug")}
    result = bytearray(content[: min(section["sh_offset"] for _, section in kept)])
    table = bytearray(content[elf["e_shoff"] :][: elf["e_shentsize"] * elf["e_shnum"]])
    for index, section in kept:
        data = b"" if index in emptied else section.data()
        if section["sh_type"] == "SHT_SYMTAB":
            data = _without_positions(data, emptied, order)
        if index == elf["e_shstrndx"]:
            data = re.sub(rb"\.debug\w+", lambda name: bytes(len(name[0])), data)
        result += bytes(-len(result) % max(section["sh_addralign"], 1))
        header = index * elf["e_shentsize"]
        struct.pack_into(f"{order}Q", table, header + CONTENT_OFFSET, len(result))
        struct.pack_into(f"{order}Q", table, header + CONTENT_SIZE, len(data))
        result += data
    result += bytes(-len(result) % 8)
    struct.pack_into(f"{order}Q", result, SECTION_HEADER_OFFSET, len(result))
    return bytes(result + table)


def _without_positions(symbols: bytes, emptied: set[int], order: str) -> bytes:
    """Return a symbol table in which symbols of emptied sections have the value 0.

    An Arm assembler marks data by symbols, also in debug sections, and their values depend on the lengths of the names
    of folders there.
    """
    result = bytearray(symbols)
    for start in range(0, len(symbols), SYMBOL_BYTES):
        if struct.unpack_from(f"{order}H", symbols, start + SYMBOL_SECTION)[0] in emptied:
            struct.pack_into(f"{order}Q", result, start + SYMBOL_VALUE, 0)
    return bytes(result)
