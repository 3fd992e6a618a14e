"""The section `litert` of a board profile."""

from __future__ import annotations

from harness.targets.base import Settings


class LiteRtSettings(Settings):
    """The library: a libLiteRt.so of ai-edge-litert 2.1.2 for the board; without a path, that of the pinned wheel."""

    library: str | None = None
