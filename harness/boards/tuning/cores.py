"""Sets of cores as the kernel writes them: `0-3,5`."""

from __future__ import annotations

import re
from collections.abc import Collection

MOST_CORES = 4096


def parse(text: str) -> frozenset[int] | None:
    """Return the cores of a text such as `0-3,5`; None for another text."""
    if not re.fullmatch(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*", text, re.ASCII):
        return None
    bounds = [part.split("-") for part in text.split(",")]
    return frozenset(core for ends in bounds for core in range(int(ends[0]), min(int(ends[-1]), MOST_CORES) + 1))


def text(cores: Collection[int]) -> str:
    """Return the cores as a comma-separated list, which the kernel reads."""
    return ",".join(map(str, sorted(cores)))
