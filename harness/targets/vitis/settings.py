"""The section `vitis` of a board profile."""

from __future__ import annotations

from pydantic import Field

from harness.targets.base import Settings, answer_timeout_s


class VitisSettings(Settings):
    """The FPGA of a Kria, and AMD's software to build for it: Vitis, a platform (.xpfm), a copy of the board's XRT.

    Environment variables VITIS, PLATFORM and XRT replace missing paths.  `timeout_s` limits how long the program waits
    for a kernel.
    """

    vitis: str | None = None
    platform: str | None = None
    xrt: str | None = None
    clock_mhz: int = Field(default=200, ge=1, le=1000)
    timeout_s: int | None = Field(default=None, ge=1, le=3600)

    def waited_s(self, *, simulated: bool) -> int:
        """Return how long the program waits for an answer, in seconds."""
        return answer_timeout_s(self.timeout_s, simulated=simulated)
