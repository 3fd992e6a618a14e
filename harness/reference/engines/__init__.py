"""Further engines that confirm the reference: they read the standard form of a network, and share no code.

An engine is a file here with its name.  What they have in common with the specification is the reader of the model and
the bits of the multipliers, which the standard form contains (harness/model/standard).
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

import numpy as np
import onnx
import onnx.shape_inference

from harness.core.arrays import MEMORY_BUDGET, Array
from harness.core.errors import ReferenceFailed, RequestError
from harness.core.installation import install_extra
from harness.model.network import Network
from harness.model.standard import standard_form
from harness.operators.tensor import Tensor
from harness.reference.runtime import GIVEN, with_all_activations, with_separate_layers

ALWAYS = ("ort", "specification")
"""ONNX Runtime and the exact specification: every run has both."""
VECTORS = "vectors"
AT_ONCE = 256
BYTES_A_VALUE = 16
"""Vectors of a call at most, and memory for a value of an activation: engines keep int32 sums and float64 products."""


class RefusedError(Exception):
    """Error for a model that an engine does not run; its text is the engine's."""


class Engine(ABC):
    """A model in memory, run by an engine of another origin.

    Raises RefusedError for a model that it does not run.
    """

    packages: ClassVar[tuple[str, ...]]
    """The installed packages that it needs; the version of the first is that of the engine."""

    @abstractmethod
    def __init__(self, model: onnx.ModelProto) -> None: ...

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of the model in its order, (vectors, ...) each, for its inputs; RefusedError."""


def names() -> tuple[str, ...]:
    """Return the engines that `--reference` can name, the two that are always there first."""
    return (*ALWAYS, *sorted(module.name for module in pkgutil.iter_modules(__path__)))


def versions(asked: Sequence[str]) -> dict[str, str]:
    """Return the version of each further engine that is asked for, by name.

    Raises RequestError for an unknown name, for a list without those that every run has, and, with the pip command, for
    an engine that is not installed.
    """
    known, listed = names(), ",".join(asked)
    for name in asked:
        if name not in known:
            raise RequestError(
                f"--reference {listed}: there is no engine {name!r}", f"valid choices: {', '.join(known)}"
            )
    if not set(ALWAYS) <= set(asked) or len(set(asked)) < len(asked):
        raise RequestError(
            f"--reference {listed}: every run has {' and '.join(ALWAYS)}, and each engine once",
            f"further engines: {', '.join(known[len(ALWAYS) :])}; e.g. --reference {','.join(known)}",
        )
    return {name: _version(name) for name in asked if name not in ALWAYS}


def _version(name: str) -> str:
    try:
        return [version(package) for package in _engine(name).packages][0]  # noqa: RUF015 - all must be installed
    except PackageNotFoundError as error:
        raise RequestError(
            f"--reference {name}: the package {error.name} is not installed", install_extra(name)
        ) from None


def _engine(name: str) -> type[Engine]:
    found: type[Engine] = importlib.import_module(f"{__name__}.{name}").Engine
    return found


class StandardReference:
    """A network's activations by an engine that reads its standard form.

    `separate` gives each layer its inputs; otherwise each reads what the engine computed before.
    Raises RequestError, with operator and node, for a network without a standard form or that the engine does not run.
    """

    def __init__(self, network: Network, name: str, *, separate: bool) -> None:
        self._name, self._network = name, network
        model = _observed(network, separate=separate)
        self._inputs = [value.name for value in model.graph.input]
        values = sum(tensor.size for tensor in _outputs(network))
        self._at_once = max(min(AT_ONCE, MEMORY_BUDGET // (BYTES_A_VALUE * values)), 1)
        one = [np.zeros((1, tensor.size), tensor.dtype) for tensor in (network.vector, *_outputs(network))]
        try:
            self._engine = _engine(name)(model)
            self._run(one[0], one[1:])
        except RefusedError as error:
            raise _refusal(name, network, error) from error

    def activations(self, vectors: Array, activations: Sequence[Array] = ()) -> tuple[Array, ...]:
        """Return each layer's output, (n, size), for the network's inputs (n, K).

        `activations` are those of all layers, which separate layers read.  Raises ReferenceFailed if the engine fails.
        """
        parts = []
        for start in range(0, len(vectors), self._at_once):
            part = slice(start, start + self._at_once)
            try:
                parts.append(self._run(vectors[part], [values[part] for values in activations]))
            except RefusedError as error:
                raise ReferenceFailed(f"{self._name} failed: {error}", "try fewer vectors a chunk: --chunk") from error
        return tuple(np.concatenate(found) for found in zip(*parts, strict=True))

    def _run(self, vectors: Array, activations: Sequence[Array]) -> list[Array]:
        """Return the outputs of all layers, (n, size) each, of their types."""
        outputs, count, read = _outputs(self._network), len(vectors), self._network.values(vectors)
        values = {tensor.name: read[tensor.name].reshape(count, *tensor.shape) for tensor in self._network.inputs}
        for tensor, given in zip(outputs, activations, strict=False):
            values[GIVEN + tensor.name] = given.reshape(count, *tensor.shape)
        found = self._engine.run([np.ascontiguousarray(values[name]) for name in self._inputs])
        for tensor, output in zip(outputs, found, strict=True):
            if output.size != count * tensor.size or output.itemsize != tensor.dtype.itemsize:
                raise RefusedError(f"{tensor.name} is {output.dtype} {output.shape}, not {tensor.dtype} {tensor.shape}")
        # An engine without unsigned types gives their bits.
        return [output.reshape(count, -1).view(each.dtype) for each, output in zip(outputs, found, strict=True)]


def _outputs(network: Network) -> list[Tensor]:
    return [layer.output for layer in network.layers]


def _observed(network: Network, *, separate: bool) -> onnx.ModelProto:
    """Return the standard form with all activations as outputs, and a free number of vectors."""
    written = replace(network, onnx_bytes=standard_form(network).SerializeToString())
    model = onnx.load_model_from_string((with_separate_layers if separate else with_all_activations)(written))
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = VECTORS
    model.graph.name = "network"
    return onnx.shape_inference.infer_shapes(model)


def _refusal(name: str, network: Network, error: RefusedError) -> RequestError:
    """Return the error for a network that an engine does not run, with the first layer that it refuses alone."""
    layers, where, why = _observed(network, separate=True), "the network", error
    for layer in network.layers:
        try:
            _engine(name)(_alone(layers, layer.output.name))
        except RefusedError as alone:
            where, why = f"node {layer.node!r} ({layer.operator})", alone
            break
    return RequestError(f"--reference {name}: {name} does not run {where}: {why}", f"omit {name} from --reference")


def _alone(layers: onnx.ModelProto, output: str) -> onnx.ModelProto:
    """Return the model of one of several separate layers."""
    wanted, nodes = {output}, []
    for node in reversed(layers.graph.node):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= set(node.input)
    model_proto = onnx.ModelProto()
    model_proto.CopyFrom(layers)
    model_proto.graph.Clear()
    model_proto.graph.name = layers.graph.name
    model_proto.graph.node.extend(reversed(nodes))
    model_proto.graph.input.extend(value for value in layers.graph.input if value.name in wanted)
    model_proto.graph.output.extend(value for value in layers.graph.output if value.name == output)
    model_proto.graph.initializer.extend(tensor for tensor in layers.graph.initializer if tensor.name in wanted)
    return model_proto
