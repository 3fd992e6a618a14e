"""A model that is brought into the form that `harness.model.parse` reads, and what was changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx

from harness.core.errors import RequestError
from harness.model.analysis.propagation import Propagation
from harness.model.importer.inputs import BATCH
from harness.model.onnx_runtime.agreement import require_same
from harness.model.onnx_runtime.sessions import Stored

SHOWN = 6  # names in a note


@dataclass(eq=False)
class Simplified:
    """The model, what was changed, and the model before, of `batch` vectors at once, in a file.

    `is_near` is true if sums have another order than in the model before.  `propagation` has the facts of the tensors
    while steps need them.
    """

    model: onnx.ModelProto
    name: str
    source: Stored
    notes: tuple[str, ...] = ()
    batch: int = 1
    is_near: bool = False
    propagation: Propagation | None = None

    def check(self) -> None:
        """Compare the outputs with those of the file in ONNX Runtime; raise RequestError where they differ."""
        if self.notes:
            require_same(self.source, self.model, self.name, self.batch, is_near=self.is_near)

    def release(self) -> None:
        """Forget the model, which holds the weights."""
        self.model = onnx.ModelProto()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """State the steps that were done before the reason of a RequestError inside."""
        try:
            yield
        except RequestError as error:
            if not self.notes:
                raise
            steps = "".join(f"\n  {note}" for note in self.notes)
            raise RequestError(f"after these steps:{steps}\n{error.message}", error.hint) from error


def batch_size(model: onnx.ModelProto) -> int:
    """Return the first size of the first input, 1 if it is free; negative sizes become free."""
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_value < 0:
                size.dim_param = f"{BATCH}_{value.name}"
    shapes = [value.type.tensor_type.shape.dim for value in model.graph.input]
    return next((shape[0].dim_value or 1 for shape in shapes if len(shape)), 1)


def listed(names: Sequence[str]) -> str:
    """Return the first names for a note, and the number of the others."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more
