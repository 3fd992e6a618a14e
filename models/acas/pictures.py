"""The advisories around the own aircraft, as the collision-avoidance literature draws them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from models.acas.mdp import ADVISORIES
from models.acas.samples import state_scaling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes as Panel
    from numpy.typing import NDArray

    from models.acas.mdp import Floats
    from models.acas.report import Scores
    from models.acas.table import ScoreTable

PIXELS = 301
RING_FT = 10_000
COLOURS = ("#eeeeee", "#9ecae1", "#fdbe85", "#2171b5", "#d94701")
"""Of COC, WL, WR, SL, SR."""
DIFFERENT = "#7b1fa2"


@dataclass(frozen=True)
class Encounter:
    """What stays fixed in a picture: the intruder's heading and both speeds; `reach_ft` is half its side."""

    title: str
    psi_rad: float
    own_ft_s: float
    intruder_ft_s: float
    reach_ft: float

    def states(self) -> Floats:
        """A state for every pixel, row by row: (PIXELS**2, 5); the own aircraft is at the centre and flies up."""
        across = np.linspace(-self.reach_ft, self.reach_ft, PIXELS)
        right, ahead = np.meshgrid(across, -across)
        fixed = (self.psi_rad, self.own_ft_s, self.intruder_ft_s)
        position = np.hypot(ahead, right), np.arctan2(-right, ahead)
        return np.stack([np.ravel(values) for values in (*position, *(np.full_like(ahead, v) for v in fixed))], axis=1)


ENCOUNTERS = (
    Encounter("crossing from the right to the left, both at 600 ft/s", math.pi / 2, 600, 600, 45_000),
    Encounter("head on, own 900 ft/s, intruder 500 ft/s", math.pi, 900, 500, 60_000),
)


def draw(path: Path, title: str, table: ScoreTable, networks: Mapping[str, Scores]) -> None:
    """Draw the advisories of table and networks and, in the last column, where the last network differs."""
    mpl.rcParams["svg.hashsalt"] = title
    figure = Figure(figsize=(3.1 * (len(networks) + 2), 7.2), layout="constrained")
    panels = figure.subplots(len(ENCOUNTERS), len(networks) + 2, squeeze=False)
    for row, encounter in zip(panels, ENCOUNTERS, strict=True):
        states = encounter.states()
        normalised = state_scaling(table.axes).normalise(states)
        advised = {"table": table.at(states).argmax(axis=1)}
        advised |= {name: network(normalised).argmax(axis=1) for name, network in networks.items()}
        for panel, (name, advisories) in zip(row, advised.items(), strict=False):
            _advisories(panel, encounter, advisories)
            panel.set_title(name, fontsize=10)
        _difference(row[-1], encounter, advised["table"], *list(advised.items())[-1])
        row[0].set_ylabel(encounter.title, fontsize=9)
    figure.suptitle(title)
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in zip(ADVISORIES, COLOURS, strict=True)],
        loc="outside lower center",
        ncols=len(ADVISORIES),
        frameon=False,
    )
    figure.savefig(path, dpi=90, metadata={"Software": None})


def _advisories(panel: Panel, encounter: Encounter, advisories: NDArray[np.integer]) -> None:
    _pixels(panel, encounter, advisories, ListedColormap(COLOURS))


def _difference(
    panel: Panel, encounter: Encounter, expected: NDArray[np.integer], name: str, found: NDArray[np.integer]
) -> None:
    different = expected != found
    _pixels(panel, encounter, different, ListedColormap(["#ffffff", DIFFERENT]))
    panel.set_title(f"{name} differs ({different.mean():.1%})", fontsize=10)


def _pixels(panel: Panel, encounter: Encounter, values: NDArray[np.generic], colours: ListedColormap) -> None:
    """The values as an image, with rings of equal distance and the own aircraft."""
    reach = encounter.reach_ft
    image = values.reshape(PIXELS, PIXELS)
    panel.imshow(image, cmap=colours, vmin=0, vmax=colours.N - 1, extent=(-reach, reach, -reach, reach))
    angles = np.linspace(0, 2 * math.pi, 200)
    for ring_ft in range(RING_FT, round(reach) + 1, RING_FT):
        panel.plot(ring_ft * np.cos(angles), ring_ft * np.sin(angles), color="black", linewidth=0.3)
        panel.annotate(f"{ring_ft // 1000} kft", (0, -ring_ft), fontsize=6, ha="center", va="bottom")
    panel.plot(0, 0, marker="^", color="black", markersize=5)
    panel.set(xticks=[], yticks=[], xlim=(-reach, reach), ylim=(-reach, reach))
