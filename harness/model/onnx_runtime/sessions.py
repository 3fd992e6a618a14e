"""Sessions of ONNX Runtime, as the reference and the import use them."""

from __future__ import annotations

import ctypes
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from harness.core.errors import InfrastructureError, RequestError
from harness.model.network import Network

if TYPE_CHECKING:
    import onnxruntime


class Stored:
    """A model in a temporary file, which is removed with this object: a session of the file holds its weights alone."""

    def __init__(self, model: onnx.ModelProto | bytes) -> None:
        """Write the file from a model or its bytes; raise InfrastructureError where that is impossible."""
        return_freed_memory()
        try:
            with tempfile.NamedTemporaryFile(suffix=".onnx", delete=False) as file:
                self.path = Path(file.name)
                weakref.finalize(self, self.path.unlink, missing_ok=True)
                file.write(model if isinstance(model, bytes) else model.SerializeToString())
        except OSError as error:
            raise InfrastructureError(
                f"cannot write a temporary file: {error}", "free space there, or set TMPDIR to another folder"
            ) from error


def return_freed_memory() -> None:
    """Return to the system what glibc keeps of freed weights: blocks below 32 MiB."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
    if trim is not None:
        trim(0)


def refused(name: str, error: Exception) -> RequestError:
    """Return the error for a model that ONNX Runtime does not load."""
    return RequestError(
        f"ONNX Runtime refuses model {name!r}: {error}", "give a model that onnxruntime.InferenceSession loads"
    )


def takes_precision(network: Network, *, x64_quant_precision: bool) -> bool:
    """Return whether a session of the network is to have the option, which is for uint8 inputs only."""
    unsigned = all(layer.input.dtype == np.uint8 for layer in network.layers if layer.sums)
    return x64_quant_precision and unsigned


def session(
    model: bytes | Path,
    threads: int,
    *,
    x64_quant_precision: bool = False,
    int8_groups: bool = False,
    optimised: bool = True,
) -> onnxruntime.InferenceSession:
    """Return a session on the CPU, with ONNX Runtime's default optimisations, or with none, and no messages.

    `model` is the path of a file, or its bytes, which the session keeps.
    `x64_quant_precision` sets session.x64quantprecision: int8 weights are then converted to uint8, which the
    x86-64 kernels without VNNI multiply without saturation.  It is for uint8 inputs only: ONNX Runtime has no
    kernel for int8 inputs with the converted weights (and needs none, int8 with int8 does not saturate).
    `int8_groups` sets session.qdqisint8allowed, the default on Arm: QDQ groups of int8 codes are fused as they are,
    while x86-64 otherwise makes uint8 codes of some and computes the others in float32.  Denormals are kept.
    """
    import onnxruntime  # here, because commands that need no reference should not pay its 0.1 s

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.x64quantprecision", str(int(x64_quant_precision)))
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")  # it changes bits of constant weights
    if int8_groups:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    if x64_quant_precision:
        model = with_constants_of_their_own(model if isinstance(model, bytes) else model.read_bytes())
    return onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
    )


def with_constants_of_their_own(model: bytes) -> bytes:
    """Return the model with a copy of every constant for each node that uses it, whether initializer or Constant node.

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
