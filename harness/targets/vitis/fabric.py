"""Lower bounds of the K26 resources that the kernels of launches take, and prediction of their cycles.

Cycles are those of rtl.py, whose formulas hold without tolerance for the RTL core under Verilator, which is measured:
 for a layer, and for layers in a row of which each reads the one before and nothing else.  For the kernels
that Vitis HLS makes of kernels/vitis/layer.hpp they are a prediction: the same cycles for a layer, generalised to
records, in which buffers for later layers pass in front of a layer's own output.  HLS adds cycles of its own, at the
ends of its loops and on the way to memory and back, which was not measured yet.

Areas are lower bounds, of what the kernels' pragmas ask for by name and no tool can save: a DSP for every product that
is formed in a cycle, and the memories of constants, in block RAM or LUTs, but for the bits that need no memory.  Sums
are not counted, as a DSP48E2 can hold its own; nor comparisons, streams, and what joins a kernel to the memory.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.targets.generated import Launch
from harness.targets.vitis import qgemm, records, rtl
from harness.targets.vitis.rtl import LayerGeometry
from harness.targets.vitis.signature import kernel_name

LUTROM_WORDS = 512
"""The longest memory of thresholds that is made of LUTs, as the kernels' pragmas say; longer ones are block RAM."""
WEIGHTS_LUTROM_WORDS = 64
"""The same of weights, whose words are wide."""
SHARED_LUT_WORDS = 32
"""The longest memory of which a LUT6 holds two bits of a word."""
HALF_BRAM36_BITS, HALF_BRAM36_PORT = 18 * 1024, 36
"""The bits of half a BRAM36, which can be a memory of its own, and the bits that it reads in a cycle."""


@dataclass(frozen=True)
class Resources:
    """Resources of a fabric: LUT6, DSP48E2, and BRAM36, half of which can be used alone."""

    lut: int
    dsp: int
    bram36: float

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.lut + other.lut, self.dsp + other.dsp, self.bram36 + other.bram36)


NOTHING = Resources(0, 0, 0)
K26 = Resources(lut=117_120, dsp=1_248, bram36=144)
UNITS = {"dsp": "DSP", "bram36": "BRAM36", "lut": "LUT"}


def shapes(launch: Launch, *, everything: bool = False) -> tuple[LayerGeometry, ...]:
    """Return the geometry of the layers of a launch; `everything` states whether all activations are requested."""
    flows = records.flows(launch, everything)
    return tuple(
        dataclasses.replace(
            rtl.shape(qgemm.qgemm(task.layer)),
            others=flow.before.width - task.layer.input.size,
            kept=flow.kept_width,
        )
        for task, flow in zip(launch, flows, strict=True)
    )


def count(launches: Sequence[Launch]) -> Resources:
    """Return a lower bound of the resources that the kernels of all these launches take together."""
    of_layers = (_of_layer(qgemm.qgemm(task.layer)) for launch in launches for task in launch)
    return functools.reduce(operator.add, of_layers, NOTHING)


def weights_in_bram(layer: QGemm) -> bool:
    """Return whether the kernel's weights, K words with all columns side by side, are block RAM; else they are LUTs."""
    return layer.input.size > WEIGHTS_LUTROM_WORDS


def level_in_bram(words: int) -> bool:
    """Return whether a step's memory of thresholds, all tables in sequence, is block RAM; else it is LUTs."""
    return words > LUTROM_WORDS


def resource_shortage(needed: Resources) -> str | None:
    """Return the resources that exceed those of the K26, in words; None if they suffice."""
    short = [name for name in UNITS if getattr(needed, name) > getattr(K26, name)]
    counts = ((_number(getattr(needed, name)), UNITS[name], _number(getattr(K26, name))) for name in short)
    words = [f"at least {count} {unit}, the K26 has {there}" for count, unit, there in counts]
    return f"needs {'; '.join(words)}" if words else None


def estimate(launches: Sequence[Launch], clock_mhz: float) -> tuple[str, ...]:
    """Return lines for users: the resources of all launches, and the predicted time of each."""
    needed = count(launches)
    shares = ", ".join(_share(getattr(needed, name), getattr(K26, name), unit) for name, unit in UNITS.items())
    area = f"fabric of the K26: at least {shares}: products and memories alone"
    return (area, *(_cycles(launch, clock_mhz) for launch in launches))


def _share(needed: float, there: float, unit: str) -> str:
    return f"{_number(needed)} of {_number(there)} {unit} ({100 * needed / there:.0f} %)"


def _number(count: float) -> str:
    """Return a half where there is one."""
    return f"{count:,.1f}".removesuffix(".0")


def _cycles(launch: Launch, clock_mhz: float) -> str:
    asked, full = shapes(launch), shapes(launch, everything=True)
    latency, interval = rtl.latency_cycles(asked), rtl.interval_cycles(asked)
    return (
        f"{kernel_name(launch[0].layer.name)}: {latency:,} cycles for a vector, {interval:,} to the next "
        f"({rtl.interval_cycles(full):,} with all activations); at {clock_mhz:g} MHz {latency / clock_mhz:,.2f} µs and "
        f"{interval / clock_mhz:,.2f} µs: predicted by the cycle model of the RTL core, not measured"
    )


def _of_layer(layer: QGemm) -> Resources:
    products = Resources(0, dsp=layer.size, bram36=0)
    weights = _memory(qgemm.centred(layer), in_bram=weights_in_bram(layer))
    levels = [level.values.reshape(-1, 1) for level in qgemm.of_layer(layer).rounding[:-1]]
    thresholds = (_memory(level, in_bram=level_in_bram(len(level))) for level in levels)
    return functools.reduce(operator.add, thresholds, products + weights)


def _memory(words: Array, *, in_bram: bool) -> Resources:
    """Return a memory of integers (words, columns)."""
    bits = stored_bits(words)
    return Resources(0, 0, block_rams(len(words), bits)) if in_bram else Resources(luts(len(words), bits), 0, 0)


def luts(words: int, bits: int) -> int:
    """Return LUT6 of a memory, at least: each bit of its words is read into a register, a function of the address.

    Two functions of the same 5 inputs share a LUT; one of more takes one or, if its values permit no less, several.
    """
    return bits if words > SHARED_LUT_WORDS else -(-bits // 2)


def block_rams(words: int, bits: int) -> float:
    """Return BRAM36 of a memory whose words have these bits, at least, as a word is read in a cycle.

    A tool may lay several words side by side, so that the geometries of block RAM say no more.
    """
    return max(-(-words * bits // HALF_BRAM36_BITS), -(-bits // HALF_BRAM36_PORT)) / 2


def stored_bits(words: Array) -> int:
    """Return the bits that a memory of these words, integers (words, columns), must store, in two's complement.

    None is needed for a bit that is the same in all words, that is another or its complement in all of them, as the
    copies of a sign are, or that is one of the address.
    """
    address = {plane.tobytes() for plane in _planes(np.arange(len(words)))}
    found = {plane.tobytes() for column in words.T for plane in _planes(column)}
    return len(found - address - {np.zeros(len(words), np.bool_).tobytes()})


def _planes(column: Array) -> Iterator[Array]:
    """Yield bit by bit whether it differs from the first word's, bool (words,); a bit equals its complement."""
    changed = column ^ column[0]
    bits = int(np.bitwise_or.reduce(np.abs(column))).bit_length() + 1
    return (changed >> bit & 1 == 1 for bit in range(bits))
