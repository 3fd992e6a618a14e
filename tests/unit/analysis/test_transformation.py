"""The measurements of transforms: right ones pass, and wrong ones are found whatever they claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from harness.analysis.transformation import Measured, measure, share_of_bound, transform
from harness.model import transforms
from harness.model.network import Network
from harness.model.transforms import Transform, batch_normalization, constants
from harness.model.transforms.edit import Applied, Fold
from harness.reference.stimuli import stimuli
from tests.support.transforms import Chain, floats, random_network, statistics

FOLDS = ("normalization", "batch-normalization")
Change = Callable[[onnx.ModelProto], None]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("seed", range(20))
def test_random_networks_keep_their_bits_and_their_function(seed: int) -> None:
    onnx_bytes = random_network(np.random.default_rng(seed)).SerializeToString()
    exact = transform(onnx_bytes, "net", (), 64, 1)
    assert exact.measured.differing == 0
    assert exact.measured.values % 64 == 0
    assert {report.name: report.share_of_bound for report in exact.reports} == dict.fromkeys(
        ("constants", "dropout", "reshape")
    )
    folded = transform(onnx_bytes, "net", ("dropout", *FOLDS), 64, 1)
    assert 0 < folded.measured.largest_difference < 2e-5 * folded.measured.largest_value
    for report in folded.reports[1:]:
        assert report.share_of_bound is not None
        assert 0 < report.share_of_bound < 1


def test_the_difference_of_a_fold_by_hand() -> None:
    """x / 3 is rounded once; x * float32(1 / 3) has a rounded factor."""
    chain = Chain()
    chain.add("Div", np.float32(3))
    chain.add("Gemm", np.float32([[1]]))
    third = np.float32(1) / np.float32(3)
    onnx_bytes = chain.model((1,)).SerializeToString()
    found = transform(onnx_bytes, "net", ["normalization"], 500, 3)
    [tensor] = [each for each in onnx.load_model_from_string(found.onnx_bytes).graph.initializer if each.dims == [1, 1]]
    assert numpy_helper.to_array(tensor) == third
    x = stimuli(transforms.original(onnx_bytes, "net"), 500, 3).chunk(0, 500)
    one, other = x / np.float32(3), x * third
    assert found.measured.differing == np.count_nonzero(one != other) > 0
    assert found.measured.largest_difference == np.abs(one.astype(np.float64) - other).max()
    assert found.measured.largest_difference_ulp == 1


def test_the_bound_has_the_errors_before_the_fold() -> None:
    """(x - 1000) + 1000 is off by up to 2^-15; the folded layer reads x itself."""
    chain = Chain()
    chain.add("Sub", np.float32(1000))
    chain.add("Add", np.float32(1000))
    chain.add("Gemm", np.eye(3, dtype=np.float32))
    found = transform(chain.model((3,)).SerializeToString(), "net", ["normalization"], 64, 1)
    assert 2**-16 < found.measured.largest_difference <= 2**-15
    share = found.reports[0].share_of_bound
    assert share is not None
    assert 0.01 < share < 1


def test_transforms_one_by_one_measure_the_same() -> None:
    both = transform(network(), "net", FOLDS, 16, 1)
    first = transform(network(), "net", FOLDS[:1], 16, 1)
    second = transform(first.onnx_bytes, "net", FOLDS[1:], 16, 1)
    assert both.reports == first.reports + second.reports


def test_differences_are_counted_by_bits_and_measured_in_ulp() -> None:
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    one = np.float32([[1, 0, nan, 2, inf, 1e-45]])
    other = np.float32([[1 + 2**-23, -0.0, -nan, 2, inf, 0]])
    assert measure({"y": one}, {"y": other}) == Measured(6, 3, 2**-23, 1, 2)
    assert measure({"y": one}, {"y": np.float32([[1, 0, nan, 2, 3, 1e-45]])}).largest_difference == np.inf
    assert measure({"y": one}, {"y": np.float32([[nan, 0, nan, 2, inf, 1e-45]])}).largest_difference_ulp == np.inf
    classes = np.array([[3], [5]])
    assert measure({"y": classes}, {"y": np.array([[3], [7]])}) == Measured(2, 1, 2, 0, 5)
    with pytest.raises(ValueError, match=r"output 'y': float32\(1, 6\) against float32\(1, 5\)"):
        measure({"y": one}, {"y": one[:, :5]})


def test_a_network_with_a_node_that_reads_constants_only_is_compared() -> None:
    chain = Chain()
    chain.add("Mul", np.float32([1, 2]))
    chain.nodes.insert(0, onnx.helper.make_node("Sqrt", ["mul_0/0"], ["root"], "root"))
    chain.nodes[1].input[1] = "root"
    found = transform(chain.model((2,)).SerializeToString(), "net", (), 64, 1)
    assert (found.reports[0].name, found.reports[0].nodes) == ("constants", ("root",))
    assert found.measured.differing == 0


def planted(name: str, change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transform also make the change."""
    right = transforms.TRANSFORMS[name]

    def wrong(model: onnx.ModelProto, stem: str) -> Applied:
        applied = right.apply(model, stem)
        change(model)
        return applied

    monkeypatch.setitem(transforms.TRANSFORMS, name, replace(right, apply=wrong))


