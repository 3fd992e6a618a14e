"""The dispatches that IREE's host program makes, read from its MLIR with IREE's own parser.

The host program is straight code: it takes its arguments' buffers, allocates others, and records dispatches, which are
executed one after the other.  Every operation must be one of those that are known here; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from harness.core.errors import ToolError

IGNORED = frozenset(
    {
        "hal.buffer_usage", "hal.memory_type", "util.null", "util.global.load", "hal.element_type", "hal.encoding_type",
        "hal.buffer_view.assert", "hal.device.allocator", "hal.buffer.assert", "hal.fence.create", "hal.fence.await",
        "hal.fence.join", "util.status.check_ok", "hal.command_buffer.create", "hal.command_buffer.execution_barrier",
        "hal.command_buffer.finalize", "hal.device.queue.execute", "hal.device.queue.dealloca",
    }
)  # fmt: skip
"""Operations that compute nothing: they check types, wait, or submit what was recorded, in its order."""


@dataclass(frozen=True)
class Place:
    """A part of a buffer in bytes: of argument `number`, or, if `fresh`, of a buffer of the program's own."""

    fresh: bool
    number: int
    offset: int
    size: int


@dataclass(frozen=True)
class Dispatch:
    """One dispatch: the function of the object, workgroups along x, y and z, int32 constants, parts of buffers.

    `written` says for each part whether the function may write it.
    """

    function: str
    workgroups: tuple[int, int, int]
    constants: tuple[int, ...]
    bindings: tuple[Place, ...]
    written: tuple[bool, ...]


class Copy(NamedTuple):
    """One copy of as many bytes."""

    source: Place
    target: Place


@dataclass(frozen=True)
class Schedule:
    """The steps in their order, the bytes of the program's own buffers, and the part that is the result."""

    steps: tuple[Dispatch | Copy, ...]
    buffers: tuple[int, ...]
    result: Place

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        """The steps that compute."""
        return tuple(step for step in self.steps if isinstance(step, Dispatch))


Known: TypeAlias = "int | str | tuple[bool, int, int]"
"""A constant, the name of a function, or a buffer: whether it is fresh, its number, the first byte."""


def read(text: str, executables: str, function: str, what: str) -> Schedule:
    """Return the schedule of `function` in a host program; raise ToolError for one that is not understood.

    `executables` is IREE's module in an earlier form, in which the functions state what they write.
    """
    from iree.compiler import ir  # noqa: PLC0415 - of an extra

    with ir.Context():
        module = ir.Module.parse(text)
        for operation in module.body.operations:
            if operation.operation.name == "util.func" and _text(operation, "sym_name") == function:
                return _read(operation, _written(ir.Module.parse(executables)), what)
    raise ToolError(f"IREE's program for {what} has no function {function}", "use target c for this layer")


def _text(operation: Any, name: str) -> str:
    return str(operation.attributes[name]).strip('"')


def _written(module: Any) -> dict[str, tuple[bool, ...]]:
    """Return by the name of each function of a dispatch which of its bindings it may write."""
    found = {}
    for executable in module.body.operations:
        if executable.operation.name == "hal.executable":
            for variant in executable.regions[0].blocks[0].operations:
                for export in variant.regions[0].blocks[0].operations if variant.operation.regions else ():
                    if export.operation.name == "hal.executable.export":
                        bindings = str(export.attributes["layout"]).split("#hal.pipeline.binding<")[1:]
                        found[_text(export, "sym_name")] = tuple("ReadOnly" not in each for each in bindings)
    return found


def _read(function: Any, written: Mapping[str, tuple[bool, ...]], what: str) -> Schedule:
    blocks = list(function.regions[0].blocks)
    known: dict[Any, Known] = {}
    arguments = list(blocks[0].arguments)
    steps: list[Dispatch | Copy] = []
    buffers: list[int] = []
    views: dict[Any, Place] = {}
    for operation in blocks[0].operations if len(blocks) == 1 else ():
        name, operands = operation.operation.name, list(operation.operation.operands)
        results = list(operation.operation.results)
        if name == "arith.constant":
            known |= {results[0]: number for number in _integers(operation)}
        elif name == "hal.buffer_view.buffer":
            known[results[0]] = (False, arguments.index(operands[0]), 0)
        elif name == "hal.device.queue.alloca":
            known[results[0]] = (True, len(buffers), 0)
            buffers.append(_number(known, operands[-1], what))
        elif name == "hal.executable.lookup.function":
            known[results[0]] = _text(operation, "entry_point").rpartition("::@")[2]
        elif name == "hal.command_buffer.dispatch":
            steps.append(_dispatch(known, operation, written, what))
        elif name == "hal.command_buffer.copy_buffer":
            _, source, first, target, to, size = operands
            steps.append(Copy(_place(known, source, first, size, what), _place(known, target, to, size, what)))
        elif name == "hal.buffer_view.create":
            views[results[0]] = _place(known, operands[0], operands[1], operands[2], what)
        elif name == "util.return" and len(operands) == 1 and operands[0] in views:
            return Schedule(tuple(steps), tuple(buffers), views[operands[0]])
        elif name not in IGNORED:
            raise ToolError(
                f"IREE's program for {what} has the operation {name}, which the board program cannot do",
                "use target c for this layer",
            )
    raise ToolError(f"IREE's program for {what} has branches, or not one result", "use target c for this layer")


def _integers(operation: Any) -> list[int]:
    """Return the value of an integer constant, none of another one."""
    value = str(operation.attributes["value"]).partition(" ")[0]
    return [int(value)] if value.lstrip("-").isdigit() else []


def _number(known: Mapping[Any, Known], value: Any, what: str) -> int:
    found = known.get(value)
    if not isinstance(found, int):
        raise ToolError(f"IREE's program for {what} computes a number that should be constant: {value}", "use target c")
    return found


def _place(known: Mapping[Any, Known], buffer: Any, offset: Any, size: Any, what: str) -> Place:
    found = known.get(buffer)
    if not isinstance(found, tuple):
        raise ToolError(f"IREE's program for {what} has a buffer of unknown origin: {buffer}", "use target c")
    fresh, number, first = found
    return Place(fresh, number, first + _number(known, offset, what), _number(known, size, what))


def _dispatch(
    known: Mapping[Any, Known], operation: Any, written: Mapping[str, tuple[bool, ...]], what: str
) -> Dispatch:
    """Return a dispatch; its operands are in the groups that `operandSegmentSizes` counts."""
    operands = list(operation.operation.operands)
    sizes = [int(each) for each in _text(operation, "operandSegmentSizes").partition(":")[2].rstrip(">").split(",")]
    groups, start = [], 0
    for size in sizes:
        groups.append(operands[start : start + size])
        start += size
    _, _, [function], x, y, z, constants, buffers, offsets, lengths = groups
    name = known.get(function)
    if not isinstance(name, str) or len(written.get(name, ())) != len(buffers):
        raise ToolError(f"IREE's program for {what} dispatches a function that it does not describe", "use target c")
    counts = [_number(known, axis[0], what) for axis in (x, y, z)]
    return Dispatch(
        name,
        (counts[0], counts[1], counts[2]),
        tuple(_number(known, each, what) for each in constants),
        tuple(_place(known, *each, what) for each in zip(buffers, offsets, lengths, strict=True)),
        written[name],
    )
