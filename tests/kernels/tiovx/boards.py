"""This machine in the place of a TDA4VM, with the double of TIOVX."""

from __future__ import annotations

from harness.profile import ItemProfile, Profile

FLOATING = ("Add", "DequantizeLinear", "ArgMax", "ArgMin")


def with_dsp(host: Profile, core: str = "c7x") -> Profile:
    """Items prepost on the processor, and network on a core under TIOVX with all that there are kernels for."""
    items = {
        "prepost": ItemProfile(target="c", operators=FLOATING),
        "network": ItemProfile(target=f"tiovx:{core}", operators=("QuantizeLinear", "QGemm")),
    }
    return host.model_copy(update={"items": items})
