"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, nothing else there.")


class Words(click.ParamType[tuple[str, ...]]):
    """Words with commas between them."""

    name = "words"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> tuple[str, ...]:
        """Convert text to words; an empty text has none."""
        return tuple(value.split(",") if value else ()) if isinstance(value, str) else value


class Duration(click.ParamType[float]):
    """Seconds, from a number with its unit."""

    name = "time"
    units_s: ClassVar = {"s": 1, "m": 60, "h": 3600}

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        """Convert text to seconds, more than zero."""
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh])", str(value))
        if not match or not float(match[1]):
            self.fail(f"{value!r} is no time: write 90s, 15m or 8h", param, context)
        return float(match[1]) * self.units_s[match[2]]


def planned(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the options that choose a plan."""
    options = (
        click.option("--block", type=click.IntRange(1, 1_000_000), help="Vectors between two hand-overs of items."),
        click.option("--sync", type=click.Choice(["barrier", "flag"]), help="How items hand over."),
        click.option("--split", type=Words(), help="How layers are distributed, e.g. dense_2=network,pipeline."),
        click.option("--items", type=Words(), help="One target for each item of the board, e.g. c,c."),
        click.option("--model", help="A name under models/ or the path of an ONNX file."),
        click.option("--board", help="A board of boards.yaml."),
    )
    for option in options:
        command = option(command)
    return command


seed = click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the generated vectors.")
traced = click.option(
    "--trace",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Executions traced and replayed on the plan's Petri net, most of them under delays; 0: none.",
)
run_folder = click.option(
    "--run-folder", metavar="FOLDER", help="Where the evidence goes; else runs/<time>_<board>_<model>."
)
precise = click.option(
    "--x64-quant-precision/--no-x64-quant-precision",
    default=True,
    show_default=True,
    help="Set session.x64quantprecision in the reference.",
)

new_model = click.option("-o", "--output", required=True, help="Its name under models/, or a path ending in .onnx.")
force = click.option("--force", is_flag=True, help="Replace the model that is there.")


def require_alone(option: str, *others: object) -> None:
    """Raise UsageError if other options are given together with the folder of a plan, which states them all."""
    if any(other is not None for other in others):
        raise click.UsageError(
            f"{option} names a plan, which says board, model, items, split, sync and block: leave the others out"
        )
