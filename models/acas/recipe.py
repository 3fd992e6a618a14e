"""The steps from nothing to a model, each kept in a file.

The files lie in `build/acas/<recipe>/`, named by the hash of the sources and parameters: a step whose file is there is
done, and a changed recipe starts afresh.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from models.acas import dense, mdp, quantize, samples, table
from models.acas.parameters import Parameters, recipe_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import onnx

    from models.acas.dense import Dense, Floats32
    from models.acas.samples import Samples
    from models.acas.table import ScoreTable

BUILD = Path(__file__).resolve().parents[2] / "build" / "acas"
FRESH_POINTS = 100_000

CONSOLE = Console(stderr=True)


@dataclass(frozen=True)
class Recipe:
    """One network in the making.  A method returns what its step made, and makes it first where it is missing."""

    parameters: Parameters

    def file(self, name: str) -> Path:
        """The file `name` of this recipe; its folder exists afterwards."""
        folder = BUILD / recipe_sha256(self.parameters)[:12]
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def table(self) -> ScoreTable:
        """The score table, by value iteration."""
        path = self.file("table.npy")
        if not path.exists():
            with CONSOLE.status("value iteration"):
                np.save(path, table.solve_one(self.parameters.previous, self.parameters.tau_s).scores)
        return table.ScoreTable(np.load(path))

    def float_layers(self) -> tuple[Dense, ...]:
        """The float network."""
        path = self.file("float.npz")
        if not path.exists():
            from models.acas import train  # PyTorch, which only the trainings need

            training = train.Training.of(self.table(), self.parameters)
            with _progress("training", self.parameters.float_steps) as on_step:
                dense.save(path, train.train_float(training, on_step))
        return dense.load(path)

    def hidden_scales(self) -> Floats32:
        """The activation scales, calibrated on the float network with the points that it was trained on."""
        path = self.file("scales.npy")
        if not path.exists():
            uniform = samples.uniform_samples(self.table(), self.parameters.uniform_points, self.parameters.seed)
            states = np.concatenate([self.grid_samples().states, uniform.states])
            np.save(path, quantize.activation_scales(self.float_layers(), states))
        return np.asarray(np.load(path))

    def tuned_layers(self) -> tuple[Dense, ...]:
        """The float network, trained on with the rounding in the loop."""
        path = self.file("tuned.npz")
        if not path.exists():
            from models.acas import train  # PyTorch, which only the trainings need

            training = train.Training.of(self.table(), self.parameters)
            with _progress("tuning", self.parameters.tuning_steps) as on_step:
                dense.save(path, train.tune(training, self.float_layers(), self.hidden_scales(), on_step))
        return dense.load(path)

    def model(self, layers: Sequence[Dense]) -> onnx.ModelProto:
        """The quantised form of `layers`, with the metadata of this recipe."""
        quantized = quantize.quantize(layers, self.hidden_scales())
        metadata = {key: json.dumps(value) for key, value in self._metadata().items()}
        return quantize.to_onnx(quantized, f"acas_{self._previous_name.lower()}", metadata)

    def grid_samples(self) -> Samples:
        """The grid points of the table."""
        return samples.grid_samples(self.table())

    def fresh_samples(self) -> Samples:
        """Points drawn uniformly from the box that no training saw."""
        return samples.uniform_samples(self.table(), FRESH_POINTS, self.parameters.seed + 1)

    @property
    def _previous_name(self) -> str:
        return mdp.ADVISORIES[self.parameters.previous]

    def _metadata(self) -> dict[str, object]:
        """What a user of the model needs beside its graph; keys as in models/README.md."""
        scores = self.table()
        state, score = samples.state_scaling(scores.grid), samples.score_scaling(scores)
        low, high = samples.box(scores.grid)
        speeds = mdp.Speeds()
        return {
            "description": (
                "Horizontal collision avoidance: scores of five advisories, of which the greatest is advised. "
                f"Previous advisory {self._previous_name}, tau {self.parameters.tau_s} s, "
                f"own speed {speeds.own_ft_s:g} ft/s, intruder speed {speeds.intruder_ft_s:g} ft/s. "
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


@contextmanager
def _progress(label: str, steps: int) -> Iterator[Callable[[], None]]:
    """A progress bar of `steps`; yields what advances it by one."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=CONSOLE) as bar:
        task = bar.add_task(label, total=steps)
        yield lambda: bar.advance(task)
