"""LayerNormalization and InstanceNormalization (ONNX), float32, with constant scale and bias.

ONNX defines the first one as a function of other operators, whose operations and order these are.  The other takes each
channel as a row, and has a scale and a bias a channel in the place of one a value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import onnx

from harness.operators.base import fields
from harness.operators.exact.expression import square_root
from harness.operators.exact.stages import Source, Stage, array
from harness.operators.fault_models import Single
from harness.operators.float_errors import gamma
from harness.operators.node import Node
from harness.operators.reduce import itself, total
from harness.operators.rows import EXAMPLE, Axes, Rows
from harness.operators.rules import Rules
from harness.operators.staged import described
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.tensor_facts import Variable

CONSTANTS = {
    "scale": "float32 (1, N), as the bias",
    "bias": "float32 (1, N)",
    "epsilon": "float32 (1, 1)",
    "count": "float32 (1, 1): the number of values of a row",
}


def definition(x: Source, kept: Axes, over: Axes, scaled: Axes) -> Stage:
    """Return ((x - u) * (1 / sqrt(v + epsilon))) * scale + bias, of mean u and variance v of each row.

    `scaled` are the axes of scale and bias.
    """
    count, epsilon = (Source(name, (), is_constant=True)[()] for name in ("count", "epsilon"))
    scale, bias = (Source(name, scaled, is_constant=True)[scaled] for name in ("scale", "bias"))
    s = total(itself)(x, kept, over)
    u = array("u", kept, s[kept] / count)
    d = x[x.axes] - u[kept]
    t = total(lambda _: d * d, "t")(x, kept, over)
    w = array("w", kept, 1 / square_root(t[kept] / count + epsilon))
    return array("y", x.axes, (d * w[kept]) * scale + bias)


@dataclass(frozen=True, eq=False)
class Normalization(Rows):
    """A layer whose rows get the mean 0 and the variance 1, then a scale and a bias."""

    text = Rows.text.but(
        roles=("x", "scale", "bias"),
        parameters=(1, 2),
        facts_of=lambda layer: {
            "scale": layer.scale,
            "bias": layer.bias,
            "epsilon": np.array([layer.epsilon]),
            "count": np.array([layer.count], np.float32),
        },
    )
    least_epsilon: ClassVar[float] = 2.0**-100

    scale: Single
    bias: Single
    epsilon: np.float32

    @classmethod
    def normalized(cls, node: Node, epsilon: np.float32, axes: Sequence[int], shape: tuple[int, ...]) -> Self:
        """Return the layer with scale and bias of this shape, whose rows are along these axes of a vector."""
        source = node.activation(0, [FLOAT32])
        numbers: dict[str, Any] = {}
        for position, name in ((1, "scale"), (2, "bias")):
            value = node.constant(position, name, [FLOAT32]) if node.has(position) else np.zeros(shape, np.float32)
            if value.size != math.prod(shape) or not np.isfinite(value).all():
                raise node.refusal(f"the {name} has shape {value.shape}", f"finite numbers of shape {shape}")
            numbers[name] = value.reshape(-1)
        if not cls.least_epsilon <= epsilon < 1:
            raise node.refusal(f"epsilon is {epsilon}", "a small positive number, such as 1e-5")
        count = math.prod(source.shape[axis] for axis in axes)
        largest = math.sqrt(count) * float(np.abs(numbers["scale"]).max()) + float(np.abs(numbers["bias"]).max())
        is_finite = count * (2 * source.bound) ** 2 < LARGEST
        bound = largest * (1 + gamma(2 * count + 20)) + 2.0**-100 if is_finite else math.inf
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=True)
        return cls(**written, axes=tuple(axes), epsilon=epsilon, **numbers)


@dataclass(frozen=True, eq=False)
class LayerNormalization(Normalization):
    """The last axes of a vector are a row; there is a scale and a bias for each of its values."""

    ONNX = (("", "LayerNormalization"),)
    text = Normalization.text.but(**described("LayerNormalization", definition(*EXAMPLE, EXAMPLE[2]), CONSTANTS))

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, that scale and bias have the last axes, and those of mean and deviation."""
        node.same(node.x, node.y)
        node.given(node.x.rank).then(lambda rank: node.axis(node.attribute("axis", -1), rank))
        for more in filter(None, node.outputs[1:]):
            node.is_type(more, node.attribute("stash_type", onnx.TensorProto.FLOAT)).equals(more.rank, node.x.rank)

            def statistics(rank: int, more: Variable = more) -> None:
                first = node.axis(node.attribute("axis", -1), rank)
                for axis in range(rank):
                    node.equals(more.size(axis), node.x.size(axis) if axis < first else 1)

            node.given(node.x.rank).then(statistics)
        for constant in node.given_inputs[1:]:

            def last_axes(rank: int, own: int, constant: Variable = constant) -> None:
                for axis in range(1, own + 1):
                    node.equals(constant.size(own - axis), node.x.size(rank - axis))

            node.given(node.x.rank, constant.rank).then(last_axes)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node along axes behind that of the vectors, with constant scale and bias."""
        node.require_inputs(2, 3)
        attributes = node.attributes({"axis": -1, "epsilon": 1e-5, "stash_type": 1})
        source, epsilon = node.activation(0, [FLOAT32]), np.float32(attributes["epsilon"])
        rank = 1 + len(source.shape)
        first = attributes["axis"] % rank
        if first == 0 or not -rank <= attributes["axis"] < rank:
            raise node.refusal(f"axis is {attributes['axis']}", f"axes 1 to {rank - 1}: the values of one vector")
        return cls.normalized(node, epsilon, range(first - 1, rank - 1), source.shape[first - 1 :])

    def folded(self, x: Source, kept: Axes, over: Axes) -> Stage:
        """Return the definition."""
        return definition(x, kept, over, over)


@dataclass(frozen=True, eq=False)
class InstanceNormalization(Normalization):
    """Each channel is a row; there is a scale and a bias for each channel."""

    ONNX = (("", "InstanceNormalization"),)
    text = Normalization.text.but(**described("InstanceNormalization", definition(*EXAMPLE, EXAMPLE[1]), CONSTANTS))

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that scale and bias have one number a channel."""
        node.same(node.x, node.y)
        for constant in node.given_inputs[1:]:
            node.equals(constant.rank, 1).equals(constant.size(0), node.x.size(1))

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of channels with constant scale and bias."""
        node.require_inputs(3, 3)
        epsilon = np.float32(node.attributes({"epsilon": 1e-5})["epsilon"])
        source = node.activation(0, [FLOAT32])
        if len(source.shape) < 2:
            raise node.refusal(f"a vector has shape {source.shape}", "channels with several values each")
        return cls.normalized(node, epsilon, range(1, len(source.shape)), source.shape[:1])

    def folded(self, x: Source, kept: Axes, over: Axes) -> Stage:
        """Return the definition."""
        return definition(x, kept, over, kept)
