"""Streams: a network that is computed step by step along one axis of its input, each step for its new frames alone.

`stream` writes the network of one step as a model of its own: every layer has fewer frames, and a `Delay` (see
`harness/operators/delay.py`) in front of each layer that reads earlier ones.  Consecutive vectors of it are the steps
of a stream.  The semantics are those of TFDeploy (Liautaud, 2018, chapter 3) and of tract's Pulse, with stated delays:
frame j of a layer of the whole network is frame `delay` + j of the stream's layer of that name.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import graph as models
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.frames import Frames
from harness.operators.onnx_function import DOMAIN

SETTINGS, WHOLE = "harness_stream", "harness_stream_model"
"""The metadata of a network of steps: axis, pulse and steps as JSON, and the file of the whole network in base64."""
STEPS = "Steps"
"""The end of the name of the operator whose states carry over from vector to vector."""
MOST_STEPS = 1 << 16


@dataclass(frozen=True)
class Flow:
    """The frames of a tensor: their axis without the vectors, and how many are new in a step.

    Without an `axis` a step gives one value, computed from a window of frames: then `new` and `length` are 1.  Frame j
    of the whole network's tensor, of `length` frames, is frame `delay` + j of the stream.
    """

    axis: int | None
    delay: int
    new: int
    length: int

    @property
    def steps(self) -> int:
        """The steps after which all frames of the whole network are there."""
        return -(-(self.delay + self.length) // self.new)


@dataclass(frozen=True, eq=False)
class Stream:
    """A network of steps, the whole network that it computes, and the frames of each of its layers by name.

    `axis` counts the vectors as 0, as ONNX does.  After `steps` vectors a new stream begins; the whole network needs
    `window` of them.  `shifted` is true if no layer pads the axis or has states: then any `window` steps that follow
    each other give what the whole network gives for their frames.
    """

    network: Network
    whole: Network
    axis: int
    pulse: int
    steps: int
    flows: Mapping[str, Flow]

    @cached_property
    def window(self) -> int:
        """The steps after which all values of the whole network are there."""
        return max(flow.steps for flow in self.flows.values())

    @cached_property
    def shifted(self) -> bool:
        """True if all frames of the whole network are computed in the same way."""
        return not any(form.has_first for _, _, form in _streamed(self.whole, self.axis - 1))

    @property
    def windows(self) -> int:
        """The number of windows in a stream that are compared with the whole network."""
        return self.steps - self.window + 1 if self.shifted else 1

    def windows_of(self, vectors: Array) -> Array:
        """Return the inputs of the whole network for the steps of streams, float32 (streams * windows, K)."""
        flow = self.flows[self.network.vector.name]
        return np.concatenate([self._cut(flow, self.whole.vector.shape, vectors, at) for at in range(self.windows)])

    def frames_of(self, layer: Layer, values: Array) -> Array:
        """Return the values of the whole network's layer of this name in the dumps of steps, (n, size), n as above."""
        flow = self.flows[layer.output.name]
        return np.concatenate([self._cut(flow, layer.output.shape, values, at) for at in range(self.windows)])

    def _cut(self, flow: Flow, shape: Sequence[int], values: Array, first: int) -> Array:
        """Return the frames of a tensor of the whole network, which begins with step `first` of each stream."""
        axis = 0 if flow.axis is None else flow.axis
        outer = 1 if flow.axis is None else math.prod(shape[:axis])
        inner = math.prod(shape) if flow.axis is None else math.prod(shape[axis + 1 :])
        frames = values.reshape(-1, self.steps, outer, flow.new, inner)
        stream = np.moveaxis(frames, 1, 2).reshape(len(frames), outer, -1, inner)
        begin = flow.delay + first * flow.new
        cut: Array = stream[:, :, begin : begin + flow.length].reshape(len(frames), -1)
        return cut

    @property
    def settings(self) -> dict[str, int]:
        """The settings as the metadata has them."""
        return {"axis": self.axis, "pulse": self.pulse, "steps": self.steps}

    @property
    def history_bytes(self) -> int:
        """The bytes of the frames and states that are kept from step to step."""
        return sum(layer.streaming.kept * layer.dtype.itemsize for layer in self.network.layers)


