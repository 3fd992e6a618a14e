"""A network's device code as the target generates it and NVRTC compiles it, executed instruction by instruction."""

from __future__ import annotations

import numpy as np

from harness import network_c, plan
from harness.network import Array, Network
from harness.profile import Profile
from harness.targets import KERNELS
from harness.targets.cuda import build, nvrtc, ptx
from harness.targets.cuda.code import DeviceCode, Kernel
from tests.ptx.interpreter import Module

THREADS = 128  # in kernels/cuda/gpu.c


def device_code(net: Network, board: Profile, target: str) -> DeviceCode:
    """What the GPU is given where it computes all layers."""
    names = [layer.name for layer in net.layers]
    everything = [f"{names[0]}..{names[-1]}={next(iter(board.items))}"]
    made = plan.make(net, board, [target] * len(board.items), split=everything)
    [code] = network_c.item_codes(made)
    assert isinstance(code.kernels, DeviceCode)
    return code.kernels


def compiled(code: DeviceCode, arch: str = "sm_72") -> str:
    """The inspected PTX."""
    text = build.source([code]).encode()
    made = nvrtc.compile_for(arch, build.SOURCE, text, build.headers_in(KERNELS / "cuda")).ptx
    ptx.inspect(made)
    return made


def activations(net: Network, code: DeviceCode, text: str, vectors: Array, carried: int = 8) -> tuple[Array, ...]:
    """All layers' outputs for float32 (n, K) `vectors`; blocks of threads carry up to `carried` vectors."""
    module = Module(text)
    buffers: dict[str, Array] = {"input": vectors}
    buffers |= {f"{layer.name}_output": np.zeros((len(vectors), layer.width), layer.dtype) for layer in net.layers}
    for kernel in code.kernels:
        if kernel.name.endswith("_forward"):
            _launch(module, kernel, buffers, min(carried, code.carried))
    return tuple(buffers[f"{layer.name}_output"] for layer in net.layers)


def _launch(module: Module, kernel: Kernel, buffers: dict[str, Array], carried: int) -> None:
    """As kernels/cuda/gpu.c does."""
    count = len(buffers["input"])
    x, threads = (THREADS, count * kernel.outputs) if kernel.outputs else (carried, count)
    block = (x, THREADS // x, 1)
    module.launch(kernel.name, (-(-threads // x), 1, 1), block, [count, *(buffers[name] for name in kernel.arguments)])
