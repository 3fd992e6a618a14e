"""One file a target: what it can compute, the sources it contributes, what it generates from the constants.

A target is found by its name: a module `harness.targets.<name>`, or an entry point of the group
`harness.targets` that third parties register.  There is no list to edit.
"""

from __future__ import annotations

import enum
import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from harness.errors import unknown_name
from harness.network import Array, Layer
from harness.profile import Profile

KERNELS = Path(__file__).parents[2] / "kernels"


C_TYPES = {
    "float32": "float", "int64": "int64_t", "int32": "int32_t", "uint32": "uint32_t", "uint8": "uint8_t",
    "int8": "int8_t",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Table:
    """A constant of a layer's code: the C name of its array, and the values that it must hold on the board.

    `values` has one dimension or two, in the order in which the code reads them.  One that is `computed` is filled
    by the item's init.  `comment` says where it comes from.
    """

    name: str
    values: Array
    comment: str = ""
    computed: bool = False


class Part(enum.Enum):
    """What a stage does; the value is the last part of its name."""

    COMPUTE = "compute"
    """The whole layer, from its sources' values, one source behind the other, to its output."""
    ACCUMULATE = "accumulate"
    """Of a QGemm: from the codes to the int32 accumulators."""
    FINISH = "finish"
    """Of a QGemm: from the accumulators to its output."""
    MERGE = "merge"
    """Of a source that several items compute: from their columns to all of them in one buffer."""


@dataclass(frozen=True)
class Stage:
    """A part of a layer that the proof calls by itself: the C function `name`, one vector in, one vector out.

    `forward` must call the very same function, which is declared ONE_CODE (kernels/common/network.h).
    """

    part: Part
    name: str
    input_dtype: np.dtype[Any]
    input_width: int
    output_dtype: np.dtype[Any]
    output_width: int


@dataclass(frozen=True)
class LayerCode:
    """What a target generates for one layer, as C text.

    `definitions` holds buffers and functions of the layer; `initialise` is the body of its part of the item's
    init (may be empty); `forward` is the body of `void <stem>_forward(size_t vectors)`.  `tables` and `stages` are
    what the proof checks; for each stage `definitions` has `<name>_stage`, see DEFINE_STAGE in network.h.
    """

    definitions: str
    initialise: str
    forward: str
    tables: tuple[Table, ...]
    stages: tuple[Stage, ...]


class Target(Protocol):
    """A way to implement an item (a module with these functions serves)."""

    def refusal(self, layer: Layer) -> str | None:
        """Why this target cannot compute `layer` exactly; None if it can."""

    def folders(self) -> tuple[Path, ...]:
        """Folders of fixed sources: their .c files are compiled, their .h files can be included."""

    def headers(self) -> tuple[str, ...]:
        """The headers that the generated code needs."""

    def generate(self, layer: Layer, sources: Sequence[str]) -> LayerCode:
        """The code of `layer`, which reads the buffers named `sources`, one for each of the layer's."""

    def ran_on(self, profile: Profile) -> str:
        """Where an item of this target really runs on the board of `profile`: `hardware`, or what stands in."""


def names() -> list[str]:
    """All targets that can be named in a profile."""
    own = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted({*own, *(point.name for point in entry_points(group="harness.targets"))})


def find(name: str) -> Target:
    """The target called `name`; RequestError with the nearest names if there is none."""
    if name not in names():
        raise unknown_name("target", name, names())
    for point in entry_points(group="harness.targets"):
        if point.name == name:
            return cast("Target", point.load())
    return cast("Target", importlib.import_module(f"{__name__}.{name}"))