def of(network: Network) -> Stream | None:
    """Return the stream of a network of steps, made again from the whole network; None for another network.

    Raises RequestError if the network is not what the whole network in its metadata gives.
    """
    if SETTINGS not in network.metadata and WHOLE not in network.metadata:
        return None
    try:
        asked = json.loads(network.metadata[SETTINGS])
        axis, pulse, steps = (asked[key] for key in ("axis", "pulse", "steps"))
        whole = models.parse(base64.b64decode(network.metadata[WHOLE], validate=True), network.name)
    except (KeyError, TypeError, ValueError, binascii.Error, RequestError) as error:
        raise RequestError(f"model {network.name!r}: metadata {SETTINGS} is damaged", "make it again") from error
    made = stream(whole, axis, pulse, steps)
    if made.network.sha256 != network.sha256:
        raise RequestError(
            f"model {network.name!r} is not the network of steps that its metadata describes",
            f"run the whole network: harness run --stream {axis} --pulse {pulse}",
        )
    return made


def stream(whole: Network, axis: int, pulse: int | None = None, steps: int | None = None) -> Stream:
    """Return the network of steps along an axis of the input, counted with the vectors, of `pulse` new frames each.

    The default of `pulse` is the smallest that the strides permit, that of `steps`, after which a new stream begins,
    twice the window, or once if a layer pads the axis or has states.  Raises RequestError, which names the node and the
    reason, or the valid choices.
    """
    shape = whole.float_input("--stream").shape
    if not 1 <= axis <= len(shape):
        raise RequestError(
            f"model {whole.name!r}: --stream {axis}: its input has shape (vectors, {', '.join(map(str, shape))})",
            f"choose an axis from 1 to {len(shape)}; axis 0 is the vectors",
        )
    least = _least_pulse(whole, axis - 1)
    pulse = least if pulse is None else pulse
    if not 1 <= pulse <= shape[axis - 1] or pulse % least:
        choices = ", ".join(str(each) for each in range(least, shape[axis - 1] + 1, least)[:8])
        raise RequestError(
            f"model {whole.name!r}: --pulse {pulse}: its strides along axis {axis} take {least} frames together",
            f"choose a multiple of {least}, at most the {shape[axis - 1]} frames of the axis: {choices}",
        )
    made = _Steps(whole, axis - 1, pulse)
    window = max(flow.steps for flow in made.flows.values())
    steps = (window if made.has_first else 2 * window) if steps is None else steps
    if not window <= steps <= MOST_STEPS:
        raise RequestError(
            f"model {whole.name!r}: --steps {steps}: the whole network takes {window} steps of {pulse} frames",
            f"choose {window} to {MOST_STEPS:,}",
        )
    network = models.parse(made.model(steps).SerializeToString(deterministic=True), whole.name)
    found = Stream(network, whole, axis, pulse, steps, made.flows)
    for layer in whole.layers:
        flow, written = made.flows[layer.output.name], {each.output.name: each for each in network.layers}
        if written[layer.output.name].output.shape != _shape(layer, flow):
            raise RequestError(
                f"model {whole.name!r}: node {layer.node!r} ({layer.operator}) has another shape in a step",
                "its constants or rounding up of sizes (ceil_mode) belong to the whole axis: change the node",
            )
    return found


def _shape(layer: Layer, flow: Flow) -> tuple[int, ...]:
    """Return the shape of a layer's output in one step."""
    shape = layer.output.shape
    return shape if flow.axis is None else (*shape[: flow.axis], flow.new, *shape[flow.axis + 1 :])


def _streamed(whole: Network, axis: int) -> Iterator[tuple[Layer, int, Frames]]:
    """Yield the layers that read frames of a stream, the axis of these, and the streaming form, in order.

    Raises RequestError at a layer that has no streaming form, or whose inputs have different axes.
    """
    axes: dict[str, int | None] = {whole.vector.name: axis}
    for layer in whole.layers:
        read = axes[layer.sources[0]]
        if any(axes[name] != read for name in layer.sources):
            raise _refusal(whole, layer, "reads frames of different axes, or frames and a window", "inputs of one axis")
        axes[layer.output.name] = None
        if read is None:
            continue
        form = layer.streaming.frames(read)
        if isinstance(form, str):
            raise _refusal(whole, layer, form, "layers that compute frames from frames: see docs/stream-a-model.md")
        axes[layer.output.name] = form.axis
        yield layer, read, form


def _refusal(whole: Network, layer: Layer, reason: str, advice: str) -> RequestError:
    return RequestError(f"model {whole.name!r}: node {layer.node!r} ({layer.operator}): {reason}", advice)


def _least_pulse(whole: Network, axis: int) -> int:
    """Return the number of input frames for which each layer has a whole number of new frames."""
    strides = {whole.vector.name: 1}
    for layer, _, form in _streamed(whole, axis):
        if form.axis is not None:
            strides[layer.output.name] = max(strides[name] for name in layer.sources) * form.stride
    return math.lcm(*strides.values())


