"""The section `tiovx` of a board profile."""

from __future__ import annotations

from pydantic import Field

from harness.targets.base import Settings, answer_timeout_s


class TiovxSettings(Settings):
    """The software of a TI image: a copy of its root file system to build with, the SDK for its firmware.

    Environment variables TARGET_FS and TIOVX_SDK replace missing paths.  `timeout_s` limits how long the program waits
    for a core to answer.
    """

    target_fs: str | None = None
    sdk: str | None = None
    timeout_s: int | None = Field(default=None, ge=1, le=3600)

    def waited_s(self, *, simulated: bool) -> int:
        """Return how long the program waits for an answer, in seconds."""
        return answer_timeout_s(self.timeout_s, simulated=simulated)
