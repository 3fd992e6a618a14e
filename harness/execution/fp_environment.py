"""The floating-point environment that a program's threads report: rounding mode, treatment of subnormal numbers.

The specification rounds to nearest, ties to even, and keeps subnormal numbers.  The program reads the control register
of each thread before it computes, between executions and at the end (kernels/program/fp_environment.h), and refuses any
other environment; this machine checks what it reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from harness.core.errors import BoardError

STANDARD = {"MXCSR": 0x1F80, "FPCR": 0, "FPSCR": 0, "FPSCR_MVE": 0x40000}
EXCEPTION_FLAGS = {
    "MXCSR": 0x3F,
    "FPCR": 0,
    "FPSCR": 0xF800009F,
    "FPSCR_MVE": 0xF800009F,
}  # FPSCR: with those of comparisons


@dataclass(frozen=True, order=True)
class FpEnvironment:
    """The control register of an item's thread, after its start and before its end."""

    item: str
    register: str
    before: str
    after: str

    @property
    def is_standard(self) -> bool:
        """Return whether both values mean: round to nearest even, keep subnormal numbers, no traps."""
        expected = STANDARD.get(self.register)
        flags = EXCEPTION_FLAGS.get(self.register, 0)
        return all(int(value, 16) & ~flags == expected for value in (self.before, self.after))


def parse(reported: Any) -> list[FpEnvironment]:
    """Return the reported environment of each item; BoardError if it is missing, damaged or not the standard one."""
    try:
        found = [FpEnvironment(**item) for item in reported]
        wrong = [each for each in found if not each.is_standard]
    except (TypeError, ValueError) as error:
        raise BoardError(f"the program on the board reports {reported!r} as its floating-point environment") from error
    if not found or wrong:
        raise BoardError(
            f"the program on the board computes in the floating-point environment {wrong or reported!r}",
            "expected are round to nearest even and subnormal numbers: MXCSR 0x1f80, FPCR 0x0, FPSCR 0x0, "
            "FPSCR_MVE 0x40000",
        )
    return found


def document(found: Iterable[FpEnvironment]) -> list[dict[str, str]]:
    """Return JSON types in a fixed order."""
    return [asdict(each) for each in sorted(found)]


def text(found: Iterable[FpEnvironment]) -> str:
    """Return one line for a report."""
    return "; ".join(f"{each.item}: {each.register} {each.before} before, {each.after} after" for each in sorted(found))
