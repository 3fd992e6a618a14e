"""Networks whose layers branch and join: random ones, and the one with three items of the paper on items."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness import model as networks
from harness.core.errors import RequestError
from tests.support.builders import Array, make_model

WIDTH = 6
ZERO_POINT = 128


@dataclass
class Graph:
    """A network under construction; every tensor has WIDTH columns, codes are uint8 and spread around 128."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)  # of tensors of codes
    spreads: dict[str, float] = field(default_factory=dict)  # of float tensors

    def quantize(self, name: str, source: str, spread: float) -> str:
        self.scales[name] = spread / 40
        parameters = [self._scale(f"{name}_scale", self.scales[name]), self._zero_point()]
        return self._node("QuantizeLinear", name, [source, *parameters])

    def qgemm(self, name: str, source: str, *, to_float: bool = False, parameters: str | None = None) -> str:
        """`parameters` names a QGemm with whose weights and bias this one computes too."""
        owner = parameters or name
        if parameters is None:
            self.constants[f"{name}_weights"] = self.rng.integers(-127, 128, (WIDTH, WIDTH)).astype(np.int8)
            self.constants[f"{name}_bias"] = self.rng.integers(-9000, 9000, WIDTH).astype(np.int32)
            self.constants[f"{name}_b_zero_point"] = np.array(0, np.int8)
        a_scale, spread = self.scales[source], 40 * 73 * WIDTH**0.5 * self.scales[source] * 0.01
        inputs = [source, self._scale(f"{name}_a_scale", a_scale), self._zero_point(), f"{owner}_weights",
                  self._scale("b_scale", 0.01), f"{owner}_b_zero_point", f"{owner}_bias"]  # fmt: skip
        if to_float:
            self.spreads[name] = spread
        else:
            self.scales[name] = spread / 40
            inputs += [self._scale(f"{name}_y_scale", self.scales[name]), self._zero_point()]
        return self._node("QGemm", name, inputs, "com.microsoft")

    def add(self, name: str, left: str, right: str) -> str:
        self.spreads[name] = self.spreads[left] + self.spreads[right]
        return self._node("Add", name, [left, right])

    def model(self, *, argmax_of: str | None = None) -> onnx.ModelProto:
        """Whatever no node reads is an output."""
        if argmax_of:
            self._node("ArgMax", "advisory", [argmax_of], axis=1)
        read = {name for node in self.nodes for name in node.input}
        outputs = {node.output[0]: self._kind(node) for node in self.nodes if node.output[0] not in read}
        box = {key: json.dumps([bound] * WIDTH) for key, bound in (("input_box_low", -1.0), ("input_box_high", 1.0))}
        return make_model(self.nodes, self.constants, outputs, width=WIDTH, metadata=box)

    def _kind(self, node: onnx.NodeProto) -> tuple[str, int]:
        if node.op_type == "ArgMax":
            return "int64", 1
        return ("float32" if node.output[0] in self.spreads else "uint8"), WIDTH

    def _node(self, operator: str, name: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def _scale(self, name: str, value: float) -> str:
        self.constants[name] = np.float32(value)
        return name

    def _zero_point(self) -> str:
        self.constants["zero_point"] = np.array(ZERO_POINT, np.uint8)
        return "zero_point"


def random_dag(rng: np.random.Generator, count: int) -> onnx.ModelProto:
    """A network of `count` layers behind the first, each of which reads any of those before."""
    graph = Graph(rng)
    graph.quantize("q", "x", 0.4)
    for index in range(count):
        name, operator = f"t{index}", rng.choice(["QGemm", "QGemm float", "Add", "QuantizeLinear"])
        codes, floats = list(graph.scales), list(graph.spreads)
        if operator == "Add" and len(floats) > 1:
            graph.add(name, *rng.choice(floats, 2))
        elif operator == "QuantizeLinear" and floats:
            source = str(rng.choice(floats))
            graph.quantize(name, source, graph.spreads[source])
        else:
            graph.qgemm(name, str(rng.choice(codes)), to_float=operator == "QGemm float")
    return graph.model()


def listing_2() -> onnx.ModelProto:
    """Listing 2 of "Formal description of ML models for unambiguous implementation" (ERTS 2024), in dense layers.

    A dense layer stands for each convolution, o3 and o5 with the same parameters; their sum, quantised, for what is
    concatenated and flattened there.
    """
    graph = Graph(np.random.default_rng(2))
    graph.quantize("e1", "x", 0.4)
    graph.qgemm("o1", "e1")
    graph.qgemm("o2", "o1")
    graph.qgemm("o3", "o2", to_float=True)
    graph.qgemm("o4", "o1")
    graph.qgemm("o5", "o4", to_float=True, parameters="o3")
    graph.quantize("o7", graph.add("o6", "o3", "o5"), graph.spreads["o6"])
    return graph.model(argmax_of=graph.qgemm("out", "o7"))


def random_float_graph(rng: np.random.Generator, count: int) -> onnx.ModelProto:
    """Up to `count` layers of all elementwise operators, quantised and float; what `harness.model` refuses is left out.

    Constants are zeros of both signs, ones and rows, so that ONNX Runtime has something to leave out or to fuse.
    """
    constants: dict[str, Array] = {
        "z": np.uint8(ZERO_POINT), "s": np.float32(0.02), "t": np.float32(0.031), "shape": np.array([-1, WIDTH]),
        "low": np.float32(rng.choice([-1, 0, -1e30])), "high": np.float32(rng.choice([1, 6, 1e30])),
        "zero": np.float32(0), "minus": np.float32(-0.0), "one": np.float32(1),
        "row": rng.normal(size=WIDTH).astype(np.float32), "w": rng.integers(-127, 128, (WIDTH, WIDTH)).astype(np.int8),
        "wz": np.int8(0),
    }  # fmt: skip
    nodes: list[onnx.NodeProto] = []
    kinds, model = {"x": "float32"}, None
    for index in range(count):
        name = f"t{index}"
        floats, codes = (
            [tensor for tensor, kind in kinds.items() if kind == wanted] for wanted in ("float32", "uint8")
        )
        constant, scale = str(rng.choice(["zero", "minus", "one", "row", "high"])), str(rng.choice(["s", "t"]))
        (a, b), code = rng.choice(floats, 2), str(rng.choice(codes or ["x"]))
        of_codes = [
            ("DequantizeLinear", [code, scale, "z"], "float32"), ("Reshape", [code, "shape"], "uint8"),
            ("QGemm", [code, "s", "z", "w", "t", "wz"], "float32"),
        ]  # fmt: skip
        choices: list[tuple[str, list[str], str]] = [
            ("Relu", [a], "float32"), ("Clip", [a, "low", "high"], "float32"), ("Reshape", [a, "shape"], "float32"),
            *((operator, [a, other], "float32") for operator in ("Add", "Sub", "Mul") for other in (b, constant)),
            ("Sub", [constant, a], "float32"), ("QuantizeLinear", [a, scale, "z"], "uint8"),
            *(of_codes if codes else []),
        ]  # fmt: skip
        operator, inputs, kind = choices[rng.integers(len(choices))]
        domain = "com.microsoft" if operator == "QGemm" else ""
        tried = [*nodes, helper.make_node(operator, inputs, [name], name=name, domain=domain)]
        read = {source for node in tried for source in node.input}
        results = {
            tensor: (each, WIDTH) for tensor, each in {**kinds, name: kind}.items() if tensor not in {*read, "x"}
        }
        made = make_model(tried, {key: value for key, value in constants.items() if key in read}, results, width=WIDTH)
        try:
            networks.parse(made.SerializeToString(), "tried")
        except RequestError:
            continue
        nodes, model, kinds = tried, made, {**kinds, name: kind}
    return model or random_float_graph(rng, count)
