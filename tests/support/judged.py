"""Dumps of engines for tests of `harness judge`: the specification's activations, with arithmetic of other engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from harness.applications.judge import conclusion, readers
from harness.applications.judge.document import JudgementDocument
from harness.applications.judge.dumps import Layout
from harness.applications.judge.judgement import Judge
from harness.applications.judge.matching import DumpedInputs, match
from harness.core.arrays import Array
from harness.model.graph import parse
from harness.model.network import Network
from harness.operators.base import Layer
from harness.reference import stimuli
from harness.reference.stimuli import Stimuli
from harness.reference.vector_files import from_file
from tests.support import builders

Arithmetic = Callable[[Layer, Array], Array]
"""Function from accumulators, int64 (n, N), to the codes of an engine."""


def network(seed: int = 7, *widths: int, **options: Any) -> Network:
    """A random chain of QGemms, and perhaps ArgMax."""
    model = builders.random_network(np.random.default_rng(seed), widths or (5, 9, 4, 3), **options)
    return parse(model.SerializeToString(), "net")


def images() -> Network:
    """A float network on images: Conv, Relu, Conv, Flatten and Gemm."""
    rng = np.random.default_rng(3)
    shapes = {"w1": (4, 2, 3, 3), "b1": 4, "w2": (3, 4, 3, 3), "b2": 3, "w3": (12, 5), "b3": 5}
    constants = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["sums_1"], name="conv_1"),
        node("Relu", ["sums_1"], ["positive"], name="relu_1"),
        node("Conv", ["positive", "w2", "b2"], ["sums_2"], name="conv_2"),
        node("Flatten", ["sums_2"], ["flat"], name="flatten_1"),
        node("Gemm", ["flat", "w3", "b3"], ["scores"], name="dense_1"),
    ]
    model = builders.make_model(nodes, constants, {"scores": ("float32", 5)}, width=2)
    shape = model.graph.input[0].type.tensor_type.shape
    for size in (6, 6):
        shape.dim.add().dim_value = size
    return parse(model.SerializeToString(), "images")


def vectors(network: Network, count: int = 200) -> Array:
    """Uniform vectors."""
    return stimuli.uniform(network, 1, count)


def activations(network: Network, values: Array, engine: Mapping[str, Arithmetic] | None = None) -> dict[str, Array]:
    """The activations by the names of their tensors, where layers of these names have the arithmetic of an engine."""
    known = network.values(values)
    for layer in network.layers:
        inputs = [known[source] for source in layer.sources]
        arithmetic = (engine or {}).get(layer.name)
        sums = layer.sums
        if arithmetic is None or sums is None:
            known[layer.output.name] = layer.prepare()(*inputs)
        else:
            known[layer.output.name] = arithmetic(layer, sums.accumulate()(*inputs))
    names = [layer.output.name for layer in network.layers]
    return {name: known[name].reshape(len(values), *_shapes(network)[name]) for name in names}


def _shapes(network: Network) -> dict[str, tuple[int, ...]]:
    return {layer.output.name: layer.output.shape for layer in network.layers}


def judge(
    network: Network,
    folder: Path,
    dumps: Mapping[str, Array] | Path,
    values: Array | None,
    layout: Layout | None = None,
    **options: Any,
) -> JudgementDocument:
    """The document of dumps, which are written as .npz, for vectors, which are written as .npy."""
    if not isinstance(dumps, Path):
        path = folder / "dumps.npz"
        np.savez(path, allow_pickle=False, **dumps)
        dumps = path
    read = readers.read(dumps, network)
    matched = match(network, read, layout)
    stated: Stimuli | None = DumpedInputs.from_matched(network, matched)
    if values is not None:
        np.save(folder / "vectors.npy", values)
        stated = from_file(folder / "vectors.npy", network)
    judging = Judge(network, matched, stated, **options)
    result = judging.run(lambda _: None)
    about: dict[str, Any] = {"engine": None, "dumps": str(dumps), "vectors_from": None, "files": {}}
    return conclusion.document(network, judging, result, read, matched, about)


def by_name(document: JudgementDocument) -> dict[str, Any]:
    """The entries of the layers by their names."""
    return {layer.name: layer for layer in document.layers}
