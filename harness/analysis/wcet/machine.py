"""The interface between the instructions of a processor and an abstract execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from harness.analysis.wcet.state import State
from harness.analysis.wcet.values import Value


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
