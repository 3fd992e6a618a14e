"""`harness models quantize`: conversion of a float network and its input box to a quantised model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import click

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import as_json, changes, force, new_model, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from harness.model.float_network import DenseNetwork, Floats32
    from harness.model.importer import Changes
    from harness.model.network import Network
    from harness.model.quantizer import Agreement, Batches, Choices, LayerUse, QuantizedNetwork
    from harness.model.quantizer.with_data import FloatFile
    from harness.reference import OnnxRuntimeReference


FRESH_VECTORS = 20_000
FRESH_SCORES_MAX = 1 << 22  # scores of one network that are kept for the comparison
IDLE_SHARE = 0.1  # share of all codes: the ranges of a layer that uses fewer are too wide
PIXELS = "0:1"
PATIENCE_S = 2  # delay of a progress bar
SELECTS: dict[str, Literal["ArgMax", "ArgMin"]] = {"argmax": "ArgMax", "argmin": "ArgMin"}


@click.command("quantize", epilog="Example: harness models quantize network -o network_q")
@click.argument("name", shell_complete=_completion.models)
@new_model
@click.option(
    "--weights",
    type=click.Choice(["int8-per-column", "int8", "uint8"]),
    default="int8-per-column",
    show_default=True,
    help="Type of the weights, and whether each column or the whole tensor has a scale.",
)
@click.option(
    "--ranges",
    type=click.Choice(["calibration", "bounds"]),
    default="calibration",
    show_default=True,
    help="Activation ranges: observed on vectors drawn from the box, or bounds for the whole box.",
)
@click.option(
    "--vectors",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Number of vectors drawn for calibration.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the drawn vectors.")
@click.option("--equalize", is_flag=True, help="Equalise the ranges of hidden neurons; best with --residual 2.")
@click.option(
    "--residual",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Order of the residual expansion of the weights.",
)
@click.option(
    "--scores",
    type=click.Choice(["float32", "uint8"]),
    default="float32",
    show_default=True,
    help="Type of the last layer's output; uint8 scores have more ties.",
)
@click.option(
    "--select", type=click.Choice(["none", "argmax", "argmin"]), default="none", help="Layer to add after the scores."
)
@click.option(
    "--box",
    help="Input box: LOW:HIGH for all inputs, or one pair per input, with commas; default: the box of the file.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Calibration vectors, .npy, or a folder of images; for convolutional networks.",
)
@click.option(
    "--test",
    type=click.Path(path_type=Path),
    help="Vectors to compare on, .npy, or a folder of images, whose subfolders are classes; default: those of --data.",
)
@click.option(
    "--pixels", default=PIXELS, show_default=True, help="With a folder of images: what the values 0 and 255 become."
)
@click.option("--labels", type=click.Path(path_type=Path), help="Classes of the vectors of --test, .npy of integers.")
@click.option(
    "--codes", type=click.Choice(["int8", "uint8"]), default="int8", help="With --data: type of the activations."
)
@changes
@force
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    name: str,
    output: str,
    force: bool,
    box: str | None,
    data: Path | None,
    test: Path | None,
    labels: Path | None,
    pixels: str,
    codes: Literal["int8", "uint8"],
    changes: Changes,
    **asked: Any,
) -> None:
    """Quantise a float network: a dense one from its weights and its input box, any other with calibration --data.

    NAME is a name under models/, or the path of an .onnx or .nnet file.
    """
    file = space.model_file(name, (".onnx", ".nnet"))
    path, console = space.new_model(output, force=force), Console.open(as_json=as_json)
    if pixels != PIXELS and not any(each and each.is_dir() for each in (data, test)):
        raise RequestError("--pixels is for a folder of images", "--data FOLDER or --test FOLDER")
    if data is None:
        if test or labels:
            raise RequestError("--test and --labels are for --data", "--data VECTORS.npy")
        quantize(file, path, box, asked, changes, console)
        return
    _require_defaults()
    quantize_with_data(
        file,
        path,
        (data, test, labels, _interval(pixels)),
        {"codes": codes, "weights": asked["weights"]},
        changes,
        console,
    )


def _require_defaults() -> None:
    """Refuse options that --data does not read."""
    context = click.get_current_context()
    unread = ("ranges", "vectors", "seed", "equalize", "residual", "scores", "select", "box")
    given = [name for name in unread if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    if given:
        options = ", ".join(f"--{name}" for name in given)
        raise RequestError(f"--data cannot be combined with {options}", "--weights, --codes, --test and --labels")
    if context.params["weights"] == "uint8":
        raise RequestError("--data cannot be combined with --weights uint8", "--weights int8-per-column or int8")


def quantize_with_data(
    file: Path,
    path: Path,
    given: tuple[Path, Path | None, Path | None, tuple[float, float]],
    asked: Mapping[str, Any],
    changes: Changes,
    console: Console,
) -> None:
    """Quantise the network of `file` with calibration vectors, write the model to `path`, and print its quality.

    `given` are the files or image folders of the calibration vectors and of the vectors to compare on, the file of
    their classes, and what the values 0 and 255 of a pixel become.
    """
    import numpy as np

    from harness.model import quantizer
    from harness.model.quantizer import with_data
    from harness.reference import OnnxRuntimeReference

    choices = with_data.DataChoices(**asked)
    floats = with_data.read(file, changes)
    data, test, labels, pixels = given
    calibration, classes, notes = _vectors(data, floats, pixels)
    vectors = calibration
    if test:
        vectors, classes, more = _vectors(test, floats, pixels)
        notes += more
    if labels:
        classes = _classes(labels, len(vectors))
    found = with_data.quantize_with_data(floats, calibration, choices, path.stem)
    network = found.network
    computed = OnnxRuntimeReference(network, x64_quant_precision=True).activations(vectors.reshape(len(vectors), -1))
    expected = floats.scores(vectors)
    scores = computed[[layer.output.name for layer in network.layers].index(floats.graph.outputs[0])]
    if classes is not None and not 0 <= classes.min() <= classes.max() < scores.shape[1]:
        raise RequestError(
            f"{labels or test or data}: classes {classes.min()} to {classes.max()}, the network has {scores.shape[1]} "
            "scores",
            f"classes 0 to {scores.shape[1] - 1}, the places of the scores",
        )
    chosen = expected.argmax(axis=1), scores.argmax(axis=1)
    near = quantizer.agreement(expected, scores, chosen)
    accuracy = None if classes is None else [float(np.mean(each == classes)) for each in chosen]
    write_whole(path, network.onnx_bytes)
    notes += found.notes
    for note in notes:
        console.note(f"note: {note}")
    lines = [_sentence(near, "argmax", f"{len(vectors):,} vectors of {test or data}")]
    if accuracy:
        lines.append(f"Accuracy: float {accuracy[0]:.2%}, quantised {accuracy[1]:.2%}.")
    uses = {layer.name: len(np.unique(values)) for layer, values in zip(network.layers, computed, strict=True)}
    console.show(_data_table(path, network, uses), *lines)
    console.document(
        {
            "model": network.name,
            "file": str(path),
            "sha256": network.sha256,
            "quantisation": asdict(choices) | {"calibration_vectors": len(calibration)},
            "layers": [
                {"name": layer.name, "operator": layer.operator, "codes": uses[layer.name]} for layer in network.layers
            ],
            "agreement": asdict(near),
            "accuracy": accuracy,
            "notes": notes,
        }
    )


def _interval(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = 0
    if low == high or not math.isfinite(low + high):
        raise RequestError(
            f"--pixels {text!r} is no pair of different numbers", "LOW:HIGH, such as 0:1 or --pixels=-1:1"
        )
    return low, high


def _vectors(
    path: Path, floats: FloatFile, pixels: tuple[float, float]
) -> tuple[Floats32, npt.NDArray[Any] | None, list[str]]:
    """Return the vectors of a file or a folder of images, their classes if they have any, and notes."""
    from harness.model.quantizer import image_folder

    if not path.is_dir():
        return floats.images(_array(path), str(path)), None, []
    images = image_folder.read(path, floats.shape, pixels, floats.normalisation)
    return images.vectors, images.classes, list(images.notes)


def _array(path: Path) -> npt.NDArray[Any]:
    from harness.core.safe_io import load_array

    try:
        return load_array(path)
    except OSError as error:
        raise RequestError(
            f"{path}: {error.strerror or error}", "give the path of a .npy file or of a folder of images"
        ) from error
    except ValueError as error:
        raise RequestError(f"{path}: not a complete .npy file: {error}", "save it with numpy.save") from error


def _classes(path: Path, count: int) -> npt.NDArray[Any]:
    labels = _array(path)
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise RequestError(f"{path}: {labels.dtype} of shape {labels.shape}", f"integers of shape ({count},)")
    return labels


def _data_table(path: Path, network: Network, uses: Mapping[str, int]) -> Table:
    table = Table("layer", "operator", "shape", "type", "distinct values", title=str(path))
    for layer in network.layers:
        shape = "x".join(map(str, layer.output.shape))
        table.add_row(layer.name, layer.operator, shape, str(layer.dtype), str(uses[layer.name]))
    return table


def quantize(
    file: Path, path: Path, box: str | None, asked: Mapping[str, Any], changes: Changes, console: Console
) -> None:
    """Quantise the network of `file`, write the model to `path`, and print its quality."""
    from harness.model import importer, quantizer
    from harness.model.quantizer import Choices
    from harness.reference import OnnxRuntimeReference

    choices = Choices(**asked)
    imported = importer.read(file, changes)
    floats = _with_box(imported.network, box)
    quantized = quantizer.quantize(floats, choices, _watched(console, "calibrating", choices.vectors))
    model = _model(floats, quantized, choices, path.stem)
    # With this option, sums of uint8 and int8 products are exact on every machine.
    runtime = OnnxRuntimeReference(model, x64_quant_precision=True)
    vectors = quantizer.calibration_vectors(model.box, choices.vectors, choices.seed)
    watch = _watched(console, "counting codes", choices.vectors)
    uses = quantizer.layer_uses(quantized, _codes(model, runtime, watch(vectors)))
    near = _agreement(floats, model, runtime, choices)
    write_whole(path, model.onnx_bytes)
    notes = [*imported.notes, *quantized.notes, *_use_notes(uses, choices)]
    for note in notes:
        console.note(f"note: {note}")
    console.show(_table(path, uses), _sentence(near, choices.select, f"{near.vectors:,} new vectors of the box"))
    console.document(
        {
            "model": model.name,
            "file": str(path),
            "sha256": model.sha256,
            "quantisation": choices.document(),
            "layers": [asdict(use) for use in uses],
            "agreement": asdict(near),
            "notes": notes,
        }
    )


def _with_box(floats: DenseNetwork, text: str | None) -> DenseNetwork:
    """Return the network with the user's box, also in its metadata; without a box, return it unchanged."""
    if text is None:
        return floats
    box = _box(text, len(floats.layers[0].weight))
    bounds = {"input_box_low": json.dumps(box[0].tolist()), "input_box_high": json.dumps(box[1].tolist())}
    return replace(floats, box=box, metadata=floats.metadata | bounds)


