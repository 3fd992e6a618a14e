"""The NVIDIA driver of this machine, for boards that are this machine with its GPU."""

from __future__ import annotations

import ctypes

from harness.boards.profile import Profile

LIBRARY = "libcuda.so.1"
FOUND = "the NVIDIA driver of this machine finds a GPU"
REMEDY = "install the NVIDIA driver of the GPU, or remove the board from boards.yaml"


def is_needed(profile: Profile) -> bool:
    """Return whether programs for this board load the driver of this machine."""
    return bool(profile.section("cuda")) and profile.local and not profile.simulated


def fault() -> str:
    """Return why no program can use a GPU of this machine; nothing if one can."""
    try:
        status = ctypes.CDLL(LIBRARY).cuInit(0)
    except OSError:
        return f"this machine has no NVIDIA driver ({LIBRARY})"
    return f"the NVIDIA driver of this machine finds no usable GPU (cuInit: error {status})" if status else ""
