"""Facts for the reports of a run: its document, cleaned and checked for contradictions, and sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.boards.identity import EMULATED, HARDWARE, VIRTUAL
from harness.core import safe_io
from harness.core.document import Content
from harness.core.strict_json import number
from harness.runs.entries import DifferenceEntry, ItemEntry, LayerEntry, RunDocument


@dataclass(frozen=True)
class Facts:
    """The sums over all layers, the layers that differ, and the items that did not run on hardware.

    `own` are the activations of which the layer itself is to blame.

    `where` completes a verdict, so that an emulated board is not mistaken for hardware.
    """

    compared: int
    differing: int
    own: int
    differing_layers: tuple[LayerEntry, ...]
    stand_ins: tuple[ItemEntry, ...]
    emulated: bool
    where: str

    @property
    def on_hardware(self) -> bool:
        """Return whether all items ran on the board's hardware; if not, no time is a MET."""
        return not self.emulated and not self.stand_ins


def clean(value: Any) -> Any:
    """Return a JSON value without the characters that a report cannot hold or that would deceive its reader."""
    if isinstance(value, str):
        return safe_io.clean(value)
    if isinstance(value, Mapping):
        return {clean(key): clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean(entry) for entry in value]
    return value


def gather(content: Content) -> Facts:
    """Return the facts of a run document; ValueError if its verdict contradicts its layers."""
    run = RunDocument.view(content)
    layers, kind = run.layers, run.board.kind
    differing_layers = tuple(layer for layer in layers if layer.differing)
    stand_ins = tuple(item for item in run.plan.items if item.ran_on != HARDWARE)
    strayed = run.conformance is not None and not run.conformance.conforms
    refuted = (run.proof is not None and not run.proof.holds) or (
        run.deployed is not None and run.deployed.differing > 0
    )
    _check_verdict(run.verdict, layers, differing_layers, refuted=refuted, strayed=strayed)
    return Facts(
        sum(layer.compared for layer in layers),
        sum(layer.differing for layer in layers),
        sum(layer.own for layer in layers),
        differing_layers,
        stand_ins,
        kind == EMULATED,
        where_it_ran(kind, stand_ins),
    )


def where_it_ran(kind: str, stand_ins: tuple[Any, ...]) -> str:
    """Describe where a run was executed, from the kind of the board and the items that are simulated."""
    if kind in {EMULATED, VIRTUAL}:
        return "on an emulated board" if kind == EMULATED else "on a virtual machine"
    return f"on {kind}, in part by stand-ins" if stand_ins else f"on {kind}"


def _check_verdict(
    verdict: str, layers: Sequence[LayerEntry], differing: tuple[LayerEntry, ...], *, refuted: bool, strayed: bool
) -> None:
    """Raise ValueError if the verdict contradicts the layers, such as `identical` without a comparison.

    `refuted` says that a claim of a proof does not hold, or that deployment mode differs, `strayed` that a trace is no
    path of the plan's net.
    """
    if verdict not in {"identical", "differs"}:
        raise ValueError(f"a report shows the verdicts identical and differs, not {verdict!r}")
    if (verdict == "differs") != (bool(differing) or refuted or strayed):
        others = " and a claim" * refuted + " and a trace" * strayed
        raise ValueError(f"the verdict is {verdict}, but {len(differing)} layers differ{others}")
    idle = [layer.name for layer in layers if not layer.compared]
    if idle or not layers:
        raise ValueError(f"nothing was compared of: {', '.join(idle) or 'any layer'}")


def explains_all(run: RunDocument) -> bool:
    """Return whether one cause explains all layers that were diagnosed, two at least."""
    return run.diagnosis is not None and len(run.diagnosis.layers) > 1


def diagnosed(content: Content) -> list[tuple[str, str]]:
    """Return the diagnoses to print, where and what: one if one cause explains all layers, else one a layer."""
    run = RunDocument.view(content)
    if run.diagnosis and explains_all(run):
        return [(f"layers {', '.join(run.diagnosis.layers)}", run.diagnosis.text)]
    return [(f"layer {found.layer}", found.text) for found in run.diagnoses]


def place(content: Content) -> str:
    """Return where a difference is, counted from 0: `vector 17, unit 3`; of a split layer also in which part of it."""
    difference = DifferenceEntry.view(content)
    part = f" ({difference.part})" if difference.part else ""
    return f"vector {difference.vector:,}, unit {difference.unit:,}{part}"


def value_text(value: float | str) -> str:
    """Return an activation: an integer, or a float32 with its bits."""
    value = number(value)
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"  # JSON has lost which
    single = np.float32(value)
    return f"{single!s} (0x{int(single.view(np.uint32)):08x})"
