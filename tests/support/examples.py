"""How many examples a property is tested with: a quarter of them, of 10 or more, unless HARNESS_EXAMPLES is `all`.

The examples are the same every day.  `make campaigns` tests every property with all of its examples.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

ALL = os.environ.get("HARNESS_EXAMPLES") == "all"


def count(most: int) -> int:
    """Return how many of `most` examples are tested."""
    return most if ALL else max(most // 4, min(most, 10))


def examples(most: int, **more: Any) -> settings:
    """Return the settings of a property with up to `most` examples; `more` are others of hypothesis."""
    return settings(max_examples=count(most), **more)
