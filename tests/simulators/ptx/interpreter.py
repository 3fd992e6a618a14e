"""Runs the compiler's output: a kernel of a PTX text, for all threads of a grid together, on numpy arrays.

Every instruction is looked up by its full opcode; what is not known is refused when the text is read.
Threads that stand at the same instruction execute it together, those that are furthest behind first.  A barrier holds
the threads of a block until all of them are there.  Each access to memory is checked: inside of one variable or buffer,
aligned, and, in shared memory, neither of something never written nor racing with another thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.targets.cuda import ptx_syntax
from harness.targets.cuda.ptx_syntax import BITS, Function, Variable
from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.frame import Frame, raw, whole_grid
from tests.simulators.ptx.memory import WINDOWS, Layout, SharedMemory, Space
from tests.simulators.ptx.operations import dtype_of
from tests.simulators.ptx.scheduler import Run
from tests.simulators.ptx.steps import Code, key, translate

Extent = tuple[int, int, int]
Bytes = npt.NDArray[Any]
Argument = int | npt.NDArray[np.generic] | None

STEPS = 1_000_000  # groups of threads that a launch may move before it is taken never to end


class Module:
    """A PTX text that can run.

    `globals` are its variables as bytes (uint8), which launches read and write: view and change them as you like.
    """

    def __init__(self, ptx: str) -> None:
        module = ptx_syntax.parse(ptx)
        self._of_launch = [variable.name for variable in module.variables if variable.space == "shared"]
        self.globals = {v.name: _initial(v) for v in module.variables if v.space == "global"}
        self._functions = {function.name: function for function in module.functions}
        if len(self._functions) < len(module.functions):
            raise PtxError("a function is there twice")
        self._own = {space: _sizes(module.functions, space) for space in ("shared", "local")}
        self._layouts = {space: Layout.of(sizes) for space, sizes in self._own.items()}
        self._layouts["shared"] = self._shared(0)
        self._alignments = {v.name: v.alignment for v in module.variables if v.space == "global"}
        self._layouts["global"] = Layout.of({name: len(values) for name, values in self.globals.items()})
        self._code: dict[str, Code] = {}
        for function in module.functions:
            self._code[function.name] = translate(function, self._code, self._layouts)

    @property
    def executed(self) -> dict[str, int]:
        """Instructions of all threads in all launches, by function."""
        return {name: code.executed for name, code in self._code.items()}

    def _shared(self, asked: int) -> Layout:
        """Return the places of shared variables; the last one has the bytes that a launch asks for."""
        return Layout.of(self._own["shared"] | dict.fromkeys(self._of_launch, asked))

    def launch(
        self, name: str, grid: Extent, block: Extent, arguments: Sequence[Argument], shared_bytes: int = 0
    ) -> None:
        """Run a kernel; `arguments` are integers, buffers (contiguous arrays, changed in place), or None, a null one.

        PtxError if it does what it must not: the message names the instruction and a thread.
        """
        function = self._functions[name]
        if not function.is_entry:
            raise PtxError(f"{name} is no kernel")
        _check_bounds(function, block)
        arrays = self.globals | {_label(i): a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
        memory = _memory(arrays, self._alignments)
        machine = Machine.of(memory, self._layouts | {"shared": self._shared(shared_bytes)}, grid, block)
        frame = whole_grid(grid, block).part(None, self._code[name].registers)
        for number, variable in enumerate(_parameters(function, arguments)):
            value = _value(variable, arguments[number], machine.memory.layout, _label(number))
            _pass(self._code[name], frame, variable, value)
        with np.errstate(all="ignore"):
            machine.run(self._code[name], frame)
        machine.fetch(arrays)


def _initial(variable: Variable) -> npt.NDArray[np.uint8]:
    if variable.size == 0:
        raise PtxError(f"{variable.name} has no bytes")
    values = np.zeros(variable.count, dtype_of(variable.type.replace("f", "u")))
    values[: len(variable.initial)] = variable.initial
    return values.view(np.uint8)


def _check_bounds(function: Function, block: Extent) -> None:
    most = function.bounds.get(".maxntid")
    if most is not None and np.prod(block) > np.prod(most):
        raise PtxError(f"{function.name} is for blocks of {most}, not {block}")


def _parameters(function: Function, arguments: Sequence[Argument]) -> tuple[Variable, ...]:
    if len(function.parameters) != len(arguments):
        raise PtxError(f"{function.name} takes {len(function.parameters)} arguments, not {len(arguments)}")
    return function.parameters


def _label(number: int) -> str:
    return f"argument {number}"


def _sizes(functions: Sequence[Function], space: str) -> dict[str, int]:
    """Of all variables that functions declare for themselves; none is called by itself, so each has room once."""
    return {key(f, v): v.size for f in functions for v in f.variables if v.space == space}


def _value(variable: Variable, argument: Argument, layout: Layout, label: str) -> int:
    """The bits of an argument."""
    bits = BITS[variable.type]
    if isinstance(argument, int):
        value = argument
    elif bits == 64:
        value = 0 if argument is None else WINDOWS["global"] + layout.begin(label)
    else:
        raise PtxError(f"{variable.name} has {bits} bits and is no pointer")
    if not 0 <= value < 1 << bits:
        raise PtxError(f"{variable.name}: {value} does not fit into {bits} bits")
    return value


def _pass(code: Code, frame: Frame, variable: Variable, value: int) -> None:
    """Put an argument where ld.param finds it."""
    for slot in code.read:
        if slot.base == variable.name:
            if slot.offset or slot.bits > BITS[variable.type]:
                raise PtxError(f"{code.function.name} reads {variable.name} otherwise than it is declared")
            frame.write(slot.register, None, np.array(value % (1 << slot.bits), raw(slot.bits)), raw(slot.bits))


def _memory(arrays: Mapping[str, Bytes], alignments: Mapping[str, int]) -> Space:
    """Global memory as it is in the arrays."""
    memory = Space(Layout.of({name: array.nbytes for name, array in arrays.items()}, alignments))
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            raise PtxError(f"{name} is not contiguous")
        begin = memory.layout.begin(name)
        memory.bytes[begin : begin + array.nbytes] = array.reshape(-1).view(np.uint8)
    return memory


@dataclass
class Machine:
    """The memory of a launch."""

    memory: Space
    shared: SharedMemory
    local: Space
    per_block: int
    blocks: int
    steps: int = 0

    @classmethod
    def of(cls, memory: Space, layouts: Mapping[str, Layout], grid: Extent, block: Extent) -> Machine:
        """With this global memory, and the rest empty."""
        per_block, blocks = int(np.prod(block)), int(np.prod(grid))
        shared, local = SharedMemory(layouts["shared"], blocks), Space(layouts["local"], blocks * per_block)
        return cls(memory, shared, local, per_block, blocks)

    def run(self, code: Code, frame: Frame) -> None:
        """A function to its end."""
        Run(self, code, frame).to_the_end()

    def count(self) -> None:
        """One more group of threads moves."""
        self.steps += 1
        if self.steps > STEPS:
            raise PtxError(f"no end after {STEPS} moves")

    def fetch(self, arrays: Mapping[str, Bytes]) -> None:
        """What the launch wrote, back into the arrays."""
        for name, array in arrays.items():
            begin = self.memory.layout.begin(name)
            written = self.memory.bytes[begin : begin + array.nbytes]
            if array.flags.writeable:
                array.reshape(-1).view(np.uint8)[:] = written
            elif (array.reshape(-1).view(np.uint8) != written).any():
                raise PtxError(f"{name} is read-only and was written")
