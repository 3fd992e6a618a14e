"""The steps from nothing to a model, each kept in a file.

The files lie under `build/acas/`, in folders named by the hash of the sources and parameters that shape them: a step
whose file is there is done, an interrupted one goes on, and a changed recipe starts afresh.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.model import quantizer
from models.acas import mdp, quantize, samples, table, weights
from models.acas.mirror import MIRROR, mirrored
from models.acas.parameters import Parameters, recipe_sha256, table_sha256

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx

    from harness.model.float_network import Dense, Floats32
    from harness.model.quantizer import WeightKind
    from models.acas.mdp import Floats
    from models.acas.samples import Samples, Subject

BUILD = Path(__file__).resolve().parents[2] / "build" / "acas"
AXES = table.Axes()
CALIBRATION_POINTS = 200_000
FRESH_POINTS = 1_000_000

OnStep = Callable[[], object]


def table_folder() -> Path:
    """Where the table lies, whole or in part; the folder exists afterwards."""
    folder = BUILD / f"table-{table_sha256()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def solved_pairs() -> int:
    """How many pairs of speeds the table holds."""
    path = table_folder() / "solved.npy"
    return int(np.load(path).sum()) if path.exists() else 0


def is_whole() -> bool:
    """Whether the table is solved for every pair of speeds."""
    return solved_pairs() == len(AXES.pairs())


@functools.cache
def subject(previous: int) -> Subject:
    """The table after one previous advisory, as a memory map."""
    scores = np.load(table_folder() / "scores.npy", mmap_mode="r")
    return samples.Subject.of(table.ScoreTable(scores[previous], AXES))


@dataclass(frozen=True)
class Learner:
    """One network in training, from the whole table on.

    A method returns what its step made, and makes it first where it is missing.
    """

    parameters: Parameters

    @property
    def previous(self) -> str:
        """The name of the previous advisory."""
        return mdp.ADVISORIES[self.parameters.previous]

    def file(self, name: str) -> Path:
        """The file `name` of this network; its folder exists afterwards."""
        folder = BUILD / f"{self.previous.lower()}-{recipe_sha256(self.parameters)[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def float_layers(self, on_step: OnStep) -> tuple[Dense, ...]:
        """The float network; `on_step` is called after every batch of its training."""
        path = self.file("float.npz")
        if not path.exists():
            from models.acas import train  # PyTorch, which only the trainings need

            training = train.Training.of(subject(self.parameters.previous), self.parameters)
            checkpoint = train.Checkpoint(self.file("float.checkpoint"))
            weights.save(path, train.train_float(training, on_step, checkpoint))
        return weights.load(path)

    def equalized_layers(self) -> tuple[Dense, ...]:
        """The float network, its hidden neurons of more equal reach."""
        path = self.file("equalized.npz")
        if not path.exists():
            states = quantize.INPUT.rounded(self._calibration_states())
            weights.save(path, quantizer.equalize(self.float_layers(_ignore), [states]))
        return weights.load(path)

    def hidden_scales(self) -> Floats32:
        """The activation scales of the equalised network."""
        path = self.file("scales.npy")
        if not path.exists():
            np.save(path, quantize.hidden_scales(self.equalized_layers(), self._calibration_states()))
        return np.asarray(np.load(path))

    def _calibration_states(self) -> Floats:
        """States of both kinds, (n, 5)."""
        drawn = _draw(self.parameters, CALIBRATION_POINTS, self.parameters.seed)
        return np.concatenate([points.states for points in drawn])

    def tuned_layers(self, on_step: OnStep) -> tuple[Dense, ...]:
        """The equalised network, trained on with the rounding in the loop; `on_step` as for the float training."""
        path = self.file("tuned.npz")
        if not path.exists():
            from models.acas import train  # PyTorch, which only the trainings need

            training = train.Training.of(subject(self.parameters.previous), self.parameters)
            checkpoint = train.Checkpoint(self.file("tuned.checkpoint"))
            given = self.equalized_layers(), self.hidden_scales(), self.parameters.tuning_cycle
            weights.save(path, train.tune(training, *given, on_step, checkpoint))
        return weights.load(path)


@dataclass(frozen=True)
class Recipe:
    """One model, from its learner's network or from the mirror image of that."""

    parameters: Parameters

    @property
    def previous(self) -> str:
        """The name of the previous advisory."""
        return mdp.ADVISORIES[self.parameters.previous]

    @property
    def name(self) -> str:
        """The name of the model."""
        return f"acas_{self.previous.lower()}"

    @property
    def learner(self) -> Learner:
        """Of this advisory's network; for WR and SR of the one whose mirror image this is."""
        previous = self.parameters.previous
        return Learner(replace(self.parameters, previous=min(previous, MIRROR[previous])))

    def float_layers(self) -> tuple[Dense, ...]:
        """The float network."""
        return self._turned(self.learner.float_layers(_ignore))

    def equalized_layers(self) -> tuple[Dense, ...]:
        """The float network, its hidden neurons of more equal reach."""
        return self._turned(self.learner.equalized_layers())

    def tuned_layers(self) -> tuple[Dense, ...]:
        """The equalised network that has met its rounding."""
        return self._turned(self.learner.tuned_layers(_ignore))

    def _turned(self, layers: tuple[Dense, ...]) -> tuple[Dense, ...]:
        return layers if self.learner.parameters == self.parameters else mirrored(layers)

    def model(self, layers: Sequence[Dense], kind: WeightKind = "int8-per-column", order: int = 1) -> onnx.ModelProto:
        """The quantised form of `layers`, with the metadata of this recipe."""
        quantized = quantize.quantize(layers, self.learner.hidden_scales(), kind, order)
        metadata = {key: json.dumps(value) for key, value in self._metadata().items()}
        return quantizer.to_onnx(quantized, self.name, metadata, "state", "scores", quantize.SELECT)

    def fresh_samples(self) -> tuple[Samples, Samples]:
        """Points drawn from the table, and uniformly from the box; no training drew them."""
        return _draw(self.parameters, FRESH_POINTS, self.parameters.seed + 1)

    def _metadata(self) -> dict[str, object]:
        """What a user of the model needs beside its graph; keys as in models/README.md."""
        learned = subject(self.parameters.previous)
        axes, score = learned.table.axes, learned.score_scaling
        state = samples.state_scaling(axes)
        low, high = samples.box(axes)
        return {
            "description": (
                "Horizontal collision avoidance: scores of five advisories, of which the greatest is advised. "
                f"Previous advisory {self.previous}, both aircraft at the same altitude. "
                "state = (physical - input_mean) / input_range; table score = scores * score_range + score_mean."
            ),
            "input_names": samples.STATE_NAMES,
            "input_units": samples.STATE_UNITS,
            "input_mean": state.mean.tolist(),
            "input_range": state.range.tolist(),
            "input_box_low": state.normalise(low).tolist(),
            "input_box_high": state.normalise(high).tolist(),
            "output_names": mdp.ADVISORIES,
            "score_mean": float(score.mean),
            "score_range": float(score.range),
            "recipe_sha256": recipe_sha256(self.parameters),
        }


def _ignore() -> None:
    """What a step that is already made does after every batch: nothing."""


def _draw(parameters: Parameters, count: int, seed: int) -> tuple[Samples, Samples]:
    drawn_from = subject(parameters.previous)
    return drawn_from.grid_samples(count, seed), drawn_from.uniform_samples(count, seed)
