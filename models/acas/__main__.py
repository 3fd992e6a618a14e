"""`python -m models.acas [STEP]`: make `acas_coc.onnx` anew."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import onnx

from models.acas import dense, mdp, report, table
from models.acas.parameters import Parameters
from models.acas.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = Path(__file__).resolve().parents[1] / "acas_coc.onnx"


def _check_process() -> None:
    """Solve for all tau, and fail unless mean and range of the scores are the published ones."""
    slices = itertools.islice(table.solve(table.problem(mdp.Grid(), mdp.Speeds())), table.PUBLISHED_TAUS)
    mean, extent = table.mean_and_range(slices)
    published = f"published {table.PUBLISHED_MEAN:.6f} and {table.PUBLISHED_RANGE:.6f}"
    click.echo(f"scores for all tau: mean {mean:.6f}, range {extent:.6f}; {published}", err=True)
    if max(abs(mean - table.PUBLISHED_MEAN), abs(extent - table.PUBLISHED_RANGE)) > 1e-5:
        raise click.ClickException("the process is not the published one")


def _write_model(recipe: Recipe, output: Path) -> None:
    model = recipe.model(recipe.tuned_layers())
    onnx.checker.check_model(model)
    onnx.save(model, output)


def _write_report(recipe: Recipe, output: Path) -> None:
    """Print the figures as Markdown, and draw the picture beside the model."""
    float_layers = recipe.float_layers()
    untuned = recipe.model(float_layers).SerializeToString()
    networks: dict[str, report.Scores] = {
        "float": lambda states: dense.forward(float_layers, states.astype(np.float32)),
        "quantised, not tuned": lambda states: report.model_scores(untuned, states),
        f"`{output.name}`": lambda states: report.model_scores(output, states),
    }
    click.echo(report.markdown(networks, {"grid": recipe.grid_samples(), "uniform": recipe.fresh_samples()}))
    output.with_suffix(".png").write_bytes(report.advisory_map(recipe.table(), networks[f"`{output.name}`"]))


STEPS: dict[str, Callable[[Recipe, Path], object]] = {
    "check": lambda _recipe, _output: _check_process(),
    "table": lambda recipe, _output: recipe.table(),
    "train": lambda recipe, _output: recipe.float_layers(),
    "tune": lambda recipe, _output: recipe.tuned_layers(),
    "quantize": _write_model,
    "report": _write_report,
}


@click.command()
@click.argument("step", type=click.Choice(list(STEPS)), required=False)
@click.option("--hidden", default=Parameters.hidden, show_default=True, help="Neurons of a hidden layer.")
@click.option("--depth", default=Parameters.depth, show_default=True, help="Hidden layers.")
@click.option("--seed", default=Parameters.seed, show_default=True, help="Of weights, points and batches.")
@click.option("--float-steps", default=Parameters.float_steps, show_default=True, help="Batches of the first training.")
@click.option("--tuning-steps", default=Parameters.tuning_steps, show_default=True, help="Batches of the second.")
@click.option("--output", type=click.Path(path_type=Path), default=MODEL, help="The model; the picture goes beside it.")
def main(step: str | None, output: Path, **parameters: int) -> None:
    """Make the model; with STEP, only that step and what it needs."""
    recipe = Recipe(Parameters(**parameters))
    for name in [step] if step else list(STEPS):
        STEPS[name](recipe, output)


if __name__ == "__main__":
    main()
