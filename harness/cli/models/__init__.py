"""`harness models ...`: networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json
from harness.core.console import Console


@click.group()
def models() -> None:
    """Bring networks in, quantise them, show them as text."""


_new_model = click.option("-o", "--output", required=True, help="Its name under models/, or a path ending in .onnx.")
_force = click.option("--force", is_flag=True, help="Replace the model that is there.")


@models.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@_new_model
@_force
@as_json
@click.pass_obj
def models_import(space: Workspace, /, as_json: bool, file: Path, output: str, force: bool) -> None:
    """Bring in a dense network, float or quantised, from .onnx or .nnet.

    Its value is kept: the result is checked against the file's own arithmetic, or refused with the node and the reason.
    """
    from harness.cli.models import import_flow as command

    command.bring_in(file, space.new_model(output, force=force), Console.open(as_json=as_json))


@models.command("quantize")
@click.argument("name")
@_new_model
@click.option(
    "--weights",
    type=click.Choice(["int8-per-column", "int8", "uint8"]),
    default="int8-per-column",
    show_default=True,
    help="Type of the weights, and whether a scale serves a column or the tensor.",
)
@click.option(
    "--ranges",
    type=click.Choice(["calibration", "bounds"]),
    default="calibration",
    show_default=True,
    help="Activation ranges: met by vectors drawn from the box, or bounds that hold on all of it.",
)
@click.option("--vectors", type=click.IntRange(1), default=100_000, show_default=True, help="Drawn for calibration.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the drawn vectors.")
@click.option("--equalize", is_flag=True, help="Bring hidden neurons to more equal reach; best with --residual 2.")
@click.option(
    "--residual", type=click.IntRange(1, 8), default=1, show_default=True, help="Order of the weights' expansion."
)
@click.option(
    "--scores",
    type=click.Choice(["float32", "uint8"]),
    default="float32",
    show_default=True,
    help="Type of the last layer's output; uint8 scores tie.",
)
@click.option("--select", type=click.Choice(["none", "argmax", "argmin"]), default="none", help="Add a last layer.")
@click.option("--box", help="LOW:HIGH of every input, or one pair for each, with commas; else the file's.")
@_force
@as_json
@click.pass_obj
def models_quantize(
    space: Workspace, /, as_json: bool, name: str, output: str, force: bool, box: str | None, **asked: Any
) -> None:
    """Quantise a float dense network without data, from its weights and its input box alone.

    NAME is a name under models/, or the path of an .onnx or .nnet file.
    """
    from harness.cli.models import quantize_flow as command

    file = space.model_file(name, (".onnx", ".nnet"))
    command.quantize(file, space.new_model(output, force=force), box, asked, Console.open(as_json=as_json))


@models.command("show")
@click.argument("name")
@click.option("--text", type=click.Path(path_type=Path), help="Write the whole model as text to this file.")
@as_json
@click.pass_obj
def models_show(space: Workspace, /, as_json: bool, name: str, text: Path | None) -> None:
    """Show a model as text, one line an operator; NAME is a name under models/ or a path."""
    from harness.cli.models import show_flow as command

    command.show(name, text, space, Console.open(as_json=as_json))


@models.command("load")
@click.argument("file", type=click.Path(path_type=Path))
@_new_model
@_force
@as_json
@click.pass_obj
def models_load(space: Workspace, /, as_json: bool, file: Path, output: str, force: bool) -> None:
    """Read back, byte for byte, the model that `show --text FILE` wrote."""
    from harness.cli.models import load_flow as command

    command.load(file, space.new_model(output, force=force), Console.open(as_json=as_json))


@models.command("list")
@as_json
@click.pass_obj
def models_list(space: Workspace, /, as_json: bool) -> None:
    """List the models: layers, parameters, provenance, hash."""
    from harness.cli.models import list_flow as command

    command.list_models(space, Console.open(as_json=as_json))
