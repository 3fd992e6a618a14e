"""Facts for all reports of a measurement: its document, checked for contradictions, and caveats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.boards.identity import EMULATED, HARDWARE
from harness.runs.entries import ItemEntry, MeasurementDocument, PartEntry
from harness.runs.facts import where_it_ran

COARSE = 0.05  # share of the fastest median above which the cost of a reading is reported

WORDS = {
    "measured": "Measured",
    "regressed": "Regressed",
    "varies": "Varies",
    "differs": "Differs",
    "inconclusive": "Inconclusive",
}


@dataclass(frozen=True)
class Facts:
    """The kind of a measurement, and sentences that a reader of its numbers has to know, the gravest first.

    `where` completes a verdict, so that an emulated board is not mistaken for hardware.  `why_not_met` is empty for MET
    of the board.  `unseen` are unknown conditions.
    """

    counted: bool
    why_not_met: str
    emulated: bool
    stand_ins: tuple[ItemEntry, ...]
    where: str
    cautions: tuple[str, ...]
    unseen: tuple[str, ...]

    @property
    def is_met(self) -> bool:
        """Return whether the readings are measured execution times of the network on the board's hardware."""
        return not self.why_not_met


def gather(document: MeasurementDocument) -> Facts:
    """Return the facts of a measurement's document; ValueError if it contradicts itself."""
    kind, counted = document.board.kind, document.measured.unit != "ns"
    stand_ins = tuple(item for item in document.plan.items if item.ran_on != HARDWARE)
    _check_verdict(document)
    _check_parts(document, counted=counted)
    why_not = document.measured.not_met_because
    if not why_not and (kind == EMULATED or stand_ins or counted):
        raise ValueError("the document claims MET, but not all times are of the board's hardware")
    return Facts(
        counted,
        "; ".join(filter(None, [why_not, _wrong_outputs(document)])),
        kind == EMULATED,
        stand_ins,
        where_it_ran(kind, stand_ins),
        tuple(_cautions(document, counted=counted)),
        tuple(document.state.unseen) if not counted else (),
    )


def _wrong_outputs(document: MeasurementDocument) -> str:
    """Return the caveat for wrong outputs: times of another computation are not times of the network."""
    outputs = document.outputs
    return f"{outputs.differing:,} outputs are not the reference's" if outputs.differing else ""


def _check_verdict(document: MeasurementDocument) -> None:
    """Require that the verdict is the worst of the parts."""
    if not document.parts or not document.outputs.compared:
        raise ValueError("nothing was measured, or no output was compared")
    against = document.against
    if against and against.regressed != bool(against.slower):
        raise ValueError(f"regressed is {against.regressed}, but {len(against.slower)} parts are slower")
    found = "differs" if document.outputs.differing else _counts_say(varying(document))
    if found == "measured" and against and against.regressed:
        found = "regressed"
    if found == "measured" and against and against.too_noisy:
        found = "inconclusive"
    if document.verdict != found:
        raise ValueError(f"the verdict is {document.verdict}, but its parts give {found}")


def varying(document: MeasurementDocument) -> tuple[PartEntry, ...]:
    """Return the parts whose instructions should be equal in all executions but differ.

    Cycles always differ, and so do the instructions of a processor that waits for a device.
    """
    if document.measured.unit != "instructions":
        return ()
    return tuple(part for part in document.parts if part.alone and part.distinct > 1)


def _counts_say(found: Sequence[PartEntry]) -> str:
    """Return the verdict on counts; counts that differ for the same vector are an error of the counter."""
    if not found:
        return "measured"
    return "varies" if any(part.repeatable for part in found) else "inconclusive"


def _check_parts(document: MeasurementDocument, *, counted: bool) -> None:
    """Require that every part has all executions."""
    samples = document.measured.samples
    for part in document.parts:
        found = {part.executions} if counted else {part.summary.executions, sum(part.histogram.counts)}
        if found != {samples}:
            raise ValueError(f"{part.name} has {sorted(found)} executions, not {samples}")
        if counted and (part.distinct > 1) != (part.min < part.max):
            raise ValueError(f"{part.name} has {part.distinct} counts from {part.min} to {part.max}")


def _cautions(document: MeasurementDocument, *, counted: bool) -> Iterator[str]:
    state, measured = document.state, document.measured
    if failure := document.load.failure:
        yield f"the load did not last: {failure}"
    if counted:
        return
    yield from (f"throttled: {sentence}" for sentence in state.throttled)
    yield from (f"a setting did not stay: {sentence}" for sentence in state.drifted)
    if machine := document.board.environment.get("virtual_machine"):
        yield f"a virtual machine, whose times depend on its host: {machine}"
    if measured.fifo_refused:
        yield f"SCHED_FIFO was refused, so the default scheduler was used: {measured.fifo_refused}"
    if not measured.memory_locked:
        although = ", although the profile asks for it" if measured.memory_lock_asked else ""
        yield f"memory was not locked{although}: any time may contain a page fault"
    if measured.dma_latency_asked and not measured.dma_latency_held:
        yield "the CPU DMA latency was not held, although the profile asks for it: a core may have slept too deeply"
    yield from (f"setting differs from the profile: {sentence}" for sentence in state.told)
    share = clock_share(document)
    if share > COARSE:
        yield f"the clock is coarse here: reading it is {share:.0%} of the fastest part's median"


def clock_share(document: MeasurementDocument) -> float:
    """Return the median cost of two readings of the clock, as a share of the fastest part's median."""
    fastest = min(part.summary.median_ns for part in document.parts)
    cost = max(document.clock.cost.median_ns, document.clock.resolution_ns)
    return float(cost / fastest) if fastest else 1.0
