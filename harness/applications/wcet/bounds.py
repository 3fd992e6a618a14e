"""The bounds of all layers of a program, for one vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.inspection import program
from harness.analysis.inspection.fixed import PURE
from harness.analysis.inspection.program import Program
from harness.applications.wcet import footprint, stack
from harness.applications.wcet.execution import Execution, Executor, LibraryCall
from harness.applications.wcet.footprint import Extent
from harness.applications.wcet.graph import Block
from harness.applications.wcet.paths import Path as CostliestPath
from harness.applications.wcet.paths import costliest
from harness.applications.wcet.state import RefusedError
from harness.build import codegen
from harness.build.codegen import Forward
from harness.core.errors import ToolError

PER_COPY, PER_BYTE, PER_ROUNDING = 64, 1, 16
"""Instructions that are assumed: of memcpy, memmove and memset, of each of their bytes, of rintf, fminf and fmaxf."""


@dataclass(frozen=True)
class LayerBound:
    """The bound of the function that computes a layer, with all that it calls in the program.

    `instructions` are those of the program, `library` what is assumed of the functions of the C library besides.
    `unconfirmed` are tables that are not read to their ends: the plan does not confirm the loops over them.
    """

    layer: str
    item: str
    target: str
    execution: Execution
    path: CostliestPath
    accessed: tuple[Extent, ...]
    unconfirmed: tuple[str, ...]
    machine_code: Program

    @property
    def function(self) -> str:
        """Return the name of the function."""
        return self.execution.functions[self.execution.root.function].name

    @property
    def instructions(self) -> int:
        """Return the instructions of the program, at most, with those of the linker before each call of a library."""
        return self.path.cost + sum(count * call.linker for call, count in self.execution.recorded.library.items())

    @property
    def library(self) -> int:
        """Return the instructions that are assumed of the calls of the C library, at most."""
        return sum(count * assumed(call) for call, count in self.execution.recorded.library.items())

    @property
    def stack(self) -> int:
        """Return the bytes of the stack, at most, without those of the C library."""
        return self.execution.stack

    @property
    def decided_by_data(self) -> Sequence[tuple[str, int]]:
        """Return the branches that data decide: function and address."""
        found = sorted(self.execution.recorded.decided_by_data)
        return [(self.execution.functions[function].name, address) for function, address in found]


@dataclass(frozen=True)
class Bounds:
    """The bounds of a program with this SHA-256, its layers in the order of the plan.

    `threads` are the bytes of the stack of the thread of each item, without the C library.
    """

    machine: str
    sha256: str
    layers: tuple[LayerBound, ...]
    threads: Mapping[str, int]

    def of_item(self, item: str) -> tuple[LayerBound, ...]:
        """Return the bounds of the layers of an item."""
        return tuple(layer for layer in self.layers if layer.item == item)

    def instructions(self, item: str | None = None) -> int:
        """Return the instructions for one vector of an item, or of all items: program and library."""
        return sum(layer.instructions + layer.library for layer in self.layers if item in {None, layer.item})


def assumed(call: LibraryCall) -> int:
    """Return the instructions that are assumed of a call of the C library."""
    return PER_COPY + PER_BYTE * call.size if PURE[call.name] else PER_ROUNDING


def of_program(
    generated: codegen.Program,
    path: Path,
    advance: Callable[[int], object] = lambda _: None,
    line_of: Callable[[int], str] = lambda _: "",
    *,
    folds_constants: bool = False,
) -> Bounds:
    """Return the bounds of a built program, those of layers of the target `c` only.

    `generated` is what it was built from.  `advance` hears of each finished layer, `line_of` returns the place of an
    address in the sources.  With `folds_constants` the compiler may put all that a table holds into instructions, as
    clang does.  ToolError if the machine code is not understood, or if it is not what the plan says.
    """
    read = program.read(path)
    try:
        executor = Executor(read)
    except RefusedError as error:
        raise ToolError(f"{path}: {error.reason}", error.advice) from error
    symbols = {symbol.name: symbol for symbol in read.functions}
    found = []
    for index, (task, forward) in enumerate(zip(generated.plan.tasks, generated.forwards, strict=True)):
        item = generated.plan.items[task.item]
        if item.target.partition(":")[0] == "c":
            if forward.name not in symbols:
                raise ToolError(f"{path}: has no function {forward.name}", "build the bundle again")
            executed = _execute(executor, symbols[forward.name].address, forward, line_of)
            unread = _require_planned(generated, index, executed, read, line_of, folds_constants=folds_constants)
            accessed = footprint.extents(generated, index, executed, read)
            most = costliest(executed, size)
            found.append(LayerBound(task.name, item.name, item.target, executed, most, accessed, unread, read))
        advance(1)
    deepest = {each.item: max(own.stack for own in found if own.item == each.item) for each in found}
    try:
        threads = stack.of_threads(read, deepest)
    except RefusedError as error:
        raise ToolError(f"no bound of the stack: {error.reason}", error.advice) from error
    return Bounds(read.machine, read.sha256, tuple(found), threads)


def _execute(executor: Executor, address: int, forward: Forward, line_of: Callable[[int], str]) -> Execution:
    """Execute the function of a layer for one vector, the first of a block."""
    try:
        return executor.execute(address, executor.functions.processor.first_vector)
    except RefusedError as error:
        line = line_of(error.address) if error.address is not None else ""
        message = f"no bound of {forward.name}: {error.reason}{f' ({line})' if line else ''}"
        raise ToolError(message, error.advice) from error


def _require_planned(
    generated: codegen.Program,
    index: int,
    executed: Execution,
    read: Program,
    line_of: Callable[[int], str],
    *,
    folds_constants: bool,
) -> tuple[str, ...]:
    """Return the tables that are not read to their ends; ToolError if a layer does not access what the plan says."""
    unread = []
    for wrong in footprint.disagreements(generated, index, executed, read):
        if wrong.table and (folds_constants or wrong.reaches_end):
            unread.append(wrong.table)
            continue
        holder = next((s for s in read.functions if s.address <= wrong.address < s.end), None)
        where = " ".join(
            filter(None, [holder.name if holder else "code", f"at {wrong.address:#x}", line_of(wrong.address)])
        )
        raise ToolError(
            f"layer {generated.plan.tasks[index].name}: the loops of the program are not those of the plan: {where} "
            f"{wrong.words}",
            "build the bundle again; if this stays, a kernel has a wrong loop bound",
        )
    return tuple(unread)


def size(block: Block) -> int:
    """Return the instructions of a block."""
    return len(block.steps)
