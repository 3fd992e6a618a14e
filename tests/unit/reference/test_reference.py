from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from harness import reference
from harness.core.errors import ReferenceFailed
from harness.model import parse
from harness.model.network import Network
from harness.model.onnx_runtime.hostcheck import ROWS, require_trusted
from harness.operators.qgemm import QGemm
from harness.reference import Defect, HostCheck, Reference
from harness.reference.stimuli import stimuli
from tests.support.builders import make_model, random_network
from tests.support.dags import random_float_graph
from tests.support.examples import examples
from tests.unit.model.test_network import a_sum_where_fusing_matters

RNG = np.random.default_rng(9)
SOUND = HostCheck((), "x86_64 avx2", "1.31.1")


@pytest.fixture(scope="module")
def small() -> Network:
    model = random_network(RNG, [3, 4, 2], weights="uint8", dequantize=True)
    return parse(model.SerializeToString(), "small")


def test_reference_gives_the_activations_on_which_both_agree(small: Network) -> None:
    x = RNG.uniform(*small.box, (100, 3)).astype(np.float32)
    expected = reference.SpecificationReference(small).activations(x)
    for one, other in zip(Reference(small).activations(x), expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_disagreement_names_layer_vector_column_and_both_values(small: Network, layer: int) -> None:
    x = RNG.uniform(*small.box, (100, 3)).astype(np.float32)
    right = Reference(small).activations(x)
    wrong = tuple(array.copy() for array in right)
    wrong[layer][17, 1] += 1
    name, values = small.layers[layer].name, f"says {wrong[layer][17, 1]}, the specification {right[layer][17, 1]} "
    with pytest.raises(ReferenceFailed, match=f"layer '{name}' .*vector 17, column 1: ONNX Runtime {values}") as caught:
        reference.require_agreement(small.layers, wrong, right, SOUND, {small.vector.name: x})
    assert "1 activations differ; onnxruntime 1.31.1, x86_64 avx2): wrong in a way that is" in caught.value.message
    assert "report it" in caught.value.hint


def test_disagreement_of_the_sign_of_zero_counts(small: Network) -> None:
    zeros = tuple(np.zeros((2, layer.size), layer.dtype) for layer in small.layers)
    negative = (*zeros[:-1], -zeros[-1])
    with pytest.raises(ReferenceFailed, match=r"says -0\.0, the specification 0\.0"):
        reference.require_agreement(
            small.layers, negative, zeros, SOUND, {small.vector.name: np.zeros((2, 3), np.float32)}
        )


def test_machine_with_a_known_defect_is_refused_with_the_way_out() -> None:
    found = (("layer_0", Defect.NONE), ("layer_1", Defect.RAGGED_COLUMNS))
    host = HostCheck(found, "x86_64 amx_int8", "1.23.2")
    words = r"onnxruntime 1\.23\.2, x86_64 amx_int8\), in products like those of layer 'layer_1': the last columns"
    with pytest.raises(ReferenceFailed, match=words) as caught:
        require_trusted(host)
    assert "another ONNX Runtime than 1.21 to 1.24" in caught.value.hint
    require_trusted(HostCheck(found[:1], "x86_64", "1.31.1"))


def test_every_batch_is_probed_before_it_is_computed(small: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[int] = []

    def check(_: Network, rows: Sequence[int], **_named: Any) -> HostCheck:
        probed.extend(rows)
        return HostCheck((), "x86_64", "1.31.1")

    monkeypatch.setattr(reference, "check_network", check)
    Reference(small).activations(np.zeros((1500, 3), np.float32))
    assert probed == [*ROWS, 1024, 1500]


def test_saturation_that_a_run_meets_is_named() -> None:
    rng = np.random.default_rng(1)
    mixed = parse(random_network(rng, [5, 9, 4], zero_points=True).SerializeToString(), "mixed")
    x = rng.uniform(*mixed.box, (500, 5)).astype(np.float32)
    right = reference.SpecificationReference(mixed).activations(x)
    layer = mixed.layers[1]
    assert isinstance(layer, QGemm)
    saturating = layer.runtime.saturating(right[0])
    assert saturating is not None
    wrong = (right[0], saturating, right[2])
    with pytest.raises(ReferenceFailed, match=r"layer 'layer_0' .* saturate to int16 \(x86-64 without") as caught:
        reference.require_agreement(mixed.layers, wrong, right, SOUND, {mixed.vector.name: x})
    assert "leave --no-x64-quant-precision out" in caught.value.hint


def test_further_engines_show_that_onnx_runtime_is_the_one_that_saturates() -> None:
    mixed = parse(random_network(np.random.default_rng(1), [5, 9, 4], zero_points=True).SerializeToString(), "mixed")
    x = np.random.default_rng(2).uniform(*mixed.box, (500, 5)).astype(np.float32)
    right = reference.SpecificationReference(mixed).activations(x)
    saturating = mixed.layers[1].runtime.saturating(right[0])
    assert saturating is not None
    found = {"ort": (right[0], saturating, right[2]), "tract": right}
    versions = {"ort": "1.31.1", "specification": "0.1.0", "tract": "0.23.9"}
    reference.require_engines(mixed.layers, {"ort": right, "tract": right}, right, versions, {mixed.vector.name: x})
    words = r"layer 'layer_0' .*; others than the specification: ort in \d+ of 4,500 activations; .* saturate to int16"
    with pytest.raises(reference.EnginesDisagree, match=words) as caught:
        reference.require_engines(mixed.layers, found, right, versions, {mixed.vector.name: x}, 1000)
    assert "leave --no-x64-quant-precision out" in caught.value.hint
    place = caught.value.disagreement["vector"] - 1000, caught.value.disagreement["index"]
    expected = {"ort": saturating[place], "specification": right[1][place], "tract": right[1][place]}
    assert caught.value.disagreement["values"] == expected
    assert np.argwhere(saturating != right[1])[0].tolist() == list(place)


def test_another_value_as_soon_as_nobody_looks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader refuses the one such fusion that is known; this is what stops an unknown one."""
    monkeypatch.setattr("harness.operators.quantize_linear._require_unfused", lambda *_: None)
    parsed = parse(a_sum_where_fusing_matters().SerializeToString(), "fused")
    x = np.random.default_rng(0).uniform(0, 2.5, (1000, 20)).astype(np.float32)
    with pytest.raises(ReferenceFailed, match=r"output 'y': ONNX Runtime gives \d+ other values of 20000"):
        Reference(parsed).activations(x)


@pytest.mark.slow
@examples(80)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_random_float_graphs_are_computed_as_their_files_have_them(seed: int, count: int) -> None:
    """Whatever ONNX Runtime leaves out or fuses in an accepted model changes no bit.

    A vector that gives a NaN made a value infinite before; the reference fails for it.
    """
    model = random_float_graph(np.random.default_rng(seed), count)
    parsed = parse(model.SerializeToString(), "floats")
    vectors = stimuli(parsed, 700, seed, special=True).chunk(0, 700)
    found = [
        values for values in reference.SpecificationReference(parsed).activations(vectors) if values.dtype.kind == "f"
    ]
    undefined, infinite = np.zeros((2, len(vectors)), np.bool_)
    for values in found:
        undefined |= np.isnan(values).any(axis=1)
        infinite |= np.isinf(values).any(axis=1)
    assert not (undefined & ~infinite).any()
    Reference(parsed).activations(vectors[~undefined])
    if undefined.any():
        with pytest.raises(ReferenceFailed, match="is no number"):
            Reference(parsed).activations(vectors)


def overflowing() -> Network:
    """Twice x plus, and minus, x times -2, of layers whose bits ONNX fixes; both products can be infinite."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["a"], name="a"),
        helper.make_node("Mul", ["x", "minus_two"], ["b"], name="b"),
        helper.make_node("Add", ["a", "b"], ["sum"], name="sum"),
        helper.make_node("Sub", ["a", "b"], ["difference"], name="difference"),
    ]
    constants = {"two": np.float32(2), "minus_two": np.float32(-2)}
    outputs = {"sum": ("float32", 2), "difference": ("float32", 2)}
    return parse(make_model(nodes, constants, outputs, width=2).SerializeToString(), "overflowing")


def test_a_sum_of_infinities_of_both_signs_has_no_reference() -> None:
    model = overflowing()
    assert [layer.output.bound for layer in model.layers] == [np.inf] * 4
    assert not any(layer.errors.has_tolerance for layer in model.layers)
    largest = np.finfo(np.float32).max
    right = Reference(model).activations(np.float32([[1, -3], [1e38, largest / 4]]))
    assert right[2].tolist() == [[0, 0], [0, 0]]
    assert right[3].tolist() == [[4, -12], [np.inf, largest]]
    with pytest.raises(ReferenceFailed, match=r"layer 'sum' \(Add\), vector 1, column 0: .* no number") as caught:
        Reference(model).activations(np.float32([[1, -3], [largest, 0]]))
    assert "input box" in caught.value.hint


def test_outputs_as_given_are_compared_by_their_bits(small: Network) -> None:
    zeros = tuple(np.zeros((2, layer.size), layer.dtype) for layer in small.layers)
    name = small.layers[-1].output.name
    reference.require_given_outputs(small.layers, zeros, {name: zeros[-1]}, SOUND)
    with pytest.raises(ReferenceFailed, match=f"output '{name}'"):
        reference.require_given_outputs(small.layers, zeros, {name: -zeros[-1]}, SOUND)
