"""Sums of products: the portable form, and the C7x's text against a model of its vectors and its instruction."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.core.arrays import Array
from tests.integration.programs.integer.compiled import (
    COMPILED,
    COMPILERS,
    HERE,
    LANES,
    MODELLED,
    QUAD,
    REGISTER_BYTES,
    Integer,
    build,
    compile_quietly,
)

GROUPS, QUADS = range(1, 7), range(1, 21)


def packed(b: Array) -> Array:
    """Weights (width, depth) int8 in the order of dot4.h, filled up with zeros: (groups, quads, LANES, QUAD)."""
    width, depth = b.shape
    groups, quads = -(-width // LANES), -(-depth // QUAD)
    result = np.zeros((groups, quads, LANES, QUAD), np.int8)
    for n in range(width):
        for k in range(depth):
            result[n // LANES, k // QUAD, n % LANES, k % QUAD] = b[n, k]
    return result


def filled(a: Array) -> Array:
    return np.concatenate([a, np.zeros(-len(a) % QUAD, np.uint8)])


def operands() -> Iterator[tuple[Array, Array]]:
    """a (depth,) and b (width, depth) of every number of groups and quads, with all tails, random and extreme."""
    rng = np.random.default_rng(7)
    for groups in GROUPS:
        for quads in QUADS:
            width = groups * LANES - int(rng.integers(LANES))
            depth = quads * QUAD - (groups + quads) % QUAD
            yield rng.integers(0, 256, depth, np.uint8), rng.integers(-128, 128, (width, depth), np.int8)
            yield np.full(depth, 255, np.uint8), np.full((width, depth), -128, np.int8)
            extreme = rng.choice(np.array([-128, -1, 0, 127], np.int8), (width, depth))
            yield rng.choice(np.array([0, 1, 127, 128, 255], np.uint8), depth), extreme


def is_right(integer: Integer) -> bool:
    """Whether all sums are those of int64, and those beyond the width 0."""
    for a, b in operands():
        expected = b.astype(np.int64) @ a.astype(np.int64)
        sums = integer.dot(filled(a), packed(b))
        if not np.array_equal(sums[: len(b)], expected) or sums[len(b) :].any():
            return False
        panel = np.random.default_rng(len(a)).integers(0, 256, (-(-len(a) // QUAD), LANES, QUAD), np.uint8)
        weights = packed(b[:1])[0, :, 0].reshape(-1)
        by_lane = panel.transpose(1, 0, 2).reshape(LANES, -1).astype(np.int64)
        if not np.array_equal(integer.positions(panel, weights), by_lane @ weights):
            return False
    return True


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> Integer:
    return build(tmp_path_factory.mktemp("modelled"), MODELLED)


@pytest.mark.parametrize("name", COMPILERS)
def test_the_portable_form_adds_as_int64_does(name: str, tmp_path: Path) -> None:
    assert is_right(build(tmp_path, COMPILERS[name]))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", COMPILED)
def test_other_compilers_say_nothing(name: str, tmp_path: Path) -> None:
    compile_quietly(tmp_path, [*COMPILED[name], "-O2", "-c"], HERE / "driver.c", tmp_path / "integer.o")


def test_the_c7x_form_adds_as_int64_does(modelled: Integer) -> None:
    assert is_right(modelled)


def test_the_shapes_have_all_tails() -> None:
    shapes = {b.shape for _, b in operands()}
    assert {(-(-width // LANES), -(-depth // QUAD)) for width, depth in shapes} == {
        (groups, quads) for groups in GROUPS for quads in QUADS
    }
    assert {width % LANES for width, _ in shapes} == set(range(LANES))
    assert {depth % QUAD for _, depth in shapes} == set(range(QUAD))


def test_a_byte_of_the_operands_meets_its_own_and_counts_in_its_lane_alone(modelled: Integer) -> None:
    for byte in range(REGISTER_BYTES):
        a, b = np.zeros(REGISTER_BYTES, np.int8), np.zeros(REGISTER_BYTES, np.uint8)
        a[byte], b[byte] = -128, 255
        expected = np.zeros(LANES, np.int32)
        expected[byte // QUAD] = -128 * 255
        assert np.array_equal(modelled.instruction(a, b), expected)
        assert np.array_equal(modelled.instruction(a, np.full_like(b, 255)), expected)
        assert not modelled.instruction(a, 255 - b).any()


def test_four_extreme_products_are_a_lane_without_saturation(modelled: Integer) -> None:
    lanes = modelled.instruction(np.full(REGISTER_BYTES, -128, np.int8), np.full(REGISTER_BYTES, 255, np.uint8))
    assert lanes.tolist() == [-130_560] * LANES


@pytest.mark.half_of_cases
@pytest.mark.parametrize("form", ["portable", "c7x"])
@pytest.mark.parametrize(("n", "k"), [(0, 0), (0, 3), (1, 0), (15, 7), (16, 0), (17, 5), (31, 6), (47, 11)])
def test_the_weight_at_the_documented_place_belongs_to_its_output_and_input(
    n: int, k: int, form: str, modelled: Integer, tmp_path: Path
) -> None:
    integer = modelled if form == "c7x" else build(tmp_path)
    groups, quads = 3, 3
    b = np.zeros(groups * quads * LANES * QUAD, np.int8)
    b[((n // 16 * quads + k // 4) * 16 + n % 16) * 4 + k % 4] = -77
    a = np.arange(101, 101 + quads * QUAD, dtype=np.uint8)
    expected = np.zeros(groups * LANES, np.int32)
    expected[n] = -77 * (101 + k)
    assert np.array_equal(integer.dot(a, b.reshape(groups, quads, LANES, QUAD)), expected)


ALL_PRODUCTS = """
    for (int byte = 0; byte < 64; ++byte)
        sums.element[byte / 4] += a.element[byte] * b.element[byte];
