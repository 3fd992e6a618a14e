"""The interface between the instructions of a processor and an abstract execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from harness.applications.wcet.state import State
from harness.applications.wcet.values import DATA, MASK, Value


class Machine(Protocol):
    """The accesses of an instruction to memory."""

    def load(self, state: State, address: Value, size: int) -> Value:
        """Return the bytes at an address."""

    def store(self, state: State, address: Value, size: int, value: Value) -> None:
        """Store the low bytes of a value."""


Action: TypeAlias = Callable[[State, Machine], None]
Condition: TypeAlias = Callable[[State], bool | None]
"""Decides a branch; None if data decide it.  NotAffineError if loop counters do in a way that is not followed."""


@dataclass(frozen=True, eq=False)
class Step:
    """One instruction: `flow` is empty, jump, branch, call, return or stop.

    The target of a jump or call is an address, or the value of the register with the number `register`.  A branch
    without a target is a return under a condition; it acts by `taken` where it returns.
    """

    address: int
    size: int
    text: str
    action: Action | None
    flow: str
    target: int | None
    register: int | None
    condition: Condition | None
    taken: Action | None = None


@dataclass(frozen=True)
class Processor:
    """The instructions of a processor, and the registers of its calling convention by their numbers.

    `steps` decodes machine code.  The register `zero` is always 0; `link` holds the return address.  `first_vector` are
    the words in the argument registers with which the function of a layer computes the first vector, and `code_mask`
    the bits of a function's address that are not a mark.  `thread` is the function that calls the layers, by name and
    source file.
    """

    steps: Callable[[bytes, int], Iterator[Step]]
    registers: int
    stack: int
    link: int
    zero: int
    arguments: tuple[int, ...]
    result: int
    changed_by_calls: tuple[int, ...]
    first_vector: tuple[int, ...] = (1, 0)
    code_mask: int = MASK
    thread: tuple[str, str] = ("work", "schedule.c")

    def state(self, stack: int) -> State:
        """Return the state in which nothing is known but the stack pointer."""
        registers: list[Value] = [DATA] * self.registers
        registers[self.stack], registers[self.zero] = stack, 0
        return State(registers, DATA, {})
