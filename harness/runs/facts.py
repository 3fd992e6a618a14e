"""Facts for the reports of a run: its document, cleaned and checked for contradictions, and sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.boards.identity import EMULATED, HARDWARE, VIRTUAL
from harness.core import safe_io
from harness.core.strict_json import number


@dataclass(frozen=True)
class Facts:
    """The sums over all layers, the layers that differ, and the items that did not run on hardware.

    `own` are the activations of which the layer itself is to blame.

    `where` completes a verdict, so that an emulated board is not mistaken for hardware.
    """

    compared: int
    differing: int
    own: int
    differing_layers: tuple[Mapping[str, Any], ...]
    stand_ins: tuple[Mapping[str, Any], ...]
    emulated: bool
    where: str

    @property
    def on_hardware(self) -> bool:
        """Return whether all items ran on the board's hardware; if not, no time is a MET."""
        return not self.emulated and not self.stand_ins


def clean(value: Any) -> Any:
    """A JSON value without the characters that a report cannot hold or that would deceive its reader."""
    if isinstance(value, str):
        return safe_io.clean(value)
    if isinstance(value, Mapping):
        return {clean(key): clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean(entry) for entry in value]
    return value


def gather(run: Mapping[str, Any]) -> Facts:
    """The facts of a run document; ValueError if its verdict contradicts its layers."""
    layers, kind = run["layers"], run["board"]["kind"]
    differing_layers = tuple(layer for layer in layers if layer["differing"])
    stand_ins = tuple(item for item in run["plan"]["items"] if item["ran_on"] != HARDWARE)
    refuted, strayed = _fails(run.get("proof"), "holds"), _fails(run.get("conformance"), "conforms")
    refuted = refuted or bool((run.get("deployed") or {"differing": 0})["differing"])
    _check_verdict(run["verdict"], layers, differing_layers, refuted=refuted, strayed=strayed)
    return Facts(
        sum(layer["compared"] for layer in layers),
        sum(layer["differing"] for layer in layers),
        sum(layer["own"] for layer in layers),
        differing_layers,
        stand_ins,
        kind == EMULATED,
        where_it_ran(kind, stand_ins),
    )


def _fails(part: Mapping[str, Any] | None, key: str) -> bool:
    return part is not None and not part[key]


def where_it_ran(kind: str, stand_ins: tuple[Any, ...]) -> str:
    """Describe where a run was executed, from the kind of the board and the items that are simulated."""
    if kind in {EMULATED, VIRTUAL}:
        return "on an emulated board" if kind == EMULATED else "on a virtual machine"
    return f"on {kind}, in part by stand-ins" if stand_ins else f"on {kind}"


def _check_verdict(
    verdict: str, layers: list[Any], differing: tuple[Any, ...], *, refuted: bool, strayed: bool
) -> None:
    """A report must not show one verdict for another, least of all `identical` for what was not compared.

    `refuted` says that a claim of a proof does not hold, or that deployment mode differs, `strayed` that a trace is no
    path of the plan's net.
    """
    if verdict not in {"identical", "differs"}:
        raise ValueError(f"a report shows the verdicts identical and differs, not {verdict!r}")
    if (verdict == "differs") != (bool(differing) or refuted or strayed):
        others = " and a claim" * refuted + " and a trace" * strayed
        raise ValueError(f"the verdict is {verdict}, but {len(differing)} layers differ{others}")
    idle = [layer["name"] for layer in layers if not layer["compared"]]
    if idle or not layers:
        raise ValueError(f"nothing was compared of: {', '.join(idle) or 'any layer'}")


def explains_all(run: Mapping[str, Any]) -> bool:
    """Return whether one cause explains all layers that were diagnosed, two at least."""
    return len((run.get("diagnosis") or {}).get("layers", [])) > 1


def diagnosed(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the diagnoses to print, where and what: one if one cause explains all layers, else one a layer."""
    if explains_all(run):
        return [(f"layers {', '.join(run['diagnosis']['layers'])}", run["diagnosis"]["text"])]
    return [(f"layer {found['layer']}", found["text"]) for found in run["diagnoses"]]


def place(difference: Mapping[str, Any]) -> str:
    """Format the position of a difference, from 0: `vector 17, unit 3`; with the part of a split layer."""
    part = f" ({difference['part']})" if "part" in difference else ""
    return f"vector {difference['vector']:,}, unit {difference['unit']:,}{part}"


def value_text(value: float | str) -> str:
    """An activation: an integer, or a float32 with its bits."""
    value = number(value)
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"  # JSON has lost which
    single = np.float32(value)
    return f"{single!s} (0x{int(single.view(np.uint32)):08x})"
