"""Kernels in C that compute classes of definitions faster than the loops of these, with the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.arrays import Array
from harness.operators.conv import FloatConvolution
from harness.operators.float_contraction import FloatContraction
from harness.operators.staged import Staged
from harness.operators.window import IMAGE
from harness.operators.windowed import Windowed
from harness.targets.c import code
from harness.targets.generated import C_TYPES, LayerCode, Table

PANEL = 16  # FLOAT_PANEL in kernels/c/float_lanes.h
QUAD = 4  # in kernels/c/lanes.h
MOST_CHANNELS, MOST_TILE = 12, 32  # FLOAT_CHANNELS and MOST_FLOAT_TILE in kernels/c/float_lanes.h, of any processor
MOST_POSITIONS = MOST_TILE * 32
"""Positions of a band: the sums of a channel stay in the first-level cache."""
LANES, COPY = 16, 8
"""The positions that are computed together at least, and the products that take the time of one copied value."""
BAND_BYTES = 512 * 1024
"""Bytes of a band of the image that a thread's stack and the second-level cache have room for."""


def vector(layer: Staged, sources: Sequence[str]) -> LayerCode | None:
    """Return the code of a layer that calls a kernel of its class; None if there is none."""
    last = layer.program.result
    if isinstance(layer, Windowed) and len(layer.window.kernel) != IMAGE:
        return None
    if isinstance(layer, FloatConvolution):
        return _windows(layer, sources)
    if isinstance(layer, FloatContraction):
        return _dense(layer, sources)
    is_largest = last.root.operation == "select" and last.root.operands[0].operation == "greater"
    if isinstance(layer, Windowed) and layer.dtype.kind != "f" and is_largest:
        return _largest_codes(layer, sources)
    return None


def _largest_codes(layer: Windowed, sources: Sequence[str]) -> LayerCode:
    """Call kernels/c/max_pool_vector.h for the largest codes of windows, which have no order.

    Large windows take half to three quarters of the time of the loops (benchmarks/kernels.py).
    """
    length = layer.window.reach[1]
    call = f"max_pool_vector_{layer.dtype}(&window, {layer.input.shape[0]}, in, line, {length}, out);"
    line = f"{C_TYPES[layer.dtype.name]} line[{length}] {code.ALIGNED};"
    return code.elementwise(layer, sources, (), f"{code.window(layer.window)}\n    {line}\n    {call}")


def _dense(layer: FloatContraction, sources: Sequence[str]) -> LayerCode:
    """Call kernels/c/gemm_vector.h for each row; the weights are panels of 16 outputs."""
    name, (depth, width), rows = layer.name, layer.weights.shape, layer.positions
    tables = (
        Table(f"{name}_weights", packed(layer.weights), f"in panels of {PANEL} outputs: one row an input"),
        Table(f"{name}_bias", code.filled(layer.bias, -(-width // PANEL) * PANEL)),
    )
    x, y = ("in", "out") if rows == 1 else (f"&in[r * {depth}]", f"&out[r * {width}]")
    call = f"gemm_vector_float32({depth}, {width}, {x}, &{name}_weights[0][0], {name}_bias, {y});"
    loop = "" if rows == 1 else f"for (size_t r = 0; r < {rows}u; ++r)\n        "
    return code.elementwise(layer, sources, tables, f"{loop}{call}")


def packed(weights: Array) -> Array:
    """Return weights (K, N) in panels of 16 columns, filled up with zeros: (panels * K, 16)."""
    padded = code.filled(weights, -(-weights.shape[1] // PANEL) * PANEL)
    return padded.reshape(len(weights), -1, PANEL).swapaxes(0, 1).reshape(-1, PANEL)


def _windows(layer: FloatConvolution, sources: Sequence[str]) -> LayerCode | None:
    """Call kernels/c/conv_vector.h; None if not even the lines of one row fit into a band."""
    memory = Memory.of(layer)
    if memory is None:
        return None
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
    def of(cls, layer: FloatConvolution) -> Memory | None:
        """Return the fastest memory of a layer; None if a band of one row is too large."""
        window = layer.window
        padded = window.before != (0, 0) or window.reach != window.shape
        found = [cls.copied(layer, shifted=shifted) for shifted in (False, True)]
        if window.stride == (1, 1) and not padded:
            found.append(cls.image(layer))
        fitting = [memory for memory in found if memory]
        return min(fitting, key=lambda memory: memory.cost(layer), default=None)

    @classmethod
    def image(cls, layer: FloatConvolution) -> Memory | None:
        """Return the image as the memory; None if its last band is smaller than a tile, which reads beyond it."""
        (rows, columns), (height, pitch) = layer.window.output, layer.window.shape
        band = min(max(MOST_POSITIONS // pitch, 1), rows)
        last = rows % band or band
        if (min(band, last) - 1) * pitch + columns < MOST_TILE:
            return None
        return cls(True, False, band, height, pitch, 1)

    @classmethod
    def copied(cls, layer: FloatConvolution, *, shifted: bool) -> Memory | None:
        """Return a copy as the memory; None if a band of one row is too large."""
        window = layer.window
        inputs, (rows, columns) = layer.input.shape[0] // layer.groups, window.output
        reach = [(size - 1) * step for size, step in zip(window.kernel, window.dilation, strict=True)]
        lines, beside = (extent // stride for extent, stride in zip(reach, window.stride, strict=True))
        pitch = columns if shifted else columns + beside
        planes = inputs * window.stride[0] * (window.kernel[1] if shifted else window.stride[1])
        band = min(BAND_BYTES // (planes * pitch * 4) - lines, max(MOST_POSITIONS // pitch, 1), rows)
        return cls(False, shifted, band, lines + band, pitch, planes) if band > 0 else None

    def cost(self, layer: FloatConvolution) -> int:
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

    def text(self, layer: FloatConvolution) -> str:
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


def in_quads(layer: FloatConvolution) -> Array:
    """Return the weights with four channels of a group side by side, filled up with zeros: (N / 4 * K, 4)."""
    depth, width = layer.weights.shape
    of_groups = layer.weights.reshape(depth, layer.groups, width // layer.groups)
    share = -(-of_groups.shape[2] // QUAD) * QUAD
    padded = code.filled(of_groups, share).reshape(depth, -1, QUAD)
    return padded.swapaxes(0, 1).reshape(-1, QUAD)
