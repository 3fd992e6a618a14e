"""LiteRT on this machine, by the Python interface of ai-edge-litert."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError, ToolError
from harness.core.installation import install_extra

DELEGATE = "DELEGATE"
"""The name of a group of operators that XNNPACK runs."""


class Interpreter:
    """A file in memory, run by LiteRT with XNNPACK."""

    def __init__(self, content: bytes, *, threads: int = 1) -> None:
        litert = _module()
        try:
            with _without_stderr():
                self._interpreter = litert.Interpreter(model_content=content, num_threads=threads)
                self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise ToolError(f"LiteRT refuses the file: {error}", "report the model: the file should be valid") from None
        self._inputs = {int(each["index"]): each["shape"] for each in self._interpreter.get_input_details()}
        self.outputs = [int(each["index"]) for each in self._interpreter.get_output_details()]

    def not_delegated(self) -> tuple[str, ...]:
        """Return the operators that LiteRT's own kernels run; XNNPACK runs the others."""
        nodes = self._interpreter._get_ops_details()  # noqa: SLF001 - no other way
        own = {int(output): node for node in nodes if node["op_name"] != DELEGATE for output in node["outputs"]}
        taken: set[int] = set()
        for group in (node for node in nodes if node["op_name"] == DELEGATE):
            read, left = set(map(int, group["inputs"])), list(map(int, group["outputs"]))
            while left:
                node = own.get(left.pop())
                if node is not None and int(node["index"]) not in taken:
                    taken.add(int(node["index"]))
                    left.extend(int(each) for each in node["inputs"] if int(each) not in read)
        return tuple(
            node["op_name"] for node in nodes if node["op_name"] != DELEGATE and int(node["index"]) not in taken
        )

    def run(self, inputs: Mapping[int, Array]) -> Mapping[int, Array]:
        """Return the outputs by the number of their tensor, for inputs of the right size and type, by theirs."""
        for number, shape in self._inputs.items():
            self._interpreter.set_tensor(number, inputs[number].reshape(shape))
        self._interpreter.invoke()
        return {number: np.array(self._interpreter.get_tensor(number)) for number in self.outputs}

    def invoke(self) -> None:
        """Run the file on the inputs that it has."""
        self._interpreter.invoke()

    def run_all(self, vectors: Iterable[Mapping[int, Array]]) -> Mapping[int, Array]:
        """Return the outputs of several vectors, (vectors, ...) without an axis of 1, for the inputs of each."""
        found = [self.run(vector) for vector in vectors]
        return {output: np.stack([_of_vector(each[output]) for each in found]) for output in self.outputs}


def _of_vector(values: Array) -> Array:
    return values[0] if values.shape[:1] == (1,) and values.ndim > 1 else values


def _module() -> ModuleType:
    try:
        from ai_edge_litert import interpreter
    except ImportError as error:
        raise RequestError(f"LiteRT needs the package ai-edge-litert: {error}", install_extra("litert")) from None
    return interpreter  # type: ignore[no-any-return] # it has no types


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Discard what LiteRT itself prints: one line that XNNPACK is used."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
