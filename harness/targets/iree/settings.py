"""The section `iree` of a board profile."""

from __future__ import annotations

from harness.targets.base import Settings


class IreeSettings(Settings):
    """The processor for which IREE compiles, as LLVM names it; `host` is this machine's."""

    cpu: str | None = None
    """`cortex-a53`, `x86-64-v3` and others; without it `host` on a local board, `generic` on others."""
    features: str = ""
    """Added or removed features, as LLVM writes them: `+dotprod,-fma`."""
