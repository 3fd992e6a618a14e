"""The engine of `decide` on an NVIDIA GPU of this machine: kernels/decide/decide.cu, through the driver's API."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.applications.decide import engine
from harness.applications.decide.code_network import CodeNetwork, CodeStep
from harness.applications.decide.engine import AXES, Engine
from harness.applications.decide.partition import Sets
from harness.applications.decide.property import Rule
from harness.boards.workspace import cache_folder
from harness.core.document import durable
from harness.core.errors import ToolError
from harness.targets.cuda import nvrtc
from harness.targets.cuda.build import headers_in

SOURCE = "decide.cu"
KERNEL = "decide_batches"
THREADS, SAMPLES = 256, 2048  # of decide_gpu.h
BLOCKS_OF_A_MULTIPROCESSOR = 8
STEP = 8
"""Widths that the kernel is compiled for are multiples of it."""
PLANES_OF_WIDE_WEIGHTS = 3


class _Job(ctypes.Structure):
    """DecideGpuJob of decide_gpu.h."""

    _fields_ = (
        ("network", engine.NetworkStruct),
        ("box", engine.BoxStruct),
        ("regions", engine.RegionsStruct),
        ("axes", ctypes.c_int32),
        ("shape", ctypes.c_int32 * AXES),
        ("batches", ctypes.c_uint64),
        ("planes", ctypes.c_void_p),
        ("count", ctypes.c_void_p),
    )


class GpuEngine(Engine):
    """A network with a rule on the first GPU; searches and single code vectors stay on the processor.

    ToolError if there is no GPU or no driver, or the driver reports an error.
    """

    def __init__(self, network: CodeNetwork, rule: Rule, library: ctypes.CDLL | None = None) -> None:
        super().__init__(network, rule, library)
        self._steps = network.steps
        widths = [max(step.weights.shape) for step in network.steps]
        self._gpu = device(_multiple(max(widths)), _multiple(network.steps[-1].weights.shape[1]))

    @property
    def kernel(self) -> str:
        """The name of the kernel, and of the GPU that runs it."""
        return f"CUDA on {self._gpu.name}"

    def decide(
        self,
        low: Sequence[int],
        extent: Sequence[int],
        segments: Sequence[npt.NDArray[np.uint16]],
        shape: tuple[int, ...],
    ) -> tuple[Sets, int]:
        """Return what `Engine.decide` returns; ToolError if the GPU fails or does not decide all codes."""
        self.require_fit(low, extent, SAMPLES)
        for start, count, segment in zip(low, extent, segments, strict=True):
            steps = np.diff(segment[start : start + count].astype(np.int64))
            if steps.size and not set(np.unique(steps)) <= {0, 1}:
                raise ToolError("the GPU needs regions in the order of the codes", "decide without --gpu")
        batch = list(engine.batch(extent, SAMPLES))
        with self._gpu.work() as work:
            job = _Job(axes=len(extent), shape=(ctypes.c_int32 * AXES)(*batch))
            job.network = self._on_gpu(work)
            job.box = engine.box(low, extent)
            job.batches = math.prod(-(-size // part) for size, part in zip(extent, batch, strict=False))
            regions = np.zeros(shape, np.uint8)
            found = np.zeros(-(-regions.size // 4) * 4, np.uint8)  # the kernel changes whole words
            place = work.put(found)
            job.regions.regions = place
            for axis, segment in enumerate(segments):
                job.regions.segment[axis] = work.put(np.ascontiguousarray(segment, np.uint16))
                job.regions.stride[axis] = regions.strides[axis]
            job.planes = work.put(np.array([_planes(step) for step in self._steps], np.int32))
            job.count = work.put(np.zeros(1, np.uint64))
            work.launch(job, min(job.batches, BLOCKS_OF_A_MULTIPROCESSOR * self._gpu.multiprocessors))
            counted = np.zeros(1, np.uint64)
            work.get(found, place)
            work.get(counted, job.count)
        if int(counted[0]) != math.prod(extent):
            raise ToolError(f"the GPU decided {counted[0]} of {math.prod(extent)} codes", "report this: it is an error")
        regions.reshape(-1)[:] = found[: regions.size]
        return regions, math.prod(extent)

    def _on_gpu(self, work: _Work) -> Any:
        """Return the network with all its pointers to memory of the GPU."""
        network = engine.NetworkStruct()
        ctypes.memmove(ctypes.byref(network), ctypes.byref(self.network), ctypes.sizeof(network))
        layers = (engine.LayerStruct * network.layers)(*(network.layer[index] for index in range(network.layers)))
        for layer in layers:
            cells = layer.depth * layer.padded
            for name, size in (("weights", 2 * cells), ("offset", 4 * layer.padded), ("multiplier", 4 * layer.padded)):
                setattr(layer, name, work.put_bytes(ctypes.string_at(getattr(layer, name), size)))
        network.layer = ctypes.cast(work.put_bytes(bytes(layers)), type(network.layer))
        rule = network.rule
        compared = ctypes.string_at(rule.comparison, rule.comparisons * ctypes.sizeof(engine.ComparisonStruct))
        rule.comparison = ctypes.cast(work.put_bytes(compared or bytes(4)), type(rule.comparison))
        return network


def _planes(step: CodeStep) -> int:
    fit = step.weights.min() >= -128 and step.weights.max() <= 127
    return 1 if fit else PLANES_OF_WIDE_WEIGHTS


def _multiple(width: int) -> int:
    return -(-width // STEP) * STEP


@dataclass(frozen=True, eq=False)
class Device:
    """The first GPU with the kernel; one thread uses it at a time."""

    name: str
    multiprocessors: int
    context: Any
    function: Any
    lock: threading.Lock

    @contextmanager
    def work(self) -> Iterator[_Work]:
        """Provide a stream whose memory is freed at the end."""
        with self.lock:
            _call("cuCtxSetCurrent", self.context)
            work = _Work(self.function, _call("cuStreamCreate", 1), [])
            try:
                yield work
            finally:
                for address in work.allocated:
                    _call("cuMemFree", address)
                _call("cuStreamDestroy", work.stream)


@dataclass(frozen=True, eq=False)
class _Work:
    function: Any
    stream: Any
    allocated: list[Any]

    def put(self, array: npt.NDArray[Any]) -> int:
        """Return the address of a copy of the array on the GPU."""
        return self.put_bytes(array.tobytes())

    def put_bytes(self, content: bytes) -> int:
        """Return the address of a copy on the GPU."""
        address = _call("cuMemAlloc", len(content))
        self.allocated.append(address)
        _call("cuMemcpyHtoDAsync", address, content, len(content), self.stream)
        _call("cuStreamSynchronize", self.stream)
        return int(address)

    def get(self, array: npt.NDArray[Any], address: int) -> None:
        """Fill the array from memory of the GPU."""
        _call("cuMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, self.stream)
        _call("cuStreamSynchronize", self.stream)

    def launch(self, job: _Job, blocks: int) -> None:
        """Run the kernel, and wait for its end."""
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(job))
        sizes = (blocks, 1, 1, THREADS, 1, 1, 0)
        _call("cuLaunchKernel", self.function, *sizes, self.stream, ctypes.addressof(parameters), 0)
        _call("cuStreamSynchronize", self.stream)


@functools.cache
def device(width: int, scores: int) -> Device:
    """Return the first GPU, with the kernel for layers of at most `width` values, and `scores` in the last layer."""
    _call("cuInit", 0)
    if not _call("cuDeviceGetCount"):
        raise ToolError("the NVIDIA driver finds no GPU", "decide without --gpu")
    gpu = _call("cuDeviceGet", 0)
    multiprocessors, major, minor = (_call("cuDeviceGetAttribute", which, gpu) for which in _attributes())
    context = _call("cuCtxCreate", 0, gpu)
    module = _call("cuModuleLoadData", cubin(f"sm_{major}{minor}", width, scores))
    function = _call("cuModuleGetFunction", module, KERNEL.encode())
    name = _call("cuDeviceGetName", 128, gpu).split(b"\0")[0].decode()
    return Device(f"{name}, sm_{major}{minor}", multiprocessors, context, function, threading.Lock())


def cubin(arch: str, width: int, scores: int) -> bytes:
    """Return the kernel for a GPU architecture, from the cache if it was compiled here before."""
    text = f"#define WIDTH {width}\n#define SCORES {scores}\n".encode() + (engine.SOURCES / SOURCE).read_bytes()
    headers = headers_in(engine.GPU_KERNELS) | headers_in(engine.SOURCES)
    key = hashlib.sha256(b"".join([nvrtc.identity().encode(), text, *headers.values()])).hexdigest()[:16]
    path: Path = cache_folder() / "engines" / f"decide-{arch}-{key}.cubin"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable(path) as file:
            file.write(nvrtc.compile_for(arch, SOURCE, text, headers).cubin)
    return path.read_bytes()


def _attributes() -> tuple[Any, Any, Any]:
    attribute = _bindings().CUdevice_attribute
    return (
        attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    )


def _bindings() -> Any:
    """Return the driver's interface; ToolError if the extra `cuda` is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ToolError("cuda-python, which reaches the GPU, is not installed", nvrtc.INSTALL) from error
    return driver


def _call(function: str, *arguments: Any) -> Any:
    """Return what a function of the driver's API returns; ToolError if it fails or there is no driver."""
    try:
        status, *values = getattr(_bindings(), function)(*arguments)
    except RuntimeError as error:
        raise ToolError(f"no NVIDIA driver: {error}", "decide without --gpu") from error
    if status.value:
        raise ToolError(f"the NVIDIA driver fails: {function} returns {status.name}", "decide without --gpu")
    return values[0] if values else None
