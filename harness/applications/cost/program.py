"""Sizes of a built program: its sections, and the functions of each task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from harness.core.errors import ToolError


@dataclass(frozen=True)
class Sizes:
    """Bytes of the sections that a program stores and writes, and of the functions of each task by its name."""

    stored: int
    written: int
    functions: dict[str, int]


def sizes(path: Path, tasks: Sequence[str]) -> Sizes:
    """Return the sizes of an ELF program; ToolError if it cannot be read.

    A function belongs to the task with the longest name that its own begins with: `dense_1_accumulate` to `dense_1`.
    Initial values of data that the program writes count as stored and as written.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            sections = [section for section in elf.iter_sections() if section["sh_flags"] & SH_FLAGS.SHF_ALLOC]
            stored = sum(section["sh_size"] for section in sections if section["sh_type"] != "SHT_NOBITS")
            written = sum(section["sh_size"] for section in sections if section["sh_flags"] & SH_FLAGS.SHF_WRITE)
            functions = _functions(elf)
    except (OSError, ELFError) as error:
        raise ToolError(f"cannot read {path}: {error}", "build the program again: --build") from error
    return Sizes(stored, written, _by_task(functions, tasks))


def _functions(elf: ELFFile) -> set[tuple[str, int, int]]:
    """Return name, address and size of all functions; aliases of one address are several."""
    tables = (section for section in elf.iter_sections() if isinstance(section, SymbolTableSection))
    symbols = (symbol for table in tables for symbol in table.iter_symbols())
    return {(s.name, s["st_value"], s["st_size"]) for s in symbols if s["st_info"]["type"] == "STT_FUNC"}


def _by_task(functions: Iterable[tuple[str, int, int]], tasks: Sequence[str]) -> dict[str, int]:
    total = dict.fromkeys(tasks, 0)
    known: set[int] = set()
    for name, address, size in sorted(functions):
        owner = max((task for task in tasks if name.startswith(f"{task}_")), key=len, default=None)
        if owner is not None and address not in known:
            known.add(address)
            total[owner] += size
    return total
