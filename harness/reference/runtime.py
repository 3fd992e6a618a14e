"""ONNX Runtime on the model itself, with every activation as an output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.model.graph import fold_weights
from harness.model.network import Network
from harness.model.onnx_runtime.sessions import refused, session, takes_precision
from harness.model.onnx_runtime.values import computed
from harness.operators.base import Layer

if TYPE_CHECKING:
    import onnxruntime

GIVEN = "given/"
"""Prefix of the inputs that take the place of activations."""


class SeparateLayers:
    """Each layer of a network by ONNX Runtime's CPU kernels, on inputs that are given for each layer.

    A difference that a layer may have so does not pass on to the next ones.
    Raises RequestError where ONNX Runtime refuses the model.
    """

    def __init__(self, network: Network, threads: int = 2, *, x64_quant_precision: bool = True) -> None:
        self._network = network
        precise = takes_precision(network, x64_quant_precision=x64_quant_precision)
        try:
            self._session = session(with_separate_layers(network), threads, x64_quant_precision=precise)
        except Exception as error:  # its exceptions have no common base of their own
            raise refused(network.name, error) from error

    def activations(self, vectors: Array, activations: Sequence[Array]) -> tuple[Array, ...]:
        """Return each layer's output, (n, size), for the network's inputs (n, K) and all layers' `activations`.

        Raises ReferenceFailed where ONNX Runtime fails.
        """
        layers = self._network.layers
        read = {name for layer in layers for name in layer.sources}
        given = {name: values for name, values in shaped(self._network, vectors).items() if name in read}
        for layer, values in zip(layers, activations, strict=True):
            if layer.output.name in read:
                given[GIVEN + layer.output.name] = values.reshape(len(values), *layer.output.shape)
        outputs = _run(self._session, [layer.output.name for layer in layers], given)
        return tuple(output.reshape(len(vectors), -1) for output in outputs)


class GivenModel:
    """The model as its file has it by ONNX Runtime's CPU kernels, with a free number of vectors.

    `all_activations` makes each activation an output, which ONNX Runtime does not optimise away.
    Raises RequestError where ONNX Runtime refuses the model.
    """

    def __init__(
        self, network: Network, threads: int = 2, *, x64_quant_precision: bool = True, all_activations: bool = False
    ) -> None:
        self._network = network
        precise = takes_precision(network, x64_quant_precision=x64_quant_precision)
        model = with_all_activations(network) if all_activations else with_free_batch(network).SerializeToString()
        try:
            self._session = session(model, threads, x64_quant_precision=precise)
        except Exception as error:  # its exceptions have no common base of their own
            raise refused(network.name, error) from error

    def outputs(self, vectors: Array) -> dict[str, Array]:
        """Return the outputs by name for vectors (n, K): (n, width) each.

        Raises ReferenceFailed where ONNX Runtime fails.
        """
        names = [output.name for output in self._session.get_outputs()]
        outputs = _run(self._session, names, shaped(self._network, vectors))
        return {name: output.reshape(len(vectors), -1) for name, output in zip(names, outputs, strict=True)}


class OnnxRuntimeReference:
    """A network's activations according to ONNX Runtime's CPU kernels.

    Activations become visible as outputs of the model, which ONNX Runtime does not optimise away.  The model of the
    file, without these outputs, is kept too: `given_outputs` returns its outputs.

    `x64_quant_precision` takes effect where all inputs of QGemm are uint8, see `session`.
    Raises RequestError where ONNX Runtime refuses the model.
    """

    def __init__(self, network: Network, threads: int = 2, *, x64_quant_precision: bool = True) -> None:
        self._layers = network.layers
        self._observed, self._given = (
            GivenModel(network, threads, x64_quant_precision=x64_quant_precision, all_activations=each)
            for each in (True, False)
        )

    def activations(self, vectors: Array) -> tuple[Array, ...]:
        """Return the layers' outputs for vectors (n, K): (n, width) each, of the model's types, in layer order.

        Raises ReferenceFailed where ONNX Runtime fails.
        """
        outputs = self._observed.outputs(vectors)
        return tuple(outputs[layer.output.name] for layer in self._layers)

    def given_outputs(self, vectors: Array) -> dict[str, Array]:
        """Return the outputs of the model as its file has it; see `GivenModel.outputs`."""
        return self._given.outputs(vectors)


def shaped(network: Network, vectors: Array) -> dict[str, Array]:
    """Return the values of each input of the network by its name, (n, *shape)."""
    values = network.values(vectors)
    return {tensor.name: values[tensor.name].reshape(len(vectors), *tensor.shape) for tensor in network.inputs}


def _run(prepared: onnxruntime.InferenceSession, names: list[str], given: Mapping[str, Array]) -> list[Array]:
    """Return outputs by name; `given` has the values of each input by its name."""
    try:
        outputs: list[Array] = computed(prepared, names, given)
    except Exception as error:  # its exceptions have no common base of their own
        raise ReferenceFailed(f"ONNX Runtime failed: {error}", "see the log; try fewer vectors a chunk") from error
    return outputs


def with_all_activations(network: Network) -> bytes:
    """Return the model with every activation as an output and a free number of vectors."""
    model = with_free_batch(network)
    del model.graph.output[:]
    model.graph.output.extend(_output(layer) for layer in network.layers)
    return bytes(model.SerializeToString())


def with_separate_layers(network: Network) -> bytes:
    """Return the model with an input in place of every activation that a node reads, and every activation an output."""
    model = with_free_batch(network)
    fold_weights(model, network.name)  # a product that reads numbers beside codes is another operator: MatMulNBits
    written = {layer.output.name: layer.output for layer in network.layers}
    read = sorted({name for layer in network.layers for name in layer.sources} & written.keys())
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            if name in written:
                node.input[position] = GIVEN + name
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(
            GIVEN + name, onnx.helper.np_dtype_to_tensor_dtype(written[name].dtype), [None, *written[name].shape]
        )
        for name in read
    )
    del model.graph.output[:]
    model.graph.output.extend(_output(layer) for layer in network.layers)
    return bytes(model.SerializeToString())


def with_free_batch(network: Network) -> onnx.ModelProto:
    """Return the model with a free number of vectors."""
    model = onnx.load_model_from_string(network.onnx_bytes)
    graph = model.graph
    names = {tensor.name for tensor in network.inputs}
    for value in graph.input:
        if value.name in names:
            value.type.tensor_type.shape.dim[0].Clear()
    del graph.value_info[:]  # they may repeat a fixed number of vectors
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def _output(layer: Layer) -> onnx.ValueInfoProto:
    element_type = onnx.helper.np_dtype_to_tensor_dtype(layer.dtype)
    return onnx.helper.make_tensor_value_info(layer.output.name, element_type, None)
