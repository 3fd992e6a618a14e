"""A target that is target c under another name, with a section of its own in a profile."""

from __future__ import annotations

from harness.targets.base import Settings
from harness.targets.c import C


class Threads(Settings):
    """The section `mine` of a profile."""

    label: str = "none"


class Mine(C):
    """Target c, by a third party."""

    name = "mine"
    variants = ("",)
    Settings = Threads
