"""tract, through its Python package.  Arguments: float or model.

A run makes tensors of input and output; the input's is made before the clock starts.
"""  # noqa: INP001 - a script

from __future__ import annotations

from pathlib import Path

import numpy as np
import worker


class Tract:
    """One runnable model and its state."""

    def __init__(self, path: Path, vectors: worker.Floats, computes: str) -> None:
        import tract

        self.version = f"tract {tract.version()}"
        self.computes = computes
        model = tract.onnx().load(path)
        model.set_input_fact(0, f"1,{vectors.shape[1]},f32")
        self._state = model.into_model().into_runnable().spawn_state()
        self._inputs = [[tract.Tensor.from_numpy(vector[None])] for vector in vectors]
        self._input = self._inputs[0]
        self._outputs = self._inputs[0]

    def put(self, index: int) -> None:
        """Choose the vector's tensor."""
        self._input = self._inputs[index]

    def run(self) -> None:
        """One inference into a new tensor."""
        self._outputs = self._state.run(self._input)

    def output(self) -> worker.Floats:
        """Return the scores, float32 (width,)."""
        return np.asarray(self._outputs[0].to_numpy())[0]


def open_contender(folder: Path, vectors: worker.Floats, arguments: list[str]) -> Tract:
    """Load the float network or the model itself."""
    return Tract(folder / f"{arguments[0]}.onnx", vectors, arguments[0])


worker.main("tract", open_contender)