def _box(text: str, width: int) -> Floats32:
    """Return the box (2, width) of LOW:HIGH or LOW:HIGH,LOW:HIGH,..."""
    import numpy as np

    try:
        pairs = [tuple(map(float, pair.split(":"))) for pair in text.split(",")]
        box = np.array(pairs, np.float64).reshape(-1, 2)
    except ValueError as error:
        hint = "LOW:HIGH for all inputs, or one pair for each with commas, as in --box=-0.5:0.5,0:1"
        raise RequestError(f"--box {text!r} is not a box", hint) from error
    if len(box) not in (1, width):
        raise RequestError(f"--box has {len(box)} pairs, the network {width} inputs", f"one pair for all, or {width}")
    with np.errstate(over="ignore"):  # an overflow is rejected as infinite
        return np.ascontiguousarray(np.broadcast_to(box, (width, 2)).T.astype(np.float32))


def _model(floats: DenseNetwork, quantized: QuantizedNetwork, choices: Choices, name: str) -> Network:
    """Return the model as every command reads it; RequestError if they would reject it."""
    from harness import model
    from harness.model import quantizer

    metadata = {**floats.metadata, "quantisation": json.dumps(choices.document())}
    select = quantizer.Select(SELECTS[choices.select]) if choices.select in SELECTS else None
    made = quantizer.to_onnx(quantized, name, metadata, floats.input_name, floats.output_name, select)
    return model.parse(made.SerializeToString(), name)


