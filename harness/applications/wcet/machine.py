"""The interface between the instructions of a processor and an abstract execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from harness.applications.wcet.state import State
from harness.applications.wcet.values import DATA, Value


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

    The target of a jump or call is an address, or the value of the register with the number `register`.
    """

    address: int
    size: int
    text: str
    action: Action | None
    flow: str
    target: int | None
    register: int | None
    condition: Condition | None


@dataclass(frozen=True)
class Processor:
    """The instructions of a processor, and the registers of its calling convention by their numbers.

    `steps` decodes machine code.  The register `zero` is always 0; `link` holds the return address.
    """

    steps: Callable[[bytes, int], Iterator[Step]]
    registers: int
    stack: int
    link: int
    zero: int
    arguments: tuple[int, ...]
    result: int
    changed_by_calls: tuple[int, ...]

    def state(self, stack: int) -> State:
        """Return the state in which nothing is known but the stack pointer."""
        registers: list[Value] = [DATA] * self.registers
        registers[self.stack], registers[self.zero] = stack, 0
        return State(registers, DATA, {})
