"""Random quantised networks for tests: calibrated, so that their activations are spread over the codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.operators.tensor import EVERY_TYPE, STORED

Array = npt.NDArray[Any]

OPSET = 21
IR_VERSION = 10
ELEMENT_TYPES = {str(kind): helper.np_dtype_to_tensor_dtype(kind) for kind in (*EVERY_TYPE, *STORED)}
CALIBRATION_VECTORS = 512


def make_model(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, Array],
    outputs: dict[str, tuple[str, int]],
    *,
    width: int,
    batch: int | str = "vectors",
    metadata: dict[str, str] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes with the float32 input "x" of shape (batch, width); outputs are {name: (type, width)}."""
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, width])],
        [
            helper.make_tensor_value_info(name, ELEMENT_TYPES[kind], [batch, columns])
            for name, (kind, columns) in outputs.items()
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    helper.set_model_props(model, metadata or {})
    return model


def float_sums() -> onnx.ModelProto:
    """Two float Gemms, 8 to 12 to 4, with a Relu between."""
    rng = np.random.default_rng(5)
    shapes = {"w1": (8, 12), "b1": 12, "w2": (12, 4), "b2": 4}
    constants = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["sums"], name="dense_1"),
        helper.make_node("Relu", ["sums"], ["positive"], name="relu_1"),
        helper.make_node("Gemm", ["positive", "w2", "b2"], ["scores"], name="dense_2"),
    ]
    return make_model(nodes, constants, {"scores": ("float32", 4)}, width=8)


def random_network(
    rng: np.random.Generator,
    widths: Sequence[int],
    *,
    weights: str = "int8",
    activations: str = "uint8",
    per_column: bool = False,
    power_of_two: bool = False,
    float_output: bool = False,
    dequantize: bool = False,
    zero_points: bool = False,
    transposed: bool = False,
    alpha: float = 1.0,
    argmax: bool = False,
    residual: int = 1,
) -> onnx.ModelProto:
    """QuantizeLinear and a QGemm for every pair of `widths`, after choice DequantizeLinear and ArgMax.

    With `residual` of 2 or more every pair has that many QGemms, whose float32 results are added and quantised again;
    the last sum is the output.
    The input box is in the metadata and reaches a little beyond the input's codes.  Float and argmax
    outputs are those of the last layer; with `argmax` the scores are an output too.
    """
    build = _Build(
        rng, np.dtype(activations), np.dtype(weights), per_column, power_of_two, zero_points, transposed, alpha
    )
    build.quantize(widths[0])
    for index, width in enumerate(widths[1:]):
        is_last = index == len(widths) - 2
        if residual > 1:
            build.expansion(f"layer_{index}", width, residual, is_float=is_last)
        else:
            build.qgemm(f"layer_{index}", width, is_float=float_output and is_last)
    scores = "float32" if float_output or dequantize or residual > 1 else activations
    if dequantize:
        build.node("DequantizeLinear", "dequantize", [build.tensor, build.constant("score_scale", build.scale), "zp"])
        build.constants["zp"] = build.zero_point
    outputs = {build.tensor: (scores, widths[-1])}
    if argmax:
        build.node("ArgMax", "advisory", [build.tensor], axis=1)
        outputs[build.tensor] = ("int64", 1)
    return make_model(build.nodes, build.constants, outputs, width=widths[0], metadata=build.metadata)


