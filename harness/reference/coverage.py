"""What the vectors of a run exercised, layer by layer: what was met, of what each layer could meet.

Reachable is what a layer can meet by itself, whatever codes or float32 numbers it is given.  The layers before it may
never give it all of them, so that a share below 1 can be all that there is; what was not met was not compared.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import (
    ArgExtremum,
    DequantizeLinear,
    Layer,
    Network,
    QGemm,
    QuantizeLinear,
    accumulator_bounds,
    specification,
)
from harness.operators.softfloat import Integers

Codes: TypeAlias = npt.NDArray[np.bool_]

# Vectors that are counted together: few enough for the second-level cache.
BLOCK = 512

# The bits of all accumulator maps of a network, 256 MiB; layers beyond it state no accumulators.
LARGEST_MAPS = 1 << 31

CODES = 256  # of uint8 and int8


class Quantity(enum.StrEnum):
    """What is counted, in `met` and `reachable` every different one once."""

    ACCUMULATORS = "accumulators"
    """(column, accumulator), of all integers within `accumulator_bounds`."""
    CODES = "codes"
    """(column, code) that the layer writes."""
    CODES_READ = "codes_read"
    """(column, code) that DequantizeLinear reads, of all of their type."""
    TIES = "ties"
    """(column, boundary between two codes) of which v was exactly half way."""
    SATURATED_LOW = "saturated_low"
    """Columns where the code would be below the lowest one, were it not clamped."""
    SATURATED_HIGH = "saturated_high"
    """Columns where the code would be above the highest one, were it not clamped."""
    CHOSEN = "chosen"
    """Columns that ArgExtremum chose."""
    CHOSEN_OF_EQUALS = "chosen_of_equals"
    """Columns that ArgExtremum chose although another had the same value."""


@dataclass(frozen=True)
class Met:
    """How many different ones were met, of how many reachable ones, by how many activations."""

    met: int
    reachable: int
    activations: int

    def __add__(self, other: Met) -> Met:
        """Of two layers together."""
        return Met(self.met + other.met, self.reachable + other.reachable, self.activations + other.activations)

    @property
    def percent(self) -> str:
        """What was met of what is reachable: see `percent`."""
        return percent(self.met, self.reachable)


LayerCoverage: TypeAlias = Mapping[Quantity, Met]
"""What applies to the layer's operator; nothing does to Add."""


class Coverage:
    """What the vectors added so far exercised; their order and the size of their chunks do not matter.

    Memory is bounded by the network alone: a bit for every reachable accumulator.
    """

    def __init__(self, network: Network) -> None:
        self._input_name, self._layers = network.input_name, network.layers
        room = LARGEST_MAPS
        self._meters: list[_Meter] = []
        for layer in network.layers:
            self._meters.append(_meter(layer, room))
            room -= self._meters[-1].bits

    def add(self, vectors: Array, activations: Sequence[Array]) -> None:
        """Float32 (n, K) vectors with the right activations of all layers, (n, width) each, in layer order."""
        written = {layer.output: values for layer, values in zip(self._layers, activations, strict=True)}
        written[self._input_name] = vectors
        for layer, meter in zip(self._layers, self._meters, strict=True):
            values = [written[source] for source in (*layer.sources, layer.output)]
            for start in range(0, len(vectors), BLOCK):
                meter.add(*(value[start : start + BLOCK] for value in values))

    def result(self) -> tuple[LayerCoverage, ...]:
        """What was met of every layer, in layer order."""
        return tuple(meter.result() for meter in self._meters)


def total(layers: Iterable[LayerCoverage]) -> LayerCoverage:
    """The sums over layers."""
    sums: dict[Quantity, Met] = {}
    for layer in layers:
        for quantity, met in layer.items():
            sums[quantity] = sums[quantity] + met if quantity in sums else met
    return sums


def describe(network: Network, layers: Sequence[LayerCoverage]) -> str:
    """What was met of a network, in one sentence; of accumulators only where those of all layers were counted."""
    sums, ties = total(layers), total(layers[1:]).get(Quantity.TIES)
    pairs = list(zip(network.layers, layers, strict=True))
    codes = {layer.name: met[Quantity.CODES] for layer, met in pairs if Quantity.CODES in met}
    least = min(codes, key=lambda name: codes[name].met / codes[name].reachable)
    gemms = [met for layer, met in pairs if isinstance(layer, QGemm)]
    all_counted = gemms and all(Quantity.ACCUMULATORS in met for met in gemms)
    parts = (
        f"{sums[Quantity.ACCUMULATORS].percent} of the reachable accumulators" if all_counted else None,
        f"{sums[Quantity.CODES].percent} of the reachable codes ({least} {codes[least].percent}, the least)",
        f"{ties.met:,} of {ties.reachable:,} ties behind the input" if ties else None,
    )
    return f"the vectors met {', '.join(part for part in parts if part)}"


