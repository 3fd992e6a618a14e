"""The calls between functions of a program, and the addresses of data that each function and object refers to.

Instructions are read in the order of their addresses; a register keeps the page of an address until another instruction
writes it.  This finds more than `flow`, which follows only code that it can reach, and knows less about each value.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.analysis.inspection.flow import Analysis
from harness.analysis.inspection.instructions import Access, Address, Instruction, Load, Number, Operation, Sum
from harness.analysis.inspection.program import Section, Symbol
from harness.targets.machine_code import FUSED


@dataclass(frozen=True)
class References:
    """Functions that each function calls or takes the address of, and its fused instructions, by its address.

    `data` gives for each address of data the names of the functions, and of the objects, that refer to it.
    """

    calls: Mapping[int, AbstractSet[int]]
    fused: Mapping[int, int]
    data: Mapping[int, AbstractSet[str]]


def read(analysis: Analysis) -> References:
    """Return all references of a program; functions have the names of `analysis`."""
    program = analysis.program
    calls: dict[int, set[int]] = {}
    fused: dict[int, int] = {}
    data: defaultdict[int, set[str]] = defaultdict(set)
    for function in analysis.functions:
        called = calls[function.address] = set()
        instructions = list(analysis.decoded(function).values())
        fused[function.address] = sum(instruction.text.startswith(FUSED) for instruction in instructions)
        for to in _targets(instructions, absolute=not program.position_independent):
            callee = analysis.function_holding(to)
            if callee is None:
                data[to].add(analysis.name(function))
            elif callee is not function:
                called.add(callee.address)
    for place, pointer in program.pointers.items():
        holder = program.object_at(place)
        if isinstance(pointer, int) and holder is not None:
            data[pointer].add(holder.name)
    return References(calls, fused, data)


def _targets(instructions: list[Instruction], *, absolute: bool) -> Iterator[int]:
    """Yield the addresses to which instructions jump, or which they compute or access."""
    pages: dict[str, int] = {}
    for instruction in instructions:
        if instruction.target is not None:
            yield instruction.target
        if instruction.through is not None and instruction.through.base is None:
            yield instruction.through.offset
        for operation in instruction.operations:
            yield from _addresses(operation, pages, absolute=absolute)
        for register in instruction.written:
            pages.pop(register, None)
        pages |= {one.to: one.value for one in instruction.operations if isinstance(one, Address) and one.page}


def _addresses(operation: Operation, pages: Mapping[str, int], *, absolute: bool) -> Iterator[int]:
    """Yield the addresses that one operation computes or accesses."""
    match operation:
        case Address(value=value):
            yield value
        case Number(value=value) if absolute:
            yield value
        case Sum(terms=(term,), value=value) if term in pages:
            yield pages[term] + value
        case Access(memory=memory) | Load(memory=memory):
            if memory.base is None and not memory.segment:
                yield memory.offset
            elif memory.base is not None and memory.base in pages:
                yield pages[memory.base] + memory.offset


def relative(section: Section, piece: Symbol) -> list[int]:
    """Return the addresses in `section` to which a table of 4-byte distances from its own start leads, if it is one."""
    content = section.content[piece.address - section.address :][: piece.size - piece.size % 4]
    targets = [piece.address + distance for (distance,) in struct.iter_unpack("<i", content)]
    is_table = len(targets) > 1 and all(section.address <= to < section.end for to in targets)
    return targets if is_table and len(set(targets)) > 1 else []
