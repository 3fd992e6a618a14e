"""`python -m models.acas [STEP]`: make the five models anew."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import onnx

from harness.model import float_network
from models.acas import advisories, mdp, report, table, workers
from models.acas.parameters import Parameters
from models.acas.recipe import AXES, Learner, Recipe, is_whole, solved_pairs, subject, table_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.quantizer import WeightKind
    from models.acas.report import Scores

MODELS = Path(__file__).resolve().parents[1]
BEFORE_THE_TABLE = ("check", "table")

COMPARISON = (
    *("previous advisory", "R2, float", "paper", "R2, quantised", "paper"),
    *("advisory, float", "paper", "advisory, quantised", "paper"),
)
DETAILS = (
    "network",
    *(
        f"{title}, {where}"
        for where in ("table", "uniform")
        for title in ("advisory", "where COC", "where alert", "R2")
    ),
)
ROUNDED: dict[str, tuple[WeightKind, int, bool]] = {
    "uint8 by tensor": ("uint8", 1, False),
    "int8 by tensor": ("int8", 1, False),
    "int8 by column": ("int8-per-column", 1, False),
    "int8 by column, equalised": ("int8-per-column", 1, True),
    "residual order 2": ("int8-per-column", 2, False),
    "residual order 2, equalised": ("int8-per-column", 2, True),
}
"""Forms of the float network that are only rounded, not tuned: weights, order, and whether it is equalised first."""

Recipes = list[Recipe]


def _check_process(_recipes: Recipes, _output: Path) -> None:
    """Solve for all tau, and fail unless mean and range of the scores are the published ones."""
    slices = itertools.islice(table.solve(table.problem(mdp.Grid(), mdp.Speeds())), table.PUBLISHED_TAUS)
    mean, extent = table.mean_and_range(workers.shown("check", slices, table.PUBLISHED_TAUS))
    published = f"published {table.PUBLISHED_MEAN:.6f} and {table.PUBLISHED_RANGE:.6f}"
    click.echo(f"scores for all tau: mean {mean:.6f}, range {extent:.6f}; {published}", err=True)
    if max(abs(mean - table.PUBLISHED_MEAN), abs(extent - table.PUBLISHED_RANGE)) > 1e-5:
        raise click.ClickException("the process is not the published one")


def _make_table(_recipes: Recipes, _output: Path) -> None:
    solving = table.solve_all(AXES, table_folder())
    for _ in workers.shown("table", solving, len(AXES.pairs()), done=solved_pairs()):
        pass


def _write_advisories(recipes: Recipes, output: Path) -> None:
    """Write the table's advisories after each previous advisory, and the property of `harness decide`."""
    scores = np.load(table_folder() / "scores.npy", mmap_mode="r")
    for recipe in workers.shown("advisories", recipes, len(recipes)):
        advisories.write(output, recipe.previous, AXES, scores[recipe.parameters.previous])


def _train(recipes: Recipes, _output: Path) -> None:
    jobs = {recipe.learner.previous: (recipe.learner, recipe.parameters.float_steps) for recipe in recipes}
    workers.run(Learner.float_layers, "training", jobs)


def _tune(recipes: Recipes, _output: Path) -> None:
    jobs = {recipe.learner.previous: (recipe.learner, recipe.parameters.tuning_steps) for recipe in recipes}
    workers.run(Learner.tuned_layers, "tuning", jobs)


def _write_models(recipes: Recipes, output: Path) -> None:
    for recipe in recipes:
        model = recipe.model(recipe.tuned_layers())
        onnx.checker.check_model(model)
        onnx.save(model, output / f"{recipe.name}.onnx")


def _report(recipes: Recipes, output: Path) -> None:
    """Print the figures as Markdown, and draw the pictures beside the models."""
    from models.acas import pictures  # matplotlib, which only the pictures need

    beside_the_paper, details = [], []
    for recipe in workers.shown("report", recipes, len(recipes)):
        networks = _networks(recipe, output)
        points = recipe.fresh_samples()
        measured = {name: [report.figures(network, where) for where in points] for name, network in networks.items()}
        beside_the_paper.append(report.comparison(recipe.previous, measured["float"][0], measured[recipe.name][0]))
        details += [report.breakdown(f"{recipe.previous}, {name}", shown) for name, shown in measured.items()]
        drawn = {name: networks[name] for name in ("float", recipe.name)}
        pictures.draw(output / f"{recipe.name}.png", recipe.name, subject(recipe.parameters.previous).table, drawn)
    click.echo(report.markdown(COMPARISON, beside_the_paper) + "\n\n" + report.markdown(DETAILS, details))


def _networks(recipe: Recipe, output: Path) -> dict[str, Scores]:
    """The networks to judge: the float one, its quantised forms, and the model as it lies in its file."""
    layers = recipe.float_layers()
    rounded = {name: report.model_scores(_bytes(recipe, *how)) for name, how in ROUNDED.items()}
    floats: Scores = lambda states: float_network.forward(layers, states.astype(np.float32))  # noqa: E731
    return {"float": floats, **rounded, recipe.name: report.model_scores(output / f"{recipe.name}.onnx")}


def _bytes(recipe: Recipe, kind: WeightKind, order: int, equalized: bool) -> bytes:
    layers = recipe.equalized_layers() if equalized else recipe.float_layers()
    return recipe.model(layers, kind, order).SerializeToString()


STEPS: dict[str, Callable[[Recipes, Path], object]] = {
    "check": _check_process,
    "table": _make_table,
    "advisories": _write_advisories,
    "train": _train,
    "tune": _tune,
    "quantize": _write_models,
    "report": _report,
}


@click.command()
@click.argument("step", type=click.Choice(list(STEPS)), required=False)
@click.option(
    "--previous", type=click.Choice(mdp.ADVISORIES, case_sensitive=False), help="Only this network, not all five."
)
@click.option("--hidden", default=Parameters.hidden, show_default=True, help="Neurons of a hidden layer.")
@click.option("--depth", default=Parameters.depth, show_default=True, help="Hidden layers.")
@click.option("--seed", default=Parameters.seed, show_default=True, help="Of weights, points and batches.")
@click.option("--float-steps", default=Parameters.float_steps, show_default=True, help="Batches of the first training.")
@click.option("--tuning-steps", default=Parameters.tuning_steps, show_default=True, help="Batches of the second.")
@click.option("--output", type=click.Path(path_type=Path), default=MODELS, help="Folder for models and pictures.")
def main(step: str | None, previous: str | None, output: Path, **parameters: int) -> None:
    """Make the five models; with STEP, only that step and what it needs of its own network.

    Every step is kept in build/acas; one that is done is not done again, and the table goes on where it stopped.
    """
    chosen = [previous] if previous else mdp.ADVISORIES
    recipes = [Recipe(Parameters(previous=mdp.ADVISORIES.index(name), **parameters)) for name in chosen]
    for name in [step] if step else list(STEPS):
        if name not in BEFORE_THE_TABLE and not is_whole():
            raise click.ClickException("the table is not whole yet; run: python -m models.acas table")
        STEPS[name](recipes, output)


if __name__ == "__main__":
    main()