def percent(part: int, whole: int) -> str:
    """With one digit behind the point, rounded down: 100.0 % is all."""
    return f"{1000 * part // whole / 10 if whole else 100.0:.1f} %"


def reachable_codes(layer: Layer) -> Codes | None:
    """The codes that a layer can write by itself, bool (width, 256) from the lowest on; None if it rounds to none."""
    reachable = _meter(layer, 0).reachable
    return reachable.codes if reachable else None


class _Meter(ABC):
    """Counts for one layer."""

    bits = 0
    reachable: _Rounding | None = None

    @abstractmethod
    def add(self, *values: Array) -> None:
        """Count a block: the layer's sources and its output, (n, width) each."""

    @abstractmethod
    def result(self) -> LayerCoverage:
        """What was met so far."""


@singledispatch
def _meter(_layer: Layer, _room: int) -> _Meter:
    """The meter of a layer, with a map of its accumulators where that fits into `room` bits."""
    return _Nothing()


@_meter.register
def _quantize_linear(layer: QuantizeLinear, _room: int) -> _Meter:
    return _QuantizeLinear(layer)


@_meter.register
def _qgemm(layer: QGemm, room: int) -> _Meter:
    return _FloatQGemm(layer, room) if layer.dtype == np.float32 else _QGemm(layer, room)


@_meter.register
def _dequantize_linear(layer: DequantizeLinear, _room: int) -> _Meter:
    return _DequantizeLinear(layer)


@_meter.register
def _arg_extremum(layer: ArgExtremum, _room: int) -> _Meter:
    return _ArgExtremum(layer)


class _Nothing(_Meter):
    """Of Add: its terms and sums are float32 numbers, of which nobody can say which are reachable."""

    def add(self, *values: Array) -> None:
        pass

    def result(self) -> LayerCoverage:
        return {}


