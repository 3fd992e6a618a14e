"""The expected activations of a network of steps: by its specification, and by the whole network, which must agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.model.network import Network
from harness.model.onnx_runtime.hostcheck import HostCheck
from harness.model.stream import Stream, of
from harness.operators.exact import BLOCK
from harness.reference import Expected, Reference, max_ratio, require_numbers
from harness.reference.engines import ALWAYS
from harness.reference.specification import SpecificationReference


class StreamReference:
    """The activations of every step of streams, confirmed by the whole network over the whole of its windows.

    The whole network is computed by ONNX Runtime and by its specification, see `Reference`.  Each frame of a layer
    after its delay must be that of the whole network; the frames before are those of the specification of the steps.
    `engines` confirm the whole network.  Raises as `Reference`, and ReferenceFailed where a step gives another value
    than the whole network.
    """

    def __init__(
        self, stream: Stream, threads: int = 2, *, x64_quant_precision: bool = True, engines: Sequence[str] = ALWAYS
    ) -> None:
        self._stream = stream
        self._whole = Reference(stream.whole, threads, x64_quant_precision=x64_quant_precision, engines=engines)
        self._steps = SpecificationReference(stream.network, threads)
        self._threads = threads

    @property
    def host(self) -> HostCheck:
        """The check of this machine for the whole network."""
        return self._whole.host

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the engines that confirm the whole network."""
        return self._whole.versions

    def activations(self, vectors: npt.NDArray[np.float32]) -> tuple[Array, ...]:
        """Return the activations of `expected`."""
        return self.expected(vectors).activations

    def expected(self, vectors: npt.NDArray[np.float32], first: int = 0) -> Expected:
        """Return the layers' outputs for the steps of streams, float32 (streams * steps, K), in layer order.

        `first` is the number of the first vector, the first step of a stream, for messages.  The last stream may be cut
        short: then the whole network does not confirm it.
        """
        stream = self._stream
        right = self._steps.activations(vectors)
        require_numbers(stream.network.layers, right)
        ratios: dict[str, list[float | None]] = {}
        at_once = max(BLOCK // stream.windows, 1) * stream.steps
        complete = len(vectors) - len(vectors) % stream.steps
        for start in range(0, complete, at_once):
            part = slice(start, min(start + at_once, complete))
            for name, ratio in self._confirm(vectors[part], [values[part] for values in right], first + start).items():
                ratios.setdefault(name, []).append(ratio)
        names = (layer.output.name for layer in stream.network.layers)
        return Expected(right, tuple(max_ratio(ratios.get(name, ())) for name in names))

    def _confirm(self, vectors: Array, right: list[Array], start: int) -> dict[str, float | None]:
        """Return `Expected.ratios` of the whole network by the names of tensors; the first vector has number `start`.

        Raises ReferenceFailed at the first layer in which a frame differs from the whole network's.
        """
        stream = self._stream
        written = {layer.output.name: values for layer, values in zip(stream.network.layers, right, strict=True)}
        expected = self._whole.expected(stream.windows_of(vectors))
        for layer, wanted in zip(stream.whole.layers, expected.activations, strict=True):
            found = stream.frames_of(layer, written[layer.output.name])
            word = np.dtype(f"uint{8 * layer.dtype.itemsize}")
            different = np.argwhere(np.ascontiguousarray(found).view(word) != wanted.view(word))
            if len(different):
                window, column = map(int, different[0])
                first, number = divmod(window, len(vectors) // stream.steps)
                number += start // stream.steps
                raise ReferenceFailed(
                    f"layer {layer.name!r} ({layer.operator}), stream {number}, window {first}, "
                    f"column {column}: the steps say {found[window, column]}, the whole network "
                    f"{wanted[window, column]} ({len(different)} values)",
                    "the streaming form of a layer is wrong: report it",
                )
        of_layers = zip(stream.whole.layers, expected.ratios, strict=True)
        return {layer.output.name: ratio for layer, ratio in of_layers}


def reference_of(
    network: Network, *, x64_quant_precision: bool = True, engines: Sequence[str] = ALWAYS
) -> Reference | StreamReference:
    """Return the reference of a network, or of the steps of one."""
    stream = of(network)
    if stream is None:
        return Reference(network, x64_quant_precision=x64_quant_precision, engines=engines)
    return StreamReference(stream, x64_quant_precision=x64_quant_precision, engines=engines)
