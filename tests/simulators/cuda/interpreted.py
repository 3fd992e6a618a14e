"""A network's device code as the target generates it and NVRTC compiles it, executed instruction by instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.obligations import StageKind
from harness.plan import planner
from harness.targets import KERNELS, ItemCode, Stage
from harness.targets.cuda import build, fused, nvrtc, ptx
from harness.targets.cuda.code import DeviceCode, Kernel
from tests.simulators.ptx.interpreter import Argument, Module

THREADS = 128  # in kernels/cuda/gpu.c
WHOLE, PARTS = 0, {StageKind.COMPUTE: 1, StageKind.ACCUMULATE: 2, StageKind.FINISH: 3}  # in kernels/cuda/part.h


BARRIER = "__syncthreads();"
BARRIERS_OF_DENSE, BARRIER_OF_CODES, BARRIERS_OF_IMAGES = (0, 4, 5), 1, (0, 2, 3)
"""Those of fused.cuh: behind words, images of codes, copies, sums of images, staged weights, dense sums."""


def shared_bytes(code: DeviceCode, kernel: Kernel) -> int:
    """Return the shared memory that a launch asks for, as kernels/cuda/gpu.c does."""
    return 4 * (kernel.tile_words * fused.stride(code.carried) + kernel.other_words)


def item_code(net: Network, board: Profile, target: str) -> ItemCode:
    """What is generated for a GPU that computes all layers."""
    names = [layer.name for layer in net.layers]
    everything = [f"{names[0]}..{names[-1]}={next(iter(board.items))}"]
    plan = planner.make(net, board, [target] * len(board.items), split=everything)
    [code] = codegen.generate(plan).items
    return code


def device_code(net: Network, board: Profile, target: str) -> DeviceCode:
    """What the GPU is given where it computes all layers."""
    kernels = item_code(net, board, target).kernels
    assert isinstance(kernels, DeviceCode)
    return kernels


def header(name: str) -> str:
    """The text of a header of kernels/cuda."""
    return (KERNELS / "cuda" / name).read_text()


def without_barrier(text: str, index: int) -> str:
    """Return the text of a header without one of its barriers."""
    parts = text.split(BARRIER)
    return BARRIER.join(parts[: index + 1]) + BARRIER.join(parts[index + 1 :])


def translated(code: DeviceCode, arch: str = "sm_72", changed: Mapping[str, str] | None = None) -> str:
    """PTX; the texts of some headers may be `changed`.

    For a virtual architecture, which makes the same PTX and, in less time, no cubin.
    """
    headers = build.headers_in(KERNELS / "cuda") | {name: text.encode() for name, text in (changed or {}).items()}
    virtual = arch.replace("sm_", "compute_")
    return nvrtc.compile_for(virtual, build.SOURCE, build.source([code]).encode(), headers).ptx


def compiled(code: DeviceCode, arch: str = "sm_72") -> str:
    """The inspected PTX."""
    made = translated(code, arch)
    ptx.inspect(made, build.fusing([code]))
    return made


def activations(
    net: Network,
    code: DeviceCode,
    text: str,
    vectors: Array,
    carried: int = 8,
    lanes: int | None = None,
    asked: Sequence[str] | None = None,
) -> tuple[Array, ...]:
    """All layers' outputs for float32 (n, K) `vectors`, or those of the layers `asked` for, the others being zeros.

    Blocks of threads carry up to `carried` vectors, with as many lanes as the program gives them or so many.
    """
    return run(Module(text), net, code, vectors, carried, lanes, asked)


def run(
    module: Module,
    net: Network,
    code: DeviceCode,
    vectors: Array,
    carried: int = 8,
    lanes: int | None = None,
    asked: Sequence[str] | None = None,
) -> tuple[Array, ...]:
    """Do what `activations` does with PTX that was read before."""
    outputs = {layer.name: np.zeros((len(vectors), layer.size), layer.dtype) for layer in net.layers}
    wanted = {f"{name}_output": array for name, array in outputs.items() if asked is None or name in asked}
    for kernel in code.kernels:
        if kernel.name.endswith("_forward"):
            arrays = [vectors if name == "input" else wanted.get(name) for name in kernel.arguments]
            _launch(module, code, kernel, len(vectors), arrays, [WHOLE, None, None, 0], carried, lanes)
    return tuple(outputs.values())


def ask(module: Module, code: DeviceCode, kernel: Kernel, stage: Stage, given: Array, made: Array) -> None:
    """A stage of a kernel, as kernels/cuda/gpu.c does for the proof."""
    asked: list[Argument] = [PARTS[stage.part], given, made, kernel.layers.index(stage.name.rpartition("_")[0])]
    _launch(module, code, kernel, len(given), [None] * len(kernel.arguments), asked, 8)


def _launch(
    module: Module,
    code: DeviceCode,
    kernel: Kernel,
    count: int,
    arrays: Sequence[Array | None],
    asked: Sequence[Argument],
    carried: int,
    lanes: int | None = None,
) -> None:
    """Launch a kernel as kernels/cuda/gpu.c does; only a kernel of several layers is told which of them is meant."""
    x, threads = (THREADS, count * kernel.outputs) if kernel.outputs else (min(carried, code.carried), count)
    arguments = [count, *arrays, *(asked[:-1] if kernel.outputs else asked)]
    module.launch(
        kernel.name,
        (-(-threads // x), 1, 1),
        (x, lanes or kernel.threads // x, 1),
        arguments,
        shared_bytes(code, kernel),
    )
