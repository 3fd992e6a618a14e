"""Bounds of all activations of a network for inputs in its box, and what seeded vectors reach of them.

interval   each layer maps the bounds of its inputs to those of its output (`Errors.output_bounds`).  They are exact for
           one layer, but forget how its inputs depend on each other.
zonotope   tighter bounds of accumulators that keep this dependence (harness/applications/decide/bounds.py).

Both are sound: no input in the box leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from harness.core.arrays import MEMORY_BUDGET, Array
from harness.model.analysis.findings import Finding, LayerRange
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.traits import Trait

Bounds: TypeAlias = tuple[Array, Array]
"""The least and the greatest values, (1, size) each."""
Tighter: TypeAlias = Callable[[Network], Mapping[str, Bounds]]
"""Function from a network to sound bounds of accumulators by the name of the layer."""
USED, SATURATED = 0.5, 0.05
"""The share of codes below which a scale is reported as too large, of saturated values above which as too small."""
LISTED = 8
COPIES = 64
"""The memory of a vector, as a multiple of its activations: patches of a convolution, and sums in float64."""


@dataclass(eq=False)
class Ranges:
    """The bounds of each activation by the name of its tensor, the numbers of each layer, and findings."""

    bounds: dict[str, Bounds] = field(default_factory=dict)
    layers: list[LayerRange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def ranges(network: Network, tighter: Mapping[str, Bounds], vectors: Array | None) -> Ranges:
    """Return bounds for the inputs in the box, and what `vectors`, float32 (n, K), reach of them."""
    result = Ranges({name: (bounds[:1], bounds[1:]) for name, bounds in network.values(network.box).items()})
    observed = _observed(network, vectors) if vectors is not None else {}
    for layer in network.layers:
        input_bounds = [result.bounds[tensor.name] for tensor in layer.inputs]
        sums = layer.sums.bounds_of_sums(*zip(*input_bounds, strict=True)) if layer.sums else None
        method: Literal["interval", "zonotope"] = "interval"
        if sums is not None and layer.name in tighter:
            low, high = tighter[layer.name]
            if (low > sums[0]).any() or (high < sums[1]).any():
                ends = np.maximum(sums[0], low), np.minimum(sums[1], high)
                sums, method = (ends[0].astype(np.int64), ends[1].astype(np.int64)), "zonotope"
        if layer.sums and sums:
            low, high = layer.sums.output_bounds_of_sums(*sums)
        else:
            low, high = layer.errors.output_bounds(*zip(*input_bounds, strict=True))
        result.bounds[layer.output.name] = low, high
        numbers = _numbers(layer, sums, (low, high))
        numbers = replace(numbers, method=method, **observed.get(layer.name, {}))
        result.layers.append(numbers)
        result.findings += _findings(layer, numbers, (low, high))
    return result


def _numbers(layer: Layer, sums: Bounds | None, bounds: Bounds) -> LayerRange:
    low, high = float(bounds[0].min()), float(bounds[1].max())
    channels = _channels(layer, bounds)
    least, most = (int(sums[0].min()), int(sums[1].max())) if sums is not None else (None, None)
    bits = (
        None
        if least is None or most is None
        else 1 + max((each if each >= 0 else ~each).bit_length() for each in (least, most))
    )
    used = (high - low + 1) / (1 << 8 * layer.dtype.itemsize) if layer.rounded.zero is not None else None
    return LayerRange(
        layer=layer.name, node=layer.node, operator=layer.operator, accumulator_low=least, accumulator_high=most,
        accumulator_bits=bits, low=low, high=high, method="interval", constant_channels=int(channels.sum()),
        channels=len(channels), used_share_of_codes=used,
    )  # fmt: skip


def _channels(layer: Layer, bounds: Bounds) -> Array:
    """Return which channels have one value each for all inputs; the values of a vector are channels."""
    fixed: Array = (bounds[0] == bounds[1]).reshape(layer.output.shape[0], -1).all(axis=1)
    return fixed


def _observed(network: Network, vectors: Array) -> dict[str, dict[str, Any]]:
    """Return the least and the greatest value of each layer, and the share of values that saturate."""
    size = sum(layer.size * layer.dtype.itemsize for layer in network.layers)
    at_once = max(MEMORY_BUDGET // (COPIES * size), 1)
    found: dict[str, dict[str, Any]] = {}
    functions = {layer.name: layer.prepare() for layer in network.layers}
    for start in range(0, len(vectors), at_once):
        part = vectors[start : start + at_once]
        values = network.values(part.reshape(len(part), -1))
        for layer in network.layers:
            y = values[layer.output.name] = functions[layer.name](*(values[name] for name in layer.sources))
            known = found.setdefault(
                layer.name, {"observed_low": np.inf, "observed_high": -np.inf, "saturated_share": 0}
            )
            known["observed_low"] = min(known["observed_low"], float(y.min()))
            known["observed_high"] = max(known["observed_high"], float(y.max()))
            if layer.rounded.zero is not None:
                limits = np.iinfo(layer.dtype)
                ends = (y == limits.max) | ((y == limits.min) & (layer.rounded.zero != limits.min))  # else of Relu
                known["saturated_share"] += float(ends.sum()) / (len(vectors) * layer.size)
    return found


def _findings(layer: Layer, numbers: LayerRange, bounds: Bounds) -> Iterator[Finding]:
    """Yield what is wrong with a layer, or can be improved."""
    place = (layer.node, layer.output.name)
    if Trait.SUMS in layer.traits and numbers.constant_channels:
        channels = np.flatnonzero(_channels(layer, bounds))
        values = bounds[0].reshape(layer.output.shape[0], -1)[channels, 0]
        dead = int((values == (layer.rounded.zero or 0)).sum())
        listed = ", ".join(map(str, channels[:LISTED])) + (", ..." if len(channels) > LISTED else "")
        yield Finding(
            "warning", "constant_channels", *place,
            f"{len(channels)} of {numbers.channels} channels ({listed}) have one value for every input in the box, "
            f"{dead} of them 0",
            "remove these channels, and add their constant products to the bias of the layers that read them",
        )  # fmt: skip
    if numbers.accumulator_bits is not None and numbers.accumulator_bits > 25:
        span = f"{numbers.accumulator_low} to {numbers.accumulator_high}"
        yield Finding(
            "warning" if numbers.accumulator_bits > 32 else "note", "accumulator", *place,
            f"its accumulators need {numbers.accumulator_bits} bits: {span}",
            "float32 has 25 of them, so that their conversion can round; harness computes it exactly",
        )  # fmt: skip
    if numbers.used_share_of_codes is not None and layer.rounded.zero is not None:
        codes = 1 << 8 * layer.dtype.itemsize
        if numbers.used_share_of_codes < USED and numbers.constant_channels < numbers.channels:
            factor, used = 1 / numbers.used_share_of_codes, numbers.high - numbers.low + 1
            yield Finding(
                "warning", "scale", *place,
                f"at most {used:.0f} of {codes} codes occur, {numbers.low:.0f} to {numbers.high:.0f}",
                f"divide the output scale by up to {factor:.3g}, and quantise again",
            )  # fmt: skip
        elif numbers.observed_low is not None and numbers.observed_high is not None:
            low, high = numbers.observed_low, numbers.observed_high
            share = (high - low + 1) / codes
            if share < USED / 2:
                yield Finding(
                    "note", "scale", *place,
                    f"random vectors in the input box reach {share:.0%} of the codes, {low:.0f} to {high:.0f}",
                    "calibrate the output scale with data of the application, harness models quantize --data",
                )  # fmt: skip
        if (numbers.saturated_share or 0) > SATURATED:
            yield Finding(
                "warning", "saturation", *place,
                f"{numbers.saturated_share:.1%} of the values saturate, for random vectors in the input box",
                "calibrate a larger output scale with data of the application, harness models quantize --data",
            )  # fmt: skip


def text_of(bounds: Bounds) -> str:
    """Return bounds of all values of a tensor as text."""
    low, high = bounds[0].min(), bounds[1].max()
    return f"{low} to {high}" if bounds[0].dtype.kind in "iu" else f"{low:.6g} to {high:.6g}"
