"""MLIR of small networks, kept as text, and modules that IREE compiles and runs on this machine.

`python -m tests.support.mlir` writes the texts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Layer
from harness.targets.iree.compiler import ORDER
from harness.targets.iree.module import module_text, network_pieces
from tests.support import builders
from tests.support.programs.board_program import parse

FOLDER = Path(__file__).parent
SMALL: Mapping[str, Callable[[], Network]] = {
    "codes": lambda: parse(builders.random_network(np.random.default_rng(1), (3, 4, 2), dequantize=True, argmax=True)),
    "floats": lambda: parse(builders.float_sums()),
}
"""The networks of the texts."""


def text_of(name: str) -> str:
    """Return the text of a small network."""
    return "".join(network_pieces(SMALL[name]()))


def computed(layers: Sequence[Layer], inputs: Mapping[str, Array], text: str = "", cpu: str = "host") -> list[Array]:
    """Return the activations (vectors, size) of layers that IREE computes from `inputs` (vectors, size), by name.

    `text` takes the place of the layers' module.
    """
    from iree import compiler, runtime

    vectors = len(next(iter(inputs.values())))
    content = compiler.compile_str(
        text or module_text(layers, vectors=vectors),
        target_backends=["llvm-cpu"],
        extra_args=[f"--iree-llvmcpu-target-cpu={cpu}", *ORDER],
    )
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, content))
    written = {layer.output.name for layer in layers}
    read = {tensor.name: tensor for layer in layers for tensor in layer.inputs if tensor.name not in written}
    given = [_signed(inputs[name]).reshape(vectors, *tensor.shape) for name, tensor in read.items()]
    made = context.modules["module"]["main"](*given)
    made = made if isinstance(made, (list, tuple)) else [made]
    return [
        np.array(each.to_host()).reshape(vectors, -1).view(layer.dtype)
        for each, layer in zip(made, layers, strict=True)
    ]


def _signed(values: Array) -> Array:
    """Return uint8 as int8 of the same bits: MLIR's integers have no sign."""
    return values.view(np.int8) if values.dtype == np.uint8 else values
