"""The integer layers of a dense network, between codes that are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.errors import RequestError
from harness.model.float_network import Dense
from harness.model.quantizer.codes import CODE_MAX, Codes
from harness.model.quantizer.weights import Term, WeightKind, expand

_ACCUMULATOR_MAX = np.iinfo(np.int32).max - 1  # as the loader has it: one value is kept free


@dataclass(frozen=True, eq=False)
class QuantizedDense:
    """One layer: the sum of its `terms`, and `bias` int32 (N,) at the scale a_scale * scale of the first term.

    `output` are the codes of its activation; None where it stays float32.
    """

    terms: tuple[Term, ...]
    bias: npt.NDArray[np.int32]
    output: Codes | None


@dataclass(frozen=True, eq=False)
class QuantizedNetwork:
    """The integer layers after the codes of the input; `notes` are for the user."""

    input: Codes
    layers: tuple[QuantizedDense, ...]
    notes: tuple[str, ...] = ()


def quantize_layers(
    layers: Sequence[Dense],
    sources: Sequence[Codes],
    scores: Codes | None = None,
    kind: WeightKind = "int8-per-column",
    order: int = 1,
) -> tuple[QuantizedDense, ...]:
    """Return the integer layers, each between the codes that it reads and those of the next, the last `scores`.

    After a ReLU the codes' zero point is 0, so that QGemm's clamp to 0..255 is the ReLU.  Raises RequestError, naming
    the layer, for a ReLU before float32 scores, and for an accumulator that can leave int32.
    """
    steps = tuple(zip(layers, sources, (*sources[1:], scores), strict=True))
    return tuple(_quantize_layer(f"dense_{n}", *step, kind, order) for n, step in enumerate(steps, start=1))


def _quantize_layer(
    name: str, layer: Dense, source: Codes, output: Codes | None, kind: WeightKind, order: int
) -> QuantizedDense:
    if layer.relu and output is None:
        raise RequestError(
            f"layer {name}, the last, ends in a ReLU, which float32 scores cannot express",
            "ask for uint8 scores (--scores uint8), whose clamp is the ReLU, or remove it",
        )
    if layer.relu and output is not None and output.zero_point:
        raise ValueError(f"{name} ends in a ReLU: the zero point of its output is 0, not {output.zero_point}")
    a_scale = float(source.scale)
    terms = expand(layer.weight, np.abs(layer.bias) / a_scale, kind, order)
    bias = np.rint(layer.bias / (a_scale * terms[0].scale.astype(np.float64))).astype(np.int32)
    _require_int32(name, terms, bias, source)
    return QuantizedDense(terms, bias, output)


def _require_int32(name: str, terms: Sequence[Term], bias: npt.NDArray[np.int32], source: Codes) -> None:
    """Refuse an accumulator that some input codes would take out of int32."""
    furthest = max(source.zero_point, CODE_MAX - source.zero_point)
    for index, term in enumerate(terms):
        steps = np.abs(term.weight.astype(np.int64) - term.zero_point).sum(axis=0) * furthest
        reach = int((steps + (np.abs(bias.astype(np.int64)) if index == 0 else 0)).max())
        if reach > _ACCUMULATOR_MAX:
            raise RequestError(
                f"layer {name}: its accumulator can reach {reach:,} and leave int32",
                f"at most {_ACCUMULATOR_MAX:,}: up to 33,000 inputs always fit, up to 66,000 with int8 weights; "
                "split the layer or drop inputs",
            )
