"""Names, shapes and types of an engine's tensors, matched to the activations of a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.applications.judge.dumps import Dumps, InMemory, Layout, joined
from harness.applications.judge.matching import Matched, match
from harness.core.arrays import Array
from harness.model.network import Network
from tests.support import judged


@pytest.fixture(scope="module")
def network() -> Network:
    return judged.images()


def matched(network: Network, layout: Layout | None = None, **arrays: Array) -> Matched:
    named = [(name.replace("__", "/"), InMemory(values, name)) for name, values in arrays.items()]
    return match(network, Dumps("numpy", joined(named)), layout)


def test_names_are_those_of_tensors_nodes_and_layers_then_alike_ones(network: Network) -> None:
    scores, flat = np.zeros((3, 5), np.float32), np.zeros((3, 12), np.float32)
    images = np.zeros((3, 4, 4, 4), np.float32)
    result = matched(network, scores=scores, flatten_1=flat, Sums__1=images, other=scores)
    assert {name: one.dumped.name for name, one in result.activations.items()} == {
        "scores": "scores",
        "flat": "flatten_1",
        "sums_1": "Sums/1",
    }
    assert result.unmatched == ["other"]


def test_a_name_that_is_alike_twice_is_not_matched(network: Network) -> None:
    images = np.zeros((3, 4, 4, 4), np.float32)
    result = matched(network, SUMS_1=images, Sums__1=images)
    assert (list(result.activations), result.unmatched) == ([], ["SUMS_1", "Sums/1"])


@pytest.mark.parametrize(
    ("shape", "layout", "order"),
    [
        ((3, 2, 6, 5), None, "first"),
        ((3, 6, 5, 2), None, "last"),
        ((2, 6, 5), None, "first"),
        ((6, 5, 2), None, "last"),
        ((3, 60), None, "first"),
        ((3, 60), "nhwc", "last"),
        ((180,), None, "first"),
        ((3, 6, 2, 5), None, "none"),
        ((3, 2, 6, 5), "nhwc", "none"),
        ((3, 59), None, "none"),
        ((3, 3, 60), None, "none"),
    ],
)
def test_the_order_of_axes_follows_from_the_shape(shape: tuple[int, ...], layout: Any, order: str) -> None:
    network = judged.images()
    first = network.layers[0]
    changed = replace(network, layers=(replace(first, output=replace(first.output, shape=(2, 6, 5))),))
    result = matched(changed, layout, sums_1=np.zeros(shape, np.float32))
    if order == "none":
        assert "sums_1" not in result.activations
        assert result.problems
        return
    activation = result.activations["sums_1"]
    assert activation.count == int(np.prod(shape)) // 60
    assert (activation.order is not None) == (order == "last")


def test_an_order_that_fits_twice_is_that_of_the_other_images(network: Network) -> None:
    """sums_1 has 4 channels of 4 x 4 values."""
    images = np.zeros((3, 4, 4, 4), np.float32)
    last, first = np.zeros((3, 2, 2, 3), np.float32), np.zeros((3, 3, 2, 2), np.float32)
    assert matched(network, sums_1=images, sums_2=last).activations["sums_1"].order is not None
    assert matched(network, sums_1=images, sums_2=first).activations["sums_1"].order is None
    assert matched(network, sums_1=images).activations["sums_1"].order is None
    assert matched(network, "nhwc", sums_1=images).activations["sums_1"].order is not None


def test_types_that_are_none_of_the_model_are_problems(network: Network) -> None:
    result = matched(network, scores=np.zeros((3, 5), np.int8), flat=np.zeros((3, 12), np.complex64))
    assert not result.activations
    assert sorted(problem.partition(" ")[0] for problem in result.problems) == ["'flat'", "'scores'"]
    assert "describe its scale" in " ".join(result.problems)


def test_float64_that_float32_does_not_have_differs(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network, 5)
    scores = judged.activations(network, values)["scores"].astype(np.float64)
    assert judged.judge(network, tmp_path, {"scores": scores}, values).verdict == "identical"
    scores[2, 1] *= 1 + 1e-12
    document = judged.judge(network, tmp_path, {"scores": scores}, values)
    assert (document.verdict, document.layers[0].off) == ("differs", 1)
