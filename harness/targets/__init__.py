"""One file a target: what it can compute, the sources it contributes, what it generates from the constants.

A target is found by its name: a module `harness.targets.<name>`, or an entry point of the group
`harness.targets` that third parties register.  There is no list to edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

from harness.errors import unknown_name
from harness.network import Layer
from harness.profile import Profile

KERNELS = Path(__file__).parents[2] / "kernels"


@dataclass(frozen=True)
class LayerCode:
    """What a target generates for one layer, as C text.

    `constants` defines the tables and buffers of the layer; `initialise` is the body of its part of the item's
    init (may be empty); `forward` is the body of `void <stem>_forward(size_t vectors)`.
    """

    constants: str
    initialise: str
    forward: str


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
