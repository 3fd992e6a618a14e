"""Operators that move values in TFLite: GATHER, from the order of the stored input, RESHAPE or CONCATENATION."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.operators.base import Layer
from harness.operators.concat import Concat
from harness.operators.move import Move
from harness.operators.obligations import all_codes
from harness.operators.qlinear_concat import QLinearConcat
from harness.operators.rename import Rename
from harness.targets.litert.codes import look_up, numbers
from harness.targets.litert.graph import PLAIN, Graph, Value, image_of
from harness.targets.litert.lowering import LiteRtLowering

IMAGE_AXES = 3


class MoveLowering(LiteRtLowering[Move]):
    """A value that no input gives lies behind those of the input; a change of the order alone is a RESHAPE.

    A Rename keeps the stored order, so that a dense layer behind it takes its weights in that order.
    """

    operator = Move

    def emit(self, layer: Move, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        if isinstance(layer, Concat):
            return _joined(graph, layer, inputs, layer.blocks)
        [x] = inputs
        name, places = layer.output.name, layer.places
        shape = (1, *layer.output.shape)
        if isinstance(layer, Rename):
            return graph.reshape(x, shape if x.image is None else (1, x.size), name)
        stored = np.append(np.argsort(x.places()), x.size)[places]  # the last entry is that of -1
        if len(stored) == x.size and (stored == np.arange(x.size)).all():
            same = Value(x.tensor, x.shape, x.dtype, None, x.offset)
            return graph.reshape(same, shape, name)
        if (places < 0).any():
            x = self._with_filler(layer, graph, x)
        return graph.gather(x, stored, shape, name)

    @staticmethod
    def _with_filler(layer: Move, graph: Graph, x: Value) -> Value:
        name, flat = layer.output.name, graph.reshape(x, (1, x.size))
        number = np.array([[layer.order.filler]], np.float32)
        if x.dtype == np.int8:
            number = np.array([[int(layer.order.filler) - x.offset]], np.int8)
        filler = graph.constant(f"{name}/filler", number, graph.tensors[x.tensor].scales)
        return graph.call(
            "CONCATENATION",
            [flat.tensor, filler],
            f"{name}/extended",
            flat,
            shape=(1, x.size + 1),
            options={"axis": 1, **PLAIN},
        )


class QLinearConcatLowering(LiteRtLowering[QLinearConcat]):
    """The tables are those of the specification."""

    operator = QLinearConcat

    def emit(self, layer: QLinearConcat, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the tables and the operator."""
        joined = []
        for number, (x, table) in enumerate(zip(inputs, layer.table(), strict=True), 1):
            name = f"{layer.output.name}/input_{number}"
            same = (table == all_codes(layer.dtype)).all()
            joined.append(
                graph.codes(x, layer.y) if same else look_up(graph, numbers(graph, x, name), table, layer.y, name)
            )
        return _joined(graph, layer, joined, 1)


def _joined(graph: Graph, layer: Layer, inputs: Sequence[Value], blocks: int) -> Value:
    """Add the inputs side by side in each of some blocks, which are those of the axes before."""
    name, shape = layer.output.name, layer.output.shape
    images = blocks == 1 and len(shape) in (2, IMAGE_AXES) and any(value.image for value in inputs)
    if images:
        parts = [graph.as_image(x, image_of(source.shape)) for x, source in zip(inputs, layer.inputs, strict=True)]
        whole = image_of(shape)
        like, axis = replace(parts[0], image=whole), IMAGE_AXES
        sizes: tuple[int, ...] = (1, *whole[1:], whole[0])
    else:
        parts = [graph.plain(x, (1, blocks, x.size // blocks)) for x in inputs]
        like, sizes, axis = parts[0], (1, blocks, layer.size // blocks), 2
    options = {**PLAIN, "axis": axis}
    numbers = [part.tensor for part in parts]
    return graph.call("CONCATENATION", numbers, name, like, shape=sizes, options=options)
