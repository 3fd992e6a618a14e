"""`python -m models.families [NAME ...]`: make the networks again."""

from __future__ import annotations

from pathlib import Path

import click
import onnx

from models.families.networks import NETWORKS

MODELS = Path(__file__).resolve().parents[1]


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(NETWORKS)))
@click.option("--output", type=click.Path(path_type=Path), default=MODELS, help="Folder for the models.")
def main(names: tuple[str, ...], output: Path) -> None:
    """Make the networks with these NAMES; all if there are none."""
    for name in names or NETWORKS:
        onnx.save(NETWORKS[name](), output / f"{name}.onnx")
        click.echo(f"{output / name}.onnx", err=True)


if __name__ == "__main__":
    main()
