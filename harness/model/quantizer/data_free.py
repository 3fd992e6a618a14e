"""Quantisation without data: the codes of every activation from the weights and the input box alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from harness.core.errors import RequestError
from harness.model.float_network import Dense, DenseNetwork, Floats32
from harness.model.quantizer.codes import Codes, codes_for
from harness.model.quantizer.equalisation import equalize
from harness.model.quantizer.layers import QuantizedDense, QuantizedNetwork, quantize_layers
from harness.model.quantizer.ranges import Range, bounds, calibrate, calibration_vectors
from harness.model.quantizer.weights import WeightKind

Batches: TypeAlias = Iterable[Floats32]

_CODES_TO_NOTE = 16  # an input with fewer codes has lost most of its information


@dataclass(frozen=True)
class Choices:
    """Options of the quantisation.

    `vectors` and `seed` are those of the calibration and of `equalize`, which brings hidden neurons to more equal
    reach.  `residual` is the order of the weights' expansion, 1 for none.
    Float32 scores are the default because uint8 ones tie: of the public ACAS Xu networks the best two scores of 3 to
    80 % of the vectors fall on one code, and the lowest column, not the network, then decides.
    """

    weights: WeightKind = "int8-per-column"
    ranges: Literal["calibration", "bounds"] = "calibration"
    vectors: int = 100_000
    seed: int = 1
    equalize: bool = False
    residual: int = 1
    scores: Literal["float32", "uint8"] = "float32"
    select: Literal["none", "argmax", "argmin"] = "none"

    def document(self) -> dict[str, Any]:
        """Return the choices that made a difference."""
        idle = {"vectors", "seed"} if self.ranges == "bounds" and not self.equalize else set()
        return {key: value for key, value in asdict(self).items() if key not in idle}


def quantize(
    network: DenseNetwork, choices: Choices, watch: Callable[[Batches], Batches] = lambda batches: batches
) -> QuantizedNetwork:
    """Quantise a float network without data, from its weights and its box alone.

    `watch` passes the batches of the equalisation and of the calibration on, for progress.  Raises RequestError for a
    network without a usable box or with weights that are not finite, and for what `quantize_layers` refuses.
    """
    box = _require_box(network)
    _require_finite(network.layers)
    source = codes_for(float(box[0].min()), float(box[1].max()))
    floats = network.layers
    if choices.equalize:
        vectors = watch(calibration_vectors(box, choices.vectors, choices.seed))
        floats = equalize(floats, map(source.rounded, vectors))
    if choices.ranges == "bounds":
        on_codes = source.rounded(box)
        ranges = bounds(floats, np.array([np.minimum(box[0], on_codes[0]), np.maximum(box[1], on_codes[1])]))
    else:
        vectors = watch(calibration_vectors(box, choices.vectors, choices.seed))
        ranges = calibrate(floats, map(source.rounded, vectors))
    *hidden, scores = _output_codes(ranges)
    last = scores if choices.scores == "uint8" else None
    layers = quantize_layers(floats, (source, *hidden), last, choices.weights, choices.residual)
    notes = (*_input_notes(network, box, source), *_layer_notes(floats, ranges, layers))
    return QuantizedNetwork(source, layers, notes)


def _output_codes(ranges: Sequence[Range]) -> Iterator[Codes]:
    """Yield the codes of every layer's output; raise RequestError for values that exceed float32."""
    for number, (low, high) in enumerate(ranges, start=1):
        if not max(-low, high) < float(np.finfo(np.float32).max):
            raise RequestError(
                f"layer dense_{number}: its activations reach from {low:.3g} to {high:.3g}, beyond float32",
                "rescale the weights or the box",
            )
        yield codes_for(low, high)


def _require_box(network: DenseNetwork) -> Floats32:
    """Return the box; raise RequestError if it is missing or empty."""
    width = len(network.layers[0].weight)
    how = f"give it with --box LOW:HIGH, or one pair for each of the {width} inputs, in the network's own units"
    box = network.box
    if box is None:
        raise RequestError(f"network {network.name!r} does not say between which bounds its inputs lie", how)
    if box.shape != (2, width):
        raise RequestError(
            f"the box has {box.shape[-1]} inputs, network {network.name!r} has {width}", f"one pair for all, or {width}"
        )
    if not np.isfinite(box).all() or (box[0] > box[1]).any():
        bad = np.flatnonzero(~(np.isfinite(box).all(axis=0) & (box[0] <= box[1])))[0]
        raise RequestError(
            f"the box of input {bad} is {box[0, bad]}:{box[1, bad]}", "finite bounds, LOW no greater than HIGH"
        )
    return box


def _require_finite(layers: Sequence[Dense]) -> None:
    for number, layer in enumerate(layers, start=1):
        for what, values in (("weights", layer.weight), ("biases", layer.bias)):
            wrong = int(np.count_nonzero(~np.isfinite(values)))
            if wrong:
                raise RequestError(
                    f"layer dense_{number}: {wrong} of its {values.size} {what} are NaN or infinite",
                    "train or export the network again",
                )


def _input_notes(network: DenseNetwork, box: Floats32, source: Codes) -> Iterator[str]:
    spans = np.floor((box[1].astype(np.float64) - box[0]) / float(source.scale)) + 1
    for index in np.flatnonzero((spans < _CODES_TO_NOTE) & (box[1] > box[0])):
        name = network.normalisation.names[index] if network.normalisation else f"input {index}"
        name = name if name.isprintable() else ascii(name)
        yield (
            f"{name} meets only {int(spans[index])} of 256 codes, because one scale serves all inputs: "
            "normalise the inputs to boxes of one size"
        )


def _layer_notes(layers: Sequence[Dense], ranges: Sequence[Range], made: Sequence[QuantizedDense]) -> Iterator[str]:
    for number, (layer, (low, high), quantized) in enumerate(zip(layers, ranges, made, strict=True), start=1):
        if low == high == 0 and quantized.output is not None:
            yield f"dense_{number} is 0 for every vector; its codes span 0 to 1"
        steps = np.sum([np.abs(term.weight.astype(np.int64) - term.zero_point) for term in quantized.terms], axis=0)
        lost = np.count_nonzero(layer.weight.any(axis=0) & ~steps.any(axis=0))
        if lost:
            yield f"dense_{number}: all weights of {lost} of {len(layer.bias)} columns are too small for their scale"
