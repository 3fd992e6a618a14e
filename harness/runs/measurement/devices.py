"""Times that accelerators report: a GPU's events, OpenVX's nodes, XRT's transfers and kernels.

The board's program writes their sum, minimum and maximum to times_<item>.jsonl, one line per operation.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.core.errors import BoardError
from harness.core.safe_io import parse_json

LARGEST_FILE = 1 << 20
NAME = re.compile(r"[ -~]{1,200}")
NUMBERS = ("executions", "average_ns", "least_ns", "greatest_ns")


@dataclass(frozen=True)
class DeviceTime:
    """Time of an operation on an item's device: `kind` is the driver's name, e.g. node, kernel, to_device."""

    item: str
    kind: str
    name: str
    executions: int
    average_ns: int
    least_ns: int
    greatest_ns: int


def parse(item: str, text: str) -> tuple[DeviceTime, ...]:
    """Return the lines of an item's file, which comes from a board; BoardError if they are anything else."""
    return tuple(_line(item, line) for line in text.splitlines())


def _line(item: str, line: str) -> DeviceTime:
    try:
        entry: dict[str, Any] = parse_json(line)
        numbers = {name: entry.pop(name) for name in NUMBERS}
        [(kind, name)] = entry.items()
    except (ValueError, KeyError, AttributeError, TypeError):
        raise _nonsense(item, line) from None
    texts = all(isinstance(text, str) and NAME.fullmatch(text) for text in (kind, name))
    if not texts or not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers.values()):
        raise _nonsense(item, line)
    return DeviceTime(item, kind, name, **numbers)


def _nonsense(item: str, line: str) -> BoardError:
    return BoardError(f"the program on the board reports for the device of item {item}: {line[:200]!r}")


def together(times: Iterable[DeviceTime]) -> tuple[DeviceTime, ...]:
    """Merge the times of several processes per operation, in the order of the first process."""
    found: dict[tuple[str, str, str], list[DeviceTime]] = {}
    for time in times:
        found.setdefault((time.item, time.kind, time.name), []).append(time)
    return tuple(itertools.starmap(_sum, found.items()))


def _sum(key: tuple[str, str, str], parts: list[DeviceTime]) -> DeviceTime:
    parts = [part for part in parts if part.executions] or parts[:1]
    executions = sum(part.executions for part in parts)
    total_ns = sum(part.executions * part.average_ns for part in parts)
    least_ns, greatest_ns = min(part.least_ns for part in parts), max(part.greatest_ns for part in parts)
    return DeviceTime(*key, executions, total_ns // executions if executions else 0, least_ns, greatest_ns)
