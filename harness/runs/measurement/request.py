"""Options of a measurement, checked against the board."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from harness.boards.profile import Profile, host_variable
from harness.boards.tuning import LoadName
from harness.core.errors import RequestError

SAMPLES, EMULATED_SAMPLES = 100_000, 2_000
MOST_VECTORS = 10_000  # and executions of a segment

Scope: TypeAlias = Literal["network", "item", "layer"]


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


@dataclass(frozen=True)
class Asked:
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


def settle(
    profile: Profile,
    *,
    samples: int | None,
    scope: Scope | None,
    count: str | None,
    load: LoadName,
    warmup: int | None,
    duration: float | None,
) -> Asked:
    """Return the options with the board's defaults; RequestError for a quantity that the board lacks."""
    if profile.bare_metal:
        raise RequestError(
            f"board {profile.name} is an emulated processor without an operating system: its times are not those of "
            "the processor, and it has no counters",
            "measure a real board; harness run --items c:generic|c:inlined|c:unrolled on it compares the same code",
        )
    quantity = Quantity(count or ("instructions" if profile.emulated else "time"))
    asked = Asked(
        samples or (EMULATED_SAMPLES if profile.emulated else SAMPLES),
        scope or ("network" if quantity is Quantity.TIME else "layer"),
        quantity,
        load,
        profile.timing.warmup if warmup is None else warmup,
        duration,
    )
    if profile.emulated:
        _check_emulated(profile, asked)
    return asked


def _check_emulated(profile: Profile, asked: Asked) -> None:
    """Refuse times and load on an emulated board: its times are not MET, and load does not change its counts."""
    if asked.quantity is not Quantity.INSTRUCTIONS:
        raise RequestError(
            f"board {profile.name} is emulated: its {asked.quantity.value} would not be that of the board",
            f"count its instructions, or give its address: boards.local.yaml or {host_variable(profile.name)}",
        )
    if asked.load != "idle":
        raise RequestError(
            f"--load {asked.load}: board {profile.name} is emulated, and instructions do not depend on a load",
            "omit it, or measure a real board",
        )
