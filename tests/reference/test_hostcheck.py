from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness import network
from harness.reference import hostcheck
from harness.reference.hostcheck import Defect, HostCheck
from tests.builders import random_network

Array = npt.NDArray[Any]


def matrices(rows: int = 33, depth: int = 50, a_type: str = "uint8", b_type: str = "int8") -> tuple[Array, Array]:
    rng = np.random.default_rng(2)
    limits_a, limits_b = np.iinfo(a_type), np.iinfo(b_type)
    a = rng.integers(limits_a.min, limits_a.max + 1, (rows, depth)).astype(a_type)
    return a, rng.integers(limits_b.min, limits_b.max + 1, (depth, 50)).astype(b_type)


def product(a: Array, b: Array) -> Array:
    return a.astype(np.int64) @ b.astype(np.int64)


@pytest.mark.parametrize(("depth", "missing"), [(2, 32_512), (50, 812_800)])
def test_saturating_product_loses_what_the_kernels_lose_at_the_extremes(depth: int, missing: int) -> None:
    a, b = np.full((1, depth), 255, np.uint8), np.full((depth, 1), -128, np.int8)
    assert hostcheck.saturating_product(a, b) - product(a, b) == missing


def test_saturating_product_of_an_odd_depth_and_of_small_weights_is_exact() -> None:
    a, b = matrices(depth=51)
    b = (b // 2).astype(np.int8)  # -64 to 63: two products stay within int16
    assert np.array_equal(hostcheck.saturating_product(a, b), product(a, b))


def test_exact_product_is_no_defect() -> None:
    a, b = matrices()
    assert hostcheck.classify(a, b, product(a, b)) is Defect.NONE


def test_saturating_kernel_is_recognised() -> None:
    a, b = matrices()
    assert hostcheck.classify(a, b, hostcheck.saturating_product(a, b)) is Defect.SATURATION


def test_wrong_last_columns_of_32_rows_are_recognised() -> None:
    a, b = matrices(rows=64)
    wrong = product(a, b)
    wrong[[31, 63], 48:50] += 7
    assert hostcheck.classify(a, b, wrong) is Defect.RAGGED_COLUMNS


@pytest.mark.parametrize(("rows", "row", "column"), [(64, 31, 47), (31, 30, 49)])
def test_any_other_difference_is_unknown(rows: int, row: int, column: int) -> None:
    a, b = matrices(rows)
    wrong = product(a, b)
    wrong[row, column] += 1
    assert hostcheck.classify(a, b, wrong) is Defect.UNKNOWN


def test_probes_that_disagree_are_summarised_as_unknown() -> None:
    assert hostcheck.summarise([Defect.NONE, Defect.NONE]) is Defect.NONE
    assert hostcheck.summarise([Defect.NONE, Defect.SATURATION]) is Defect.SATURATION
    assert hostcheck.summarise([Defect.RAGGED_COLUMNS, Defect.SATURATION]) is Defect.UNKNOWN


@pytest.mark.parametrize("pair", hostcheck.TYPE_PAIRS)
def test_probes_cover_rows_depths_and_extremes_and_meet_a_saturating_kernel(pair: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    probes = [
        probe
        for depth in hostcheck.DEPTHS
        for probe in hostcheck._products(rng, pair, depth, x64_quant_precision=False)
    ]
    assert {a.shape for a, _, _ in probes} == {(m, k) for m in hostcheck.ROWS for k in hostcheck.DEPTHS}
    extremes = np.mean(
        np.concatenate([np.isin(a, [np.iinfo(a.dtype).min, np.iinfo(a.dtype).max]).ravel() for a, _, _ in probes])
    )
    assert 0.25 < extremes < 0.35
    assert Defect.SATURATION in [hostcheck.classify(a, b, hostcheck.saturating_product(a, b)) for a, b, _ in probes]


@pytest.mark.parametrize("x64_quant_precision", [False, True])
def test_this_machine_is_as_its_instruction_set_says(x64_quant_precision: bool) -> None:
    host = hostcheck.check_host(x64_quant_precision=x64_quant_precision)
    features = host.instruction_set.split()
    saturates = "avx2" in features and not {"avx512_vnni", "avx_vnni", "amx_int8"} & set(features)
    mixed = Defect.SATURATION if saturates and not x64_quant_precision else Defect.NONE
    assert dict(host.defects) == {
        ("uint8", "int8"): mixed,
        ("uint8", "uint8"): Defect.NONE,
        ("int8", "int8"): Defect.NONE,
    }


def test_defect_is_that_of_the_networks_own_types() -> None:
    host = HostCheck(((("uint8", "int8"), Defect.SATURATION), (("uint8", "uint8"), Defect.NONE)), "x86_64", "1.31.1")
    rng = np.random.default_rng(0)
    int8, uint8 = (
        network.parse(random_network(rng, [2, 3], weights=weights).SerializeToString(), weights)
        for weights in ("int8", "uint8")
    )
    assert host.defect(int8) is Defect.SATURATION
    assert host.defect(uint8) is Defect.NONE


def test_instruction_set_lists_the_features_that_choose_a_kernel(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags : fpu avx2 sse4_1 avx512_vnni\n")
    assert hostcheck.instruction_set(cpuinfo).split()[1:] == ["sse4_1", "avx2", "avx512_vnni"]
    cpuinfo.write_text("processor : 0\nFeatures : fp asimd asimddp\n")
    assert hostcheck.instruction_set(cpuinfo).split()[1:] == ["asimd", "asimddp"]
    assert len(hostcheck.instruction_set(tmp_path / "missing").split()) == 1


def test_every_defect_has_a_remedy() -> None:
    assert all(defect.remedy for defect in Defect if defect is not Defect.NONE)
    assert "x64quantprecision" in Defect.SATURATION.remedy
