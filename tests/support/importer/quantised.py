"""Quantised files of two products in every notation, from the same constants."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.support.importer.graphs import Array, model, node


@dataclass(frozen=True)
class Product:
    """The constants of one product: weights int8 or uint8 (K, N), their scale and zero point () or (N,)."""

    weight: Array
    scale: Array
    zero_point: Array
    bias: Array
    y_scale: np.float32
    y_zero_point: np.generic

    def bias_scale(self, a_scale: np.float32) -> Array:
        """That of the int32 bias."""
        return np.asarray(a_scale * self.scale, np.float32)


@dataclass(frozen=True)
class Constants:
    """Those of a network: the input's quantisation, and each product."""

    scale: np.float32
    zero_point: np.generic
    products: tuple[Product, ...]

    @property
    def width(self) -> int:
        return int(self.products[0].weight.shape[0])

    def changed(self, **fields: Any) -> Constants:
        """With other fields in the first product."""
        return replace(self, products=(replace(self.products[0], **fields), *self.products[1:]))


def draw(
    random: np.random.Generator,
    widths: tuple[int, ...],
    *,
    weights: str = "int8",
    codes: str = "uint8",
    per_column: bool = False,
    relu: bool = False,
) -> Constants:
    """Random constants whose activations spread over the codes; `relu`: the outputs' zero points are the least code."""
    dtype, info = np.dtype(codes), np.iinfo(codes)
    zero_point = dtype.type(random.integers(info.min + 60, info.max - 60))
    made = Constants(np.float32(random.uniform(0.004, 0.01)), zero_point, ())
    a_scale = made.scale
    for inputs, outputs in itertools.pairwise(widths):
        shape = (outputs,) if per_column else ()
        limits = np.iinfo(weights)
        y_scale = np.float32(random.uniform(0.5, 2) * a_scale * np.sqrt(inputs) * 0.3)
        made = replace(
            made,
            products=(
                *made.products,
                Product(
                    random.integers(limits.min, limits.max + 1, (inputs, outputs)).astype(weights),
                    random.uniform(0.002, 0.01, shape).astype(np.float32),
                    random.integers(
                        (limits.min + limits.max) // 2 - 9, (limits.min + limits.max) // 2 + 9, shape
                    ).astype(weights),
                    random.integers(-5000, 5000, outputs).astype(np.int32),
                    y_scale,
                    dtype.type(info.min if relu else random.integers(info.min + 60, info.max - 60)),
                ),
            ),
        )
        a_scale = y_scale
    return made


def named(constants: Constants) -> dict[str, Array]:
    """All constants, by the names that the notations use: s0, z0 of the input, w1, ws1, wz1, b1, s1, z1, ..."""
    values: dict[str, Any] = {"s0": constants.scale, "z0": constants.zero_point}
    a_scale = constants.scale
    for number, product in enumerate(constants.products, start=1):
        values |= {f"w{number}": product.weight, f"ws{number}": product.scale, f"wz{number}": product.zero_point}
        values |= {f"b{number}": product.bias, f"s{number}": product.y_scale, f"z{number}": product.y_zero_point}
        values |= {f"bs{number}": product.bias_scale(a_scale)}
        values |= {f"bz{number}": np.zeros(product.bias_scale(a_scale).shape, np.int32)}
        values |= {f"m{number}": product.bias_scale(a_scale)}
        a_scale = product.y_scale
    return {name: np.asarray(value) for name, value in values.items()}


QUANTIZE_INPUT = node("QuantizeLinear", "x s0 z0", "q0")


def qgemm(number: int, *, bias: bool = True) -> list[onnx.NodeProto]:
    before = number - 1
    inputs = f"q{before} s{before} z{before} w{number} ws{number} wz{number} {f'b{number}' if bias else '-'}"
    return [node("QGemm", f"{inputs} s{number} z{number}", f"q{number}")]


def qlinear_matmul(number: int) -> list[onnx.NodeProto]:
    before = number - 1
    inputs = f"q{before} s{before} z{before} w{number} ws{number} wz{number} s{number} z{number}"
    return [node("QLinearMatMul", inputs, f"q{number}")]


