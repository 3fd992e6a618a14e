"""This machine in the place of a KV260, with the simulated fabric."""

from __future__ import annotations

from harness.boards.profile import ItemProfile, Profile

ON_PROCESSOR = ItemProfile(target="c", operators=("QuantizeLinear", "Add", "DequantizeLinear", "ArgMax", "ArgMin"))
IN_FABRIC = ItemProfile(target="vitis", operators=("QGemm",))


def with_fabric(host: Profile) -> Profile:
    """Items prepost on the processor, and network in the fabric."""
    return host.model_copy(update={"items": {"prepost": ON_PROCESSOR, "network": IN_FABRIC}})


def with_two_fabric_items(host: Profile) -> Profile:
    """Items prepost on the processor, left and right in the fabric."""
    right = ItemProfile(target="vitis")
    return host.model_copy(update={"items": {"prepost": ON_PROCESSOR, "left": IN_FABRIC, "right": right}})
