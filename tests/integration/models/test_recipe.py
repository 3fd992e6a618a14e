"""The recipe's own steps on a small table, but for the trainings: those need PyTorch (test_train.py)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.model import parse
from models.acas import mdp, recipe, report, weights
from models.acas.mirror import MIRROR, SIGNS
from models.acas.parameters import Parameters
from models.acas.recipe import Learner, Recipe
from tests.integration.models.conftest import SMALL
from tests.integration.models.test_quantize import random_layers


@pytest.fixture
def build(tmp_path: Path, small_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A build folder that has the small table."""
    monkeypatch.setattr(recipe, "BUILD", tmp_path)
    monkeypatch.setattr(recipe, "AXES", SMALL)
    monkeypatch.setattr(recipe, "CALIBRATION_POINTS", 1000)
    recipe.subject.cache_clear()
    shutil.copytree(small_folder, recipe.table_folder(), dirs_exist_ok=True)
    yield tmp_path
    recipe.subject.cache_clear()


@pytest.fixture
def recipes(build: Path, rng: np.random.Generator) -> list[Recipe]:
    """The five recipes, the networks of COC, WL and SL as if they had been trained."""
    for previous in (0, 1, 3):
        learner = Learner(Parameters(previous=previous))
        for name in ("float.npz", "tuned.npz"):
            weights.save(learner.file(name), random_layers(rng, (5, 16, 16, 5)))
        assert learner.file("float.npz").is_relative_to(build)
    return [Recipe(Parameters(previous=previous)) for previous in range(5)]


@pytest.mark.campaign
@pytest.mark.usefixtures("build")
def test_a_table_is_whole_when_every_pair_is_solved() -> None:
    assert recipe.is_whole()
    marks = np.load(recipe.table_folder() / "solved.npy")
    marks[1, 2] = False
    np.save(recipe.table_folder() / "solved.npy", marks)
    assert recipe.solved_pairs() == len(SMALL.pairs()) - 1
    assert not recipe.is_whole()
    shutil.rmtree(recipe.table_folder())
    assert recipe.solved_pairs() == 0


def test_three_networks_are_trained_for_five_models(recipes: list[Recipe]) -> None:
    assert [each.learner.previous for each in recipes] == ["COC", "WL", "WL", "SL", "SL"]
    assert [each.name for each in recipes] == ["acas_coc", "acas_wl", "acas_wr", "acas_sl", "acas_sr"]


def test_models_carry_what_their_users_need(recipes: list[Recipe]) -> None:
    for each in recipes:
        model = each.model(each.tuned_layers()).SerializeToString()
        loaded = parse(model, each.name)
        stated = {key: json.loads(value) for key, value in loaded.metadata.items()}
        assert stated["input_box_low"][0] == -0.5
        assert stated["output_names"] == list(mdp.ADVISORIES)
        assert f"Previous advisory {each.previous}," in stated["description"]
        learned = recipe.subject(each.parameters.previous)
        assert (stated["score_mean"], stated["score_range"]) == (
            pytest.approx(learned.table.scores.mean(), abs=1e-6),
            pytest.approx(np.ptp(learned.table.scores)),
        )
    hashes = {
        json.loads(parse(each.model(each.tuned_layers()).SerializeToString(), "n").metadata["recipe_sha256"])
        for each in recipes
    }
    assert len(hashes) == 5


def test_the_models_of_wr_and_sr_are_images(recipes: list[Recipe], rng: np.random.Generator) -> None:
    states = rng.uniform(-0.5, 0.5, size=(300, 5)).astype(np.float32)

    def scores(each: Recipe, of: np.ndarray) -> np.ndarray:
        return report.model_scores(each.model(each.tuned_layers()).SerializeToString())(of)

    for original, image in ((1, 2), (3, 4)):
        expected = scores(recipes[original], states)[:, MIRROR]
        assert np.array_equal(scores(recipes[image], states * SIGNS), expected)


def test_fresh_samples_are_of_the_models_own_table(recipes: list[Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "FRESH_POINTS", 200)
    for each in recipes:
        on_grid, uniform = each.fresh_samples()
        assert on_grid.states.shape == uniform.states.shape == (200, 5)
        scaling = recipe.subject(each.parameters.previous).score_scaling
        assert on_grid.scores.max() <= (0 - scaling.mean) / scaling.range