def matmul_integer(number: int, *, bias: str = "", relu: bool = False, end: bool = False) -> list[onnx.NodeProto]:
    """With an int32 or a float32 bias, or none."""
    nodes = [node("MatMulInteger", f"q{number - 1} w{number} z{number - 1} wz{number}", f"a{number}")]
    if bias == "int32":
        nodes.append(node("Add", f"{nodes[-1].output[0]} b{number}", f"ab{number}"))
    nodes.append(node("Cast", nodes[-1].output[0], f"f{number}", to=TensorProto.FLOAT))
    nodes.append(node("Mul", f"{nodes[-1].output[0]} m{number}", f"y{number}"))
    if bias == "float32":
        nodes.append(node("Add", f"bf{number} {nodes[-1].output[0]}", f"yb{number}"))
    if relu:
        nodes.append(node("Relu", nodes[-1].output[0], f"r{number}"))
    if not end:
        nodes.append(node("QuantizeLinear", f"{nodes[-1].output[0]} s{number} z{number}", f"q{number}"))
    return nodes


def qdq(
    number: int,
    *,
    operator: str = "Gemm",
    bias: bool = True,
    relu: bool = False,
    end: bool = False,
    axis: int | None = None,
    **attributes: Any,
) -> list[onnx.NodeProto]:
    """DequantizeLinear for the codes, the weights and the bias, the product, [Relu], QuantizeLinear."""
    before = number - 1
    nodes = [node("DequantizeLinear", f"q{before} s{before} z{before}", f"d{number}")]
    nodes.append(
        node(
            "DequantizeLinear",
            f"w{number} ws{number} wz{number}",
            f"wd{number}",
            **({} if axis is None else {"axis": axis}),
        )
    )
    if bias:
        nodes.append(node("DequantizeLinear", f"b{number} bs{number} bz{number}", f"bd{number}", axis=0))
    inputs = f"d{number} wd{number}"
    if operator == "Gemm":
        nodes.append(node("Gemm", f"{inputs} bd{number}" if bias else inputs, f"p{number}", **attributes))
    else:
        nodes.append(node("MatMul", inputs, f"p{number}"))
        nodes += [node("Add", f"p{number} bd{number}", f"pb{number}")] if bias else []
    if relu:
        nodes.append(node("Relu", nodes[-1].output[0], f"r{number}"))
    if not end:
        nodes.append(node("QuantizeLinear", f"{nodes[-1].output[0]} s{number} z{number}", f"q{number}"))
    return nodes


def built(nodes: list[onnx.NodeProto], constants: Constants, end: int = TensorProto.UINT8, **settings: Any) -> bytes:
    """The file of these nodes behind the input's QuantizeLinear."""
    settings = {"shape": ["vectors", constants.width], "outputs": {nodes[-1].output[0]: end}} | settings
    values = named(constants) | settings.pop("more", {})
    used = {name for entry in nodes for name in entry.input} | {"s0", "z0"}
    return model([QUANTIZE_INPUT, *nodes], {k: v for k, v in values.items() if k in used}, **settings)


def shared_weights() -> bytes:
    """Two QDQ products with uint8 codes, which read the same int8 weights behind one DequantizeLinear."""
    second = [entry for entry in qdq(2, bias=False, end=True) if entry.output[0] != "wd2"]
    for entry in second:
        entry.input[:] = ["wd1" if name == "wd2" else name for name in entry.input]
    return built(qdq(1, bias=False) + second, draw(np.random.default_rng(3), (4, 4, 4)), TensorProto.FLOAT)


def codes_of_two_types() -> bytes:
    """Two products with int8 weights: of uint8 codes, then of int8 codes."""
    unsigned, signed = (draw(np.random.default_rng(3), (4, 9, 3), codes=codes) for codes in ("uint8", "int8"))
    first = replace(
        unsigned.products[0], y_scale=signed.products[0].y_scale, y_zero_point=signed.products[0].y_zero_point
    )
    constants = replace(unsigned, products=(first, signed.products[1]))
    return built(matmul_integer(1) + matmul_integer(2), constants, TensorProto.INT8)
