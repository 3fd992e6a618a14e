"""Control-flow graphs of functions: blocks, loops and the order in which they are executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from harness.analysis.inspection.program import Program, Symbol
from harness.applications.wcet import aarch64, thumb
from harness.applications.wcet.machine import Processor, Step
from harness.applications.wcet.state import RefusedError

EXIT = -1
"""The block behind the return of a function."""
COPY = 1 << 64
"""The keys of copies of blocks are multiples of it above the addresses."""
MOST_COPIES = 64
"""Loops that are copied for their other entries, at most."""
PROCESSORS: Mapping[str, Processor] = {"aarch64": aarch64.PROCESSOR, "thumb": thumb.PROCESSOR}
"""The processors whose machine code can be bounded, by the machine of a program's file.

A new one is a module like aarch64.py: its instructions as steps, and the registers of its calling convention.
"""


@dataclass(frozen=True, eq=False)
class Block:
    """Steps without a branch or call in between; `following` are the keys of the blocks that may come next.

    Its key is its address, or for a copy a number above all addresses.
    """

    key: int
    steps: tuple[Step, ...]
    following: tuple[int, ...]

    @property
    def last(self) -> Step:
        """Return the last instruction."""
        return self.steps[-1]


@dataclass(eq=False)
class Loop:
    """A natural loop, or a whole function: its header, the blocks in it, those of inner loops included.

    `parts` are its blocks and inner loops in an order in which each comes after those that lead to it.
    """

    header: int
    blocks: frozenset[int]
    parts: list[int | Loop] = field(default_factory=list)

    @cached_property
    def part_of(self) -> Mapping[int, int | Loop]:
        """Return the part that holds each block."""
        found: dict[int, int | Loop] = {}
        for part in self.parts:
            found.update(dict.fromkeys(part.blocks, part) if isinstance(part, Loop) else {part: part})
        return found


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the program: its blocks by address, and all of it as a region."""

    symbol: Symbol
    blocks: Mapping[int, Block]
    whole: Loop

    @property
    def name(self) -> str:
        """Return its name as C has it."""
        return self.symbol.name.partition("@")[0]

    @cached_property
    def calls(self) -> Mapping[int, Sequence[Block]]:
        """Return the blocks that end with a call or a jump into another function, by the address of that."""
        found: dict[int, list[Block]] = {}
        for block in self.blocks.values():
            if block.last.flow == "call" or (block.last.flow == "jump" and block.following == (EXIT,)):
                found.setdefault(block.last.address, []).append(block)
        return found

    def loops(self) -> Iterator[Loop]:
        """Yield all loops, each after those around it."""

        def below(region: Loop) -> Iterator[Loop]:
            for part in region.parts:
                if isinstance(part, Loop):
                    yield part
                    yield from below(part)

        return below(self.whole)


