"""The bytes of activations that a network needs: as planned here, and in the schemes of two other tools.

All figures are of one vector and include the network's input.  Those of the other tools are computed, not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.model.network import Network
from harness.plan import arena
from harness.plan.plan import Plan, buffer_bytes

ALIGNMENT = 16
"""Bytes to which TensorFlow Lite Micro rounds every tensor up (`MicroArenaBufferAlignment`)."""
BLOCK = arena.PERIOD
"""A block of vectors in which no buffer in the arena is padded."""


@dataclass(frozen=True)
class Memory:
    """Bytes per vector: of buffers with bytes of their own, of buffers that share bytes in blocks of BLOCK vectors.

    `tflm` is the arena of tensors that the greedy planner of TensorFlow Lite Micro gives the same graph, without what
    its interpreter needs.  `acetone` are the two arrays of ACETONE, None for a network that is no sequence of layers.
    """

    own: int
    shared: int
    tflm: int
    acetone: int | None


def of(plan: Plan) -> Memory:
    """Return the bytes that a plan needs."""
    network = plan.network
    own, shared = arena.with_buffers(plan, BLOCK, "keep"), arena.with_buffers(plan, BLOCK, "reuse")
    return Memory(
        buffer_bytes(network, own.tasks), buffer_bytes(network, shared.tasks), in_sequence(network), _acetone(network)
    )


def in_sequence(network: Network) -> int:
    """Return the bytes of the arena for layers in sequence: a tensor lives from its writer to its last reader."""
    layers = network.layers
    tensors = [*network.inputs, *(layer.output for layer in layers)]
    lives = []
    for index, tensor in enumerate(tensors):
        readers = [number for number, layer in enumerate(layers) if tensor.name in layer.sources]
        lives.append((max(index - 1, 0), max(readers, default=len(layers))))
    sizes = {
        index: -(-tensor.size * tensor.dtype.itemsize // ALIGNMENT) * ALIGNMENT for index, tensor in enumerate(tensors)
    }
    conflicts = {
        one: sum(
            1 << other for other, (begin, end) in enumerate(lives) if other != one and begin <= stop and start <= end
        )
        for one, (start, stop) in enumerate(lives)
    }
    offsets = arena.place(sizes, conflicts, ALIGNMENT)
    return max(offsets[index] + size for index, size in sizes.items())


def _acetone(network: Network) -> int | None:
    """Return the bytes of `output_pre` and `output_cur` of De Albuquerque Silva et al., ACETONE, ECRTS 2022, listing 2.

    A layer reads one and writes the other, so that both hold the largest tensor.  Its layers are a sequence.
    """
    tensors = [*network.inputs, *(layer.output for layer in network.layers)]
    if any(layer.sources != (before.name,) for layer, before in zip(network.layers, tensors, strict=False)):
        return None
    return 2 * max(tensor.size * tensor.dtype.itemsize for tensor in tensors)
