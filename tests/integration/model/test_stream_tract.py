"""Streams against tract's Pulse, which also makes a network of steps: the same delays, and the same bits after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from harness import model as networks
from harness.core.arrays import Array
from harness.core.installation import ROOT
from harness.model import stream as streams
from harness.model.network import Network
from harness.model.stream import Stream
from harness.reference.specification import SpecificationReference
from tests.support.streams import inputs_of

tract: Any = pytest.importorskip("tract", reason="tract is not installed: pip install tract==0.23.9")


def cut(network: Network, last: str, path: Path) -> None:
    """Write the nodes up to a tensor, for one vector with a free number of frames, as tract takes them."""
    model = onnx.load_model_from_string(network.onnx_bytes)
    at = next(index for index, proto in enumerate(model.graph.node) if last in proto.output)
    del model.graph.node[at + 1 :], model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(last, onnx.TensorProto.INT8, None))
    batch, _, frames = model.graph.input[0].type.tensor_type.shape.dim
    batch.dim_value, frames.dim_param = 1, "S"
    onnx.save(model, path)


class Pulsed:
    """The nodes up to a tensor in tract, as a stream of pulses: `delay` is what it states."""

    def __init__(self, stream: Stream, last: str, folder: Path) -> None:
        cut(stream.whole, last, folder / "cut.onnx")
        model = tract.onnx().load(folder / "cut.onnx").into_model()
        model.transform(tract.Pulse(stream.pulse, symbol="S"))
        self.delay = int(model.property("pulse.delay").to_numpy()[0])
        self._shape = (1, *stream.network.vector.shape)
        self._state = model.into_runnable().spawn_state()

    def step(self, vector: Array) -> Array:
        """The new frames of the tensor, (channels, frames)."""
        [output] = self._state.run([tract.Tensor.from_numpy(vector.reshape(self._shape))])
        found: Array = output.to_numpy()[0]
        return found


def batch(folder: Path, window: Array) -> Array:
    """The tensor of the nodes that `cut` has written, computed by tract for a whole window of 98 frames."""
    model = tract.onnx().load(folder / "cut.onnx").into_model()
    model.transform(tract.SetSymbols({"S": 98}))
    [output] = model.into_runnable().run([tract.Tensor.from_numpy(window.reshape(1, -1, 98))])
    found: Array = output.to_numpy()[0]
    return found


@pytest.mark.parametrize(
    ("model", "last", "pulse", "padded"),
    [
        ("kws_stream_int8", "pointwise_4_codes", 2, 0),
        ("kws_stream_int8", "pointwise_4_codes", 14, 0),
        ("kws_causal_int8", "conv_1_codes", 2, 0),
        ("kws_causal_int8", "conv_2_codes", 2, 2),
    ],
)
def test_delays_and_bits_are_those_of_tract(model: str, last: str, pulse: int, padded: int, tmp_path: Path) -> None:
    """Pulses of tract 0.23.9 differ from its own batch in the first `padded` frames, which read codes of padding.

    There the zero point of the codes is -128, and that of the input of conv_1 is 0.
    """
    stream = streams.stream(networks.load(ROOT / "models" / f"{model}.onnx"), 2, pulse)
    flow, pulsed, vectors = stream.flows[last], Pulsed(stream, last, tmp_path), inputs_of(stream, 1)
    assert pulsed.delay == flow.delay
    found = np.concatenate([pulsed.step(vector) for vector in vectors], axis=1)[:, flow.delay :]
    by_layer = zip(stream.network.layers, SpecificationReference(stream.network).activations(vectors), strict=True)
    [steps] = (values for layer, values in by_layer if layer.output.name == last)
    right = np.concatenate(list(steps.reshape(len(vectors), -1, flow.new)), axis=1)[:, flow.delay :]
    assert np.array_equal(found[:, padded:], right[:, padded:])
    if model == "kws_causal_int8":
        assert np.array_equal(batch(tmp_path, stream.windows_of(vectors)), right)