class _Steps:
    """The nodes of the network of steps, made one after the other; see `Frames.has_first`."""

    def __init__(self, whole: Network, axis: int, pulse: int) -> None:
        self.whole, self.axis, self.pulse = whole, axis, pulse
        self.file = onnx.load_model_from_string(whole.onnx_bytes)
        self.flows = {whole.vector.name: Flow(axis, 0, pulse, whole.vector.shape[axis])}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        reading = {layer.output.name: (layer, at, form) for layer, at, form in _streamed(whole, axis)}
        self.has_first = any(form.has_first for _, _, form in reading.values())
        layers = {layer.output.name: layer for layer in whole.layers}
        for node in self.file.graph.node:
            written = [name for name in node.output if name in layers]
            if not written:
                self.nodes.append(node)
            elif written[0] in reading:
                self._frame(*reading[written[0]], node)
            else:
                self._value(layers[written[0]], node)

    def _value(self, layer: Layer, node: onnx.NodeProto) -> None:
        """Add a node that reads the values of one step."""
        delays = {self.flows[name].delay for name in layer.sources}
        if len(delays) > 1:
            raise _refusal(
                self.whole, layer, f"its inputs are {sorted(delays)} steps late", "windows that end together"
            )
        self.nodes.append(node)
        self.flows |= dict.fromkeys(node.output, Flow(None, delays.pop(), 1, 1))

    def _frame(self, layer: Layer, axis: int, form: Frames, node: onnx.NodeProto) -> None:
        """Add a node that reads frames, behind what keeps and cuts them."""
        if form.after:
            raise _refusal(
                self.whole, layer, f"pads {form.after} frames after the last one, and a stream has no last one",
                "pads before the first frame alone",
            )  # fmt: skip
        delay, new = max(self.flows[name].delay for name in layer.sources), self.flows[layer.sources[0]].new
        if form.place is not None:
            self._take(layer, form.place, node)
            return
        if form.has_first:  # the first frame of the whole network is the first of a step, before which is padding
            delay += -delay % new
        changed = onnx.NodeProto()
        changed.CopyFrom(layer.streaming.node(node, axis))
        for position, name in enumerate(node.input):
            if name in layer.sources:
                changed.input[position], flow = self._window(layer, form, name, delay)
        self.nodes.append(changed)
        if form.states:
            self._carry(layer, changed, delay // new)
        for name in node.output:
            self.flows[name] = flow

    def _take(self, layer: Layer, place: int, node: onnx.NodeProto) -> None:
        """Add the nodes that take the frame at a place of the whole axis, in the step in which it is new."""
        [source], [name] = layer.sources, node.output
        flow = self.flows[source]
        step, first = divmod(flow.delay + place, flow.new)
        frame = source if flow.new == 1 else self._cut("window", layer, flow, source, source, 1, first)
        shape = numpy_helper.from_array(np.array([0, *layer.output.shape], np.int64), f"{name}/shape")
        self.constants.append(shape)
        self.nodes.append(helper.make_node("Reshape", [frame, shape.name], [name], node.name))
        self.flows[name] = Flow(None, step, 1, 1)

    def _carry(self, layer: Layer, node: onnx.NodeProto, start: int) -> None:
        """Make a node that of steps, which begin after step `start`; add one that takes the first state."""
        [output] = node.output
        node.op_type += STEPS
        kept = [entry for entry in node.attribute if entry.name != "direction"]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("start", start)])
        name, node.name = self._name("states", layer, output)
        node.output[0] = name
        first = numpy_helper.from_array(np.array(0, np.int64), f"{name}/first")
        self.constants.append(first)
        self.nodes.append(helper.make_node("Gather", [name, first.name], [output], layer.node, axis=1))

    def _window(self, layer: Layer, form: Frames, source: str, delay: int) -> tuple[str, Flow]:
        """Return the tensor with the frames that a layer reads in a step, and the frames of its output.

        The frames of `source` are put off, so that they come as late as `delay` says.
        """
        flow, name = self.flows[source], source
        if delay > flow.delay:
            name = self._delayed("late", layer, flow, source, source, delay - flow.delay)
            name = self._cut("aligned", layer, flow, source, name, flow.new)
        stride = flow.new if form.axis is None else form.stride
        new = flow.new // stride
        history = max(form.extent - stride, form.before - delay, 0)
        history += (form.before - delay - history) % stride
        needed = (new - 1) * stride + form.extent
        if history:
            start = delay // flow.new if form.before else 0
            name = self._delayed("history", layer, flow, source, name, history, start, self._padding(layer, form))
        if history + flow.new - needed >= (1 if form.axis is None else stride):
            name = self._cut("window", layer, flow, source, name, needed)
        length = 1 if form.axis is None else layer.output.shape[form.axis]
        return name, Flow(form.axis, (delay + history - form.before) // stride, new, length)

    def _padding(self, layer: Layer, form: Frames) -> float:
        """Return the value of frames before the stream; raise RequestError if no value stands for the padding."""
        if form.padding is None and form.before:
            raise _refusal(self.whole, layer, "pads the axis, with no value that frames can have", "no padding of it")
        return float(form.padding or 0)

    def _delayed(
        self,
        role: str,
        layer: Layer,
        flow: Flow,
        source: str,
        given: str,
        history: int,
        start: int = 0,
        value: float = 0,
    ) -> str:
        """Add a Delay; return its output."""
        name, stem = self._name(role, layer, source)
        node = helper.make_node("Delay", [given], [name], stem, domain=DOMAIN)
        settings = {"axis": 1 + (flow.axis or 0), "history": history, "start": start, "value": float(value)}
        node.attribute.extend(helper.make_attribute(key, each) for key, each in settings.items())
        self.nodes.append(node)
        return name

    def _cut(self, role: str, layer: Layer, flow: Flow, source: str, given: str, frames: int, first: int = 0) -> str:
        """Add a Slice of frames from the first one on; return its output."""
        name, stem = self._name(role, layer, source)
        bounds = {"starts": first, "ends": first + frames, "axes": 1 + (flow.axis or 0)}
        for key, value in bounds.items():
            self.constants.append(numpy_helper.from_array(np.array([value], np.int64), f"{name}/{key}"))
        self.nodes.append(helper.make_node("Slice", [given, *(f"{name}/{key}" for key in bounds)], [name], stem))
        return name

    @staticmethod
    def _name(role: str, layer: Layer, source: str) -> tuple[str, str]:
        """Return the names of a tensor and of its node, in front of a layer."""
        stem = f"{role}_{layer.name}" + (f"_{source}" if len(layer.sources) > 1 else "")
        return f"{source}/{role}/{layer.name}", stem

    def model(self, steps: int) -> onnx.ModelProto:
        """Return the model of a step, with the whole network in its metadata; after `steps` a new stream begins."""
        model = onnx.ModelProto()
        model.CopyFrom(self.file)
        del model.graph.node[:], model.graph.value_info[:], model.metadata_props[:]
        model.graph.node.extend(self.nodes)
        for node in model.graph.node:
            if node.domain == DOMAIN and any(entry.name == "start" for entry in node.attribute):
                node.attribute.append(helper.make_attribute("steps", steps))
        model.graph.initializer.extend(self.constants)
        for value in (*model.graph.input, *model.graph.output):
            flow = self.flows.get(value.name)
            if flow and flow.axis is not None and len(value.type.tensor_type.shape.dim) > flow.axis + 1:
                value.type.tensor_type.shape.dim[flow.axis + 1].dim_value = flow.new
        if all(entry.domain != DOMAIN for entry in model.opset_import):
            model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        settings = {"axis": self.axis + 1, "pulse": self.pulse, "steps": steps}
        whole = base64.b64encode(self.whole.onnx_bytes).decode()
        helper.set_model_props(model, self._metadata() | {SETTINGS: json.dumps(settings), WHOLE: whole})
        return model

    def _metadata(self) -> dict[str, str]:
        """Return the metadata, with the box of the frames of a step."""
        of_values = ("input_box_low", "input_box_high", "input_names", "input_units", "input_mean", "input_range")
        kept = {key: value for key, value in self.whole.metadata.items() if key not in of_values}
        box = self.whole.box.reshape(2, *self.whole.vector.shape)
        first = box.take([0], axis=self.axis + 1)
        if "input_box_low" not in self.whole.metadata and "input_box_high" not in self.whole.metadata:
            return kept
        if (box != first).any():
            raise RequestError(
                f"model {self.whole.name!r}: the input box differs along axis {self.axis + 1}",
                "one box for all frames of a stream",
            )
        low, high = first.repeat(self.pulse, axis=self.axis + 1).reshape(2, -1).tolist()
        return kept | {"input_box_low": json.dumps(low), "input_box_high": json.dumps(high)}
