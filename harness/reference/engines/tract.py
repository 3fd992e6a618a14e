"""tract, an inference engine in Rust, by its Python package."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from harness.core.arrays import Array
from harness.reference import engines


class Engine(engines.Engine):
    """A model that tract optimises and runs."""

    packages = ("tract",)

    def __init__(self, model: onnx.ModelProto) -> None:
        import tract  # here, because other runs should not load it

        self._error = tract.TractError
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            try:
                self._runnable = tract.onnx().load(path).into_model().into_runnable()
            except self._error as error:
                raise engines.RefusedError(_short(error)) from error

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs."""
        try:
            return [output.to_numpy() for output in self._runnable.run(list(inputs))]
        except self._error as error:
            raise engines.RefusedError(_short(error)) from error


def _short(error: Exception) -> str:
    """Return the last cause of an error, without its way through tract's functions."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = lines[: lines.index("Stack backtrace:")] if "Stack backtrace:" in lines else lines
    return causes[-1] if causes else type(error).__name__
