"""The dispatches that IREE's host program makes, read from its MLIR with IREE's own parser.

The host program is straight code: it takes its arguments' buffers, allocates others, and records dispatches, which are
executed one after the other.  Every operation must be one of those that are known here; anything else is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
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


WHOLE = -1
"""The size of a result that is an argument as it was given."""


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


class Fill(NamedTuple):
    """One number of so many bytes, stored again and again."""

    target: Place
    number: int
    width: int


@dataclass(frozen=True)
class Schedule:
    """The steps in their order, the bytes of the program's own buffers, and the part that is the result."""

    steps: tuple[Dispatch | Copy | Fill, ...]
    buffers: tuple[int, ...]
    result: Place

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        """The steps that compute."""
        return tuple(step for step in self.steps if isinstance(step, Dispatch))


Known: TypeAlias = "int | str | tuple[bool, int]"
"""A constant, the name of a function, or a buffer: whether it is fresh, and its number."""


def read(host: str, executables: str, function: str, what: str) -> Schedule:
    """Return the schedule of `function` in a host program; raise ToolError for one that is not understood.

    `executables` is IREE's module in an earlier form, in which the functions state what they write.
    """
    from iree.compiler import ir  # of an extra

    with ir.Context():
        written = _written(ir.Module.parse(executables))
        for operation in ir.Module.parse(host).body.operations:
            if operation.operation.name == "util.func" and _text(operation, "sym_name") == function:
                return _Reader(operation, written, what).schedule()
    raise _refusal(what, f"no function {function}")


def _refusal(what: str, reason: str) -> ToolError:
    return ToolError(f"{what}: IREE's host program has {reason}", "use another target for this layer")


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
                        found[_text(export, "sym_name")] = tuple("ReadOnly" not in binding for binding in bindings)
    return found


class _Reader:
    """The operations of one host program, in their order."""

    def __init__(self, function: Any, written: Mapping[str, tuple[bool, ...]], what: str) -> None:
        self._blocks = list(function.regions[0].blocks)
        self._arguments = list(self._blocks[0].arguments)
        self._written, self._what = written, what
        self._known: dict[Any, Known] = {}
        self._steps: list[Dispatch | Copy | Fill] = []
        self._buffers: list[int] = []
        self._views = {each: Place(False, number, 0, WHOLE) for number, each in enumerate(self._arguments)}
        self._operations: Mapping[str, Callable[[Any, list[Any]], None]] = {
            "arith.constant": self._constant,
            "hal.buffer_view.buffer": self._argument,
            "hal.device.queue.alloca": self._allocate,
            "hal.executable.lookup.function": self._function,
            "hal.command_buffer.dispatch": self._dispatch,
            "hal.command_buffer.copy_buffer": self._copy,
            "hal.command_buffer.fill_buffer": self._fill,
            "hal.buffer_view.create": self._view,
        }

    def schedule(self) -> Schedule:
        """Return what the program does."""
        for operation in self._blocks[0].operations if len(self._blocks) == 1 else ():
            name, operands = operation.operation.name, list(operation.operation.operands)
            if name == "util.return" and len(operands) == 1 and operands[0] in self._views:
                return Schedule(tuple(self._steps), tuple(self._buffers), self._views[operands[0]])
            if name in self._operations:
                self._operations[name](operation, operands)
            elif name not in IGNORED:
                raise _refusal(self._what, f"the operation {name}, which the board program cannot do")
        raise _refusal(self._what, "branches, or not one result")

    def _constant(self, operation: Any, _: list[Any]) -> None:
        value = str(operation.attributes["value"]).partition(" ")[0]
        if value.lstrip("-").isdigit():  # others are no sizes
            self._known[operation.operation.results[0]] = int(value)

    def _argument(self, operation: Any, operands: list[Any]) -> None:
        self._known[operation.operation.results[0]] = (False, self._arguments.index(operands[0]))

    def _allocate(self, operation: Any, operands: list[Any]) -> None:
        self._known[operation.operation.results[0]] = (True, len(self._buffers))
        self._buffers.append(self._number(operands[-1]))

    def _function(self, operation: Any, _: list[Any]) -> None:
        self._known[operation.operation.results[0]] = _text(operation, "entry_point").rpartition("::@")[2]

    def _copy(self, _: Any, operands: list[Any]) -> None:
        _, source, first, target, to, size = operands
        self._steps.append(Copy(self._place(source, first, size), self._place(target, to, size)))

    def _fill(self, _: Any, operands: list[Any]) -> None:
        _, target, to, size, pattern = operands
        width = int(str(pattern.type).removeprefix("i")) // 8
        self._steps.append(Fill(self._place(target, to, size), self._number(pattern), width))

    def _view(self, operation: Any, operands: list[Any]) -> None:
        self._views[operation.operation.results[0]] = self._place(*operands[:3])

    def _dispatch(self, operation: Any, operands: list[Any]) -> None:
        """Add a dispatch; its operands are in the groups that `operandSegmentSizes` counts."""
        sizes = [int(each) for each in _text(operation, "operandSegmentSizes").partition(":")[2].rstrip(">").split(",")]
        ends = list(itertools.accumulate(sizes))
        groups = [operands[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        _, _, [function], [x], [y], [z], constants, buffers, offsets, lengths = groups
        name = self._known.get(function)
        if not isinstance(name, str) or len(self._written.get(name, ())) != len(buffers):
            raise _refusal(self._what, "a dispatch of a function that it does not describe")
        self._steps.append(
            Dispatch(
                name,
                (self._number(x), self._number(y), self._number(z)),
                tuple(map(self._number, constants)),
                tuple(map(self._place, buffers, offsets, lengths)),
                self._written[name],
            )
        )

    def _number(self, value: Any) -> int:
        found = self._known.get(value)
        if not isinstance(found, int):
            raise _refusal(self._what, f"a number that is no constant: {value}")
        return found

    def _place(self, buffer: Any, offset: Any, size: Any) -> Place:
        found = self._known.get(buffer)
        if not isinstance(found, tuple):
            raise _refusal(self._what, f"a buffer of unknown origin: {buffer}")
        return Place(*found, self._number(offset), self._number(size))
