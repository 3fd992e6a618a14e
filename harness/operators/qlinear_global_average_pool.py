"""QLinearGlobalAveragePool (com.microsoft): the mean of each channel of an image (channels, height, width).

acc[c] = sum_p (x[c, p] - x_zero_point)                                       in int32, over the P positions
m      = x_scale / (y_scale * P)                                              float32
y[c]   = saturate(round_half_even(float32(acc[c]) * m) + y_zero_point)        uint8, int8
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators import contraction_faults
from harness.operators.base import ALONE, Ability, Constants, fields, limits
from harness.operators.contraction import Contraction
from harness.operators.exact.expression import INT32, integer, literal
from harness.operators.exact.stages import Axis, Source, Stage, constant, fold
from harness.operators.fault_models import FaultModel, Real, Single
from harness.operators.frames import Frames, Streaming
from harness.operators.node import Node
from harness.operators.product import Runtime
from harness.operators.rules import Rules
from harness.operators.scaled_sum import Scales
from harness.operators.tensor import INT8, UINT8, Tensor
from harness.operators.text import ROUND_HALF_EVEN, Fragment
from harness.operators.windowed import pooled

FRAGMENT = Fragment(
    "qlinear_global_average_pool",
    46,
    """\
# com.microsoft QLinearGlobalAveragePool -> uint8 or int8 (type): the mean of each channel.
# multiplier = a_scale / (y_scale * positions), both of them one IEEE float32 operation: computed once, and its bits are
# the constant.  The sum of a - a_zero_point is exact in int32; it is rounded to float32, the product is one operation.
fragment qlinear_global_average_pool(
    a: tensor<scalar>,                      # codes (vectors, channels * positions)
    positions: integer,
    multiplier: scalar,
    a_scale: scalar, y_scale: scalar,       # float32: the multiplier holds them
    a_zero_point: integer, y_zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    (ROUND_HALF_EVEN,),
)
LEAST_MULTIPLIER, MULTIPLIER_BOUND = 2.0**-32, 2.0**8
"""ONNX Runtime 1.31 computes with multipliers from the first up to, but without, the second."""


@dataclass(frozen=True, eq=False)
class MeanScales(Scales):
    """The scales of a mean of `count` values; `b` is 1 / count."""

    formula: ClassVar[str] = "m = x_scale / (y_scale * P), both operations rounded to float32"

    count: int

    @classmethod
    def of(cls, x_scale: np.float32, y_scale: np.float32, count: int, channels: int) -> Self:
        """Return the scales of a pooling of some channels."""
        return cls(np.float32(1), x_scale, np.full(channels, 1 / count, np.float32), y_scale, count)

    @property
    def _output(self) -> np.float32:
        if self.y is None:
            raise ValueError("the scales of a mean lack the scale of y")
        return self.y

    def multiplier(self) -> npt.NDArray[np.float32]:
        """Return x_scale / (y_scale * count), both operations rounded to float32."""
        with np.errstate(all="ignore"):  # the reader refuses a result out of range
            return np.full_like(self.b, self.a / (self._output * np.float32(self.count)))

    def exact(self) -> Real:
        """Return the multiplier in double precision."""
        return np.full(self.b.shape, np.float64(self.a) / (np.float64(self._output) * self.count))

    def wrong(self) -> Iterator[tuple[str, Single]]:
        """Yield causes and multipliers that operations in another order give."""
        x, y, count = self.a, self._output, np.float32(self.count)
        yield "m = (x_scale / P) / y_scale", np.full_like(self.b, x / count / y)
        yield "m = (x_scale / y_scale) / P", np.full_like(self.b, x / y / count)
        yield "m = (x_scale * (1 / P)) / y_scale", x * self.b / y
        yield "m = (x_scale / y_scale) * (1 / P)", x / y * self.b


