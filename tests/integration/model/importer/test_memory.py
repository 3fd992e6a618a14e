"""The memory of an import: a process of its own tells how much it had at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.cli.command import User
from tests.support.cli.memory import peak
from tests.support.importer.graphs import Array, model, node, saved

BASE = 200_000_000


def network(widths: Sequence[int], opset: int) -> bytes:
    """Return a convolution and large dense layers; in opset 9, whose steps at import copy, all weights are inputs."""
    random = np.random.default_rng(1)
    constants: dict[str, Array] = {"k": random.normal(size=(16, 3, 3, 3)).astype(np.float32)}
    nodes = [node("Conv", "x k", "c", pads=[1, 1, 1, 1]), node("Flatten", "c", "v0")]
    for number, (depth, width) in enumerate(zip([16 * 8 * 8, *widths], widths, strict=False)):
        weights = random.normal(size=(width, depth)) / np.sqrt(depth)
        constants |= {f"w{number}": weights.astype(np.float32), f"b{number}": np.zeros(width, np.float32)}
        nodes += [node("Gemm", f"v{number} w{number} b{number}", f"g{number}", transB=1)]
        nodes += [node("Relu", f"g{number}", "y" if number == len(widths) - 1 else f"v{number + 1}")]
    proto = onnx.load_model_from_string(model(nodes, constants, shape=[1, 3, 8, 8]))
    if opset < 13:
        proto.opset_import[0].version, proto.ir_version = opset, 4
        for tensor in proto.graph.initializer:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            proto.graph.input.append(value)
    return bytes(proto.SerializeToString())


def dense(widths: Sequence[int]) -> bytes:
    """Return dense layers with Relu between them."""
    random = np.random.default_rng(1)
    constants: dict[str, Array] = {}
    nodes = []
    for number, (depth, width) in enumerate(itertools.pairwise(widths)):
        constants[f"w{number}"] = (random.normal(size=(depth, width)) / np.sqrt(depth)).astype(np.float32)
        nodes.append(node("MatMul", f"x{number or ''} w{number}", f"p{number}"))
        nodes.append(node("Relu", f"p{number}", "y" if number == len(widths) - 2 else f"x{number + 1}"))
    return model(nodes, constants, shape=[1, widths[0]])


def wide_addition(size: int) -> bytes:
    """Return one addition of a constant, which would be a dense layer of `size` x `size` weights."""
    constant = np.random.default_rng(1).normal(size=size).astype(np.float32)
    return model([node("Add", "x c", "y")], {"c": constant}, shape=[1, size])


def peak_of_import(content: bytes, folder: Path, cache: Path) -> tuple[str, int]:
    """Return what an import prints, and the most memory that it had, in bytes."""
    return peak(User(folder, cache), "models", "import", str(saved(folder, content)), "-o", str(folder / "new.onnx"))


@pytest.mark.parametrize("opset", [9, 13])
def test_an_import_has_three_times_the_file_and_200_mb(opset: int, tmp_path: Path, cache: Path) -> None:
    content = network([3000, 1500, 20], opset)
    assert len(content) > 25_000_000
    out, most = peak_of_import(content, tmp_path, cache)
    assert "are bit-identical" in out
    assert most <= 3 * len(content) + BASE


def test_a_wide_addition_keeps_its_operator(tmp_path: Path, cache: Path) -> None:
    out, most = peak_of_import(wide_addition(3000), tmp_path, cache)
    assert "are bit-identical" in out
    assert most <= BASE


def test_the_bound_of_wide_dense_layers_carries_the_errors_of_few_vectors(tmp_path: Path, cache: Path) -> None:
    content = dense([784, 1500, 1500, 10])
    _, most = peak_of_import(content, tmp_path, cache)
    assert most <= 400_000_000
