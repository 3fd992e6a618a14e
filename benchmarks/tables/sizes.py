"""Bytes of a program by kind of section: all that the loader places in memory, and the part of the network's code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.analysis.inspection.program import Program, Section

WRITABLE = (".data", ".tdata", ".got", ".dynamic", ".init_array", ".fini_array")
GENERATED = "network.c"
"""The source file whose symbols are the network: functions, with those of the kernels, tables and buffers."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of machine code, of constants, of initialised and of zeroed variables.

    The program `size` calls the sum of text and constants text.
    """

    text: int
    constants: int
    data: int
    bss: int


def of_program(program: Program) -> Sizes:
    """Return the bytes of all sections in memory; those that the loader relocates and then protects are data."""
    return _sizes((section, section.size) for section in program.sections)


def of_network(program: Program, source: str = GENERATED) -> Sizes:
    """Return the bytes of the symbols of one source file: each byte once, also where symbols overlap."""
    named = {section.name: section for section in program.sections}
    symbols = [s for s in (*program.functions, *program.objects) if s.file == source and s.section in named]
    covered, end = [], 0
    for symbol in sorted(symbols, key=lambda s: (s.address, -s.size)):
        covered.append((named[symbol.section], max(symbol.end - max(symbol.address, end), 0)))
        end = max(end, symbol.end)
    return _sizes(covered)


def _sizes(parts: Iterable[tuple[Section, int]]) -> Sizes:
    totals = {"text": 0, "constants": 0, "data": 0, "bss": 0}
    for section, size in parts:
        totals[_kind(section)] += size
    return Sizes(**totals)


def _kind(section: Section) -> str:
    if section.executable:
        return "text"
    if section.name.startswith((".bss", ".tbss")):
        return "bss"
    return "data" if section.name.startswith(WRITABLE) else "constants"
