"""The stack of the thread of an item: the frames of the schedule's functions, and of the layers that they call.

Frames are read from the machine code: the lowest stack pointer of a function, and that at each of its calls.  What the
C library takes below is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.analysis.inspection.program import Program
from harness.applications.wcet.graph import EXIT, Function, Functions
from harness.applications.wcet.machine import Processor, Step
from harness.applications.wcet.state import STACK_TOP, RefusedError, State
from harness.applications.wcet.values import DATA, Value


@dataclass
class Frame:
    """The bytes of a function's frame, and those below which it calls others: by address, or through a register."""

    size: int = 0
    calls: dict[int | None, int] = field(default_factory=dict)


class _NoMemory:
    """Memory of which nothing is known."""

    def load(self, state: State, address: Value, size: int) -> Value:  # noqa: ARG002 - a Machine
        """Return data."""
        return DATA

    def store(self, state: State, address: Value, size: int, value: Value) -> None:
        """Store nothing."""


def of_threads(program: Program, layers: Mapping[str, int]) -> Mapping[str, int]:
    """Return the bytes of the stack of the thread of each item, whose deepest layer takes `layers[item]`.

    A call through a register in the schedule is that of a layer.  RefusedError if a frame is not understood.
    """
    functions = Functions(program)
    thread = functions.processor.thread
    start = next((s for s in program.functions if (s.name, s.file) == thread), None)
    if start is None:
        raise RefusedError(f"the program has no function {thread[0]} of {thread[1]}", "build the bundle again")
    return {item: _deepest(functions, start.address, below, ()) for item, below in layers.items()}


def _deepest(functions: Functions, address: int, below: int, callers: tuple[int, ...]) -> int:
    function = functions.at(address)
    if function is None:  # of a library
        return 0
    if address in callers:
        raise RefusedError(f"{function.name} calls itself", "remove the recursion", address)
    found = frame(function, functions.processor)
    called = (
        at + (below if target is None else _deepest(functions, target, below, (*callers, address)))
        for target, at in found.calls.items()
    )
    return max(found.size, *called, 0)


def frame(function: Function, processor: Processor) -> Frame:
    """Return the frame of a function; RefusedError if its stack pointer is not known."""
    found = Frame()
    waiting = [(function.whole.header, processor.state(STACK_TOP))]
    seen = set()
    while waiting:
        key, state = waiting.pop()
        if key in seen or key == EXIT:
            continue
        seen.add(key)
        block = function.blocks[key]
        for step in block.steps:
            if step.action:
                step.action(state, _NoMemory())
            found.size = max(found.size, STACK_TOP - _pointer(processor, state, step))
        if block.last.address in function.calls:
            at = STACK_TOP - _pointer(processor, state, block.last)
            found.calls[block.last.target] = max(at, found.calls.get(block.last.target, 0))
            for register in processor.changed_by_calls:
                state.registers[register] = DATA
        waiting += [(to, state.copy()) for to in block.following]
    return found


def _pointer(processor: Processor, state: State, step: Step) -> int:
    pointer = state.registers[processor.stack]
    if not isinstance(pointer, int):
        raise RefusedError(f"the stack pointer is not known after {step.text}", "build with other flags", step.address)
    return pointer
