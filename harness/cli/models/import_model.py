"""`harness models import`: conversion of a file to a checked model, float or quantised."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli._options import as_json, changes, force, new_model, pass_workspace
from harness.core.console import Console
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.model.float_network import DenseNetwork
    from harness.model.importer import Changes, FloatImport, NetworkImport, TfliteImport
    from harness.model.network import Network


TFLITE_VECTORS = 100


@click.command("import", epilog="Example: harness models import network.onnx -o network")
@click.argument("file", type=click.Path(path_type=Path))
@new_model
@changes
@force
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, file: Path, output: str, force: bool, changes: Changes) -> None:
    """Import a network, float or quantised, from FILE, .onnx, .nnet or .tflite.

    Dense float layers become Gemm and Relu; other float operators stay as they are.  The result is checked against the
    arithmetic of the file.  An unsupported file is rejected with the node and the reason.
    """
    bring_in(file, space.new_model(output, force=force), output, Console.open(as_json=as_json), changes)


def bring_in(file: Path, path: Path, output: str, console: Console, changes: Changes) -> None:
    """Read and check the network of `file`, write it to `path`, and print its facts; the user calls it `output`."""
    from harness.model import importer
    from harness.model.importer import FloatImport, TfliteImport

    found = importer.bring_in(file, asked=changes)
    if isinstance(found, FloatImport):
        _bring_in_floats(found, path, output, console)
    elif isinstance(found, TfliteImport):
        _bring_in_tflite(found, path, output, console)
    else:
        _bring_in_network(found, path, output, console)


def _bring_in_floats(found: FloatImport, path: Path, output: str, console: Console) -> None:
    from harness.model.float_network import to_onnx
    from harness.model.importer.check import box_of
    from harness.model.text.document import readable

    network = replace(found.network, name=path.stem)
    onnx_bytes = to_onnx(network).SerializeToString()
    write_whole(path, onnx_bytes)
    checked, box = found.check, box_of(network)
    where = (
        "its input box"
        if network.box is not None
        else f"{box[0, 0]:g} to {box[1, 0]:g} because the file has no input box"
    )
    for note in found.notes:
        console.note(note)
    if found.folded:
        console.note(f"folded into the constants of a layer: {', '.join(map(readable, found.folded))}")
    console.show(
        _float_table(path, network),
        f"Compared with the file on {checked.vectors} vectors of {where}: "
        f"greatest difference {checked.difference:.3g}; "
        f"nearest to its bound {checked.tightest_difference:.3g}, the bound there {checked.tightest_bound:.3g}.",
        Text(f"The model is float. Quantise it with:\n  {_next_command(output, network)}"),
    )
    if network.box is None:
        console.show(Text("Set --box to the range of your inputs: the file does not state it."))
    layers = [
        {"inputs": layer.weight.shape[0], "outputs": layer.weight.shape[1], "relu": layer.relu}
        for layer in network.layers
    ]
    console.document(
        _document(path, onnx_bytes, network.metadata)
        | {
            "quantised": False,
            "layers": layers,
            "folded": list(found.folded),
            "notes": list(found.notes),
            "input_box": None if network.box is None else network.box.tolist(),
            "check": asdict(checked),
        }
    )


def _next_command(model: str, network: DenseNetwork) -> str:
    """Return a command that quantises the network; without an input box, use the box of the check."""
    from harness.operators.counters import DEFAULT_BOX

    quantised = f"{model.removesuffix('.onnx')}_q{'.onnx' if model.endswith('.onnx') else ''}"
    words = ["harness", "models", "quantize", model, "-o", quantised]
    if network.box is None:
        words.append("--box={:g}:{:g}".format(*DEFAULT_BOX))
    if network.layers[-1].relu:  # float scores cannot represent it
        words.append("--scores=uint8")
    return shlex.join(words)


def _bring_in_network(found: NetworkImport, path: Path, output: str, console: Console) -> None:
    network, checked = found.network, found.check
    write_whole(path, network.onnx_bytes)
    for note in found.notes:
        console.note(note)
    console.show(
        _network_table(path, network),
        f"Compared in ONNX Runtime with the file{' after these changes' if found.notes else ''} on {checked.vectors} "
        f"vectors: all {checked.values:,} values of {', '.join(checked.tensors)} are bit-identical.",
        *(
            ["The changes can alter the order of sums: the file itself can have slightly different outputs."]
            if found.is_near
            else []
        ),
        f"Show it with `harness models show {shlex.quote(output)}`.",
    )
    layers = [
        {"name": layer.name, "operator": layer.operator, "inputs": layer.input.size, "outputs": layer.size}
        | {"type": str(layer.dtype)}
        for layer in network.layers
    ]
    console.document(
        _document(path, network.onnx_bytes, network.metadata)
        | {
            "quantised": any(layer.dtype.itemsize == 1 for layer in network.layers),
            "layers": layers,
            "notes": list(found.notes),
            "check": asdict(checked) | {"is_near": found.is_near},
        }
    )


def _bring_in_tflite(found: TfliteImport, path: Path, output: str, console: Console) -> None:
    from harness.analysis.imported import check_import

    network = found.network
    with console.progress("LiteRT", TFLITE_VECTORS) as bar:
        checked = check_import(network, found.file, found.imported, TFLITE_VECTORS, 1, bar.advance)
    write_whole(path, network.onnx_bytes)
    for note in found.notes:
        console.note(note)
    table = Table("activation", "in TFLite", "compared", "differing", "by at most", title=str(path))
    for each in checked:
        most = f"{each.largest_difference:.3g}" if each.differing else "-"
        table.add_row(each.name, each.operator, f"{each.compared:,}", f"{each.differing:,}", most)
    alike = sum(not each.differing for each in checked)
    console.show(
        table,
        f"Compared with LiteRT on {TFLITE_VECTORS} vectors, each operator for the inputs that LiteRT computed: "
        f"{alike} of {len(checked)} have the same values. A difference is LiteRT's own rounding, see "
        "docs/reference/convert-a-model.md: a board is compared with the new model.",
        f"Show it with `harness models show {shlex.quote(output)}`.",
    )
    console.document(
        _document(path, network.onnx_bytes, network.metadata)
        | {
            "notes": list(found.notes),
            "check": {"vectors": TFLITE_VECTORS, "operators": [asdict(each) for each in checked]},
        }
    )


def _document(path: Path, onnx_bytes: bytes, metadata: dict[str, str]) -> dict[str, Any]:
    """Return the entries that the documents of float and quantised models share."""
    source = {key: json.loads(metadata[key]) for key in ("source_file", "source_sha256")}
    return {"model": path.stem, "file": str(path), "sha256": hashlib.sha256(onnx_bytes).hexdigest(), **source}


def _float_table(path: Path, network: DenseNetwork) -> Table:
    table = Table("layer", "shape", "ReLU", title=str(path))
    for number, layer in enumerate(network.layers, start=1):
        inputs, outputs = layer.weight.shape
        table.add_row(f"dense_{number}", f"{inputs} -> {outputs}", "yes" if layer.relu else "no")
    return table


def _network_table(path: Path, network: Network) -> Table:
    table = Table("layer", "operator", "shape", "type", title=str(path))
    for layer in network.layers:
        table.add_row(
            layer.name, layer.operator, f"{layer.input.shape_text} -> {layer.output.shape_text}", str(layer.dtype)
        )
    return table
