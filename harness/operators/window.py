"""The windows of a convolution or pooling: which values of an image each output reads (ONNX Conv, MaxPool)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, Tensor

DEFAULTS: dict[str, Any] = {"auto_pad": b"NOTSET", "dilations": [], "kernel_shape": [], "pads": [], "strides": []}
"""The attributes that `Window.read` reads."""
IMAGE, VOLUME = 2, 3
"""Axes of the windows over an image, and over a volume."""


@dataclass(frozen=True)
class Window:
    """Windows over images (channels, height, width) or volumes (channels, depth, height, width).

    One over a sequence (channels, length) has the height 1.  Window (y, x) reads rows y * stride[0] - before[0] + i *
    dilation[0] for i below kernel[0], and columns likewise.  `shape` is (height, width) of the image, `output` that of
    the windows.
    """

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    output: tuple[int, ...]

    @classmethod
    def read(
        cls, node: Node, source: Tensor, kernel: tuple[int, ...], attributes: dict[str, Any], most: int = IMAGE
    ) -> Window:
        """Read the attributes of a node with a kernel over the last axes of `source`, at most `most` of them.

        Raises RequestError.
        """
        axes = len(source.shape) - 1
        _require_axes(node, source, most)
        if len(kernel) != axes or min(kernel) < 1:
            raise node.refusal(f"the kernel has shape {kernel}", f"{axes} sizes of 1 or more")
        asked = tuple(attributes["kernel_shape"]) or kernel
        if asked != kernel:
            raise node.refusal(f"kernel_shape is {asked}, the weights have {kernel}", "the same shape for both")
        strides, dilations = (
            _sizes(node, name, attributes[name] or [1] * axes, axes) for name in ("strides", "dilations")
        )
        extents = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
        begins, ends = _pads(node, source.shape[1:], extents, strides, attributes)
        ceil = bool(attributes.get("ceil_mode", 0))
        output = [
            _windows(size + begin + end - extent, stride, size + begin, ceil=ceil)
            for size, begin, end, extent, stride in zip(source.shape[1:], begins, ends, extents, strides, strict=True)
        ]
        if min(output) < 1:
            raise node.refusal(f"a kernel of {tuple(extents)} does not fit into {source.shape[1:]}", "a smaller kernel")
        one, none = (1,) * (IMAGE - axes), (0,) * (IMAGE - axes)
        return cls(
            shape=(*one, *source.shape[1:]),
            kernel=(*one, *kernel),
            stride=(*one, *strides),
            dilation=(*one, *dilations),
            before=(*none, *begins),
            output=(*one, *output),
        )

    @classmethod
    def of_pooling(cls, node: Node, source: Tensor, attributes: dict[str, Any], most: int = IMAGE) -> Window:
        """Read the attributes of a pooling, which ONNX Runtime pads less than a convolution, as `read` does."""
        kernel, pads = tuple(attributes["kernel_shape"]), list(attributes["pads"])
        window = cls.read(node, source, kernel, attributes, most)
        how = attributes["auto_pad"].decode()
        if how == "NOTSET" and any(pad >= size for pad, size in zip(pads, 2 * kernel, strict=False)):
            raise node.refusal(f"pads is {pads}, the kernel {kernel}", "padding smaller than the kernel")
        reach = (np.array(window.output) - 1) * window.stride + window.kernel
        left_out = int((np.array(window.shape) - reach).max())
        if how.startswith("SAME") and left_out > (source.dtype != FLOAT32):  # with float32, ONNX Runtime fails at one
            raise node.refusal(
                f"auto_pad leaves out {left_out} values of an axis, and ONNX Runtime moves the windows there",
                "strides no larger than the kernel, or pads",
            )
        return window

    @classmethod
    def of_pool(
        cls, node: Node, source: Tensor, of_window: dict[str, Any], attributes: dict[str, Any] | None = None
    ) -> tuple[Window, dict[str, Any]]:
        """Return the window of a pooling, that of the whole image of a Global one, and the attributes.

        `of_window` are the attributes that a node with windows has, `attributes` those of both, with their defaults.
        """
        most = VOLUME if source.dtype == FLOAT32 else IMAGE
        if node.operator.startswith("Global"):
            return cls.of_image(node, source, most), node.attributes(attributes or {})
        read = node.attributes(DEFAULTS | {"ceil_mode": 0} | of_window | (attributes or {}))
        return cls.of_pooling(node, source, read, most), read

    @classmethod
    def of_image(cls, node: Node, source: Tensor, most: int = IMAGE) -> Window:
        """Return the one window that is the whole image, of a node that pools globally; raise RequestError."""
        _require_axes(node, source, most)
        shape = (*(1,) * (IMAGE + 1 - len(source.shape)), *source.shape[1:])
        one = (1,) * len(shape)
        return cls(shape, shape, one, one, (0,) * len(shape), one)

    def result(self, source: Tensor) -> tuple[int, ...]:
        """Return the sizes of the windows' results along the axes behind the channels of `source`."""
        return self.output[1 - len(source.shape) :]

    @property
    def is_image(self) -> bool:
        """True if the whole image is the only window."""
        return self.positions == 1 and self.kernel == self.shape and max(self.dilation) == 1 and not any(self.before)

    def in_line(self) -> Window:
        """Return the windows over one row of all values if each is the value at its place; else these windows."""
        if max(*self.kernel, *self.stride) > 1 or self.shape != self.output or any(self.before):
            return self
        line, one = (1, self.positions), (1, 1)
        return Window(line, one, one, one, (0, 0), line)

    @property
    def size(self) -> int:
        """The number of values that a window reads of one channel."""
        return math.prod(self.kernel)

    @property
    def positions(self) -> int:
        """The number of windows."""
        return math.prod(self.output)

    @property
    def reach(self) -> tuple[int, ...]:
        """The rows and columns, from the start of the padding on, up to the last that a window reads."""
        return tuple(
            (windows - 1) * stride + (size - 1) * dilation + 1
            for windows, stride, size, dilation in zip(
                self.output, self.stride, self.kernel, self.dilation, strict=True
            )
        )

    def table(self) -> npt.NDArray[np.int32]:
        """Return the sizes, int32 (6, axes): image, kernel, stride, dilation, padding before, output."""
        rows = (self.shape, self.kernel, self.stride, self.dilation, self.before, self.output)
        return np.array(rows, np.int32)

    def facts(self) -> dict[str, list[int]]:
        """Return the sizes as JSON."""
        return {
            "kernel": list(self.kernel),
            "stride": list(self.stride),
            "dilation": list(self.dilation),
            "padding_before": list(self.before),
        }

    def views(self, images: Array, padding: Array | float) -> Array:
        """Return a view (n, channels, *output, *kernel) of images (n, channels, values) with padding."""
        count, channels = images.shape[:2]
        sizes = (max(*pair) for pair in zip(self.reach, self._ends(), strict=True))
        padded = np.full((count, channels, *sizes), padding)
        padded = padded.astype(images.dtype, copy=False)
        inside = (slice(before, end) for before, end in zip(self.before, self._ends(), strict=True))
        padded[:, :, *inside] = images.reshape(count, channels, *self.shape)
        extents = tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilation, strict=True))
        axes = tuple(range(2, 2 + len(extents)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=axes)
        windows = windows[:, :, *(slice(None, None, step) for step in (*self.stride, *self.dilation))]
        view: Array = windows[:, :, *map(slice, self.output)]
        return view

    def sources(self, channels: int) -> npt.NDArray[np.intp]:
        """Return the place in the images of each value of each window, (channels, positions, size); -1 for padding."""
        numbers = np.arange(channels * math.prod(self.shape)).reshape(1, channels, -1)
        return self.views(numbers, -1).reshape(channels, self.positions, self.size)

    def part(self, axis: int, first: int, last: int) -> tuple[Window, int, int]:
        """Return the windows `first` to `last` along an axis over the part of the image that they read.

        Also return the first row or column of that part, and the one after its last.  Windows in the padding alone get
        one of the image, which lies behind all of them.
        """
        begin = first * self.stride[axis] - self.before[axis]
        length = (last - 1 - first) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
        low, high = max(begin, 0), min(begin + length, self.shape[axis])
        before = max(-begin, 0)
        if low >= high:
            low, high, before = 0, 1, length
        values = {"shape": high - low, "before": before, "output": last - first}
        changed = {
            name: (*getattr(self, name)[:axis], value, *getattr(self, name)[axis + 1 :])
            for name, value in values.items()
        }
        return replace(self, **changed), low, high

    def inside(self) -> npt.NDArray[np.bool_]:
        """Return which values of each window are in the image, bool (positions, size)."""
        ones = np.ones((1, 1, math.prod(self.shape)), np.bool_)
        return self.views(ones, padding=False).reshape(self.positions, self.size)

    def padded(self, node: Node, source: Tensor, attributes: dict[str, Any]) -> npt.NDArray[np.int64]:
        """Return how many values of each window are in the image or its padding, int64 (positions,).

        With ceil_mode the last windows may reach further.  The arguments are those of `of_pooling`.
        """
        axes = len(source.shape) - 1
        extents = [(size - 1) * step + 1 for size, step in zip(self.kernel[-axes:], self.dilation[-axes:], strict=True)]
        _, after = _pads(node, source.shape[1:], extents, self.stride[-axes:], attributes)
        ends = np.add(self._ends(), (*(0,) * (len(self.shape) - axes), *after))
        counts = np.ones(1, np.int64)
        for count, stride, size, step, end in zip(
            self.output, self.stride, self.kernel, self.dilation, ends, strict=True
        ):
            along = (np.arange(count)[:, None] * stride + np.arange(size) * step < end).sum(axis=1)
            counts = np.outer(counts, along).reshape(-1)
        return counts

    def alignments(self) -> npt.NDArray[np.intp]:
        """Return the place in the kernel of each value of the image, (alignments, values of an image).

        Every window reads values of all places.  In some alignment the places are those of the window, in order.
        """
        places = np.zeros((1, 1), np.intp)
        for size, step, kernel in zip(self.shape, self.dilation, self.kernel, strict=True):
            along = (np.arange(size) // step - np.arange(kernel)[:, None]) % kernel
            places = places[:, None, :, None] * kernel + along[None, :, None, :]
            places = places.reshape(math.prod(places.shape[:2]), -1)
        return places

    def apart(self) -> npt.NDArray[np.intp]:
        """Return the places in the image of the values of windows without common values, (windows, size).

        A value outside the image has the place -1; the windows with most values inside are chosen first.
        """
        windows, taken, chosen = self.sources(1)[0], set[int](), []
        for places in windows[np.argsort((windows < 0).sum(axis=1), kind="stable")]:
            inside = set(places[places >= 0].tolist())
            if taken.isdisjoint(inside):
                taken |= inside
                chosen.append(places)
        return np.array(chosen)

    def _ends(self) -> tuple[int, ...]:
        return tuple(before + size for before, size in zip(self.before, self.shape, strict=True))


def _require_axes(node: Node, source: Tensor, most: int) -> None:
    """Refuse inputs without an axis behind the channels, or with more than `most`."""
    if not 1 <= len(source.shape) - 1 <= most:
        volumes = ", volumes (vectors, channels, depth, height, width)" if most > IMAGE else ""
        raise node.refusal(
            f"its input has shape (vectors, {', '.join(map(str, source.shape))})",
            f"images (vectors, channels, height, width){volumes} or sequences (vectors, channels, length)",
        )


def _sizes(node: Node, name: str, values: list[int], axes: int) -> tuple[int, ...]:
    if len(values) != axes or min(values) < 1:
        raise node.refusal(f"{name} is {values}", f"{axes} integers of 1 or more")
    return tuple(values)


def _pads(
    node: Node, shape: tuple[int, ...], extents: list[int], strides: tuple[int, ...], attributes: dict[str, Any]
) -> tuple[list[int], list[int]]:
    """Return the padding before and after each axis."""
    axes, how = len(shape), attributes["auto_pad"].decode(errors="replace")
    pads = list(attributes["pads"]) or [0] * (2 * axes)
    if how == "NOTSET":
        if len(pads) != 2 * axes or min(pads) < 0:
            raise node.refusal(f"pads is {pads}", f"{2 * axes} integers of 0 or more: all begins, then all ends")
        return pads[:axes], pads[axes:]
    if how == "VALID":
        return [0] * axes, [0] * axes
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.refusal(f"auto_pad is {how!r}", "NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    if any(dilation > 1 for dilation in attributes.get("dilations", [])):
        raise node.refusal(f"auto_pad is {how} with dilations", "pads: ONNX Runtime has no such padding")
    missing = [
        max((-(-size // stride) - 1) * stride + extent - size, 0)
        for size, extent, stride in zip(shape, extents, strides, strict=True)
    ]
    less, more = [each // 2 for each in missing], [each - each // 2 for each in missing]
    return (less, more) if how == "SAME_UPPER" else (more, less)


def _windows(room: int, stride: int, begin_of_padding: int, *, ceil: bool) -> int:
    """Return the number of windows along an axis; with `ceil` a last one may reach beyond the padding (ONNX).

    It must begin in the image or in the padding before it.
    """
    if room < 0:
        return 0
    count = -(-room // stride) + 1 if ceil else room // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= begin_of_padding else count
