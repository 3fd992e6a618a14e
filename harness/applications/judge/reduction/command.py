"""`harness reduce`: a model and a vector for a bug report about an engine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import Duration, as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, RequestError
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.applications.judge.reduction.engine import CommandEngine
    from harness.applications.judge.reduction.search import Failing
    from harness.core.arrays import Array
    from harness.model.network import Network

RUN = '"python engine.py {model} {inputs} {outputs}"'
REDUCED, VECTORS, OUTPUTS, EXPECTED, REPORT = "reduced.onnx", "vectors.npy", "outputs.npz", "expected.npz", "README.md"


@click.command("reduce", epilog=f"Example: harness reduce --model net --vectors vectors.npy --run {RUN} --out report")
@click.option(
    "--model",
    required=True,
    shell_complete=_completion.models,
    help="Model: a name under models/ or the path of an ONNX file.",
)
@click.option("--vectors", required=True, type=click.Path(path_type=Path), help="File of vectors, one of which fails.")
@click.option(
    "--run",
    "engine",
    required=True,
    metavar="COMMAND",
    help="Command of the engine, without a shell: it reads the ONNX file {model} and the arrays {inputs} (.npz, by the "
    "names of the inputs), and writes the outputs to {outputs} (.npz, by their names).",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="New folder for the reduced model.")
@click.option("--timeout", type=Duration(), default="60s", show_default=True, help="Longest time of one run.")
@as_json
@pass_workspace
def command(
    space: Workspace, /, as_json: bool, model: str, vectors: Path, engine: str, out: Path, timeout: float
) -> int:
    """Reduce MODEL to the smallest part for which an engine is still other than specified.

    The search keeps one vector, cuts the layers behind and before the first wrong one, keeps one of its channels and
    makes inputs 0.  It writes an ONNX file, its vector, both outputs, and the commands that show the difference.

    Exit code: 0 the engine is right for all vectors, 1 a reduced model is written, 2 the request is invalid, 3 the
    engine failed.
    """
    from harness.applications.judge.reduction.engine import CommandEngine
    from harness.applications.judge.reduction.search import Reduction, expected_runs
    from harness.reference.vector_files import from_file, require_indices

    console = Console.open(as_json=as_json)
    if out.exists():
        raise RequestError(f"{out} exists", "give a new folder: --out FOLDER")
    network = space.model(model)
    stimuli = from_file(vectors, network)
    require_indices(vectors, network, stimuli)
    runner = CommandEngine(_words(engine), timeout)
    with console.progress(f"reducing {network.name}, runs of the engine", expected_runs(network)) as bar:
        runner.advance = bar.advance
        smallest = Reduction(runner, console.note).reduce(network, stimuli.chunk(0, stimuli.count))
    if smallest is None:
        sentence = f"the engine is as specified for all {plural(stimuli.count, 'vector')}: nothing to reduce"
        console.show(Text(sentence))
        console.document({"reduced": None, "reason": sentence, "runs": runner.runs})
        return EXIT_DONE
    document = _write(out, network, smallest, runner, engine)
    console.show(Text("\n".join(_sentences(document))), Text(f"written: {out}"))
    console.document(document)
    return EXIT_DIFFERS


def _words(engine: str) -> list[str]:
    try:
        return shlex.split(engine)
    except ValueError as error:
        raise RequestError(f"--run {engine}: {error}", f"e.g. --run {RUN}") from error


def _write(out: Path, network: Network, smallest: Failing, engine: CommandEngine, run: str) -> dict[str, Any]:
    """Write all files, and return the document about them."""
    from harness.applications.judge.reduction.engine import wrong
    from harness.reference.specification import SpecificationReference

    reduced, vectors = smallest.network, smallest.vectors
    outputs = engine.outputs(reduced, vectors)
    specified = SpecificationReference(reduced).activations(vectors)
    expected = {layer.output.name: x for layer, x in zip(reduced.layers, specified, strict=True)}
    masks = wrong(reduced, vectors, outputs)
    document = {
        "reduced": str(out / REDUCED),
        "model": network.name,
        "model_sha256": network.sha256,
        "steps": list(smallest.steps),
        "layers": [f"{layer.name} ({layer.operator})" for layer in reduced.layers],
        "of_layers": len(network.layers),
        "vectors": len(vectors),
        "runs": engine.runs,
        "differences": [
            _difference(name, mask, expected[name], outputs[name]) for name, mask in masks.items() if mask.any()
        ],
        "judge": f"harness judge --model {REDUCED} --dumps {OUTPUTS} --vectors {_vectors_name(reduced)}",
        "run": run,
    }
    try:
        out.mkdir(parents=True)
        (out / REDUCED).write_bytes(reduced.onnx_bytes)
        _save_vectors(out, reduced, vectors)
        np.savez(out / OUTPUTS, allow_pickle=False, **_shaped(reduced, outputs))
        np.savez(out / EXPECTED, allow_pickle=False, **_shaped(reduced, {name: expected[name] for name in outputs}))
        (out / REPORT).write_text("\n\n".join([f"# {reduced.name}, reduced", *_sentences(document)]) + "\n")
    except OSError as error:
        raise RequestError(f"cannot write {out}: {error.strerror}", "give another folder") from error
    return document


def _vectors_name(reduced: Network) -> str:
    return VECTORS if len(reduced.inputs) == 1 else "vectors.npz"


def _save_vectors(out: Path, reduced: Network, vectors: Array) -> None:
    if len(reduced.inputs) == 1:
        np.save(out / VECTORS, vectors, allow_pickle=False)
    else:
        np.savez(out / _vectors_name(reduced), allow_pickle=False, **reduced.values(vectors))


def _shaped(reduced: Network, values: dict[str, Array]) -> dict[str, Array]:
    shapes = {layer.output.name: layer.output.shape for layer in reduced.layers}
    return {name: output.reshape(len(output), *shapes[name]) for name, output in values.items()}


def _difference(name: str, mask: Array, expected: Array, actual: Array) -> dict[str, Any]:
    vector, unit = (int(place) for place in np.argwhere(mask)[0])
    return {
        "output": name,
        "differing": int(np.count_nonzero(mask)),
        "of": int(mask.size),
        "vector": vector,
        "unit": unit,
        "expected": expected[vector, unit].item(),
        "actual": actual[vector, unit].item(),
    }


def _sentences(document: dict[str, Any]) -> list[str]:
    """Return the result for people and for the bug report."""
    sentences = [
        (
            f"{plural(len(document['layers']), 'layer')} of {document['of_layers']}: {', '.join(document['layers'])}; "
            f"{plural(document['vectors'], 'vector')}; {plural(document['runs'], 'run')} of the engine."
        ),
        *(f"- {step}" for step in document["steps"]),
    ]
    sentences += [
        f"Output {one['output']}, vector {one['vector']}, place {one['unit']}: {one['actual']}, specified "
        f"{one['expected']} ({one['differing']:,} of {one['of']:,} values differ)."
        for one in document["differences"]
    ]
    return [*sentences, f"Compare, in this folder: {document['judge']}", f"The engine: {document['run']}"]