class _QuantizeLinear(_Meter):
    """v = float32(x / scale); reachable is what some float32 x gives, infinity included."""

    reachable: _Rounding

    def __init__(self, layer: QuantizeLinear) -> None:
        self._scale = layer.scale
        self._met, self.reachable = (_Rounding(layer, layer.zero_point) for _ in range(2))
        steps = specification.quantize_thresholds(layer)
        beside_steps = specification.from_ordered(np.append(steps - 1, steps))
        decisive = np.append(beside_steps, np.array([-np.inf, np.inf], np.float32))
        self.reachable.add(self._quotient(np.tile(decisive[:, None], layer.width)))

    def add(self, *values: Array) -> None:
        x, _ = values
        self._met.add(self._quotient(x))

    def result(self) -> LayerCoverage:
        return self._met.result_of(self.reachable)

    def _quotient(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            v = x / self._scale
        return np.where(np.isnan(v), -np.inf, v)  # the operator has it so, too


class _FloatQGemm(_Meter):
    """The accumulators; of a float32 output there is no more to say."""

    def __init__(self, layer: QGemm, room: int) -> None:
        low, high = accumulator_bounds(layer)
        self._accumulate = specification.accumulator(layer)
        self._accumulators = _Accumulators(low, high) if (high - low + 1).sum() <= room else None
        self.bits = self._accumulators.reachable if self._accumulators else 0

    def add(self, *values: Array) -> None:
        a, _ = values
        self._add(self._accumulate(a))

    def _add(self, acc: Integers) -> None:
        if self._accumulators:
            self._accumulators.add(acc)

    def result(self) -> LayerCoverage:
        return {Quantity.ACCUMULATORS: self._accumulators.result()} if self._accumulators else {}


class _QGemm(_FloatQGemm):
    """v = float32(float32(acc) * m[n]); reachable is what some acc within its bounds gives."""

    reachable: _Rounding

    def __init__(self, layer: QGemm, room: int) -> None:
        super().__init__(layer, room)
        self._multiplier = layer.multiplier
        self._met, self.reachable = (_Rounding(layer, layer.y_zero_point) for _ in range(2))
        low, high = accumulator_bounds(layer)
        steps = specification.thresholds(layer).T.astype(np.int64)
        self.reachable.add(self._product(np.clip(np.vstack([low, steps - 1, steps, high]), low, high)))

    def _add(self, acc: Integers) -> None:
        super()._add(acc)
        self._met.add(self._product(acc))

    def result(self) -> LayerCoverage:
        return {**super().result(), **self._met.result_of(self.reachable)}

    def _product(self, acc: Integers) -> Array:
        v: Array = acc.astype(np.float32) * self._multiplier
        return v


class _DequantizeLinear(_Meter):
    def __init__(self, layer: DequantizeLinear) -> None:
        self._lowest = np.iinfo(layer.input_dtype).min
        self._codes, self._activations = np.zeros((layer.width, CODES), np.bool_), 0

    def add(self, *values: Array) -> None:
        codes, _ = values
        self._activations += codes.size
        _mark(self._codes, codes.astype(np.intp) - self._lowest)

    def result(self) -> LayerCoverage:
        return {Quantity.CODES_READ: Met(_count(self._codes), self._codes.size, self._activations)}


class _ArgExtremum(_Meter):
    """The columns chosen; of equals the last column is never chosen, or the first where `last`."""

    def __init__(self, layer: ArgExtremum) -> None:
        self._chosen, self._tied = (np.zeros(layer.input_width, np.int64) for _ in range(2))

    def add(self, *values: Array) -> None:
        candidates, chosen = values
        equal = candidates == np.take_along_axis(candidates, chosen, axis=1)
        tied = chosen[np.count_nonzero(equal, axis=1) > 1]
        self._chosen += np.bincount(chosen.ravel(), minlength=len(self._chosen))
        self._tied += np.bincount(tied.ravel(), minlength=len(self._tied))

    def result(self) -> LayerCoverage:
        return {
            Quantity.CHOSEN: Met(_count(self._chosen), len(self._chosen), int(self._chosen.sum())),
            Quantity.CHOSEN_OF_EQUALS: Met(_count(self._tied), len(self._tied) - 1, int(self._tied.sum())),
        }


class _Accumulators:
    """A bit for every integer from low[n] to high[n] of every column n."""

    def __init__(self, low: Integers, high: Integers) -> None:
        sizes = high - low + 1
        self.reachable, self._activations = int(sizes.sum()), 0
        self._first_bit = np.cumsum(sizes) - sizes - low
        self._bits = np.zeros(-(-self.reachable // 8), np.uint8)

    def add(self, acc: Integers) -> None:
        """Mark accumulators, (n, N)."""
        self._activations += acc.size
        position = (acc + self._first_bit).ravel()
        byte, bit = position >> 3, np.left_shift(np.uint8(1), (position & 7).astype(np.uint8))
        new = np.flatnonzero(self._bits[byte] & bit == 0)  # soon few, and `at` is slow
        np.bitwise_or.at(self._bits, byte[new], bit[new])

    def result(self) -> Met:
        """How many are marked."""
        return Met(int(np.bitwise_count(self._bits).sum()), self.reachable, self._activations)


class _Rounding:
    """What was met of q = saturate(round_half_even(v) + zero_point), for v of float32 (n, N)."""

    def __init__(self, layer: Layer, zero_point: int) -> None:
        codes = np.iinfo(layer.dtype)
        self._lowest, self._highest = (np.float32(code - zero_point) for code in (codes.min, codes.max))
        self._unclamped = np.zeros((layer.width, 1 + CODES + 1), np.bool_)  # at both ends what is beyond all codes
        self._ties = np.zeros((layer.width, CODES - 1), np.bool_)
        self._activations = self._tied = self._low = self._high = 0

    def add(self, v: Array) -> None:
        """Count a block."""
        self._activations += v.size
        rounded = np.rint(v)
        self._low += _count(rounded < self._lowest)
        self._high += _count(rounded > self._highest)
        unclamped = np.clip(rounded, self._lowest - 1, self._highest + 1) - (self._lowest - 1)
        _mark(self._unclamped, unclamped.astype(np.intp))
        self._add_ties(v, rounded)

    def _add_ties(self, v: Array, rounded: Array) -> None:
        with np.errstate(invalid="ignore"):  # infinity - infinity
            place = np.flatnonzero(np.abs(v - rounded) == 0.5)
        below, column = np.floor(v.take(place)) - self._lowest, place % v.shape[1]
        between_codes = (below >= 0) & (below < CODES - 1)
        self._tied += _count(between_codes)
        self._ties[column[between_codes], below[between_codes].astype(np.intp)] = True

    @property
    def codes(self) -> Codes:
        """The codes that were met, bool (N, 256) from the lowest on."""
        codes = self._unclamped[:, 1:-1].copy()
        codes[:, 0] |= self._unclamped[:, 0]
        codes[:, -1] |= self._unclamped[:, -1]
        return codes

    def result_of(self, reachable: _Rounding) -> LayerCoverage:
        """What was met, of what `reachable` met that was given every v at which something changes."""
        rows = (
            (Quantity.CODES, self.codes, reachable.codes, self._activations),
            (Quantity.TIES, self._ties, reachable._ties, self._tied),
            (Quantity.SATURATED_LOW, self._unclamped[:, 0], reachable._unclamped[:, 0], self._low),
            (Quantity.SATURATED_HIGH, self._unclamped[:, -1], reachable._unclamped[:, -1], self._high),
        )
        return {quantity: Met(_count(met), _count(of), activations) for quantity, met, of, activations in rows}


def _mark(table: Codes, index: Array) -> None:
    """Mark table[n, index[..., n]]."""
    columns, entries = table.shape
    table.reshape(-1)[index + np.arange(0, columns * entries, entries)] = True


def _count(values: Array) -> int:
    return int(np.count_nonzero(values))
