"""Lower bounds of the K26 resources that the kernels of launches take, and prediction of their cycles.

Cycles of dense layers are those of rtl.py, whose formulas hold without tolerance for the RTL core under Verilator,
which is measured: for a layer, and for layers in a row of which each reads the one before and nothing else.  For the
kernels that Vitis HLS makes of kernels/vitis/layer.hpp they are a prediction: the same cycles for a layer, generalised
to records, in which buffers for later layers pass in front of a layer's own output.  Cycles of layers on images are
those of the loops of their processes.  HLS adds cycles of its own, at the ends of its loops and on the way to memory
and back, which was not measured yet.

Areas are lower bounds, of what the kernels' pragmas ask for by name and no tool can save: a DSP for every product that
is formed in a cycle, and the memories of constants, in block RAM or LUTs, but for the bits that need no memory; of
layers on images line buffers, the totals of poolings and the streams of inputs.  Sums are not counted, as a DSP48E2 can
hold its own; nor comparisons, other streams, and what joins a kernel to the memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.targets.generated import Launch
from harness.targets.vitis import circuit, records, resources, rtl
from harness.targets.vitis.resources import K26, UNITS, Resources
from harness.targets.vitis.rtl import Geometry
from harness.targets.vitis.signature import kernel_name

FOLDS = (1, 2, 4, 8, 16)
"""The numbers of products that can share a multiplier in time: the variants of the target."""


def shapes(launch: Launch, fold: int = 1, *, everything: bool = False) -> tuple[Geometry, ...]:
    """Return the geometry of the layers of a launch; `everything` states whether all activations are requested."""
    flows = records.flows(launch, everything)
    return tuple(
        circuit.of(task.layer, fold).geometry(flow.before.width, flow.kept_width)
        for task, flow in zip(launch, flows, strict=True)
    )


def count(launches: Sequence[Launch], fold: int = 1) -> Resources:
    """Return a lower bound of the resources that the kernels of all these launches take together."""
    return resources.total(circuit.of(task.layer, fold).resources for launch in launches for task in launch)


def shortage(launches: Sequence[Launch], fold: int = 1) -> str | None:
    """Return the resources that exceed those of the K26, and the least folding with which they suffice, if one does.

    None if they suffice.
    """
    short = resource_shortage(count(launches, fold))
    return short and f"{short}; {_proposal(launches, fold)}"


def _proposal(launches: Sequence[Launch], fold: int) -> str:
    for larger in (each for each in FOLDS if each > fold):
        needed = count(launches, larger)
        if resource_shortage(needed) is None:
            before, after = (sum(rtl.interval_cycles(shapes(launch, each)) for launch in launches)
                             for each in (fold, larger))  # fmt: skip
            return (
                f"target vitis:fold{larger} takes {_shares(needed)}, and {after:,} cycles from a vector to the next "
                f"instead of {before:,}"
            )
    return f"no folding suffices, as fold{FOLDS[-1]} {resource_shortage(count(launches, FOLDS[-1]))}"


def resource_shortage(needed: Resources) -> str | None:
    """Return the resources that exceed those of the K26, in words; None if they suffice."""
    short = [name for name in UNITS if getattr(needed, name) > getattr(K26, name)]
    counts = ((_number(getattr(needed, name)), UNITS[name], _number(getattr(K26, name))) for name in short)
    words = [f"at least {count} {unit}, the K26 has {there}" for count, unit, there in counts]
    return f"needs {'; '.join(words)}" if words else None


def estimate(launches: Sequence[Launch], clock_mhz: float, fold: int = 1) -> tuple[str, ...]:
    """Return lines for users: the resources of all launches, and the predicted time of each."""
    needed = count(launches, fold)
    area = f"fabric of the K26: at least {_shares(needed)}: products and memories alone"
    return (area, *(_cycles(launch, clock_mhz, fold) for launch in launches))


def _shares(needed: Resources) -> str:
    return ", ".join(_share(getattr(needed, name), getattr(K26, name), unit) for name, unit in UNITS.items())


def _share(needed: float, there: float, unit: str) -> str:
    return f"{_number(needed)} of {_number(there)} {unit} ({100 * needed / there:.0f} %)"


def _number(count: float) -> str:
    """Return a half where there is one."""
    return f"{count:,.1f}".removesuffix(".0")


def _cycles(launch: Launch, clock_mhz: float, fold: int) -> str:
    asked, full = shapes(launch, fold), shapes(launch, fold, everything=True)
    latency, interval = rtl.latency_cycles(asked), rtl.interval_cycles(asked)
    sources = " and ".join(dict.fromkeys(each.source for each in asked))
    return (
        f"{kernel_name(launch[0].layer.name)}: {latency:,} cycles for a vector, {interval:,} to the next "
        f"({rtl.interval_cycles(full):,} with all activations); at {clock_mhz:g} MHz {latency / clock_mhz:,.2f} µs and "
        f"{interval / clock_mhz:,.2f} µs: predicted by {sources}, not measured"
    )
