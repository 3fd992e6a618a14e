"""`harness models load`: conversion of a description and its weights file back to the ONNX file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli._options import as_json, force, new_model, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError

if TYPE_CHECKING:
    from harness.model.text import Source


@click.command("load", epilog="Example: harness models load network.txt -o network")
@click.argument("file", type=click.Path(path_type=Path))
@new_model
@force
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, file: Path, output: str, force: bool) -> None:
    """Read back, byte for byte, the model that `show --text FILE` wrote."""
    load(file, space.new_model(output, force=force), Console.open(as_json=as_json))


def load(file: Path, output: Path, console: Console) -> None:
    """Read both files, check the model that they describe, and write it to `output`."""
    from harness import model as networks
    from harness.model import text as model_text
    from harness.model.text import Description, weights_path

    text, weights = _source(file), _source(weights_path(file))
    rebuilt = model_text.rebuild(text, weights)
    model = networks.parse(rebuilt.onnx_bytes, output.stem)
    if rebuilt.original and model_text.describe(replace(model, name=rebuilt.name)) != Description(
        text.text, weights.text
    ):
        console.note(f"comments or blanks in {text.file} were changed; they are not part of the model")
    write_whole(output, rebuilt.onnx_bytes)
    origin = "the bytes of the described file" if rebuilt.original else "a new model: the header has no sha256 of it"
    console.show(Text(f"wrote {output}: {origin}\nSHA-256 {model.sha256}"))
    console.document({"model": model.name, "file": str(output), "sha256": model.sha256, "original": rebuilt.original})


def _source(path: Path) -> Source:
    from harness.core.safe_io import read_input
    from harness.model.text import Source

    try:
        return Source(path.name, read_input(path).decode())
    except OSError as error:
        raise RequestError(
            f"{path}: {error.strerror}",
            "`harness models show NAME --text FILE` writes two files, FILE and its weights file: keep them together",
        ) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RequestError(f"{path.name}, line {line}: expected UTF-8 text", "restore both files") from error
