"""Separation of cause and effect: a layer's output for its actual inputs, independent of earlier errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from harness.analysis.compare import difference_map
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Evaluate, Layer


@dataclass(frozen=True, eq=False)
class Case:
    """One layer on a run of vectors, of which the first has index `start`.

    `inputs` are its sources, (vectors, K) each, as it read them; `expected` is what the specification makes of them
    and `actual` what the board made, (vectors, width).  `block` vectors lie between two hand-overs of items.  At the
    columns `starts` begin the parts of the layer that items compute.
    """

    index: int
    layer: Layer
    inputs: tuple[Array, ...]
    expected: Array
    actual: Array
    start: int = 0
    block: int = 1
    starts: tuple[int, ...] = (0,)

    @cached_property
    def differing(self) -> Array:
        """Return where the layer itself is wrong, bool (vectors, width)."""
        return difference_map(self.expected, self.actual)

    @property
    def own(self) -> int:
        """Return the number of activations that the layer itself gets wrong."""
        return int(np.count_nonzero(self.differing))


def cases(
    network: Network,
    vectors: Array,
    references: Sequence[Array],
    dumps: Mapping[int, Array],
    start: int = 0,
    block: int = 1,
    starts: Sequence[tuple[int, ...]] | None = None,
    *,
    local: bool = False,
) -> Iterator[Case]:
    """Yield the layers that differ from the reference, or that read what does, in the order of the model.

    `references` are the right outputs of all layers for `vectors`, `dumps` the board's by layer index; a layer that
    has none there equals the reference.  `starts` holds the first columns of each layer's parts, if any is split.
    `references` are `local` if they are already right for the inputs that each layer had.
    """
    written = network.values(vectors)
    changed: set[str] = set()
    for index, (layer, reference) in enumerate(zip(network.layers, references, strict=True)):
        actual = dumps.get(index, reference)
        written[layer.output.name] = actual
        misled = not local and not changed.isdisjoint(layer.sources)
        if actual is not reference and difference_map(reference, actual).any():
            changed.add(layer.output.name)
        if misled or layer.output.name in changed:
            inputs = tuple(written[source] for source in layer.sources)
            expected = _expected(layer, inputs, actual) if misled else reference
            yield Case(index, layer, inputs, expected, actual, start, block, starts[index] if starts else (0,))


def _expected(layer: Layer, inputs: tuple[Array, ...], actual: Array) -> Array:
    """Evaluate the specification on other inputs than the reference's; `actual` where it is undefined.

    Its sums and scores are finite, as those of every right network are.
    """
    expected = operator(layer)(*inputs)
    specified = layer.errors.specified(inputs, expected)
    return expected if specified is None else np.where(specified, expected, actual)


@lru_cache(maxsize=64)
def operator(layer: Layer) -> Evaluate:
    """Return the specification's function of a layer, kept for the next chunk."""
    return layer.prepare()
