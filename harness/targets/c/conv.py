"""Conv in C: one stage of sums over windows in the order of the formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.core.arrays import Array
from harness.operators.conv import Conv
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.c.gemm import chain
from harness.targets.generated import LayerCode, Table, literal

QUAD = 4  # in kernels/c/lanes.h
MOST_CHANNELS, MOST_TILE = 12, 32  # FLOAT_CHANNELS and MOST_FLOAT_TILE in kernels/c/float_lanes.h, of any processor
MOST_POSITIONS = MOST_TILE * 32
"""Positions of a band: the sums of a channel stay in the first-level cache."""
LANES, COPY = 16, 8
"""The positions that are computed together at least, and the products that take the time of one copied value."""
BAND_BYTES = 512 * 1024
"""Bytes of a band of the image that a thread's stack and the second-level cache have room for."""


class ConvLowering(CLowering[Conv]):
    """Weights have one row for each channel of the output, but in the vector code: four channels side by side."""

    operator = Conv
    headers = ("conv.h", "conv_vector.h")

    def unsupported(self, layer: Conv, variant: str) -> str | None:
        """Refuse unrolled code that no compiler finishes."""
        return code.too_long(len(layer.weights) * layer.size, variant)

    def plain(self, layer: Conv, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/conv.h."""
        inputs, width = layer.input.shape[0] // layer.groups, layer.weights.shape[1]
        operands = f"{layer.groups}, {inputs}, {width}, in, &{layer.name}_weights[0][0], {layer.name}_bias, out"
        call = f"{prefix}conv_float32(&window, {operands});"
        return code.elementwise(layer, sources, _tables(layer), f"{code.window(layer.window)}\n    {call}")

    def unrolled(self, layer: Conv, sources: Sequence[str]) -> LayerCode:
        """Write every product."""
        return code.elementwise(layer, sources, (), code.assigned(_sums(layer)))

    def vector(self, layer: Conv, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/conv_vector.h; the plain code if not even the lines of one row fit into a band."""
        memory = Memory.of(layer)
        if memory is None:
            return self.plain(layer, sources)
        name = layer.name
        tables = (
            Table(f"{name}_weights", in_quads(layer), f"{QUAD} channels side by side: one row a term"),
            Table(f"{name}_bias", layer.bias),
        )
        room = "" if memory.direct else f"    float memory[{memory.size}] {code.ALIGNED};\n"
        body = (
            f"const struct conv_vector layer = {memory.text(layer)};\n{room}"
            f"    float sums[FLOAT_CHANNELS * {memory.step}] {code.ALIGNED};\n"
            f"    conv_vector_float32(&layer, in, {'NULL' if memory.direct else 'memory'}, &{name}_weights[0][0], "
            f"{name}_bias, sums, out);"
        )
        return code.elementwise(layer, sources, tables, body)


@dataclass(frozen=True)
class Memory:
    """The part of an image that kernels/c/conv_vector.h computes from, and the rows of the output of one band.

    `shifted` is whether it has a plane for each column of the window, so that lines have no columns to spare.
    """

    direct: bool
    shifted: bool
    band: int
    lines: int
    pitch: int
    planes: int

    @classmethod
    def of(cls, layer: Conv) -> Memory | None:
        """Return the fastest memory of a layer; None if a band of one row is too large."""
        window = layer.window
        padded = window.before != (0, 0) or window.reach != window.shape
        found = [cls.copied(layer, shifted=shifted) for shifted in (False, True)]
        if window.stride == (1, 1) and not padded:
            found.append(cls.image(layer))
        fitting = [memory for memory in found if memory]
        return min(fitting, key=lambda memory: memory.cost(layer), default=None)

    @classmethod
    def image(cls, layer: Conv) -> Memory | None:
        """Return the image as the memory; None if its last band is smaller than a tile, which reads beyond it."""
        (rows, columns), (height, pitch) = layer.window.output, layer.window.shape
        band = min(max(MOST_POSITIONS // pitch, 1), rows)
        last = rows % band or band
        if (min(band, last) - 1) * pitch + columns < MOST_TILE:
            return None
        return cls(True, False, band, height, pitch, 1)

    @classmethod
    def copied(cls, layer: Conv, *, shifted: bool) -> Memory | None:
        """Return a copy as the memory; None if a band of one row is too large."""
        window = layer.window
        inputs, (rows, columns) = layer.input.shape[0] // layer.groups, window.output
        reach = [(size - 1) * step for size, step in zip(window.kernel, window.dilation, strict=True)]
        lines, beside = (extent // stride for extent, stride in zip(reach, window.stride, strict=True))
        pitch = columns if shifted else columns + beside
        planes = inputs * window.stride[0] * (window.kernel[1] if shifted else window.stride[1])
        band = min(BAND_BYTES // (planes * pitch * 4) - lines, max(MOST_POSITIONS // pitch, 1), rows)
        return cls(False, shifted, band, lines + band, pitch, planes) if band > 0 else None

    def cost(self, layer: Conv) -> int:
        """Return the products of the sums, with those of columns to spare, and as many as copies take the time of."""
        rows, columns = layer.window.output
        bands, rest = divmod(rows, self.band)
        counts = [(each - 1) * self.pitch + columns for each in [self.band] * bands + [rest] * bool(rest)]
        lanes = sum(-(-count // LANES) * LANES for count in counts)
        copied = 0 if self.direct else len(counts) * self.planes * self.lines * self.pitch
        return lanes * layer.weights.size // layer.groups + COPY * copied

    @property
    def size(self) -> int:
        """The number of values of the copy."""
        return self.planes * self.lines * self.pitch + MOST_TILE

    @property
    def step(self) -> int:
        """The number of sums of one channel."""
        return self.band * self.pitch + MOST_TILE

    def text(self, layer: Conv) -> str:
        """Return the initialiser of `struct conv_vector`."""
        window = ", ".join(map(str, layer.window.table().reshape(-1)))
        inputs, outputs = layer.input.shape[0] // layer.groups, layer.weights.shape[1] // layer.groups
        numbers = (
            layer.groups,
            inputs,
            outputs,
            int(self.direct),
            int(self.shifted),
            self.band,
            self.lines,
            self.pitch,
        )
        return f"{{{{{window}}}, {', '.join(map(str, numbers))}}}"


def in_quads(layer: Conv) -> Array:
    """Return the weights with four channels of a group side by side, filled up with zeros: (N / 4 * K, 4)."""
    depth, width = layer.weights.shape
    of_groups = layer.weights.reshape(depth, layer.groups, width // layer.groups)
    share = -(-of_groups.shape[2] // QUAD) * QUAD
    padded = code.filled(of_groups, share).reshape(depth, -1, QUAD)
    return padded.swapaxes(0, 1).reshape(-1, QUAD)


def _tables(layer: Conv) -> tuple[Table, ...]:
    weights = Table(f"{layer.name}_weights", layer.weights.T, "transposed: one row a channel")
    return weights, Table(f"{layer.name}_bias", layer.bias)


def _sums(layer: Conv) -> Iterator[str]:
    share, inputs = layer.weights.shape[1] // layer.groups, layer.input.shape[0] // layer.groups
    sources = layer.window.sources(layer.input.shape[0])
    for channel, weights in enumerate(layer.weights.T):
        first = channel // share * inputs
        of_group = sources[first : first + inputs].swapaxes(0, 1).reshape(layer.positions, -1)
        for places in of_group.tolist():
            terms = (f"in[{at}] * {literal(weights[k])}" for k, at in enumerate(places) if at >= 0)
            yield chain(layer.bias[channel], terms)
