"""The folder of a reduced model: the ONNX file, its vector, both outputs, and the commands that show the difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.applications.judge.reduction.engine import CommandEngine, wrong
from harness.applications.judge.reduction.search import Failing
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.text import plural
from harness.model.network import Network
from harness.reference.specification import SpecificationReference

REDUCED, VECTORS, OUTPUTS, EXPECTED, REPORT = "reduced.onnx", "vectors.npy", "outputs.npz", "expected.npz", "README.md"


def write(out: Path, network: Network, smallest: Failing, engine: CommandEngine, run: str) -> dict[str, Any]:
    """Write all files, and return the document about them."""
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
        (out / REPORT).write_text("\n\n".join([f"# {reduced.name}, reduced", *sentences(document)]) + "\n")
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


def sentences(document: dict[str, Any]) -> list[str]:
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
