"""`harness models convert`: a network as a file of another engine."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import as_json, force, pass_workspace, seed
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.analysis.conversion import ConversionCheck, LayerCheck
    from harness.model.network import Network
    from harness.targets.litert.convert import Converted


@click.command("convert", epilog="Example: harness models convert lenet5_int8 --to tflite")
@click.argument("model", shell_complete=_completion.models)
@click.option("--to", type=click.Choice(["tflite"]), required=True, help="Format of the file.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write; default: MODEL.tflite in this folder."
)
@click.option("--vectors", type=click.IntRange(1), default=100, show_default=True, help="Number of compared vectors.")
@seed
@force
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    model: str,
    to: str,  # noqa: ARG001 - there is one format
    output: Path | None,
    vectors: int,
    seed: int,
    force: bool,
) -> None:
    """Write MODEL as a TFLite file, run it with LiteRT, and compare every layer with the specification.

    Codes keep every bit.  Float32 sums have another order: their values must lie within the bound of each layer.  A
    node that TFLite cannot compute so is refused.  Exit code 1: a layer differs on this machine; no file is written.
    """
    from harness.analysis import conversion
    from harness.model.tflite.file import encode
    from harness.targets.litert.convert import convert_network

    network, console = space.model(model), Console.open(as_json=as_json)
    path = output or Path(f"{network.name}.tflite")
    _require_free(path, force=force)
    file = convert_network(network, conversion.outputs_of(network), _metadata(network))
    content = encode(file.file)
    with console.progress("LiteRT", vectors) as bar:
        found = conversion.check(network, file, vectors, seed, bar.advance)
    if found.holds:
        write_whole(path, content)
    console.show(_table(path, found), Text(_sentence(found, seed)), Text(_files(path, file, content, found)))
    console.document(_document(network, path, file, content, found, seed))
    if not found.holds:
        raise click.exceptions.Exit(EXIT_DIFFERS)


def _require_free(path: Path, *, force: bool) -> None:
    if not path.absolute().parent.is_dir():
        raise RequestError(f"there is no folder {path.absolute().parent}", "make it, or give another path")
    if path.exists() and not force:
        raise RequestError(f"{path} exists", "give another name with -o, or --force to replace it")


def _metadata(network: Network) -> dict[str, bytes]:
    return {"harness_source_sha256": network.sha256.encode()}


def _table(path: Path, found: ConversionCheck) -> Table:
    table = Table(title=str(path), title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("layer", "operator", "in TFLite", "claim"):
        table.add_column(heading)
    for heading in ("compared", "differing", "by at most", "of its bound"):
        table.add_column(heading, justify="right")
    for each in found.layers:
        differs = (f"{each.largest_difference:.3g}", f"{each.ratio:.2g}" if each.claim == "bounded" else "-")
        table.add_row(
            each.layer.name,
            each.layer.operator,
            _counted(each.operators),
            each.claim,
            f"{each.compared:,}",
            f"{each.differing:,}",
            *(differs if each.differing else ("-", "-")),
        )
    return table


def _counted(names: tuple[str, ...]) -> str:
    """Return the names in their order, the number of repeated ones before them."""
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in Counter(names).items())


def _sentence(found: ConversionCheck, seed: int) -> str:
    where = f"{found.vectors:,} vectors of seed {seed}"
    wrong = [each.layer.name for each in found.layers if not each.holds]
    if wrong:
        return (
            f"differs: LiteRT on this machine computes other values in {', '.join(wrong)} ({where}); nothing is written"
        )
    if not found.outputs_alike:
        return f"differs: the file without the outputs of layers gives other outputs ({where}); nothing is written"
    bounded = sum(each.claim == "bounded" for each in found.layers)
    exact = f"{len(found.layers) - bounded} of {len(found.layers)} layers have the specification's bits"
    rest = f", {bounded} lie within their bounds, for the inputs that LiteRT computed" if bounded else ""
    return f"{exact}{rest}: {where}, on this machine"


def _files(path: Path, file: Converted, content: bytes, found: ConversionCheck) -> str:
    own = f"; LiteRT's own kernels run {_counted(found.own)}" if found.own else ""
    images = [name for name, value in (*file.inputs.items(), *file.layers.items()) if value.image]
    order = "; images have the channels last" if images else ""
    if not found.holds:
        return f"XNNPACK runs {found.operators - len(found.own)} of {found.operators} operators{own}"
    return (
        f"wrote {path}: {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}\n"
        f"XNNPACK runs {found.operators - len(found.own)} of {found.operators} operators{own}{order}"
    )


def _document(
    network: Network, path: Path, file: Converted, content: bytes, found: ConversionCheck, seed: int
) -> dict[str, Any]:
    written = {"file": str(path), "sha256": hashlib.sha256(content).hexdigest()} if found.holds else {}
    return {
        "model": network.name,
        "source_sha256": network.sha256,
        "format": "tflite",
        **written,
        "bytes": len(content),
        "vectors": found.vectors,
        "seed": seed,
        "holds": found.holds,
        "outputs_alike": found.outputs_alike,
        "operators": found.operators,
        "not_delegated": list(found.own),
        "layers": [_row(each, file) for each in found.layers],
    }


def _row(each: LayerCheck, file: Converted) -> dict[str, Any]:
    value = file.layers[each.layer.name]
    return {
        "name": each.layer.name,
        "operator": each.layer.operator,
        "tflite": list(each.operators),
        "shape": list(value.shape),
        "channels_last": value.image is not None,
        "claim": each.claim.value,
        "compared": each.compared,
        "differing": each.differing,
        "largest_difference": each.largest_difference,
        "share_of_bound": each.ratio,
    }
