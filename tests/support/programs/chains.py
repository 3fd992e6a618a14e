"""Networks written out node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.helper

from harness.core.arrays import Array
from harness.model.network import Network
from tests.support import builders
from tests.support.programs.board_program import parse


@dataclass(frozen=True)
class Node:
    """An operator with its constant inputs, in order and by their names in the model."""

    operator: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


def chain(nodes: Sequence[Node], output: tuple[str, int], width: int) -> Network:
    """The nodes one after the other, from `width` inputs to an output of this type and width."""
    protos = []
    constants: dict[str, Array] = {}
    tensor = "x"
    for node in nodes:
        domain = "com.microsoft" if node.operator == "QGemm" else ""
        inputs, tensor = [tensor, *node.constants], f"{node.operator}_out"
        name = node.operator
        protos.append(onnx.helper.make_node(name, inputs, [tensor], name, domain=domain, **node.attributes))
        constants |= {name: np.asarray(value) for name, value in node.constants.items()}
    return parse(builders.make_model(protos, constants, {tensor: output}, width=width))


def quantize(scale: float, zero_point: int, dtype: str) -> Node:
    return Node("QuantizeLinear", {"x_scale": np.float32(scale), "x_zero_point": np.array(zero_point, dtype)})


def qgemm(weights: Array, bias: Array, b_scale: Array, output: tuple[float, int] | None, a_scale: float = 1) -> Node:
    """Of uint8 codes with zero point 0; `output` is the scale and zero point of uint8, None for float32."""
    constants: dict[str, Any] = {
        "a_scale": np.float32(a_scale),
        "a_zero_point": np.uint8(0),
        "weights": weights,
        "b_scale": b_scale.astype(np.float32),
        "b_zero_point": np.zeros(b_scale.shape, weights.dtype),
        "bias": bias.astype(np.int32),
    }
    if output:
        constants |= {"y_scale": np.float32(output[0]), "y_zero_point": np.uint8(output[1])}
    return Node("QGemm", constants)
