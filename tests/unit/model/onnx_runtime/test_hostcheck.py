from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.core.installation import ROOT
from harness.model import load, parse
from harness.model.network import Network
from harness.model.onnx_runtime import hostcheck, sessions
from harness.model.onnx_runtime.hostcheck import Defect
from harness.operators import product as products_8bit
from harness.operators.product import Product
from harness.operators.qgemm import QGemm
from tests.integration.reference.test_other_hosts import wide_model
from tests.support.builders import random_network

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
    assert products_8bit.saturating_product(a, b) - product(a, b) == missing


def test_saturating_product_of_an_odd_depth_and_of_small_weights_is_exact() -> None:
    a, b = matrices(depth=51)
    b = (b // 2).astype(np.int8)  # -64 to 63: two products stay within int16
    assert np.array_equal(products_8bit.saturating_product(a, b), product(a, b))


# Sessions that are wrong as ONNX Runtime was, or in other ways.


@dataclass(frozen=True)
class WrongSession:
    """ONNX Runtime's session of a probe, with outputs that `change` makes of the right ones."""

    session: Any
    product: Product
    b: Array
    change: Callable[[Product, Array, Array, Array], Array]

    def run(self, names: None, inputs: dict[str, Array]) -> list[Array]:
        [outputs] = self.session.run(names, inputs)
        return [self.change(self.product, inputs["a"], self.b, outputs.copy())]


@pytest.fixture
def wrong_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Let the probes meet wrong sessions, computed anew."""
    model, session = hostcheck._model, sessions.session
    probed: list[tuple[Product, Array]] = []

    def remember(product: Product, b: Array) -> bytes:
        probed.append((product, b))
        return model(product, b)

    def patch(change: Any) -> None:
        hostcheck.defect.cache_clear()
        monkeypatch.setattr(hostcheck, "_model", remember)
        monkeypatch.setattr(
            hostcheck.sessions,
            "session",
            lambda *given, **named: WrongSession(session(*given, **named), *probed[-1], change),
        )

    yield patch
    hostcheck.defect.cache_clear()


def ragged(product: Product, a: Array, _: Array, outputs: Array) -> Array:
    """Return what onnxruntime 1.23.2 gave on a processor with AMX: recorded at K = 5 and 50, N = 50, M = 32 to 4096."""
    if product.input_zero_point and len(a) >= 32 and product.width > 16:
        outputs[31::32, product.width // 16 * 16 :] += 26624
    return outputs


def saturating(product: Product, a: Array, b: Array, outputs: Array) -> Array:
    """Return what the kernels for AVX2 give."""
    if (product.input_dtype, product.weights_dtype) != ("uint8", "int8"):
        return outputs
    zero_points = np.array(product.weights_zero_points)
    return products_8bit.saturated(a, b, product.input_zero_point, zero_points).astype(np.float32)


def off_by_one(_product: Product, _a: Array, _b: Array, outputs: Array) -> Array:
    outputs[0, 0] += 1
    return outputs


def net_of(zero_points: bool = True, **options: Any) -> Network:
    model = random_network(np.random.default_rng(3), (5, 50, 50, 5), zero_points=zero_points, **options)
    return parse(model.SerializeToString(), "network")


def with_small_weights() -> Network:
    return parse(wide_model(small_weights=True).SerializeToString(), "small")


def found_in(net: Network, rows: Sequence[int] = hostcheck.ROWS) -> list[Defect]:
    return [defect for _, defect in hostcheck.check_network(net, rows, x64_quant_precision=True).defects]


def test_the_defect_of_amx_is_found_at_the_zero_points_of_the_network(wrong_runtime: Any) -> None:
    wrong_runtime(ragged)
    assert found_in(net_of()) == [Defect.RAGGED_COLUMNS, Defect.RAGGED_COLUMNS, Defect.NONE]
    assert found_in(net_of(zero_points=False)) == [Defect.NONE] * 3
    assert found_in(net_of(), (1, 31)) == [Defect.NONE] * 3
    assert found_in(net_of(), (10_000,)) == [Defect.RAGGED_COLUMNS, Defect.RAGGED_COLUMNS, Defect.NONE]
    assert dict(hostcheck.check_host(x64_quant_precision=True).defects)["uint8 x uint8"] is Defect.RAGGED_COLUMNS


@pytest.mark.parametrize("per_column", [False, True])
def test_saturating_kernels_are_recognised_at_any_zero_points(wrong_runtime: Any, per_column: bool) -> None:
    wrong_runtime(saturating)
    assert found_in(net_of(per_column=per_column)) == [Defect.SATURATION] * 3
    assert found_in(net_of(weights="uint8", per_column=per_column)) == [Defect.NONE] * 3
    assert found_in(net_of(activations="int8", per_column=per_column)) == [Defect.NONE] * 3
    assert dict(hostcheck.check_host(x64_quant_precision=True).defects)["uint8 x int8"] is Defect.SATURATION


def test_weights_of_64_at_most_are_accepted_where_kernels_saturate(wrong_runtime: Any) -> None:
    wrong_runtime(saturating)
    assert found_in(with_small_weights()) == [Defect.NONE] * 3
    wrong_runtime(ragged)
    assert found_in(with_small_weights())[0] is Defect.RAGGED_COLUMNS


def test_any_other_difference_is_unknown(wrong_runtime: Any) -> None:
    wrong_runtime(off_by_one)
    assert found_in(net_of()) == [Defect.UNKNOWN] * 3
    assert "report it" in Defect.UNKNOWN.remedy


@pytest.mark.parametrize("options", [{}, {"per_column": True}, {"weights": "uint8"}, {"activations": "int8"}], ids=str)
def test_every_layer_is_probed_with_its_shape_types_and_zero_points(options: dict[str, Any]) -> None:
    net = net_of(**options)
    for layer in net.layers:
        if isinstance(layer, QGemm):
            product = layer.runtime.product()
            assert (product.depth, product.width) == layer.weights.shape
            assert (product.input_dtype, product.weights_dtype) == (layer.input.dtype.name, layer.weights.dtype.name)
            assert product.input_zero_point == layer.a_zero_point != 0
            zero_points = np.broadcast_to(product.weights_zero_points, layer.size)
            assert np.array_equal(zero_points, layer.weights_zero_point)
            assert len(product.weights_zero_points) == (layer.size if "per_column" in options else 1)
            assert not product.small


def test_probes_reach_the_extremes() -> None:
    for name, bounds in (("uint8", None), ("int8", None), ("int8", hostcheck.SMALL)):
        codes = hostcheck.random_codes(np.random.default_rng(0), name, (251, 50), bounds)
        low, high = bounds or (np.iinfo(name).min, np.iinfo(name).max)
        assert (codes.min(), codes.max()) == (low, high)
        assert 0.29 < np.isin(codes, [low, high]).mean() < 0.33


def test_checking_a_network_takes_little_time() -> None:
    net = load(ROOT / "models" / "acas_coc.onnx")
    hostcheck.check_network(net)
    hostcheck.defect.cache_clear()
    started = time.process_time()
    hostcheck.check_network(net)
    assert time.process_time() - started < 0.3


# A run in which ONNX Runtime and the specification differ.


@pytest.mark.parametrize("options", [{}, {"float_output": True}, {"per_column": True}], ids=str)
def test_a_difference_of_a_run_is_named_as_the_check_names_it(options: dict[str, Any]) -> None:
    net = net_of(**options)
    layer = net.layers[-1]
    assert isinstance(layer, QGemm)
    codes = hostcheck.random_codes(np.random.default_rng(5), "uint8", (64, 50))
    right = layer.prepare()(codes)
    wrong = layer.runtime.saturating(codes)
    assert wrong is not None
    assert (wrong != right).any()
    assert hostcheck.classify_layer(layer, codes, right, wrong) is Defect.SATURATION
    assert hostcheck.classify_layer(layer, codes, right, right) is Defect.NONE
    wrong[np.argwhere(wrong != right)[0][0]] = right[0] // 2
    assert hostcheck.classify_layer(layer, codes, right, wrong) is Defect.UNKNOWN


@pytest.mark.parametrize(
    ("rows", "row", "column", "defect"),
    [(64, 31, 48, Defect.RAGGED_COLUMNS), (64, 31, 47, Defect.UNKNOWN), (31, 30, 49, Defect.UNKNOWN)],
)
def test_wrong_last_columns_of_32_rows_are_named(rows: int, row: int, column: int, defect: Defect) -> None:
    layer = net_of().layers[1]
    codes = hostcheck.random_codes(np.random.default_rng(5), "uint8", (rows, 5))
    right = layer.prepare()(codes)
    wrong = right.copy()
    wrong[row, column] ^= 1
    assert hostcheck.classify_layer(layer, codes, right, wrong) is defect


def test_a_difference_of_another_operator_is_unknown() -> None:
    layer = net_of().layers[0]
    right = np.zeros((3, 5), np.uint8)
    assert hostcheck.classify_layer(layer, np.zeros((3, 5), np.float32), right, right + 1) is Defect.UNKNOWN


@pytest.mark.parametrize(("depth", "types"), [(50, ("uint8", "int8")), (51, ("uint8", "uint8"))])
def test_zero_points_are_accounted_for_in_sums_that_do_not_saturate(depth: int, types: tuple[str, str]) -> None:
    a, b = matrices(33, depth, *types)
    b = (b // 4).astype(b.dtype)
    zero_points = np.arange(50)
    product = Product(*types, depth, 50, 99, tuple(zero_points.tolist()))
    if types[1] == "int8":
        sums = products_8bit.saturated(a, b, 99, zero_points)
        assert np.array_equal(sums, (a.astype(np.int64) - 99) @ (b.astype(np.int64) - zero_points))
    right = (a.astype(np.int64) - 99) @ (b.astype(np.int64) - zero_points)
    assert np.array_equal(hostcheck.exact_product(product, a, b), right.astype(np.float32))


def test_probes_that_disagree_are_summarised_as_unknown() -> None:
    assert hostcheck.summarise([Defect.NONE, Defect.NONE]) is Defect.NONE
    assert hostcheck.summarise([Defect.NONE, Defect.SATURATION]) is Defect.SATURATION
    assert hostcheck.summarise([Defect.RAGGED_COLUMNS, Defect.SATURATION]) is Defect.UNKNOWN


@pytest.mark.parametrize("x64_quant_precision", [False, True])
def test_this_machine_is_as_its_instruction_set_says(x64_quant_precision: bool) -> None:
    host = hostcheck.check_host(x64_quant_precision=x64_quant_precision)
    features = host.instruction_set.split()
    saturates = "avx2" in features and not {"avx512_vnni", "avx_vnni", "amx_int8"} & set(features)
    mixed = Defect.SATURATION if saturates and not x64_quant_precision else Defect.NONE
    assert dict(host.defects) == {"uint8 x int8": mixed, "uint8 x uint8": Defect.NONE, "int8 x int8": Defect.NONE}


def test_instruction_set_lists_the_features_that_choose_a_kernel(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags : fpu avx2 sse4_1 avx512_vnni\n")
    assert hostcheck.instruction_set(cpuinfo).split()[1:] == ["sse4_1", "avx2", "avx512_vnni"]
    cpuinfo.write_text("processor : 0\nFeatures : fp asimd asimddp\n")
    assert hostcheck.instruction_set(cpuinfo).split()[1:] == ["asimd", "asimddp"]
    assert len(hostcheck.instruction_set(tmp_path / "missing").split()) == 1


def test_every_defect_has_a_remedy() -> None:
    assert all(defect.remedy for defect in Defect if defect is not Defect.NONE)
    assert "x64-quant-precision" in Defect.SATURATION.remedy