def _codes(model: Network, runtime: OnnxRuntimeReference, batches: Batches) -> Iterator[list[npt.NDArray[np.uint8]]]:
    """Yield the uint8 activations of every batch."""
    import numpy as np

    for vectors in batches:
        activations = zip(model.layers, runtime.activations(vectors), strict=True)
        yield [activation for layer, activation in activations if layer.dtype == np.uint8]


def _use_notes(uses: Sequence[LayerUse], choices: Choices) -> Iterator[str]:
    idle = [use.name for use in uses if use.codes_used is not None and use.codes_used < IDLE_SHARE]
    if idle and choices.ranges == "bounds":
        yield f"the bounds of {', '.join(idle)} are far wider than the observed ranges; use --ranges calibration"


def _agreement(floats: DenseNetwork, model: Network, runtime: OnnxRuntimeReference, choices: Choices) -> Agreement:
    """Compare the model with the float network on vectors that the calibration did not use."""
    import numpy as np

    from harness.model import quantizer
    from harness.model.float_network import forward

    count = max(1, min(FRESH_VECTORS, FRESH_SCORES_MAX // len(floats.layers[-1].bias)))
    batches = list(quantizer.drawn(model.box, count, choices.seed, quantizer.FRESH))
    computed = [runtime.activations(vectors) for vectors in batches]
    expected = np.concatenate([forward(floats.layers, vectors) for vectors in batches])
    place = [layer.output.name for layer in model.layers].index(floats.output_name)
    scores = np.concatenate([activations[place] for activations in computed])
    if choices.select == "none":
        return quantizer.agreement(expected, scores, None)
    selected = np.concatenate([activations[-1][:, 0] for activations in computed])
    of_floats = expected.argmax(axis=1) if choices.select == "argmax" else expected.argmin(axis=1)
    return quantizer.agreement(expected, scores, (of_floats, selected))


def _watched(console: Console, text: str, total: int) -> Callable[[Batches], Batches]:
    """Yield the batches, with a progress bar after PATIENCE_S."""

    def watch(batches: Batches) -> Iterator[Floats32]:
        started, done, bar = monotonic(), 0, None
        with ExitStack() as stack:
            for batch in batches:
                yield batch
                done += len(batch)
                if bar is not None:
                    bar.advance(len(batch))
                elif monotonic() - started > PATIENCE_S:
                    bar = stack.enter_context(console.progress(text, total, done))

    return watch


def _table(path: Path, uses: Sequence[LayerUse]) -> Table:
    """Return a table with one row per layer."""
    table = Table("layer", "shape", "weight scale", "range", "codes used", "saturated", title=str(path))
    for use in uses:
        table.add_row(
            use.name,
            f"{use.inputs} -> {use.outputs}",
            _span(use.weight_scales, "-"),
            _span(use.range, "float32"),
            "-" if use.codes_used is None else f"{use.codes_used:.0%}",
            "-" if use.saturated is None else f"{use.saturated:.2%}",
        )
    return table


def _span(bounds: tuple[float, float] | None, none: str) -> str:
    if bounds is None:
        return none
    low, high = (f"{bound:.4g}" for bound in bounds)
    return low if low == high else f"{low} .. {high}"


def _sentence(near: Agreement, select: str, vectors: str) -> str:
    parts = [f"greatest difference of a score {near.difference_max:.4g}"]
    if near.r2 is not None:
        parts.insert(0, f"R2 {near.r2:.3%}")
    if near.selected is not None:
        parts.insert(0, f"the same {select} {near.selected:.2%}")
    return f"Compared with the float network on {vectors}: {', '.join(parts)}."
