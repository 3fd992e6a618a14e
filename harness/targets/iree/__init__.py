"""IREE on a core: an item is an MLIR module, compiled by a pinned wheel; `module` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.targets.base import HARDWARE, Claim, Target
from harness.targets.generated import ItemCode, Launch
from harness.targets.iree.lowering import IreeLowering


class Iree(Target):
    """The target with one way to run the compiled module."""

    name = "iree"
    variants = ("static",)
    lowering = IreeLowering
    restriction = "others have no form in MLIR here"
    has_stages = False

    def folders(self) -> tuple[Path, ...]:
        """Return no folders: the module is compiled."""
        return ()

    def headers(self) -> tuple[str, ...]:
        """Return no headers."""
        return ()

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """Refuse: the program of an item does not exist yet."""
        raise NotImplementedError

    def claim(self, layer: Layer) -> Claim:
        """Return whether the layer has the specification's bits, or lies within its tolerance."""
        lowering: IreeLowering[Any] = self.lowering_of(layer)
        return lowering.claim_of(layer)

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the emulated CPU."""
        if profile.emulated and profile.emulator:
            return f"emulated-cpu (qemu {profile.emulator.cpu})"
        return HARDWARE
