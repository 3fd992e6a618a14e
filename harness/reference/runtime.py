"""ONNX Runtime on the model itself, with every activation given out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from harness.errors import ReferenceFailed, RequestError
from harness.network import Array, Layer, Network, QGemm

if TYPE_CHECKING:
    import onnxruntime


class OnnxRuntimeReference:
    """A network's activations according to ONNX Runtime's CPU kernels.

    Activations are seen by making them outputs, and an output is something that ONNX Runtime does not optimise away.
    So the model as its file has it, without them, is kept beside: `given_outputs` tells what that one computes.

    `x64_quant_precision` takes effect where all inputs of QGemm are uint8, see `session`.
    Raises RequestError where ONNX Runtime refuses the model.
    """

    def __init__(self, network: Network, threads: int = 2, *, x64_quant_precision: bool = True) -> None:
        self._input_name = network.input_name
        self._layers = network.layers
        precise = takes_precision(network, x64_quant_precision=x64_quant_precision)
        try:
            self._session = session(with_all_activations(network), threads, x64_quant_precision=precise)
            self._given = session(with_free_batch(network).SerializeToString(), threads, x64_quant_precision=precise)
        except Exception as error:  # its exceptions have no common base of their own
            raise refused(network.name, error) from error

    def activations(self, vectors: npt.NDArray[np.float32]) -> tuple[Array, ...]:
        """The layers' outputs for float32 (n, K) vectors: (n, width) each, of the model's types, in layer order.

        Raises ReferenceFailed where ONNX Runtime fails.
        """
        outputs = self._run(self._session, [layer.output for layer in self._layers], vectors)
        return tuple(
            output.reshape(len(vectors), layer.width) for output, layer in zip(outputs, self._layers, strict=True)
        )

    def given_outputs(self, vectors: npt.NDArray[np.float32]) -> dict[str, Array]:
        """The outputs of the model as its file has it, by name, for float32 (n, K) vectors: (n, width) each.

        Raises ReferenceFailed where ONNX Runtime fails.
        """
        names = [output.name for output in self._given.get_outputs()]
        outputs = self._run(self._given, names, vectors)
        return {name: output.reshape(len(vectors), -1) for name, output in zip(names, outputs, strict=True)}

    def _run(
        self, prepared: onnxruntime.InferenceSession, names: list[str], vectors: npt.NDArray[np.float32]
    ) -> list[Array]:
        try:
            outputs: list[Array] = prepared.run(names, {self._input_name: vectors})
        except Exception as error:  # as above
            raise ReferenceFailed(f"ONNX Runtime failed: {error}", "see the log; try fewer vectors a chunk") from error
        return outputs


def refused(name: str, error: Exception) -> RequestError:
    """Return the error for a model that ONNX Runtime does not load."""
    return RequestError(
        f"ONNX Runtime refuses model {name!r}: {error}", "give a model that onnxruntime.InferenceSession loads"
    )


def takes_precision(network: Network, *, x64_quant_precision: bool) -> bool:
    """Return whether a session of the network is to have the option, which is for uint8 inputs only."""
    unsigned = all(layer.input_dtype == np.uint8 for layer in network.layers if isinstance(layer, QGemm))
    return x64_quant_precision and unsigned


def session(model: bytes, threads: int, *, x64_quant_precision: bool = False) -> onnxruntime.InferenceSession:
    """A session on the CPU, with ONNX Runtime's default optimisations and no messages.

    `x64_quant_precision` sets session.x64quantprecision: int8 weights are then converted to uint8, which the
    x86-64 kernels without VNNI multiply without saturation.  It is for uint8 inputs only: ONNX Runtime has no
    kernel for int8 inputs with the converted weights (and needs none, int8 with int8 does not saturate).
    Denormals are left as they are.
    """
    import onnxruntime  # here, because commands that need no reference should not pay its 0.1 s

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.x64quantprecision", str(int(x64_quant_precision)))
    if x64_quant_precision:
        model = with_constants_of_their_own(model)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def with_constants_of_their_own(model: bytes) -> bytes:
    """The model with a copy of every constant for each node that uses it, whether initializer or Constant node.

    With session.x64quantprecision, ONNX Runtime converts the constants of each node; it refuses a model
    where it comes to the same constant twice (1.31.1: "Attempt to replace the existing tensor").  It leaves alone, and
    multiplies without the option, an initializer that is listed as an input, too: so none is.
    """
    proto = onnx.load_model_from_string(model)
    _make_initializers(proto.graph)
    constants = {each.name: each for each in proto.graph.initializer}
    for value in [value for value in proto.graph.input if value.name in constants]:
        proto.graph.input.remove(value)
    taken = {name for node in proto.graph.node for name in (*node.input, *node.output)}
    seen: set[str] = set()
    for number, node in enumerate(proto.graph.node):
        for index, name in enumerate(node.input):
            if name in constants and name in seen:
                own = onnx.TensorProto()
                own.CopyFrom(constants[name])
                own.name = next(
                    new for new in (f"{name}_{number}_{index}{'_' * i}" for i in range(99)) if new not in taken
                )
                taken.add(own.name)
                proto.graph.initializer.append(own)
                node.input[index] = own.name
            seen.add(name)
    return bytes(proto.SerializeToString())


def _make_initializers(graph: onnx.GraphProto) -> None:
    """Replace the Constant nodes that store a tensor by initializers; only these store 8-bit values."""
    stored = [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]
    for node in stored:
        tensor = onnx.TensorProto()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        graph.initializer.append(tensor)
        graph.node.remove(node)


def with_all_activations(network: Network) -> bytes:
    """The model with every activation as an output and a free number of vectors."""
    model = with_free_batch(network)
    del model.graph.output[:]
    model.graph.output.extend(_output(layer) for layer in network.layers)
    return bytes(model.SerializeToString())


def with_free_batch(network: Network) -> onnx.ModelProto:
    """The model with a free number of vectors."""
    model = onnx.load_model_from_string(network.onnx_bytes)
    graph = model.graph
    next(value for value in graph.input if value.name == network.input_name).type.tensor_type.shape.dim[0].Clear()
    del graph.value_info[:]  # they may repeat a fixed number of vectors
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def _output(layer: Layer) -> onnx.ValueInfoProto:
    element_type = onnx.helper.np_dtype_to_tensor_dtype(layer.dtype)
    return onnx.helper.make_tensor_value_info(layer.output, element_type, None)
