"""Float32 sums by integers, against this machine's float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.core.arrays import Array
from tests.integration.programs.integer.compiled import COMPILERS, Integer, build

SCALES = (0.1, 0.0236721, 0.5, 1.9999999, 3e33, 1.2e-38, 1e-40, 1e-45)


def in_units(scale: np.float32, differences: Array) -> tuple[Array, int]:
    """Terms float32(d * scale) as multiples of the last place of the scale, and its exponent."""
    exponent = max(int(np.frexp(scale)[1]) - 24, -149)
    return np.ldexp((differences.astype(np.float32) * scale).astype(np.float64), -exponent).astype(np.int64), exponent


def is_right(integer: Integer) -> bool:
    rng = np.random.default_rng(6)
    for scale in map(np.float32, SCALES):
        for count in (1, 2, 9, 49, 1000):
            for low, high in ((-255, 256), (0, 256), (-3, 4)):
                differences = rng.integers(low, high, count)
                expected = np.float32(0)
                for d in differences:
                    expected += np.float32(d) * scale
                if integer.mean(*in_units(scale, differences)).view(np.float32)[0] != expected:
                    return False
    return True


@pytest.mark.parametrize("name", COMPILERS)
def test_every_sum_is_rounded_as_float32_is(name: str, tmp_path: Path) -> None:
    assert is_right(build(tmp_path, COMPILERS[name]))


MUTANTS = {
    "not rounded": ("(int64_t)(shifted_right(magnitude, excess) << excess)", "(int64_t)magnitude"),
    "truncated": ("shifted_right(magnitude, excess) << excess", "magnitude >> excess << excess"),
    "25 digits": ("digits > SIGNIFICAND ? digits - SIGNIFICAND", "digits > SIGNIFICAND + 1 ? digits - SIGNIFICAND - 1"),
    "sign lost": ("return value < 0 ? -rounded : rounded;", "return rounded;"),
    "sign of the bits lost": ("(sum < 0 ? 0x80000000u : 0)", "0u"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, tmp_path: Path) -> None:
    assert not is_right(build(tmp_path, [*COMPILERS["gcc"], "-w"], {"rounded_sum.h": MUTANTS[name]}))
