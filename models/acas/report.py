"""How near networks are to their tables, in figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.model.onnx_runtime import sessions

if TYPE_CHECKING:
    from pathlib import Path

    from models.acas.mdp import Floats
    from models.acas.samples import Samples

Scores = Callable[[NDArray[np.floating]], NDArray[np.floating]]
"""Normalised states (n, inputs) -> normalised scores (n, outputs)."""

PAPER = {
    "COC": (99.82, 99.10, 96.05, 95.35),
    "WL": (99.48, 97.90, 96.50, 95.25),
    "WR": (99.51, 97.57, 96.88, 95.04),
    "SL": (99.52, 98.02, 96.03, 95.19),
    "SR": (99.57, 97.98, 96.15, 95.15),
}
"""Table I of the published study, by previous advisory: R2 before and after quantisation, argmin truth so too."""


@dataclass(frozen=True)
class Figures:
    """Shares (0..1) over one set of points.

    `agreement`: points where the network's advisory is the table's; `on_clear` and `on_alert`: of the points where the
    table says COC, and of those where it alerts.  `r2`: coefficient of determination of the scores, mean over the
    outputs.
    """

    agreement: float
    on_clear: float
    on_alert: float
    r2: float


def figures(network: Scores, points: Samples) -> Figures:
    """Compare the scores of `network` with those of the points."""
    scores = network(points.states)
    agrees = scores.argmax(axis=1) == points.advisories
    clear = points.advisories == 0
    residual = ((points.scores - scores) ** 2).sum(axis=0)
    spread = ((points.scores - points.scores.mean(axis=0)) ** 2).sum(axis=0)
    return Figures(
        agreement=float(agrees.mean()),
        on_clear=float(agrees[clear].mean()),
        on_alert=float(agrees[~clear].mean()),
        r2=float(np.mean(1 - residual / spread)),
    )


def model_scores(model: Path | bytes) -> Scores:
    """The scores (n, outputs) that ONNX Runtime computes for normalised states (n, inputs).

    The products of the networks' uint8 codes are exact on every machine, see
    `harness.model.onnx_runtime.sessions.session`.
    """
    onnx_bytes = model if isinstance(model, bytes) else model.read_bytes()
    session = sessions.session(onnx_bytes, 0, x64_quant_precision=True)

    def compute(states: Floats) -> NDArray[np.floating]:
        (scores,) = session.run(["scores"], {"state": states.astype(np.float32)})
        return np.asarray(scores)

    return compute


def comparison(previous: str, before: Figures, after: Figures) -> list[str]:
    """The row of one network beside the published one: R2 and advisory, each before and after quantisation."""
    ours = before.r2, after.r2, before.agreement, after.agreement
    pairs = zip(ours, PAPER[previous], strict=True)
    return [previous, *(f"{value:.2f}" for own, published in pairs for value in (100 * own, published))]


def breakdown(network: str, shown: Sequence[Figures]) -> list[str]:
    """The row of one network with all its figures, for each set of points."""
    cells = ((f.agreement, f.on_clear, f.on_alert, f.r2) for f in shown)
    return [network, *(f"{100 * share:.2f}" for shares in cells for share in shares)]


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
