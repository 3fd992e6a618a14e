"""The source line of an address of a bundle's program, for messages."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from harness.boards.profile import Profile
from harness.build.bundle import PROGRAM, recipe_of
from harness.build.codegen import Program
from harness.core.errors import HarnessError

SECTIONS = (".text", ".rodata")


def line_of(program: Program, profile: Profile, built: Path, address: int) -> str:
    """Return `file:line` of an address of the program `built`; empty if it cannot be told.

    The bundle is built once more with debug data.  Its lines hold if the code is the same.
    """
    try:
        with tempfile.TemporaryDirectory() as scratch:
            found = _with_debug_data(program, profile, Path(scratch))
            if _code(found) != _code(built):
                return ""
            with found.open("rb") as file:
                return _line(ELFFile(file).get_dwarf_info(), address)
    except (HarnessError, OSError):
        return ""


def _with_debug_data(program: Program, profile: Profile, folder: Path) -> Path:
    recipe = recipe_of(program, profile)
    recipe.write(folder)
    units = [Path(path) for path in recipe.sources if path.endswith(".c")]
    include = sorted({Path(path).parent for path in recipe.sources if path.startswith("kernels/")})
    definitions = (*recipe.definitions, f'BUNDLE_HASH="{recipe.sha256}"')
    recipe.compiler.build(folder, units, include, definitions, folder / PROGRAM, ("-g",))
    return folder / PROGRAM


def _code(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        elf = ELFFile(file)
        return [section.data() for name in SECTIONS if (section := elf.get_section_by_name(name))]


def _line(information: Any, address: int) -> str:
    for unit in information.iter_CUs():
        program = information.line_program_for_CU(unit)
        rows = sorted(_rows(program), key=lambda row: row[0]) if program else []
        at = bisect_right([row[0] for row in rows], address) - 1
        if 0 <= at < len(rows) - 1 and rows[at][1]:
            return rows[at][1]
    return ""


def _rows(program: Any) -> Iterator[tuple[int, str]]:
    """Yield addresses with their lines; a sequence ends with an empty one."""
    names: Sequence[Any] = program["file_entry"]
    first = 0 if program["version"] >= 5 else 1
    for entry in program.get_entries():
        state = entry.state
        if state is not None:
            name = names[state.file - first].name.decode() if 0 <= state.file - first < len(names) else "?"
            yield state.address, "" if state.end_sequence else f"{name}:{state.line}"
