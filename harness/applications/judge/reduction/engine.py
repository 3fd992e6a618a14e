"""An engine as a command of the user, which computes the outputs of a model for inputs in a file."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.analysis.compare import difference_map
from harness.applications.judge import readers
from harness.applications.judge.matching import match
from harness.core.arrays import Array
from harness.core.errors import RequestError, ToolError
from harness.core.text import shortened
from harness.model.network import Network
from harness.reference.specification import SpecificationReference
from harness.reference.whole_network import bounds, effort

PLACES = ("{model}", "{inputs}", "{outputs}")
MODEL, INPUTS, OUTPUTS = "model.onnx", "inputs.npz", "outputs.npz"


class CommandEngine:
    """A command whose words contain {model}, {inputs} and {outputs}.

    `runs` counts its executions, and `advance` is called after each of them.
    """

    def __init__(
        self, words: Sequence[str], timeout_s: float, advance: Callable[[int], object] = lambda _: None
    ) -> None:
        missing = [place for place in PLACES if not any(place in word for word in words)]
        if missing:
            raise RequestError(
                f"--run lacks {', '.join(missing)}", 'e.g. --run "python engine.py {model} {inputs} {outputs}"'
            )
        self._words, self._timeout_s = words, timeout_s
        self.runs = 0
        self.advance = advance

    def outputs(self, network: Network, vectors: Array) -> dict[str, Array]:
        """Return the outputs of the engine, (vectors, size) each, by their names.

        Raises ToolError if the command fails or computes other outputs.
        """
        self.runs += 1
        with tempfile.TemporaryDirectory() as folder:
            paths = dict(zip(PLACES, (Path(folder) / name for name in (MODEL, INPUTS, OUTPUTS)), strict=True))
            paths["{model}"].write_bytes(network.onnx_bytes)
            values = network.values(vectors)
            shaped = {tensor.name: values[tensor.name].reshape(-1, *tensor.shape) for tensor in network.inputs}
            np.savez(paths["{inputs}"], allow_pickle=False, **shaped)
            self._execute([_filled(word, paths) for word in self._words])
            self.advance(1)
            return _read(network, paths["{outputs}"], len(vectors))

    def _execute(self, command: Sequence[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self._timeout_s, check=False)
        except OSError as error:
            raise RequestError(f"cannot run {command[0]}: {error.strerror}", "give a command: --run") from error
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"the engine did not end within {self._timeout_s:g} s", "raise --timeout") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ToolError(f"the engine ended with {done.returncode}: {shortened(last)}", "run the command yourself")


def _filled(word: str, paths: dict[str, Path]) -> str:
    for place, path in paths.items():
        word = word.replace(place, str(path))
    return word


def _read(network: Network, path: Path, count: int) -> dict[str, Array]:
    """Return the outputs in a file; ToolError if one is missing or has another number of vectors."""
    try:
        matched = match(network, readers.read(path, network))
    except RequestError as error:
        raise ToolError(f"the outputs of the engine: {error.message}", error.hint) from error
    read = {name for layer in network.layers for name in layer.sources}
    names = [layer.output.name for layer in network.layers if layer.output.name not in read]
    for name in names:
        output = matched.activations.get(name)
        if output is None or output.count != count:
            reason = "; ".join(matched.problems) or f"it has {output.count if output else 'no'} vectors, not {count}"
            raise ToolError(f"the engine gave no output {name!r}: {reason}", "write it by this name to {outputs}")
    outputs = {}
    for name in names:
        rows = matched.activations[name].rows(0, count)
        if rows.off is not None:
            raise ToolError(f"the output {name!r} has values that are none of the model's", "give codes of the model")
        outputs[name] = np.array(rows.values)
    return outputs


def wrong(network: Network, vectors: Array, outputs: dict[str, Array]) -> dict[str, npt.NDArray[np.bool_]]:
    """Return where outputs are not as specified, or beyond their bounds, bool (vectors, size) by name."""
    right = SpecificationReference(network).activations(vectors)
    specified = dict(zip((layer.output.name for layer in network.layers), right, strict=True))
    different = {name: np.array(difference_map(specified[name], values)) for name, values in outputs.items()}
    if not any(layer.errors.has_tolerance for layer in network.layers):
        return different
    at_once, written = effort(network)[1], network.values(vectors) | specified
    for start in range(0, len(vectors), at_once):
        rows = slice(start, start + at_once)
        for layer, bound in bounds(network, {name: values[rows] for name, values in written.items()}):
            name = layer.output.name
            if name in outputs:
                with np.errstate(all="ignore"):
                    distance = np.abs(outputs[name][rows].astype(np.float64) - specified[name][rows])
                    within = np.asarray(distance <= bound) & (bound > 0)
                different[name][rows] &= ~within
    return different
