"""Reports of the vendor's tools: the estimate of HLS for a kernel, and the timing of the design.

The forms are those of Vitis 2020 to 2024 as public builds show them: `csynth.xml` of Vitis HLS, and
`report_timing_summary` of Vivado.  What is not found is not made up: a field is None, or the design is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from harness.core.errors import ToolError

RESOURCES = ("LUT", "FF", "DSP", "BRAM_18K", "URAM")
NUMBER = r"-?\d+(?:\.\d+)?"
SUMMARY = re.compile(
    r"^[| ]*Design Timing Summary.*?WNS\(ns\)\s+TNS\(ns\)[^\n]*\n[-\s]+\n\s*([^\n]*)$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Loop:
    """A pipelined loop of a kernel: how many cycles lie between two of its turns."""

    name: str
    interval: int


@dataclass(frozen=True)
class Synthesis:
    """The estimate of HLS for a kernel: loops, latency in cycles, the clock period that it expects, resources.

    `latency_cycles` is None where it depends on an argument, as with our kernels that of `vectors`.
    """

    kernel: str
    loops: tuple[Loop, ...]
    latency_cycles: int | None
    clock_ns: float | None
    resources: dict[str, int]

    @property
    def slow_loops(self) -> tuple[Loop, ...]:
        """Those that do not take a turn every cycle."""
        return tuple(loop for loop in self.loops if loop.interval > 1)

    def __str__(self) -> str:
        """Return one line for a person."""
        used = ", ".join(f"{count:,} {name}" for name, count in self.resources.items()) or "no resources reported"
        latency = "of no fixed latency" if self.latency_cycles is None else f"{self.latency_cycles:,} cycles"
        clock = "" if self.clock_ns is None else f", {self.clock_ns:g} ns estimated"
        return f"{self.kernel}: {self._intervals()}; {latency}{clock}; {used}"

    def _intervals(self) -> str:
        if not self.loops:
            return "no pipelined loop reported"
        if not self.slow_loops:
            return f"II=1 in all {len(self.loops)} pipelined loops"
        slow = ", ".join(f"II={loop.interval} in {loop.name}" for loop in self.slow_loops)
        return f"{slow}; II=1 in {len(self.loops) - len(self.slow_loops)} other pipelined loops"


def synthesis(kernel: str, text: str) -> Synthesis:
    """Read `csynth.xml`, or `<kernel>_csynth.xml`; ToolError if it is no such report."""
    try:
        root = ET.fromstring(text)  # noqa: S314 - the vendor's tool has just written it here
    except ET.ParseError as error:
        raise ToolError(f"the report of HLS on {kernel} is no XML: {error}", "see the log of v++") from error
    return Synthesis(
        kernel,
        tuple(_loops(root)),
        _integer(root.findtext("PerformanceEstimates/SummaryOfOverallLatency/Worst-caseLatency")),
        _decimal(root.findtext("PerformanceEstimates/SummaryOfTimingAnalysis/EstimatedClockPeriod")),
        _resources(root),
    )


def _loops(root: ET.Element) -> Iterable[Loop]:
    """Yield all pipelined loops: of the kernel's modules if they are listed, which the top repeats, else its own."""
    modules = root.findall("ModuleInformation/Module")
    for module in modules or [root]:
        prefix = f"{module.findtext('Name')}/" if modules else ""
        for loop in module.findall("PerformanceEstimates/SummaryOfLoopLatency//*[PipelineII]"):
            interval = _integer(loop.findtext("PipelineII"))
            if interval is not None:
                yield Loop(f"{prefix}{loop.findtext('Name') or loop.tag}", interval)


def _resources(root: ET.Element) -> dict[str, int]:
    found = {name: _integer(root.findtext(f"AreaEstimates/Resources/{name}")) for name in RESOURCES}
    return {name: count for name, count in found.items() if count is not None}


def _integer(text: str | None) -> int | None:
    """Return the number; None for ranges (`948 ~ 4728`) and `undef`."""
    return int(text) if text and re.fullmatch(r"\s*\d+\s*", text) else None


def _decimal(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(rf"\s*{NUMBER}\s*", text) else None


@dataclass(frozen=True)
class Timing:
    """The worst slacks of the routed design, in nanoseconds: setup, hold, pulse width; and how many paths fail."""

    setup_ns: float
    hold_ns: float
    pulse_ns: float
    failing: int

    @property
    def met(self) -> bool:
        """Return whether every signal arrives in time."""
        return min(self.setup_ns, self.hold_ns, self.pulse_ns) >= 0 and self.failing == 0

    def __str__(self) -> str:
        """Return one line for a person."""
        slacks = f"WNS {self.setup_ns:g} ns, WHS {self.hold_ns:g} ns, WPWS {self.pulse_ns:g} ns"
        return f"timing met: {slacks}" if self.met else f"timing NOT met: {slacks}, {self.failing:,} failing endpoints"


def timing(text: str) -> Timing:
    """Read the table `Design Timing Summary`; raise ToolError without one, as the timing is then unknown."""
    match = SUMMARY.search(text)
    numbers = match[1].split() if match else []
    if len(numbers) != 12 or not all(re.fullmatch(NUMBER, number) for number in numbers):
        raise ToolError(
            "the timing report has no design timing summary of twelve numbers: it is unknown whether timing is met",
            "open it in Vivado; a design without timing constraints cannot be trusted",
        )
    # WNS TNS failing total, WHS THS failing total, WPWS TPWS failing total
    failing = sum(int(float(numbers[at])) for at in (2, 6, 10))
    return Timing(float(numbers[0]), float(numbers[4]), float(numbers[8]), failing)


def find_synthesis(kernel: str, folder: Path) -> Synthesis | None:
    """Return the report of HLS below `folder`: that on all modules if there is one, else that on the kernel."""
    for name in ("csynth.xml", f"{kernel}_csynth.xml"):
        found = sorted(folder.rglob(name))
        if found:
            return synthesis(kernel, found[0].read_text(encoding="utf-8", errors="replace"))
    return None


def find_timing(*folders: Path) -> Timing:
    """Return the timing of the final design, from the first folder with a report: after the last optimisation if any.

    ToolError if there is no report below any of them.
    """
    for folder in folders:
        for pattern in ("*timing_summary_postroute_physopted.rpt", "*timing_summary_routed.rpt"):
            found = sorted(folder.rglob(pattern))
            if found:
                each = (timing(path.read_text(encoding="utf-8", errors="replace")) for path in found)
                return min(each, key=lambda one: (one.met, one.setup_ns))
    raise ToolError(
        "Vivado left no timing summary: it is unknown whether timing is met",
        "see the log of v++ whether the design was routed",
    )