@dataclass(frozen=True, eq=False)
class QLinearGlobalAveragePool(Contraction):
    """The contraction of each channel with weights of 1.

    Measured with ONNX Runtime 1.31.1 on x86-64: no value differs in 2,000 random choices of shapes, scales and zero
    points.
    """

    ONNX = (("com.microsoft", "QLinearGlobalAveragePool"),)
    text = Contraction.text.but(
        """\
acc[c] = sum over the P positions of (X[c, p] - x_zero_point)  in int32
m = x_scale / (y_scale * P)                                    in float32, in this order
v[c] = float32(acc[c]) * m                                     in float32, the conversion rounded half to even
y[c] = round_half_even(v[c]) + y_zero_point                    clamped to uint8 or int8""",
        ("X", "x_scale", "x_zero_point", "y_scale", "y_zero_point"),
        (FRAGMENT,),
        parameters=(),
        facts_of=lambda layer: ({**layer.constants(), "accumulator": Contraction.text.facts_of(layer)["accumulator"]}),
        summary_of=lambda layer: (
            Contraction.text.summary_of(layer)[0],
            f"{layer.a_zero_point} to {layer.y_zero_point}",
            f"mean of {layer.image}",
        ),
    )
    runtime = Ability(Runtime)  # no product of matrices
    streaming = Ability(  # one mean of all rows, or columns, ends the stream
        lambda layer: Streaming(layer, form=lambda axis: Frames(None, layer.input.shape[axis]) if axis else None)
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one value of codes a channel."""
        pooled(node)
        node.same_type(node.x, node.has(2)).same_type(node.y, node.has(4)).per_tensor(1).per_tensor(3)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose sums fit into int32, and whose multiplier ONNX Runtime accepts."""
        node.require_inputs(5, 5)
        source = node.activation(0, [UINT8, INT8])
        if node.attributes({"channels_last": 0})["channels_last"]:
            raise node.refusal("channels_last is 1", "channels_last 0: images (vectors, channels, height, width)")
        if len(source.shape) < 2:
            raise node.refusal(
                f"its input has shape (vectors, {source.size})", "images (vectors, channels, height, width)"
            )
        return cls.of(node, source)

    @classmethod
    def of(cls, node: Node, source: Tensor) -> Self:
        """Read a node with these inputs and one window, the image."""
        channels, *image = source.shape
        count = math.prod(image)
        scales = MeanScales.of(node.scale(1, "scale of x"), node.scale(3, "scale of y"), count, channels)
        multiplier = scales.multiplier()
        if not LEAST_MULTIPLIER <= multiplier[0] < MULTIPLIER_BOUND:
            raise node.refusal(
                f"the multiplier x_scale / (y_scale * {count}) is {multiplier[0]}",
                "2^-32 or more and less than 256, as ONNX Runtime wants it",
            )
        layer = cls(
            **fields(node, [source], (channels, *[1] * len(image)), source.dtype),
            weights=np.ones((count, channels), np.int8),
            weights_zero_point=np.zeros(channels, np.int32),
            bias=np.zeros(channels, np.int32),
            multiplier=multiplier,
            scales=scales,
            a_zero_point=int(node.single(2, "zero point of x", [source.dtype])),
            y_zero_point=int(node.single(4, "zero point of y", [source.dtype])),
            per_column=False,
        )
        layer.require_int32(node)
        return layer

    def summed(self) -> Stage:
        """Return the sum of each channel."""
        c, p = Axis("c", self.groups), Axis("p", self.image)
        term = integer(Source("x", (c, p), self.input.dtype)[c, p]) - constant("input_zero_point", INT32)
        return fold("acc", (c,), (p,), literal(0, INT32), lambda acc: acc + term)

    def numbers(self) -> Mapping[str, Any]:
        """Return the constants of the definition; all channels have one multiplier."""
        numbers = super().numbers()
        names = ("input_zero_point", "multiplier", "output_zero_point")
        return {name: numbers[name] for name in names} | {"multiplier": self.multiplier[:1]}

    @property
    def groups(self) -> int:
        """The number of channels."""
        return len(self.multiplier)

    @property
    def image(self) -> int:
        """The number of positions."""
        return len(self.weights)

    def constants(self) -> Constants:
        """Return the numbers."""
        found = super().constants()
        names = ("a_scale", "a_zero_point", "y_scale", "y_zero_point")
        numbers = {name: found[name] for name in names}
        return {"positions": self.image, "multiplier": self.multiplier[0]} | numbers | limits(self.dtype)

    def patches(self, values: Array, padding: int) -> Iterator[tuple[slice, Array]]:  # noqa: ARG002 - nothing is outside
        """Yield each channel and its values, (n, K)."""
        images = values.reshape(len(values), self.groups, self.image)
        for channel in range(self.groups):
            yield slice(channel, channel + 1), images[:, channel]

    def terms(self) -> npt.NDArray[np.intp]:
        """Return the position of each value in its channel."""
        return np.tile(np.arange(self.image), self.groups)[None]

    def contract(self, values: Array, weights: Array) -> Array:
        """Return the sums of products, all channels at once."""
        images = values.reshape(len(values), self.groups, self.image)
        sums: Array = np.einsum("ncp,pc->nc", images, weights)
        return sums

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of contractions, and the mean over another axis."""
        yield from super().fault_models(*inputs)
        [x] = inputs
        channels_last = x.reshape(len(x), self.image, self.groups).swapaxes(1, 2).reshape(x.shape)
        wrong = contraction_faults.finish(self, self.accumulate()(channels_last))
        yield FaultModel("the channels are read as the last axis", "they are the first", wrong)

    def isolate(self, node: onnx.NodeProto) -> tuple[list[onnx.ValueInfoProto], Callable[[Array], dict[str, Array]]]:
        """Feed the node with images whose sums are the accumulators."""
        node.input[0] = ALONE
        element_type = onnx.helper.np_dtype_to_tensor_dtype(self.input.dtype)
        inputs = [onnx.helper.make_tensor_value_info(ALONE, element_type, [None, *self.input.shape])]

        def feed(bits: Array) -> dict[str, Array]:
            sums = bits.view(np.int32).astype(np.int64) + self.a_zero_point * self.image
            least, more = np.divmod(sums, self.image)
            codes = least[..., None] + (np.arange(self.image) < more[..., None])
            return {ALONE: codes.astype(self.input.dtype).reshape(len(bits), *self.input.shape)}

        return inputs, feed
