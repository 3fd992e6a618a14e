from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from models.acas import pictures
from models.acas.pictures import PIXELS, Encounter
from models.acas.table import ScoreTable
from tests.integration.models.conftest import SMALL

LEFT, RIGHT = 1, 2
ENCOUNTER = Encounter("test", np.pi / 2, 400, 300, 30_000)


def test_pixels_are_places_around_the_own_aircraft_which_flies_up() -> None:
    rho, theta, psi, own, intruder = (values.reshape(PIXELS, PIXELS) for values in ENCOUNTER.states().T)
    middle = PIXELS // 2
    assert rho[middle, middle] == 0
    assert (rho[0, middle], theta[0, middle]) == pytest.approx((30_000, 0))
    assert (rho[middle, 0], theta[middle, 0]) == pytest.approx((30_000, np.pi / 2))
    assert (rho[middle, -1], theta[middle, -1]) == pytest.approx((30_000, -np.pi / 2))
    assert {*psi.flat, *own.flat, *intruder.flat} == {np.pi / 2, 400.0, 300.0}


def test_a_picture_shows_what_table_and_networks_advise_and_where_they_differ(tmp_path: Path) -> None:
    always_left = ScoreTable(np.broadcast_to(np.eye(5)[LEFT][:, None, None, None], SMALL.shape), SMALL)

    def advises(advisory: int) -> pictures.Scores:
        return lambda states: np.tile(np.eye(5)[advisory], (len(states), 1))

    pictures.draw(tmp_path / "same.png", "same", always_left, {"network": advises(LEFT)})
    pictures.draw(tmp_path / "other.png", "other", always_left, {"network": advises(RIGHT)})
    same, other = (_share(tmp_path / f"{name}.png", pictures.DIFFERENT) for name in ("same", "other"))
    assert same < 0.001
    assert other > 0.2
    assert _share(tmp_path / "other.png", pictures.COLOURS[RIGHT]) > 0.2
    assert _share(tmp_path / "same.png", pictures.COLOURS[RIGHT]) < 0.01


def _share(path: Path, colour: str) -> float:
    """The share of the picture's pixels that have this colour."""
    expected = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return float((np.abs(image.imread(path)[..., :3] - expected).max(axis=-1) < 0.01).mean())
