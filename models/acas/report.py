"""How near a network is to its table, in figures and as a picture."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.acas.samples import state_scaling

if TYPE_CHECKING:
    from pathlib import Path

    from models.acas.samples import Samples
    from models.acas.table import ScoreTable

Scores = Callable[[NDArray[np.floating]], NDArray[np.floating]]
"""Normalised states (n, inputs) -> normalised scores (n, outputs)."""

PIXELS = 256
MAP_REACH_FT = 20_000.0
MAP_PSI_RAD = math.pi / 2
COLOURS = ((238, 238, 238), (158, 202, 225), (253, 190, 133), (33, 113, 181), (217, 71, 1), (255, 255, 255))
"""Red, green, blue of COC, WL, WR, SL, SR and of the gap between the two maps."""


@dataclass(frozen=True)
class Figures:
    """Shares (0..1) over one set of points."""

    agreement: float
    """Points where the network's advisory is the table's."""
    r2: float
    """Coefficient of determination of the scores, mean over the outputs."""
    clear_of_conflict: float
    """Points where the network's advisory is COC."""


def figures(scores: NDArray[np.floating], samples: Samples) -> Figures:
    """Compare normalised `scores` (n, outputs) with those of `samples`."""
    residual = ((samples.scores - scores) ** 2).sum(axis=0)
    spread = ((samples.scores - samples.scores.mean(axis=0)) ** 2).sum(axis=0)
    advisories = scores.argmax(axis=1)
    return Figures(
        agreement=float(np.mean(advisories == samples.advisories)),
        r2=float(np.mean(1 - residual / spread)),
        clear_of_conflict=float(np.mean(advisories == 0)),
    )


def model_scores(model: Path | bytes, states: NDArray[np.floating]) -> NDArray[np.float32]:
    """The scores (n, outputs) that ONNX Runtime computes for normalised `states` (n, inputs)."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"state": states.astype(np.float32)})
    return np.asarray(scores)


def markdown(networks: Mapping[str, Scores], points: Mapping[str, Samples]) -> str:
    """A Markdown table: one row a network, three columns a set of points."""
    columns = [f"{title}, {name}" for name in points for title in ("advisory", "R2", "COC")]
    rows = [
        [name, *(cell for where in points.values() for cell in _cells(figures(network(where.states), where)))]
        for name, network in networks.items()
    ]
    lines = [["network", *columns], ["---"] * (len(columns) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(shown: Figures) -> tuple[str, str, str]:
    return f"{shown.agreement:.2%}", f"{shown.r2:.2%}", f"{shown.clear_of_conflict:.1%}"


def advisory_map(table: ScoreTable, network: Scores) -> bytes:
    """A PNG of the advisories seen from above, by the table (left) and by the network (right).

    The own aircraft is at the centre and flies to the right; a pixel is a place of the intruder, which flies up the
    page (psi = 90 degrees).  One side is 2 x `MAP_REACH_FT`.
    """
    across = np.linspace(-MAP_REACH_FT, MAP_REACH_FT, PIXELS)
    ahead, left = np.meshgrid(across, -across)
    rho, theta = np.hypot(ahead, left).ravel(), np.arctan2(left, ahead).ravel()
    states = np.stack([rho, theta, np.full_like(rho, MAP_PSI_RAD)], axis=1)
    by_table = table.at(states).argmax(axis=1)
    by_network = network(state_scaling(table.grid).normalise(states)).argmax(axis=1)
    gap = np.full((PIXELS, 8), len(COLOURS) - 1)
    return _png(np.hstack([by_table.reshape(PIXELS, PIXELS), gap, by_network.reshape(PIXELS, PIXELS)]))


def _png(indices: NDArray[np.integer]) -> bytes:
    """A PNG (ISO/IEC 15948) of indices (rows, columns) into `COLOURS`."""
    rows, columns = indices.shape
    scanlines = np.hstack([np.zeros((rows, 1)), indices]).astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    palette = bytes(value for colour in COLOURS for value in colour)
    chunks = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(scanlines, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
