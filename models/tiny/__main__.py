"""`python -m models.tiny [NAME ...]`: make the networks again."""

from __future__ import annotations

from pathlib import Path

import click
import onnx

from models.tiny.networks import NETWORKS

MODELS = Path(__file__).resolve().parents[1]


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(NETWORKS)))
@click.option("--output", type=click.Path(path_type=Path), default=MODELS, help="Folder for the models.")
def main(names: tuple[str, ...], output: Path) -> None:
    """Make all networks, or only those with these NAMES."""
    for name in names or NETWORKS:
        onnx.save(NETWORKS[name](), output / f"{name}.onnx")


if __name__ == "__main__":
    main()
