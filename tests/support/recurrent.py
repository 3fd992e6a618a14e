"""Networks of recurrent operators of domain harness, of random sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.transforms.edit import declare_functions

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": "hc", "GRU": "h", "RNN": "h"}


@dataclass
class Recurrences:
    """Layers that read `x`, (vectors, steps, inputs); states begin with an input of the network, or constants."""

    steps: int
    inputs: int
    hidden: int
    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)

    def add(self, operator: str, direction: str = "forward", states: Sequence[str] = (), **attributes: int) -> str:
        """Add a layer; each state is "zero", "constant" or "input", by default zero."""
        name, rows = f"layer_{len(self.nodes)}", GATES[operator] * self.hidden
        for role, shape in (("w", (rows, self.inputs)), ("r", (rows, self.hidden)), ("b", (2 * rows,))):
            self.constants[f"{name}_{role}"] = self.random.normal(0, 0.5, shape).astype(np.float32)
        sources = ["x", *(f"{name}_{role}" for role in "wrb")]
        for state, form in zip(STATES[operator], states or ["zero"] * len(STATES[operator]), strict=True):
            sources.append(f"{name}_{state}")
            values = self.random.normal(size=(1, self.hidden)).astype(np.float32)
            if form == "input":
                self.read.append(sources[-1])
            else:
                self.constants[sources[-1]] = values * np.float32(form == "constant")
        if operator == "GRU":
            attributes.setdefault("linear_before_reset", 0)
        self.nodes.append(
            helper.make_node(operator, sources, [name], name=name, domain="harness", hidden_size=self.hidden,
                             direction=direction, **attributes)
        )  # fmt: skip
        return name

    def model(self) -> onnx.ModelProto:
        """Return the model, whose outputs are all layers."""
        shapes = {"x": (self.steps, self.inputs), **dict.fromkeys(self.read, (self.hidden,))}
        outputs = [(node.output[0], (self.steps, self.hidden)) for node in self.nodes]
        graph = helper.make_graph(
            self.nodes,
            "recurrences",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape]) for name, shape in shapes.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape]) for name, shape in outputs],
            [numpy_helper.from_array(values, name) for name, values in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("harness", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        declare_functions(model)
        return model


def every_recurrence() -> onnx.ModelProto:
    """Every operator in both directions, with every way to begin."""
    network = Recurrences(5, 3, 4, np.random.default_rng(3))
    network.add("LSTM")
    network.add("LSTM", "reverse", ["input", "constant"])
    network.add("LSTM", states=["constant", "input"])
    network.add("GRU", linear_before_reset=1)
    network.add("GRU", "reverse", ["input"])
    network.add("RNN", states=["constant"])
    return network.model()
