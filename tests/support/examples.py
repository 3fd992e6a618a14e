"""How many examples and cases are tested by `make test`; `make campaigns` tests all.

A property has a quarter of its examples, of 10 or more, unless HARNESS_EXAMPLES is `all`.  They are the same every day.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import settings

ALL = os.environ.get("HARNESS_EXAMPLES") == "all"


def count(most: int) -> int:
    """Return how many of `most` examples are tested."""
    return most if ALL else max(most // 4, min(most, 10))


def examples(most: int, **more: Any) -> settings:
    """Return the settings of a property with up to `most` examples; `more` are others of hypothesis."""
    return settings(max_examples=count(most), **more)


def first_of_each(wrong: Mapping[str, Sequence[str]]) -> list[Any]:
    """Return the names of wrong programs, whose last entry is a layer; `make test` has the first of each layer."""
    first = {entry[-1]: name for name, entry in reversed(wrong.items())}
    return in_test(wrong, list(first.values()))


def in_test(cases: Iterable[str], kept: Container[str]) -> list[Any]:
    """Return the cases; those that are not `kept` have the mark of the campaigns."""
    return [pytest.param(case, marks=() if case in kept else pytest.mark.campaign) for case in cases]


def alternating(named: Mapping[str, Any], ways: Sequence[Any]) -> list[Any]:
    """Return all pairs of a named value and a way; in `make test` each value has one way, the next value the next."""
    return [
        pytest.param(value, way, id=f"{name}-{way}", marks=() if (number + at) % len(ways) else pytest.mark.campaign)
        for number, (name, value) in enumerate(named.items())
        for at, way in enumerate(ways)
    ]
