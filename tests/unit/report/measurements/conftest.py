"""Documents of measurements; their statistics are computed once, every test has a copy of its own."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest

from tests.support.measurement import documents


@functools.cache
def _made(name: str) -> dict[str, Any]:
    base = documents.gumbel(4000)
    return {
        "sound": lambda: documents.timed(base),
        "disturbed": lambda: documents.timed(documents.disturbed(4000)),
        "slower": lambda: documents.timed(documents.gumbel(4000, seed=3, location=60_000), base=base),
        "noisy": lambda: documents.timed(5 * base, base=documents.wandering(4000)),
        "layers": lambda: documents.timed(base // 10, base, base // 40, names=("first", "second", "third")),
        "few": lambda: documents.timed(base[:1000]),
        "counted": documents.counted,
        "varying": lambda: documents.counted(2061 + np.arange(2000) % 1000 % 4),
    }[name]()


@pytest.fixture
def sound() -> dict[str, Any]:
    """Independent times on hardware to which both laws of extremes apply."""
    return copy.deepcopy(_made("sound"))


@pytest.fixture
def disturbed() -> dict[str, Any]:
    """Times with a warm-up and periodic outliers."""
    return copy.deepcopy(_made("disturbed"))


@pytest.fixture
def slower() -> dict[str, Any]:
    """Times that are 20 % slower than their base."""
    return copy.deepcopy(_made("slower"))


@pytest.fixture
def noisy() -> dict[str, Any]:
    """Return times that are five times those of a base that is too noisy to tell."""
    return copy.deepcopy(_made("noisy"))


@pytest.fixture
def layers() -> dict[str, Any]:
    """Times of three parts."""
    return copy.deepcopy(_made("layers"))


@pytest.fixture
def few() -> dict[str, Any]:
    """Too few times for their highest quantiles and for every law."""
    return copy.deepcopy(_made("few"))


@pytest.fixture
def counted() -> dict[str, Any]:
    """Equal counts of an emulated board."""
    return copy.deepcopy(_made("counted"))


@pytest.fixture
def varying() -> dict[str, Any]:
    """Counts of an emulated board that depend on the vector in one layer."""
    return copy.deepcopy(_made("varying"))
