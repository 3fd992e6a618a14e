"""Concat in TFLite: CONCATENATION."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.operators.base import Layer
from harness.operators.concat import Concat
from harness.targets.litert.graph import PLAIN, Graph, Value, image_of
from harness.targets.litert.lowering import LiteRtLowering

IMAGE_AXES = 3


class ConcatLowering(LiteRtLowering[Concat]):
    """Channels of images stay the last axis."""

    operator = Concat

    def emit(self, layer: Concat, graph: Graph, inputs: Sequence[Value]) -> Value:
        """Add the operator."""
        return concatenate(graph, layer, inputs, layer.blocks)


def concatenate(graph: Graph, layer: Layer, inputs: Sequence[Value], blocks: int) -> Value:
    """Add the inputs side by side in each of some blocks, which are those of the axes before."""
    name, shape = layer.output.name, layer.output.shape
    images = blocks == 1 and len(shape) in (2, IMAGE_AXES) and any(value.image for value in inputs)
    if images:
        parts = [graph.as_image(x, image_of(source.shape)) for x, source in zip(inputs, layer.inputs, strict=True)]
        whole = image_of(shape)
        like, axis = replace(parts[0], image=whole), IMAGE_AXES
        made: tuple[int, ...] = (1, *whole[1:], whole[0])
    else:
        parts = [graph.plain(x, (1, blocks, x.size // blocks)) for x in inputs]
        like, made, axis = parts[0], (1, blocks, layer.size // blocks), 2
    options = {**PLAIN, "axis": axis}
    numbers = [part.tensor for part in parts]
    return graph.call(
        "CONCATENATION",
        numbers,
        name,
        like,
        shape=made,
        options=options,
    )