"""
SATURATING_PAIRS = """
    for (int byte = 0; byte < 64; byte += 2) {
        const int pair = a.element[byte] * b.element[byte] + a.element[byte + 1] * b.element[byte + 1];
        sums.element[byte / 4] += pair < -32768 ? -32768 : pair > 32767 ? 32767 : pair;
    }
"""
MUTANTS = {
    "bytes of a lane reversed in one operand": (
        "c7x.h",
        "sums.element[byte / 4] += a.element[byte] * b.element[byte]",
        "sums.element[byte / 4] += a.element[byte ^ 3] * b.element[byte]",
    ),
    "lanes reversed": ("c7x.h", "sums.element[byte / 4]", "sums.element[15 - byte / 4]"),
    "lanes not of four neighbours": ("c7x.h", "sums.element[byte / 4]", "sums.element[byte % 16]"),
    "unsigned x unsigned": ("c7x.h", "a.element[byte] * b", "(uint8_t)a.element[byte] * b"),
    "signed x signed": ("c7x.h", "* b.element[byte]", "* (int8_t)b.element[byte]"),
    "pairs saturate at int16": ("c7x.h", ALL_PRODUCTS, SATURATING_PAIRS),
    "operands exchanged": (
        "c7x.h",
        "a.element[byte] * b.element[byte]",
        "(uint8_t)a.element[byte] * (int8_t)b.element[byte]",
    ),
    "the first quad for all": ("dot4.h", "((const int32_t *)a)[q]", "((const int32_t *)a)[0]"),
    "the first weights for all": ("dot4.h", "((const int32_t *)b)[q]", "((const int32_t *)b)[0]"),
    "the first codes for all": ("dot4.h", "&panel[q * LANES * QUAD]", "&panel[0 * LANES * QUAD]"),
    "a byte for all": ("dot4.h", "((const int32_t *)a)[q]", "a[q * QUAD] * 0x01010101"),
    "the first group's weights": ("dot4.h", "(const char64 *)&b[(g * quads + q)", "(const char64 *)&b[(0 * quads + q)"),
    "inputs before outputs": ("dot4.h", "(const char64 *)&b[(g * quads + q)", "(const char64 *)&b[(q * groups + g)"),
    "the last quad alone": ("dot4.h", "sum += __vdotp4subw_vvv(weights", "sum = __vdotp4subw_vvv(weights"),
    "all groups in the first's place": ("dot4.h", "*(int16 *)&dot[g * LANES]", "*(int16 *)&dot[0 * g]"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_model_or_of_the_c7x_form_is_caught(name: str, tmp_path: Path) -> None:
    header, old, new = MUTANTS[name]
    assert not is_right(build(tmp_path, [*MODELLED, "-w"], {header: (old, new)}))


def test_no_undefined_behaviour_and_every_vector_aligned(tmp_path: Path) -> None:
    assert sanitized(tmp_path, 0).returncode == 0


def test_the_model_does_not_read_a_vector_from_anywhere(tmp_path: Path) -> None:
    done = sanitized(tmp_path, 4)
    assert done.returncode != 0
    assert "misaligned address" in done.stderr


def sanitized(folder: Path, offset: int) -> subprocess.CompletedProcess[str]:
    """A program that multiplies extremes under UBSan, b `offset` bytes behind a multiple of a register."""
    program = folder / "program.cpp"
    program.write_text(f"""
#include "dot4.h"
alignas(64) static int8_t b[3 * 5 * 64 + 64];
alignas(64) static int32_t dot[3 * 16];
static uint8_t a[5 * 4];
int main()
{{
    for (int8_t &one : b) one = -128;
    for (uint8_t &one : a) one = 255;
    dot_products(3, 5, a, b + {offset}, dot);
    return dot[47] != -128 * 255 * 20;
}}
""")
    sanitizers = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")
    compile_quietly(folder, [*MODELLED, "-O1", "-g", *sanitizers], program, folder / "program")
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=False, timeout=60)
