"""Standard JSON: NaN and the infinities, which JSON lacks, are written as strings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as Python and JavaScript read them back


def text(document: Mapping[str, Any]) -> str:
    """Return the document, see `spelled`; TypeError for a value that JSON lacks."""
    return json.dumps(spelled(document), indent=1, allow_nan=False)


def spelled(value: Any) -> Any:
    """Return the value with each number that JSON lacks as a string: `NaN`, `Infinity` or `-Infinity`."""
    if isinstance(value, Mapping):
        return {key: spelled(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(entry) for entry in value]
    return NAMES[repr(float(value))] if isinstance(value, float) and not math.isfinite(value) else value


def number(value: float | str) -> float:
    """Return a number, also from a string that `spelled` made of it; ValueError for another string."""
    return float(value) if isinstance(value, str) else value
