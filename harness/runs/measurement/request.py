"""Options of a measurement, checked against the board."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias, TypedDict, Unpack

from harness.boards.profile import Profile, host_variable
from harness.boards.tuning import LoadName
from harness.core.errors import RequestError

SAMPLES, EMULATED_SAMPLES = 100_000, 2_000
MOST_VECTORS = 10_000  # and executions of a segment

Scope: TypeAlias = Literal["network", "item", "layer"]
Count: TypeAlias = Literal["time", "instructions", "cycles"]


class Quantity(Enum):
    """Source of the readings: a clock, a counter of events of the thread in user space, or its processor time."""

    TIME = "time"
    INSTRUCTIONS = "instructions"
    CYCLES = "cycles"
    CPU = "cpu"
    USER = "user"
    SYSTEM = "system"

    @property
    def unit(self) -> str:
        """The unit of the readings."""
        return self.value if self in {Quantity.INSTRUCTIONS, Quantity.CYCLES} else "ns"


CPU_FILES = {Quantity.CPU: "cpu.npy", Quantity.USER: "user.npy", Quantity.SYSTEM: "system.npy"}
"""Files of the processor times in the folder of a measurement, if they are measured."""


@dataclass(frozen=True)
class MeasurementOptions:
    """Options of a measurement: at least `samples` executions, and at least `duration_s` if given."""

    samples: int
    scope: Scope
    quantity: Quantity
    load: LoadName
    warmup: int
    duration_s: float | None = None

    @property
    def vectors(self) -> int:
        """Return the number of different vectors; events are counted at least twice for each."""
        passes = 1 if self.quantity is Quantity.TIME else 2
        return min(-(-self.samples // passes), MOST_VECTORS)


class Choices(TypedDict, total=False):
    """Choices of a measurement; None and missing ones have the board's default."""

    samples: int | None
    duration_s: float | None
    scope: Scope | None
    count: Count | None
    load: LoadName
    warmup: int | None


def options_for(board: Profile, **choices: Unpack[Choices]) -> MeasurementOptions:
    """Return the options with the board's defaults; RequestError for a quantity that the board lacks."""
    if board.bare_metal and board.emulated:
        raise RequestError(
            f"board {board.name} is an emulated processor without an operating system: its times are not those of "
            "the processor, and it has no counters",
            "measure a real board; harness run --items c:generic|c:inlined|c:unrolled on it compares the same code",
        )
    warmup = choices.get("warmup")
    quantity = Quantity(choices.get("count") or ("instructions" if board.emulated else "time"))
    options = MeasurementOptions(
        choices.get("samples") or (EMULATED_SAMPLES if board.emulated else SAMPLES),
        choices.get("scope") or ("network" if quantity is Quantity.TIME else "layer"),
        quantity,
        choices.get("load", "idle"),
        board.timing.warmup if warmup is None else warmup,
        choices.get("duration_s"),
    )
    if board.emulated:
        _check_emulated(board, options)
    return options


def _check_emulated(board: Profile, options: MeasurementOptions) -> None:
    """Refuse times and load on an emulated board: its times are not MET, and load does not change its counts."""
    if options.quantity is not Quantity.INSTRUCTIONS:
        raise RequestError(
            f"board {board.name} is emulated: its {options.quantity.value} would not be that of the board",
            f"count its instructions, or give its address: boards.local.yaml or {host_variable(board.name)}",
        )
    if options.load != "idle":
        raise RequestError(
            f"--load {options.load}: board {board.name} is emulated, and instructions do not depend on a load",
            "omit it, or measure a real board",
        )