def scaled(factor: float, *, place: int, operator: str) -> Change:
    """The change of a constant of the first node of an operator."""

    def change(model: onnx.ModelProto) -> None:
        node = next(node for node in model.graph.node if node.op_type == operator)
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == node.input[place])
        values = numpy_helper.to_array(tensor) * np.float32(factor)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    return change


def network(**attributes: float) -> bytes:
    rng = np.random.default_rng(0)
    chain = Chain()
    chain.add("Sub", floats(rng, 2, 1, 1))
    chain.add("Conv", floats(rng, 3, 2, 2, 2), floats(rng, 3))
    chain.add("BatchNormalization", *statistics(rng, 3), **attributes)
    chain.add("Dropout")
    return chain.model((2, 4, 4)).SerializeToString()


def test_a_transform_that_claims_to_keep_bits_and_changes_one_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    planted("dropout", scaled(1 + 2**-23, place=1, operator="Conv"), monkeypatch)
    with pytest.raises(RuntimeError, match="'dropout' claims to leave all bits unchanged, but the specification gives"):
        transform(network(), "net", ["dropout"], 16, 1)


def test_a_constant_that_is_computed_wrongly_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """The specification reads it with the same constants, so that only ONNX Runtime can find it."""
    chain = Chain()
    chain.add("Mul", np.float32([4, 9]))
    chain.nodes.insert(0, onnx.helper.make_node("Sqrt", ["mul_0/0"], ["root"], "root"))
    chain.nodes[1].input[1] = "root"
    right = constants.computed
    monkeypatch.setattr(constants, "computed", lambda *given: [value + np.float32(1) for value in right(*given)])
    with pytest.raises(RuntimeError, match="'constants' claims to leave all bits unchanged, but ONNX Runtime gives"):
        transform(chain.model((2,)).SerializeToString(), "net", ["constants"], 16, 1)


@pytest.mark.parametrize("factor", [1 + 1e-4, 1 - 1e-4, -1, 0])
@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_with_other_weights_is_a_bug(
    name: str, place: int, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(name, scaled(factor, place=place, operator="Conv"), monkeypatch)
    with pytest.raises(RuntimeError, match=f"'{name}' changes the function of real numbers: a value differs by"):
        transform(network(), "net", [name], 16, 1)


def test_a_fold_that_leaves_epsilon_out_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_epsilon(model: onnx.ModelProto, name: str) -> Applied:
        for node in model.graph.node:
            for attribute in node.attribute:
                attribute.f = 0 if attribute.name == "epsilon" else attribute.f
        return batch_normalization.apply(model, name)

    transform(network(epsilon=1e-5), "net", ["batch-normalization"], 16, 1)
    wrong = Transform(keeps_bits=False, apply=without_epsilon)
    monkeypatch.setitem(transforms.TRANSFORMS, "batch-normalization", wrong)
    with pytest.raises(RuntimeError, match="'batch-normalization' changes the function of real numbers"):
        transform(network(epsilon=1e-5), "net", ["batch-normalization"], 16, 1)


def test_a_fold_that_makes_finite_values_infinite_is_beyond_the_bound() -> None:
    def chain(weight: float) -> Network:
        made = Chain()
        made.add("Gemm", np.full((2, 3), weight, np.float32), np.zeros(3, np.float32))
        return transforms.original(made.model((2,)).SerializeToString(), "net")

    before, vectors = chain(1), np.full((5, 2), 2, np.float32)
    [layer] = before.layers
    fold = Fold(layer.node, before.vector.name, layer.output.name)
    assert share_of_bound(before, before, [fold], vectors) == 0
    assert share_of_bound(before, chain(3e38), [fold], vectors) == np.inf
