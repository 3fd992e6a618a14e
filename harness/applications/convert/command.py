"""`harness models convert`: a network as a file of another engine."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import as_json, force, pass_workspace, seed
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, RequestError
from harness.core.table import Table
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.applications.convert.check import ConversionCheck, LayerCheck
    from harness.model.network import Network

TFLITE, STANDARD = "tflite", "onnx-standard"


@dataclass(frozen=True)
class _Result:
    """The file and its check; `notes` and `of_layer` are what only this format says of the file and of a layer."""

    content: bytes
    check: ConversionCheck
    engine: str
    heading: str
    notes: str
    of_layer: Callable[[LayerCheck], dict[str, Any]]


@click.command("convert", epilog="Example: harness models convert lenet5_int8 --to tflite")
@click.argument("model", shell_complete=_completion.models)
@click.option(
    "--to",
    type=click.Choice([TFLITE, STANDARD]),
    required=True,
    help="Format of the file: TFLite, or ONNX with operators of ONNX's own domain.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write; default: MODEL.tflite or MODEL_standard.onnx in this folder.",
)
@click.option("--vectors", type=click.IntRange(1), default=100, show_default=True, help="Number of compared vectors.")
@seed
@force
@as_json
@pass_workspace
def command(
    space: Workspace, /, as_json: bool, model: str, to: str, output: Path | None, vectors: int, seed: int, force: bool
) -> None:
    """Write MODEL as a file for other engines, run it, and compare every layer with the specification.

    LiteRT runs a TFLite file, ONNX Runtime one of standard operators.  Codes keep every bit.  Float32 sums can have
    another order: their values must lie within the bound of each layer.  A node that the format cannot compute so is
    refused.  Exit code 1: a layer differs on this machine; no file is written.
    """
    network, console = space.model(model), Console.open(as_json=as_json)
    path = output or Path(f"{network.name}.tflite" if to == TFLITE else f"{network.name}_standard.onnx")
    _require_free(path, force=force)
    found = (_as_tflite if to == TFLITE else _as_standard)(network, vectors, seed, console)
    if found.check.holds:
        write_whole(path, found.content)
    console.show(_table(path, found), Text(_sentence(found, seed)), Text(_files(path, found)))
    console.document(_document(network, path, to, found, seed))
    if not found.check.holds:
        raise click.exceptions.Exit(EXIT_DIFFERS)


def _as_tflite(network: Network, vectors: int, seed: int, console: Console) -> _Result:
    from harness.applications.convert import check
    from harness.model.tflite.file import encode
    from harness.targets.litert.convert import convert_network

    file = convert_network(network, check.outputs_of(network), _metadata(network))
    with console.progress("LiteRT", vectors) as bar:
        found = check.check(network, file, vectors, seed, bar.advance)
    own = f"; LiteRT's own kernels run {_counted(found.own)}" if found.own else ""
    images = [name for name, value in (*file.inputs.items(), *file.layers.items()) if value.image]
    order = "; images have the channels last" if images and found.holds else ""
    notes = f"XNNPACK runs {found.operators - len(found.own)} of {found.operators} operators{own}{order}"

    def of_layer(each: LayerCheck) -> dict[str, Any]:
        value = file.layers[each.layer.name]
        return {"tflite": list(each.operators), "shape": list(value.shape), "channels_last": value.image is not None}

    return _Result(encode(file.file), found, "LiteRT", "in TFLite", notes, of_layer)


def _as_standard(network: Network, vectors: int, seed: int, console: Console) -> _Result:
    from harness.applications.convert import check
    from harness.model.standard import standard_form

    model = standard_form(network)
    with console.progress("ONNX Runtime", vectors) as bar:
        conversion_check = check.check_standard(network, model, vectors, seed, bar.advance)
    nodes = plural(conversion_check.operators, "node")
    notes = f"{nodes} of ONNX's own domain; the activations have the names of {network.name}"
    shapes = {layer.name: list(layer.output.shape) for layer in network.layers}
    return _Result(
        model.SerializeToString(),
        conversion_check,
        "ONNX Runtime",
        "in standard ONNX",
        notes,
        lambda each: {"operators": list(each.operators), "shape": shapes[each.layer.name]},
    )


def _require_free(path: Path, *, force: bool) -> None:
    if not path.absolute().parent.is_dir():
        raise RequestError(f"there is no folder {path.absolute().parent}", "make it, or give another path")
    if path.exists() and not force:
        raise RequestError(f"{path} exists", "give another name with -o, or --force to replace it")


def _metadata(network: Network) -> dict[str, bytes]:
    return {"harness_source_sha256": network.sha256.encode()}


def _table(path: Path, result: _Result) -> Table:
    numbers = ("compared", "differing", "by at most", "of its bound")
    table = Table("layer", "operator", result.heading, "claim", *numbers, right=numbers, title=str(path))
    for each in result.check.layers:
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


def _sentence(result: _Result, seed: int) -> str:
    found, engine = result.check, result.engine
    where = f"{found.vectors:,} vectors of seed {seed}"
    wrong = [each.layer.name for each in found.layers if not each.holds]
    if wrong:
        return (
            f"differs: {engine} on this machine computes other values in {', '.join(wrong)} ({where}); "
            "nothing is written"
        )
    if not found.outputs_alike:
        return f"differs: the file without the outputs of layers gives other outputs ({where}); nothing is written"
    bounded = sum(each.claim == "bounded" for each in found.layers)
    exact = f"{len(found.layers) - bounded} of {len(found.layers)} layers have the specification's bits"
    rest = f", {bounded} lie within their bounds, for the inputs that {engine} computed" if bounded else ""
    return f"{exact}{rest}: {where}, on this machine"


def _files(path: Path, result: _Result) -> str:
    if not result.check.holds:
        return result.notes
    content = result.content
    return f"wrote {path}: {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}\n{result.notes}"


def _document(network: Network, path: Path, to: str, result: _Result, seed: int) -> dict[str, Any]:
    found, content = result.check, result.content
    written = {"file": str(path), "sha256": hashlib.sha256(content).hexdigest()} if found.holds else {}
    return {
        "model": network.name,
        "source_sha256": network.sha256,
        "format": to,
        **written,
        "bytes": len(content),
        "vectors": found.vectors,
        "seed": seed,
        "holds": found.holds,
        "outputs_alike": found.outputs_alike,
        "operators": found.operators,
        **({"not_delegated": list(found.own)} if to == TFLITE else {}),
        "layers": [_row(layer, result) for layer in found.layers],
    }


def _row(each: LayerCheck, result: _Result) -> dict[str, Any]:
    return {
        "name": each.layer.name,
        "operator": each.layer.operator,
        **result.of_layer(each),
        "claim": each.claim.value,
        "compared": each.compared,
        "differing": each.differing,
        "largest_difference": each.largest_difference,
        "share_of_bound": each.ratio,
    }
