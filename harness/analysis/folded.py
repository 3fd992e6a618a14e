"""Verification of a folded graph: both files compute the same bits for seeded inputs.

ONNX Runtime without optimisations runs both files; the specification does too where it reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.helper

from harness import model as networks
from harness.analysis.compare import bits
from harness.analysis.transformation import specified
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.analysis.propagation import Propagation
from harness.model.onnx_runtime.sessions import refused, session
from harness.reference.stimuli import random_stream, stimuli

FREE_SIZE = 2
"""The size of an axis that neither the file nor a hint states."""


@dataclass(frozen=True)
class Verified:
    """The engines that computed both files, the number of runs, and the values of outputs that were compared."""

    engines: tuple[str, ...]
    vectors: int
    values: int


def verify(before: onnx.ModelProto, after: onnx.ModelProto, found: Propagation, count: int, seed: int) -> Verified:
    """Compare all outputs of both files, bit for bit, for `count` seeded inputs; `found` has the facts of `before`.

    Raises RequestError where ONNX Runtime refuses a file, RuntimeError, which is a bug, if a bit differs.
    """
    engines, values = ["ONNX Runtime without optimisations"], 0
    names = [value.name for value in before.graph.output]
    runs = []
    for model in (before, after):
        try:
            runs.append(session(model.SerializeToString(), 1, optimised=False))
        except Exception as error:  # its exceptions have no common base of their own
            raise refused(model.graph.name, error) from error
    accepted = [{each.name for each in run.get_inputs()} for run in runs]
    for number in range(count):
        inputs = _inputs(before.graph, found, seed, number)
        outputs = []
        for run, takes in zip(runs, accepted, strict=True):
            try:
                outputs.append(run.run(names, {name: value for name, value in inputs.items() if name in takes}))
            except Exception as error:
                raise RequestError(
                    f"ONNX Runtime cannot run the model with inputs of {_shapes(inputs)}: {error}",
                    "state the shapes of the inputs: --fact NAME:shape=1,3,224,224",
                ) from error
        values += _compare(names, outputs[0], outputs[1], engines[0])
    values += _specified(before, after, count, seed, engines)
    return Verified(tuple(engines), count, values)


def _specified(before: onnx.ModelProto, after: onnx.ModelProto, count: int, seed: int, engines: list[str]) -> int:
    """Compare what the specification computes, if it reads both files; return the number of values."""
    try:
        pair = [networks.parse(model.SerializeToString(), "model") for model in (before, after)]
    except RequestError:
        return 0
    vectors = stimuli(pair[0], count, seed).chunk(0, count)
    first, second = (specified(network, vectors) for network in pair)
    engines.append("the specification")
    return _compare([*first], [*first.values()], [second[name] for name in first], engines[-1])


def _compare(names: list[str], before: list[Array], after: list[Array], engine: str) -> int:
    for name, first, second in zip(names, before, after, strict=True):
        same = first.shape == second.shape and first.dtype == second.dtype
        if not same or (bits(np.ascontiguousarray(first)) != bits(np.ascontiguousarray(second))).any():
            raise RuntimeError(f"folding changes output {name!r} according to {engine}")
    return sum(each.size for each in before)


def _inputs(graph: onnx.GraphProto, found: Propagation, seed: int, number: int) -> Mapping[str, Array]:
    """Return inputs of the shapes that the facts state, one of each."""
    random, inputs = random_stream(seed, number), {}
    constants = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        fact = found.facts.of(value.name)
        if value.name in constants:
            continue
        if fact.concrete is not None:
            inputs[value.name] = fact.concrete
            continue
        if fact.type is None or fact.rank is None:
            raise RequestError(f"input {value.name!r} has no type or rank", "state both: --fact NAME:shape=1,3,H,W")
        sizes = [fact.sizes.get(axis) for axis in range(fact.rank)]
        shape = [size.constant if size is not None and size.constant is not None else FREE_SIZE for size in sizes]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(fact.type)
        if dtype.kind not in "fiub":
            raise RequestError(f"input {value.name!r} is {fact.type_text}", "inputs of numbers")
        drawn = random.standard_normal(shape) * 2
        inputs[value.name] = (np.abs(drawn) if dtype.kind == "u" else drawn).astype(dtype)
    return inputs


def _shapes(inputs: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {list(value.shape)}" for name, value in inputs.items())