class Functions:
    """The functions of a program, decoded when they are asked for."""

    def __init__(self, program: Program) -> None:
        self.program, self.processor = program, _processor_of(program)
        self._found: dict[int, Function] = {}

    def at(self, address: int) -> Function | None:
        """Return the function that starts at an address; RefusedError if its code cannot be decoded."""
        if address not in self._found:
            symbol = self.program.function_starts.get(address)
            if symbol is None:
                return None
            steps = list(self._decoded(symbol))
            self._found[address] = build(symbol, [*steps, *self._moved_out(steps)])
        return self._found[address]

    def _moved_out(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Yield the instructions that the linker moved out of a function, each with its jump back.

        GNU's linker does so for erratum 843419 of the Cortex-A53, where an adrp is at the end of a page.
        """
        known = {step.address for step in steps}
        for step in steps:
            target = step.target if step.flow == "jump" else None
            moved = self.stub(target) if target is not None and target not in known else []
            if moved and moved[-1].flow == "jump" and moved[-1].target in known:
                yield from moved

    def _decoded(self, symbol: Symbol) -> Iterator[Step]:
        """Yield the instructions of a function, without the constants between them."""
        start = symbol.address
        constants = [span for span in self.program.literals if symbol.address <= span[0] < symbol.end]
        for first, end in [*constants, (symbol.end, symbol.end)]:
            if start < first:
                yield from self.processor.steps(self.program.content(start, first - start), start)
            start = end

    def stub(self, address: int) -> list[Step]:
        """Return the steps of the linker's code at an address that is no function, up to its jump."""
        section = self.program.section_at(address)
        if section is None or not section.executable:
            return []
        found = []
        try:
            for step in self.processor.steps(self.program.content(address, 16), address):
                found.append(step)
                if step.flow:
                    break
        except RefusedError:  # 16 bytes may end in an instruction: it is no code of the linker
            return []
        return found


def _processor_of(program: Program) -> Processor:
    """Return the processor of a program; RefusedError if its instructions are not known."""
    if program.machine not in PROCESSORS:
        raise RefusedError(
            f"the instructions of {program.machine} are not followed",
            f"bound the program of a board with {' or '.join(PROCESSORS)}",
        )
    return PROCESSORS[program.machine]


def build(symbol: Symbol, steps: Sequence[Step]) -> Function:
    """Return the function with these instructions."""
    if not steps:
        raise RefusedError(f"function {symbol.name} has no code", "report the compiler and the flags")
    blocks = _blocks(symbol, steps)
    return Function(symbol, blocks, _region(steps[0].address, blocks))


def _blocks(symbol: Symbol, steps: Sequence[Step]) -> dict[int, Block]:
    known = {step.address for step in steps}
    starts = {steps[0].address}
    for step in steps:
        if step.flow:
            starts.add(step.address + step.size)
            if step.flow in {"jump", "branch"} and step.target in known:
                starts.add(step.target)
    found, current = {}, []
    for step in steps:
        current.append(step)
        after = step.address + step.size
        if step.flow or after in starts or after not in known:
            start = current[0].address
            found[start] = Block(start, tuple(current), _following(symbol, step, after, known))
            current = []
    return _reducible(steps[0].address, _reachable(steps[0].address, found))


def _reducible(start: int, blocks: dict[int, Block]) -> dict[int, Block]:
    """Return an equivalent graph in which each loop has one entry: what leads to it from another entry is copied."""
    copies = 0
    while (found := _second_entry(start, blocks)) is not None:
        copies += 1
        if copies > MOST_COPIES:
            raise RefusedError(
                f"the loop at {found[0] % COPY:#x} has too many entries", "build with other flags, for example -O1"
            )
        header, loop = found
        new = {key: key % COPY + copies * COPY for key in loop if key != header}
        for key, block in list(blocks.items()):
            inside = key in loop
            if not inside:
                blocks[key] = replace(block, following=tuple(new.get(each, each) for each in block.following))
            elif key in new:
                after = tuple(new.get(each, each) for each in block.following)
                blocks[new[key]] = Block(new[key], block.steps, after)
        blocks = _reachable(start, blocks)
    return blocks


def _second_entry(start: int, blocks: Mapping[int, Block]) -> tuple[int, set[int]] | None:
    """Return a loop with several entries, and the one that stays; None if there is none."""
    following = _edges(blocks)
    for loop, entries in _loops(start, following):
        if len(entries) > 1:
            return min(entries, key=lambda each: (_copied(entries, each, loop, following), -each)), loop
    return None


def _edges(blocks: Mapping[int, Block]) -> dict[int, list[int]]:
    return {key: [to for to in block.following if to != EXIT] for key, block in blocks.items()}


def _loops(start: int, following: Mapping[int, Sequence[int]]) -> Iterator[tuple[set[int], set[int]]]:
    """Yield the blocks of each loop and those at which it is entered; inner loops are those without these."""
    waiting = [set(following)]
    while waiting:
        for loop in _components(waiting.pop(), following):
            entries = {to for key in following if key not in loop for to in following[key] if to in loop}
            entries |= {start} & loop
            yield loop, entries
            waiting.append(loop - entries)


def _copied(entries: set[int], header: int, loop: set[int], following: Mapping[int, Sequence[int]]) -> int:
    """Return the number of blocks that lead from the other entries to the header."""
    seen = entries - {header}
    waiting = list(seen)
    while waiting:
        new = {to for to in following[waiting.pop()] if to in loop and to != header} - seen
        seen |= new
        waiting += new
    return len(seen)


def _components(nodes: set[int], following: Mapping[int, Sequence[int]]) -> Iterator[set[int]]:
    """Yield the strongly connected components that contain a cycle."""
    number = {key: index for index, key in enumerate(nodes)}
    edges = [(number[key], number[to]) for key in nodes for to in following[key] if to in nodes]
    if not edges:
        return
    starts, ends = zip(*edges, strict=True)
    matrix = sparse.csr_array((np.ones(len(edges)), (starts, ends)), shape=(len(nodes), len(nodes)))
    _, labels = csgraph.connected_components(matrix, connection="strong")
    components: dict[int, set[int]] = {}
    for key, index in number.items():
        components.setdefault(int(labels[index]), set()).add(key)
    for component in components.values():
        if len(component) > 1 or component.intersection(*(following[key] for key in component)):
            yield component


def _following(symbol: Symbol, last: Step, after: int, known: set[int]) -> tuple[int, ...]:
    if last.flow in {"return", "stop"}:
        return (EXIT,) if last.flow == "return" else ()
    if last.flow == "jump":
        return (last.target,) if last.target in known else (EXIT,)  # into another function: its return is this one's
    if last.flow == "branch" and last.target is None:
        return (after, EXIT)
    if last.flow == "branch" and last.target not in known:
        raise RefusedError(f"{last.text} leaves function {symbol.name}", "build with -O1 or -O2")
    if after not in known:
        return ()
    return tuple(dict.fromkeys((after, last.target))) if last.flow == "branch" else (after,)  # type: ignore[arg-type]


def _reachable(start: int, blocks: Mapping[int, Block]) -> dict[int, Block]:
    seen, waiting = {start}, [start]
    while waiting:
        for each in blocks[waiting.pop()].following:
            if each != EXIT and each not in seen:
                seen.add(each)
                waiting.append(each)
    return {address: block for address, block in blocks.items() if address in seen}


def _region(start: int, blocks: Mapping[int, Block]) -> Loop:
    """Return the whole function with its loops, each of which has one entry."""
    following = _edges(blocks)
    order = _postorder(start, following)[::-1]
    whole = Loop(start, frozenset(order))
    loops = [Loop(header, frozenset(loop)) for loop, (header,) in _loops(start, following)]
    inner_first = sorted(loops, key=lambda loop: len(loop.blocks))
    placed: set[Loop] = set()
    for address in order:  # a header comes before its loop
        around = [loop for loop in inner_first if address in loop.blocks]
        for loop, outer in zip(around, [*around, whole][1:], strict=True):
            if loop not in placed:
                placed.add(loop)
                outer.parts.append(loop)
        (around[0] if around else whole).parts.append(address)
    for region in [whole, *inner_first]:
        _sort(region, following)
    return whole


def _sort(region: Loop, following: Mapping[int, Sequence[int]]) -> None:
    """Bring the parts of a region into an order in which each comes after those that lead to it, back edges aside."""
    part_of = region.part_of
    keys = {id(part): part for part in region.parts}
    next_of: dict[int, list[int]] = {}
    for part in region.parts:
        of = part.blocks if isinstance(part, Loop) else (part,)
        targets = {
            id(part_of[to])
            for address in sorted(of)
            for to in following[address]
            if to in part_of and to != region.header
        }
        next_of[id(part)] = [key for key in targets if key != id(part)]
    done = _postorder(id(part_of[region.header]), next_of)
    region.parts[:] = [keys[key] for key in reversed(done)]


def _postorder(start: int, following: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the blocks that follow `start`, each after those behind it."""
    seen = {start}
    found, stack = [], [(start, iter(following[start]))]
    while stack:
        node, rest = stack[-1]
        for each in rest:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(following[each])))
                break
        else:
            stack.pop()
            found.append(node)
    return found
