"""This machine in the place of a TDA4VM, with the double of TIOVX, or with TI's own for a PC.

HARNESS_TIOVX_PC names a folder like a board's root file system, in which usr/lib/libtivision_apps.so is TIOVX's
emulation for a PC; LD_LIBRARY_PATH must lead there.
"""

from __future__ import annotations

import os

from harness.boards.profile import ItemProfile, Profile
from harness.targets import find

PC = os.environ.get("HARNESS_TIOVX_PC")


def with_tiovx_of_a_pc(host: Profile) -> Profile:
    """As `with_dsp`, with the core that needs no firmware, and no double."""
    board = with_dsp(host, "mpu")
    return board.model_copy(update={"stand_ins": False, "tiovx": {"target_fs": PC}})


def with_dsp(host: Profile, core: str = "c7x") -> Profile:
    """Items prepost on the processor, and network on a core under TIOVX with all that there are kernels for."""
    target = f"tiovx:{core}"
    named = tuple(sorted({name for operator in find(target).lowerings for _, name in operator.ONNX}))
    items = {"prepost": ItemProfile(target="c"), "network": ItemProfile(target=target, operators=named)}
    return host.model_copy(update={"items": items})