@dataclass
class _Build:
    """A chain under construction: what was added, and the state of its last tensor on random codes."""

    rng: np.random.Generator
    activations: np.dtype[Any]
    weights: np.dtype[Any]
    per_column: bool
    power_of_two: bool
    zero_points: bool
    transposed: bool
    alpha: float
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    tensor: str = "x"
    scale: np.float32 = field(default_factory=lambda: np.float32(1))
    zero_point: Array = field(default_factory=lambda: np.zeros((), np.uint8))
    codes: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def node(self, operator: str, name: str, inputs: list[str], domain: str = "", **attributes: Any) -> None:
        output = f"{name}_out"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=name, domain=domain, **attributes))
        self.tensor = output

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def rounded(self, scale: Array) -> Array:
        scale = np.asarray(scale, np.float32)
        return np.exp2(np.round(np.log2(scale))).astype(np.float32) if self.power_of_two else scale

    def quantize(self, width: int) -> None:
        info = np.iinfo(self.activations)
        self.zero_point = np.array(self.rng.integers(info.min + 60, info.max - 60), self.activations)
        if not self.zero_points:
            self.zero_point = np.array(max(info.min, 0), self.activations)
        self.scale = self.rounded(self.rng.uniform(0.004, 0.012))[()]
        bounds = (np.array([info.min - 8, info.max + 8]) - int(self.zero_point)) * float(self.scale)
        for key, bound in zip(("input_box_low", "input_box_high"), bounds, strict=True):
            self.metadata[key] = json.dumps([bound] * width)
        inputs = [self.constant("x_scale", self.scale), self.constant("x_zero_point", self.zero_point)]
        self.node("QuantizeLinear", "quantize", ["x", *inputs])
        self.codes = self.rng.integers(info.min, info.max + 1, (CALIBRATION_VECTORS, width))

    def qgemm(self, name: str, width: int, *, is_float: bool) -> None:
        b, b_scale, b_zero_point = self._weights(width)
        spread = (self.codes - int(self.zero_point)) @ (b.astype(np.int64) - b_zero_point)
        bias = self.rng.normal(0, 0.3 * spread.std() + 1, width).astype(np.int32)
        a_scale, a_zero_point = self.scale, self.zero_point
        real = (spread + bias) * (np.float32(self.alpha) * a_scale * b_scale).astype(np.float64)
        inputs = [
            self.tensor,
            self.constant(f"{name}_a_scale", a_scale),
            self.constant(f"{name}_a_zero_point", a_zero_point),
            self.constant(f"{name}_weights", b.T.copy() if self.transposed else b),
            self.constant(f"{name}_b_scale", b_scale),
            self.constant(f"{name}_b_zero_point", b_zero_point),
            self.constant(f"{name}_bias", bias),
        ]
        if not is_float:
            self._calibrate(real)
            inputs += [self.constant(f"{name}_y_scale", self.scale), self.constant(f"{name}_y_zp", self.zero_point)]
        self.node("QGemm", name, inputs, "com.microsoft", alpha=self.alpha, transB=int(self.transposed))

    def expansion(self, name: str, width: int, order: int, *, is_float: bool) -> None:
        """A residual expansion: R_k = Q(W - sum_{j<k} Q^-1(R_j)), one QGemm for every R_k on the same codes."""
        codes, scale, zero_point = self.tensor, self.constant(f"{name}_a_scale", self.scale), self.zero_point
        inputs = [codes, scale, self.constant(f"{name}_a_zero_point", zero_point)]
        rest = self.rng.normal(0, 0.3, (self.codes.shape[1], width))
        centered = self.codes - int(zero_point)
        real = np.zeros((len(self.codes), width))
        for k in range(1, order + 1):
            term = f"{name}_term_{k}"
            b, b_scale, b_zero_point = self._residue(rest)
            weights = (b.astype(np.int64) - b_zero_point) * b_scale.astype(np.float64)
            rest = rest - weights
            factor = float(np.float32(self.alpha) * self.scale)
            real += centered @ weights * factor
            constants = {"weights": b.T.copy() if self.transposed else b, "b_scale": b_scale, "b_zp": b_zero_point}
            if k == 1:
                spread = (centered @ weights / b_scale).std()
                constants["bias"] = self.rng.normal(0, 0.3 * spread + 1, width).astype(np.int32)
                real += constants["bias"] * (b_scale * factor)
            before = self.tensor
            tables = [self.constant(f"{term}_{key}", value) for key, value in constants.items()]
            self.node("QGemm", term, [*inputs, *tables], "com.microsoft", alpha=self.alpha, transB=int(self.transposed))
            if k > 1:
                self.node("Add", f"{name}_sum_{k}", [before, self.tensor])
        if not is_float:
            self._calibrate(real)
            constants = [self.constant(f"{name}_y_scale", self.scale), self.constant(f"{name}_y_zp", self.zero_point)]
            self.node("QuantizeLinear", f"{name}_quantize", [self.tensor, *constants])

    def _residue(self, rest: Array) -> tuple[Array, Array, Array]:
        """Real weights, float64 (K, N), as codes with their scale and zero point: numbers, or (N,) per column."""
        info = np.iinfo(self.weights)
        middle = 128 if self.weights == np.uint8 else 0
        shape = (rest.shape[1],) if self.per_column else ()
        spread = 20 if self.zero_points else 1
        zero_point = self.rng.integers(middle - spread + 1, middle + spread, shape).astype(self.weights)
        largest = np.abs(rest).max(axis=0 if self.per_column else None)
        scale = self.rounded(np.where(largest > 0, largest, 1.0) / 120)  # powers of two may leave no rest
        codes = np.clip(np.rint(rest / scale) + zero_point, info.min, info.max)
        return codes.astype(self.weights), scale, zero_point

    def _weights(self, width: int) -> tuple[Array, Array, Array]:
        """Weights (K, N), their scale and zero point: numbers, or (N,) per column."""
        shape = (width,) if self.per_column else ()
        middle = 128 if self.weights == np.uint8 else 0
        spread = 20 if self.zero_points else 1
        zero_point = self.rng.integers(middle - spread + 1, middle + spread, shape).astype(self.weights)
        info = np.iinfo(self.weights)
        values = self.rng.normal(middle, 45, (self.codes.shape[1], width))
        scale = self.rounded(self.rng.uniform(0.002, 0.02, shape))
        return np.clip(np.rint(values), info.min, info.max).astype(self.weights), scale, zero_point

    def _calibrate(self, real: Array) -> None:
        """The output's scale and zero point, and its codes: 99 % of the real values are within the codes."""
        info = np.iinfo(self.activations)
        middle = int(self.rng.integers(info.min + 60, info.max - 60)) if self.zero_points else max(info.min, 0)
        self.zero_point = np.array(middle, self.activations)
        span = np.quantile(np.abs(real), 0.99) / (info.max - max(middle, info.min + 60))
        self.scale = self.rounded(max(span, 1e-6))[()]
        self.codes = np.clip(np.rint(real / float(self.scale)) + middle, info.min, info.max).astype(np.int64)
