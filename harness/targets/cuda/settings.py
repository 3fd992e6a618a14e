"""The section `cuda` of a board profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.targets.base import Settings


class CudaSettings(Settings):
    """The GPU: its architectures, the newest PTX that the driver reads, how the processor waits for it."""

    archs: tuple[Annotated[str, Field(pattern=r"^sm_\d+$")], ...] = Field(min_length=1, strict=False)
    ptx: str | None = Field(default=None, pattern=r"^\d+\.\d+$")
    wait: Literal["spin", "yield", "block"] = "spin"
