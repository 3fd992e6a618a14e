"""Coverage of the vectors of a run, layer by layer: the share of each layer's reachable values.

A value is reachable if some input of the layer leads to it.  The layers before it may never produce that input, so a
share below 1 can be the maximum.  Values that the vectors did not reach were not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.core.arrays import Array, vectors_at_once
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.counters import Counter, LayerCoverage, Marks, Met, Quantity

# Vectors per counting step: few enough for the second-level cache.
BLOCK = 512

CHECKS = {
    Quantity.UNSAFE_BOX: "in boxes that are not safe",
    Quantity.OUTSIDE_DOMAIN: "outside the domain",
    Quantity.STALE: "too old",
    Quantity.NOT_FINITE: "not finite",
}

# The bits of all accumulator maps of a network, 256 MiB; layers beyond it state no accumulators.
LARGEST_MAPS = 1 << 31


class Coverage:
    """Coverage of the vectors added so far, independent of their order and of the size of their chunks.

    Memory is bounded by the network alone: a bit for every reachable accumulator.
    """

    def __init__(self, network: Network) -> None:
        self._network, self._layers = network, network.layers
        room = LARGEST_MAPS
        self._meters: list[Counter] = []
        for layer in network.layers:
            self._meters.append(layer.stimuli.counter(room))
            room -= self._meters[-1].bits

    def add(self, vectors: Array, activations: Sequence[Array]) -> None:
        """Count vectors (n, K) with the right activations of all layers, (n, width) each, in layer order."""
        written = {layer.output.name: values for layer, values in zip(self._layers, activations, strict=True)}
        written |= self._network.values(vectors)
        for layer, meter in zip(self._layers, self._meters, strict=True):
            values = [written[source] for source in (*layer.sources, layer.output.name)]
            at_once = min(BLOCK, vectors_at_once(layer.size))
            for start in range(0, len(vectors), at_once):
                meter.add(*(value[start : start + at_once] for value in values))

    def result(self) -> tuple[LayerCoverage, ...]:
        """Return the coverage of every layer, in layer order."""
        return tuple(meter.result() for meter in self._meters)


def total(layers: Iterable[LayerCoverage]) -> LayerCoverage:
    """Return the sums over layers."""
    sums: dict[Quantity, Met] = {}
    for layer in layers:
        for quantity, met in layer.items():
            sums[quantity] = sums[quantity] + met if quantity in sums else met
    return sums


def describe(network: Network, layers: Sequence[LayerCoverage]) -> str:
    """Describe the coverage of a network in one sentence; accumulators only if those of all layers were counted."""
    sums, ties = total(layers), total(layers[1:]).get(Quantity.TIES)
    pairs = list(zip(network.layers, layers, strict=True))
    codes = {layer.name: met[Quantity.CODES] for layer, met in pairs if Quantity.CODES in met}
    least = min(codes, key=lambda name: codes[name].met / codes[name].reachable, default="")
    sums_of = [met for layer, met in pairs if layer.sums]
    all_counted = sums_of and all(Quantity.ACCUMULATORS in met for met in sums_of)
    parts = (
        f"{sums[Quantity.ACCUMULATORS].percent} of the reachable accumulators" if all_counted else None,
        f"{sums[Quantity.CODES].percent} of the reachable codes ({least} {codes[least].percent}, the least)"
        if codes
        else None,
        f"{ties.met:,} of {ties.reachable:,} ties behind the first layer" if ties else None,
        _branches(sums) if Quantity.NETWORK_SELECTED in sums else None,
    )
    return f"coverage: {', '.join(part for part in parts if part) or 'not counted, because no layer has codes'}"


def _branches(sums: LayerCoverage) -> str:
    """Describe how often each branch of a hybrid network was taken, and how often each check failed."""
    network, net = (sums[each].activations for each in (Quantity.NETWORK_SELECTED, Quantity.SAFETY_NET_SELECTED))
    failed = ", ".join(f"{sums[each].activations:,} {name}" for each, name in CHECKS.items())
    return f"the branch of the network {network:,} times and that of the safety net {net:,} times ({failed})"


def reachable_codes(layer: Layer) -> Marks | None:
    """Return the reachable codes of a layer, bool (width, 256) from the lowest on; None without codes."""
    reachable = layer.stimuli.counter(0).reachable
    return reachable.codes if reachable else None


def require_codes(network: Network) -> None:
    """Raise RequestError if no layer rounds to codes, of which a share could be met."""
    if all(reachable_codes(layer) is None for layer in network.layers):
        raise RequestError(
            f"--cover: no layer of model {network.name!r} rounds to codes, of which a share could be met",
            "omit --cover",
        )
