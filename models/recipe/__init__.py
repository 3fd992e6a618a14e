"""The command line of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click
import onnx

MODELS = Path(__file__).resolve().parents[1]


def command_of(networks: Mapping[str, Callable[[], onnx.ModelProto]]) -> click.Command:
    """Return the command that makes networks by their names, and writes each to a file NAME.onnx."""

    @click.command()
    @click.argument("names", nargs=-1, type=click.Choice(list(networks)))
    @click.option("--output", type=click.Path(path_type=Path), default=MODELS, help="Folder for the models.")
    def main(names: tuple[str, ...], output: Path) -> None:
        """Make the networks with these NAMES; all if there are none."""
        for name in names or networks:
            onnx.save(networks[name](), output / f"{name}.onnx")
            click.echo(f"{output / name}.onnx", err=True)

    return main
