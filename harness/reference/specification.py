"""The expected activations by exact evaluation of every operator, without ONNX Runtime."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness.core.arrays import Array, vectors_at_once
from harness.model.network import Network
from harness.operators.base import Evaluate, Layer
from harness.operators.exact import BLOCK


class SpecificationReference:
    """The activations of a network according to the exact specification of its operators.

    `prepare` returns the function of a layer, by default that which decides every rounding in integers.
    """

    def __init__(
        self,
        network: Network,
        threads: int = 2,
        prepare: Callable[[Layer], Evaluate] = operator.methodcaller("prepare"),
    ) -> None:
        self._network = network
        self._layers = network.layers
        self._evaluate = [prepare(layer) for layer in network.layers]
        self._threads = threads
        at_once = min(BLOCK, vectors_at_once(max(layer.size for layer in network.layers)))
        self._at_once = max(at_once // network.steps, 1) * network.steps

    def activations(self, vectors: Array, given: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """Return the outputs of all layers, in layer order, (n, size) each, for vectors (n, K).

        Each layer reads the outputs of the layers before it, or `given` in their place, in layer order.  Of a
        network of steps the first vector begins a stream.
        """
        outputs = tuple(np.empty((len(vectors), layer.size), layer.dtype) for layer in self._layers)

        def compute(start: int) -> None:
            written = self._network.values(vectors[start : start + self._at_once])
            with np.errstate(all="ignore" if given else None):  # the outputs of a board can be anything
                for layer, evaluate, output, read in zip(
                    self._layers, self._evaluate, outputs, given or outputs, strict=True
                ):
                    output[start : start + self._at_once] = evaluate(*(written[source] for source in layer.sources))
                    written[layer.output.name] = read[start : start + self._at_once]

        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(compute, range(0, len(vectors), self._at_once)))
        return outputs
