"""Concat in TFLite: CONCATENATION."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.operators.base import Layer
from harness.operators.concat import Concat
from harness.targets.litert.graph import NO_ACTIVATION, Graph, Value, image_of
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
        channels, *sides = image_of(shape)
        like, made, axis = replace(parts[0], image=(channels, *sides)), (1, *sides, channels), IMAGE_AXES
    else:
        parts = [graph.plain(x, (1, blocks, x.size // blocks)) for x in inputs]
        like, made, axis = parts[0], (1, blocks, layer.size // blocks), 2
    numbers = [part.tensor for part in parts]
    joined = graph.call(
        "CONCATENATION", numbers, name, like, shape=made, axis=axis, fusedActivationFunction=NO_ACTIVATION
    )
    return joined
