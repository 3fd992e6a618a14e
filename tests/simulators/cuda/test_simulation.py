from __future__ import annotations

import ctypes
import dataclasses
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.reference.specification import SpecificationReference
from harness.targets import Table, toolchain
from harness.targets.cuda.code import DeviceCode, Kernel
from harness.targets.cuda.nvrtc import Compiled
from tests.integration.programs.test_operators import half_way_vectors
from tests.simulators.cuda import simulated
from tests.simulators.cuda.driver_api import Gpu
from tests.simulators.cuda.interpreted import BARRIERS_OF_DENSE, device_code, header, shared_bytes, without_barrier
from tests.simulators.cuda.simulated import Launch
from tests.support import builders
from tests.support.programs.board_program import parse

pytestmark = pytest.mark.campaign  # the stand-in itself; what runs on it is tested in make test

INVALID_VALUE, NOT_INITIALIZED, INVALID_IMAGE, INVALID_CONTEXT = 1, 3, 200, 201
NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION = 209, 218, 222
INVALID_HANDLE, NOT_FOUND, NOT_READY, ILLEGAL_ADDRESS = 400, 500, 600, 700
CONTEXT_IS_DESTROYED, LAUNCH_FAILED, NOT_SUPPORTED = 709, 719, 801
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURED_EVENT, CAPTURE_WRONG_THREAD = 900, 901, 907, 908
CAPTURE_ISOLATION = 905
THREAD_LOCAL = 1

Call = Callable[[Gpu], int]

FORMS = {"fibres": (), "ucontext": ("-DSIMULATION_UCONTEXT",), "threads": ("-DSIMULATION_THREADS",)}

# Small kernels, each for one matter of the stand-in.
SMALL = """
__device__ uint32_t table[4] = {1, 2, 3, 4};

KERNEL add_table(unsigned count, const uint8_t *a, uint8_t *y)
{
    const size_t i = thread_of_grid();
    if (i < count)
        y[i] = (uint8_t)(a[i] + table[i % 4]);
}

KERNEL __launch_bounds__(64) reversed(unsigned count, uint8_t *y)
{
    __shared__ uint8_t codes[64];
    codes[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = codes[count - 1 - threadIdx.x];
}

KERNEL ends_early(unsigned count, uint8_t *y)
{
    if (threadIdx.x == count)
        return;
    __syncthreads();
    y[threadIdx.x] = 1;
}

KERNEL parts(unsigned count, uint8_t *y)
{
    if (threadIdx.x < count)
        __syncthreads();
    else
        __syncthreads(); /* another line than the other */
    y[threadIdx.x] = 1;
}

/* The last thread of a warp does not multiply. */
KERNEL multiplies(unsigned count, uint32_t *y)
{
    int32_t first = (int32_t)threadIdx.x, second = 0;
#ifndef __CUDACC_RTC__ /* the image is for sm_72, which has another instruction */
    if (threadIdx.x % 32 < count)
        mma_8_8_16<int8_t>(first, second, threadIdx.x % 4 == 0, 0x02020202u);
#endif
    __syncthreads();
    y[threadIdx.x] = (uint32_t)(1000 * first + second);
}

KERNEL waits_unlisted(unsigned count, uint8_t *y)
{
    y[threadIdx.x] = (uint8_t)count;
    __syncthreads();
}

KERNEL reads_unwritten(unsigned count, uint8_t *y)
{
    __shared__ uint8_t codes[32];
    y[thread_of_grid()] = codes[threadIdx.x];
    __syncthreads();
    codes[threadIdx.x] = (uint8_t)count;
}

KERNEL writes_behind(unsigned count, uint8_t *y)
{
    if (threadIdx.x == 0)
        y[count] = 1;
}

KERNEL writes_shared(unsigned count, uint32_t *y)
{
    ((uint32_t *)shared_memory)[1] = count;
    y[0] = ((uint32_t *)shared_memory)[1];
}

KERNEL number(unsigned count, uint32_t *y)
{
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    y[block * count + thread] = 100 * block + thread;
}

KERNEL round_each(unsigned count, const float *a, int32_t *y)
{
    const size_t i = thread_of_grid();
    if (i < count)
        y[i] = __float2int_rn(a[i]);
}

KERNEL arithmetic(unsigned count, const float *a, const float *b, float *y)
{
    const size_t i = thread_of_grid();
    if (i >= count)
        return;
    y[4 * i] = __fmul_rn(a[i], b[i]);
    y[4 * i + 1] = __fadd_rn(__fmul_rn(a[i], b[i]), b[i]);
    y[4 * i + 2] = __fdiv_rn(a[i], b[i]);
    y[4 * i + 3] = __int2float_rn((int32_t)__float_as_uint(a[i]));
}
"""
BARRIERS = {"reversed", "ends_early", "parts", "reads_unwritten", "multiplies"}
SMALL_CODE = DeviceCode(
    "rounding.cuh",
    SMALL,
    tuple(
        Kernel(name, (), 0 if name in BARRIERS else 1, ())
        for name in re.findall(r"KERNEL (?:__launch\w+\(\d+\) )?(\w+)\(", SMALL)
    ),
    (Table("table", np.arange(1, 5, dtype=np.uint32)),),
    carried=1,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("simulation")


@pytest.fixture(scope="module")
def small() -> Compiled:
    return simulated.compiled("sm_72", SMALL_CODE)


def build_small(folder: Path, board: Profile, *flags: str) -> Path:
    return simulated.build(folder, SMALL_CODE, board, "-O1", *flags)


@pytest.fixture(scope="module")
def library(folder: Path, host: Profile) -> Path:
    return build_small(folder / "small", host, "-Wall", "-Wextra", "-Wshadow")


@pytest.fixture(scope="module")
def forms(folder: Path, library: Path, host: Profile) -> dict[str, Path]:
    others = {name: build_small(folder / name, host, *flags) for name, flags in FORMS.items() if flags}
    return {"fibres": library} | others


@pytest.fixture
def gpu(library: Path, small: Compiled) -> Gpu:
    return Gpu(library).open(small.cubin)


# Values


@pytest.fixture(scope="module")
def driver(folder: Path) -> Path:
    return simulated.build_driver(folder)


def random_network(*widths: int, **choices: bool) -> Network:
    return parse(builders.random_network(np.random.default_rng(0), widths, zero_points=True, **choices))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def chain() -> Network:
    return random_network(5, 13, 50, 7, 50, 3, per_column=True)


def forward(code: DeviceCode) -> tuple[str, ...]:
    """The kernels that compute the network."""
    return tuple(kernel.name for kernel in code.kernels if kernel.name.endswith("_forward"))


def row_bytes(net: Network) -> tuple[int, ...]:
    """Of a vector and its activations."""
    return (4 * net.vector.size, *(layer.size * layer.dtype.itemsize for layer in net.layers))


@pytest.fixture(scope="module", params=["cuda:fused", "cuda:layerwise"])
def code(request: pytest.FixtureRequest, chain: Network, host: Profile) -> DeviceCode:
    return device_code(chain, host, request.param)


@pytest.fixture(scope="module")
def image(code: DeviceCode, folder: Path) -> Path:
    return write_image(folder / f"{len(forward(code))}.cubin", code)


def write_image(path: Path, code: DeviceCode) -> Path:
    path.write_bytes(simulated.compiled("sm_72", code).cubin)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_the_kernels_compute_the_specification_whatever_the_threads(
    code: DeviceCode, image: Path, chain: Network, driver: Path, tmp_path: Path, form: str, host: Profile
) -> None:
    built = simulated.build(tmp_path, code, host, "-O2", *FORMS[form])
    vectors = half_way_vectors(chain, 200, 1)
    expected = [array.tobytes() for array in (vectors, *SpecificationReference(chain).activations(vectors))]
    for threads, replays in ((128, 1), 0), ((8, 16), 2), ((32, 3), 1), ((1, 1), 0):
        launch = Launch(forward(code), threads, replays, shared_bytes(code, code.kernels[0]))
        driven = simulated.drive(driver, built, image, row_bytes(chain), vectors, launch)
        assert (driven.process.returncode, driven.process.stdout) == (0, "")
        assert driven.activations is not None
        assert [found.tobytes() for found in driven.activations] == expected


def test_threads_and_blocks_are_numbered(gpu: Gpu) -> None:
    found = np.zeros(24 * 30, np.uint32)
    y = gpu.allocate(found.nbytes)
    assert gpu.launch(gpu.function("number"), [ctypes.c_uint(30), y], (2, 3, 4), (5, 3, 2)) == 0
    assert (gpu.get(found, y), gpu.synchronize()) == (0, 0)
    assert found.tolist() == [100 * block + thread for block in range(24) for thread in range(30)]


def test_a_float_becomes_the_nearest_integer_that_there_is(gpu: Gpu) -> None:
    values = [0.5, 1.5, -0.5, -2.5, 2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, np.inf, -np.inf, np.nan]
    given = np.array(values, np.float32)
    found = np.zeros(len(given), np.int32)
    a, y = gpu.allocate(given.nbytes), gpu.allocate(found.nbytes)
    assert gpu.put(a, given) == 0
    assert gpu.launch(gpu.function("round_each"), [ctypes.c_uint(len(given)), a, y]) == 0
    assert (gpu.get(found, y), gpu.synchronize()) == (0, 0)
    low, high = -(2**31), 2**31 - 1
    assert found.tolist() == [0, 2, 0, -2, 2147483520, high, low, low, high, low, 0]


def test_intrinsics_are_one_operation_each(gpu: Gpu) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 2**32, 1000, np.uint32).view(np.float32) for _ in range(2))
    found = np.zeros((1000, 4), np.float32)
    addresses = [gpu.allocate(array.nbytes) for array in (a, b, found)]
    assert (gpu.put(addresses[0], a), gpu.put(addresses[1], b)) == (0, 0)
    assert gpu.launch(gpu.function("arithmetic"), [ctypes.c_uint(1000), *addresses], (32, 1, 1)) == 0
    assert (gpu.get(found, addresses[2]), gpu.synchronize()) == (0, 0)
    with np.errstate(all="ignore"):
        expected = np.stack([a * b, a * b + b, a / b, a.view(np.int32).astype(np.float32)], axis=1)
    assert np.array_equal(found, expected, equal_nan=True)


# Barriers


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kernel", "count"), [("ends_early", 3), ("ends_early", 0), ("parts", 5)])
def test_a_barrier_that_not_all_threads_reach_fails_the_launch(
    forms: dict[str, Path], small: Compiled, form: str, kernel: str, count: int, capfd: pytest.CaptureFixture[str]
) -> None:
    gpu = Gpu(forms[form]).open(small.cubin)
    assert gpu.launch(gpu.function(kernel), [ctypes.c_uint(count), gpu.allocate(32)]) == 0
    assert (gpu.synchronize(), gpu.synchronize()) == (LAUNCH_FAILED, LAUNCH_FAILED)
    assert re.search(rf"{kernel}, block \(0, 0, 0\): the barrier at \S+:\d+ is not reached", capfd.readouterr().err)


@pytest.mark.parametrize("form", FORMS)
def test_a_barrier_that_all_threads_reach_lets_them_pass(forms: dict[str, Path], small: Compiled, form: str) -> None:
    gpu = Gpu(forms[form]).open(small.cubin)
    codes = np.arange(32, dtype=np.uint8)
    y = gpu.allocate(32)
    assert gpu.put(y, codes) == 0
    assert gpu.launch(gpu.function("reversed"), [ctypes.c_uint(32), y]) == 0
    assert gpu.launch(gpu.function("ends_early"), [ctypes.c_uint(99), gpu.allocate(32)]) == 0
    found = np.zeros(32, np.uint8)
    assert (gpu.get(found, y), gpu.synchronize()) == (0, 0)
    assert found.tolist() == codes[::-1].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_a_warp_multiplies_together_or_the_launch_fails(
    forms: dict[str, Path], small: Compiled, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two warps: the only product of each row that is not 0 is 1 * 2."""
    gpu = Gpu(forms[form]).open(small.cubin)
    y, found = gpu.allocate(256), np.zeros(64, np.uint32)
    assert gpu.launch(gpu.function("multiplies"), [ctypes.c_uint(32), y], block=(64, 1, 1)) == 0
    assert (gpu.get(found, y), gpu.synchronize()) == (0, 0)
    assert found.tolist() == [1000 * (thread + 2) + 2 for thread in range(64)]
    assert gpu.launch(gpu.function("multiplies"), [ctypes.c_uint(31), y], block=(64, 1, 1)) == 0
    assert gpu.synchronize() == LAUNCH_FAILED
    assert re.search(
        r"multiplies, block \(0, 0, 0\): the barrier at \S+mma_on_cpu\.h:\d+ is not", capfd.readouterr().err
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_barrier_of_a_kernel_that_is_listed_without_fails_the_launch(
    forms: dict[str, Path], small: Compiled, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    gpu = Gpu(forms[form]).open(small.cubin)
    assert gpu.launch(gpu.function("waits_unlisted"), [ctypes.c_uint(3), gpu.allocate(32)]) == 0
    assert gpu.synchronize() == LAUNCH_FAILED
    assert "stands in a kernel that is listed without barriers" in capfd.readouterr().err


@pytest.mark.parametrize("form", FORMS)
def test_shared_memory_is_spoilt_for_those_who_rely_on_it(forms: dict[str, Path], small: Compiled, form: str) -> None:
    gpu = Gpu(forms[form]).open(small.cubin)
    y, found = gpu.allocate(96), np.zeros(96, np.uint8)
    for _ in range(2):
        assert gpu.launch(gpu.function("reads_unwritten"), [ctypes.c_uint(7), y], (3, 1, 1)) == 0
        assert (gpu.get(found, y), gpu.synchronize()) == (0, 0)
        assert found.tolist() == [0xA5] * 32 + [7] * 32 + [0xA5] * 32  # the first and the last find it spoilt


# ThreadSanitizer

DATA_RACE = 66  # the exit status of ThreadSanitizer
ATTEMPTS = 20
TSAN = ("-O1", "-g", "-fsanitize=thread", *FORMS["threads"])
FUSED = header("fused.cuh")


@dataclasses.dataclass(frozen=True, eq=False)
class Watched:
    """What runs every function of fused.cuh, under ThreadSanitizer."""

    driver: Path
    image: Path
    net: Network
    code: DeviceCode
    board: Profile


@pytest.fixture(scope="module")
def watched(folder: Path, host: Profile) -> Watched:
    """The weights of the first QGemm are staged more than once."""
    net = random_network(199, 59, 59, dequantize=True)
    code = device_code(net, host, "cuda:fused")
    driver = simulated.build_driver(folder / "watched", "-fsanitize=thread")
    return Watched(driver, write_image(folder / "watched.cubin", code), net, code, host)


def build_watched(folder: Path, watched: Watched, fused: str) -> Path:
    """The whole network over another text of fused.cuh."""
    return simulated.build(folder, watched.code, watched.board, *TSAN, changed={"fused.cuh": fused})


def run_watched(watched: Watched, library: Path) -> subprocess.CompletedProcess[str]:
    vectors, launch = (
        half_way_vectors(watched.net, 20, 0),
        Launch(forward(watched.code), (8, 3), shared=shared_bytes(watched.code, watched.code.kernels[0])),
    )
    return simulated.drive(watched.driver, library, watched.image, row_bytes(watched.net), vectors, launch).process


def test_the_thread_sanitizer_finds_no_race(watched: Watched, tmp_path: Path) -> None:
    done = run_watched(watched, build_watched(tmp_path, watched, FUSED))
    assert (done.returncode, done.stdout) == (0, "")
    assert "ThreadSanitizer" not in done.stderr


@pytest.mark.parametrize("left_out", BARRIERS_OF_DENSE)
def test_the_thread_sanitizer_finds_a_barrier_that_is_left_out(watched: Watched, tmp_path: Path, left_out: int) -> None:
    """Of a run in which the threads of a full machine came one after the other it sees none: then there is another."""
    library = build_watched(tmp_path, watched, without_barrier(FUSED, left_out))
    runs = (run_watched(watched, library) for _ in range(ATTEMPTS))
    found = next((done for done in runs if done.returncode != 0), None)
    assert found is not None
    assert found.returncode == DATA_RACE
    assert "WARNING: ThreadSanitizer: data race" in found.stderr


# Asynchrony


def add_table(gpu: Gpu, a: int, y: int, count: int = 8, stream: int | None = None) -> int:
    return gpu.launch(gpu.function("add_table"), [ctypes.c_uint(count), a, y], stream=stream)


def test_nothing_happens_before_somebody_waits(gpu: Gpu) -> None:
    given, found = gpu.pinned(8), gpu.pinned(8)
    a, y = gpu.allocate(8), gpu.allocate(8)
    given[:] = 10
    found[:] = 0
    assert (gpu.put(a, given), add_table(gpu, a, y), gpu.get(found, y)) == (0, 0, 0)
    assert found.tolist() == [0] * 8
    given[:] = 20  # too early: the copy has not been done
    assert gpu.synchronize() == 0
    assert found.tolist() == [21, 22, 23, 24] * 2


def test_only_the_stream_that_is_waited_for_does_its_work(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SIMULATED_UNORDERED", "1")
    y, found, other = gpu.allocate(8), np.zeros(8, np.uint8), gpu.new_stream()
    assert (add_table(gpu, 0, y, count=0), gpu.get(found, y, other)) == (0, 0)
    assert gpu.synchronize() == 0
    assert found.tolist() == [0] * 8
    assert gpu.synchronize(other) == 0
    assert found.tolist() == [0xA5] * 8  # memory that nothing has been written to


def capture(gpu: Gpu, a: int, y: int, given: Array, found: Array) -> int:
    gpu.do("cuStreamBeginCapture_v2", gpu.stream, THREAD_LOCAL)
    assert (gpu.put(a, given), add_table(gpu, a, y), gpu.get(found, y)) == (0, 0, 0)
    graph = end_capture(gpu)
    executable = gpu.make("cuGraphInstantiateWithFlags", graph, 0)
    gpu.do("cuGraphDestroy", graph)
    return executable


def end_capture(gpu: Gpu) -> int:
    graph = ctypes.c_uint64()
    gpu.do("cuStreamEndCapture", gpu.stream, ctypes.byref(graph))
    return graph.value


def test_a_graph_replays_what_was_captured_with_the_parameters_of_then(gpu: Gpu) -> None:
    given, found, a, y = gpu.pinned(8), gpu.pinned(8), gpu.allocate(8), gpu.allocate(8)
    found[:] = 0
    executable = capture(gpu, a, y, given, found)
    assert (gpu.synchronize(), found.tolist()) == (0, [0] * 8)
    for first in (10, 20):
        given[:] = first
        gpu.do("cuGraphLaunch", executable, gpu.stream)
        assert gpu.synchronize() == 0
        assert found.tolist() == [first + 1, first + 2, first + 3, first + 4] * 2
    gpu.do("cuGraphExecDestroy", executable)
    assert gpu.call("cuGraphLaunch", executable, gpu.stream) == INVALID_HANDLE


@pytest.mark.parametrize(
    "call",
    [
        lambda gpu: gpu.put(gpu.room, np.zeros(8, np.uint8)),
        lambda gpu: gpu.get(np.zeros(8, np.uint8), gpu.room),
        lambda gpu: gpu.synchronize(),
        lambda gpu: gpu.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 8),
        lambda gpu: gpu.call("cuMemFree_v2", gpu.room),
        lambda gpu: gpu.call("cuStreamDestroy_v2", gpu.stream),
    ],
    ids=["copy in pageable", "copy out pageable", "synchronize", "allocate", "free", "destroy"],
)
def test_a_call_that_cannot_be_captured_breaks_the_capture(gpu: Gpu, call: Call) -> None:
    gpu.room = gpu.allocate(8)
    gpu.do("cuStreamBeginCapture_v2", gpu.stream, THREAD_LOCAL)
    assert call(gpu) == CAPTURE_UNSUPPORTED
    graph = ctypes.byref(ctypes.c_uint64())
    assert gpu.call("cuStreamEndCapture", gpu.stream, graph) == CAPTURE_INVALIDATED
    assert gpu.call("cuStreamEndCapture", gpu.stream, graph) == INVALID_VALUE
    assert (gpu.put(gpu.room, np.zeros(8, np.uint8)), gpu.synchronize()) == (0, 0)


def in_another_thread(call: Callable[[], int]) -> int:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]


def test_a_capture_ends_in_its_own_thread(gpu: Gpu) -> None:
    graph = ctypes.byref(ctypes.c_uint64())
    gpu.do("cuStreamBeginCapture_v2", gpu.stream, THREAD_LOCAL)

    def end() -> int:
        gpu.do("cuCtxSetCurrent", gpu.context)
        return gpu.call("cuStreamEndCapture", gpu.stream, graph)

    assert (in_another_thread(end), end()) == (CAPTURE_WRONG_THREAD, 0)


def test_events_tell_when_their_stream_came_to_them(gpu: Gpu) -> None:
    begin, end, unused = (gpu.make("cuEventCreate", 0) for _ in range(3))
    y, found = gpu.allocate(8), np.zeros(8, np.uint8)
    milliseconds = ctypes.c_float(-1)
    elapsed = ("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
    assert gpu.call(*elapsed) == INVALID_HANDLE  # not recorded
    gpu.do("cuEventRecord", begin, gpu.stream)
    assert add_table(gpu, y, y) == 0
    gpu.do("cuEventRecord", end, gpu.stream)
    assert gpu.get(found, y) == 0
    assert gpu.call(*elapsed) == NOT_READY
    gpu.do("cuEventSynchronize", end)
    gpu.do(*elapsed)
    assert 0 < milliseconds.value < 60000
    assert found.tolist() == [0] * 8  # behind the event
    gpu.do("cuEventSynchronize", unused)


def test_an_event_in_a_capture_has_no_time(gpu: Gpu) -> None:
    event = gpu.make("cuEventCreate", 0)
    gpu.do("cuStreamBeginCapture_v2", gpu.stream, THREAD_LOCAL)
    gpu.do("cuEventRecord", event, gpu.stream)
    end_capture(gpu)
    assert gpu.call("cuEventSynchronize", event) == CAPTURED_EVENT


def test_threads_of_the_program_share_a_context_and_have_their_own_streams(gpu: Gpu) -> None:
    wrong: list[int] = []

    def work(first: int) -> None:
        gpu.do("cuCtxSetCurrent", gpu.context)
        stream = gpu.new_stream()
        given, found = gpu.pinned(8), gpu.pinned(8)
        a, y = gpu.allocate(8), gpu.allocate(8)
        for i in range(100):
            given[:] = first + i
            calls = gpu.put(a, given, stream), add_table(gpu, a, y, 8, stream), gpu.get(found, y, stream)
            right = calls == (0, 0, 0) and gpu.synchronize(stream) == 0
            if not right or found.tolist() != [first + i + n for n in (1, 2, 3, 4)] * 2:
                wrong.append(first + i)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 50, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Streams that wait for each other


class Streams:
    """Two streams: the first adds the table to zeros, the second to what the first has made, in other memory."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.first, self.second = gpu, gpu.stream, gpu.new_stream()
        self.a, self.b, self.y = (gpu.allocate(8) for _ in range(3))
        self.found = gpu.pinned(8)
        self.event, self.back = (gpu.make("cuEventCreate", 2) for _ in range(2))
        assert (gpu.put(self.a, np.zeros(8, np.uint8)), gpu.synchronize()) == (0, 0)

    def write(self) -> int:
        return add_table(self.gpu, self.a, self.b, 8, self.first)

    def read(self) -> int:
        return add_table(self.gpu, self.b, self.y, 8, self.second)

    def record(self, stream: int, event: int | None = None) -> int:
        return self.gpu.call("cuEventRecord", event or self.event, stream)

    def wait(self, stream: int, event: int | None = None) -> int:
        return self.gpu.call("cuStreamWaitEvent", stream, event or self.event, 0)

    def result(self) -> list[int]:
        assert (self.gpu.get(self.found, self.y, self.second), self.gpu.synchronize(self.second)) == (0, 0)
        return self.found.tolist()


@pytest.fixture(params=["", "EAGER=2", "EAGER=1", "EAGER=3", "STREAMS=1", "STREAMS=2"])
def streams(
    request: pytest.FixtureRequest, library: Path, small: Compiled, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Streams]:
    name, _, value = request.param.partition("=")
    if name:
        monkeypatch.setenv(f"HARNESS_SIMULATED_{name}", value)
    made = Streams(Gpu(library).open(small.cubin))
    yield made
    made.gpu.call("cuCtxDestroy_v2", made.gpu.context)


def test_an_event_orders_two_streams_whichever_begins_first(streams: Streams) -> None:
    for _ in range(20):
        assert (streams.write(), streams.record(streams.first), streams.wait(streams.second)) == (0, 0, 0)
        assert (streams.read(), streams.record(streams.second, streams.back)) == (0, 0)
        assert streams.wait(streams.first, streams.back) == 0
        assert streams.result() == [2, 4, 6, 8] * 2


UNORDERED_HAND_OVERS: dict[str, Callable[[Streams], Sequence[int]]] = {
    "early record": lambda s: (s.record(s.first), s.write(), s.wait(s.second), s.read()),
    "no wait": lambda s: (s.write(), s.record(s.first), s.read()),
    "wrong stream": lambda s: (s.write(), s.record(s.second), s.wait(s.second), s.read()),
    "shared event": lambda s: (s.write(), s.record(s.first), s.record(s.second), s.wait(s.second), s.read()),
    "no wait for the reader": lambda s: (s.write(), s.record(s.first), s.wait(s.second), s.read(), s.write()),
}


@pytest.mark.parametrize("kind", UNORDERED_HAND_OVERS)
def test_accesses_that_nothing_orders_break_the_context(
    streams: Streams, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    *right, wrong = UNORDERED_HAND_OVERS[kind](streams)
    assert (set(right), wrong) == ({0}, LAUNCH_FAILED)
    assert streams.gpu.synchronize() == LAUNCH_FAILED
    verb = "writes memory of the GPU that add_table reads" if "reader" in kind else "reads memory"
    assert capfd.readouterr().err.count(f"add_table {verb}") == 1


@pytest.mark.parametrize("kind", list(UNORDERED_HAND_OVERS)[:-1])
def test_a_wait_that_is_missing_gives_wrong_values_every_time(
    library: Path, small: Compiled, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_SIMULATED_UNORDERED", "1")
    for eager in ("0", "2"):
        monkeypatch.setenv("HARNESS_SIMULATED_EAGER", eager)
        unordered = Streams(Gpu(library).open(small.cubin))
        assert set(UNORDERED_HAND_OVERS[kind](unordered)) == {0}
        assert unordered.result() == [0xA6, 0xA7, 0xA8, 0xA9] * 2  # of memory that nothing has been written to


def test_a_thread_that_has_waited_orders_what_it_adds(streams: Streams) -> None:
    assert (streams.write(), streams.gpu.synchronize(), streams.read()) == (0, 0, 0)
    assert streams.result() == [2, 4, 6, 8] * 2
    event = streams.gpu.make("cuEventCreate", 0)
    assert (streams.write(), streams.record(streams.first, event)) == (0, 0)
    assert (streams.gpu.call("cuEventSynchronize", event), streams.read()) == (0, 0)


def test_a_wait_must_be_for_a_record_of_the_same_context(streams: Streams, capfd: pytest.CaptureFixture[str]) -> None:
    gpu, event = streams.gpu, streams.event
    assert (streams.wait(streams.second), "was never recorded" in capfd.readouterr().err) == (NOT_SUPPORTED, True)
    gone = gpu.make("cuEventCreate", 2)
    gpu.do("cuEventDestroy_v2", gone)
    for handle in (12345, gone, gpu.module):
        assert (streams.record(streams.first, handle), streams.wait(streams.first, handle)) == (INVALID_HANDLE,) * 2
    assert streams.record(streams.first) == 0
    assert gpu.call("cuStreamWaitEvent", 0, event, 0) == INVALID_HANDLE
    assert gpu.call("cuStreamWaitEvent", streams.second, event, 1) == INVALID_VALUE
    other = gpu.make("cuCtxCreate_v2", 0, 0)
    assert (streams.wait(gpu.new_stream()), streams.record(gpu.new_stream())) == (INVALID_HANDLE,) * 2
    gpu.do("cuCtxDestroy_v2", other)
    gpu.do("cuCtxSetCurrent", gpu.context)
    gpu.do("cuEventDestroy_v2", event)  # the wait is for its record, which stays
    assert streams.write() == 0


def test_a_wait_is_no_part_of_a_graph(streams: Streams) -> None:
    gpu = streams.gpu
    assert streams.record(streams.second) == 0
    gpu.do("cuStreamBeginCapture_v2", gpu.stream, THREAD_LOCAL)
    assert streams.wait(gpu.stream) == CAPTURE_ISOLATION
    assert gpu.call("cuStreamEndCapture", gpu.stream, OUT) == CAPTURE_INVALIDATED


def test_an_event_for_order_alone_has_no_time(streams: Streams) -> None:
    assert (streams.record(streams.first), streams.gpu.synchronize()) == (0, 0)
    elapsed = ctypes.byref(ctypes.c_float()), streams.event, streams.event
    assert streams.gpu.call("cuEventElapsedTime", *elapsed) == INVALID_HANDLE


# Order and handles


def test_nothing_but_questions_works_before_cuinit(library: Path) -> None:
    gpu, out = Gpu(library), ctypes.byref(ctypes.c_uint64())
    assert gpu.make("cuDriverGetVersion") == 11040
    for call in (("cuDeviceGetCount", out), ("cuCtxCreate_v2", out, 0, 0), ("cuMemAlloc_v2", out, 8)):
        assert gpu.call(*call) == NOT_INITIALIZED, call
    gpu.do("cuInit", 0)
    assert gpu.make("cuDeviceGetCount") == 1
    assert gpu.call("cuMemAlloc_v2", out, 8) == INVALID_CONTEXT


def test_the_device_says_what_it_is(gpu: Gpu) -> None:
    name = ctypes.create_string_buffer(100)
    gpu.do("cuDeviceGetName", name, 100, 0)
    assert name.value == b"host-simulation of CUDA"
    assert [gpu.make("cuDeviceGetAttribute", which, 0) & 0xFFFFFFFF for which in (75, 76, 16)] == [7, 2, 8]
    assert gpu.call("cuDeviceGetName", name, 100, 1) == 101
    text = ctypes.c_char_p()
    gpu.do("cuGetErrorName", LAUNCH_FAILED, ctypes.byref(text))
    assert text.value == b"CUDA_ERROR_LAUNCH_FAILED"
    assert gpu.call("cuGetErrorName", 12345, ctypes.byref(text)) == INVALID_VALUE


def test_a_thread_has_a_context_only_after_it_was_set(gpu: Gpu) -> None:
    assert in_another_thread(gpu.synchronize) == INVALID_CONTEXT
    assert in_another_thread(lambda: gpu.call("cuCtxSetCurrent", gpu.context) or gpu.synchronize()) == 0
    gpu.do("cuCtxDestroy_v2", gpu.context)
    assert gpu.synchronize() == INVALID_CONTEXT
    assert gpu.call("cuCtxDestroy_v2", gpu.context) == INVALID_CONTEXT


def test_a_context_that_another_thread_destroys_is_gone(gpu: Gpu) -> None:
    assert in_another_thread(lambda: gpu.call("cuCtxDestroy_v2", gpu.context)) == 0
    assert gpu.synchronize() == CONTEXT_IS_DESTROYED


def test_a_context_does_not_know_what_another_made(gpu: Gpu) -> None:
    a = gpu.allocate(8)
    other = gpu.make("cuCtxCreate_v2", 0, 0)
    assert (gpu.synchronize(), gpu.call("cuMemFree_v2", a)) == (INVALID_HANDLE, INVALID_VALUE)
    assert gpu.put(a, np.zeros(8, np.uint8), gpu.new_stream()) == INVALID_VALUE
    gpu.do("cuCtxDestroy_v2", other)
    gpu.do("cuCtxSetCurrent", gpu.context)
    assert (gpu.synchronize(), gpu.call("cuMemFree_v2", a)) == (0, 0)


OUT = ctypes.byref(ctypes.c_uint64())
WITH_A_HANDLE = {
    "cuModuleUnload": (),
    "cuStreamDestroy_v2": (),
    "cuStreamSynchronize": (),
    "cuStreamBeginCapture_v2": (THREAD_LOCAL,),
    "cuStreamEndCapture": (OUT,),
    "cuGraphDestroy": (),
    "cuGraphExecDestroy": (),
    "cuEventDestroy_v2": (),
    "cuEventSynchronize": (),
}


@pytest.mark.parametrize("function", WITH_A_HANDLE)
def test_a_handle_must_name_something_of_its_kind(gpu: Gpu, function: str) -> None:
    other = gpu.function("number")
    gone = gpu.make("cuEventCreate", 0)
    gpu.do("cuEventDestroy_v2", gone)
    for handle in (0, 12345, other, gone):
        assert gpu.call(function, handle, *WITH_A_HANDLE[function]) == INVALID_HANDLE


def test_what_is_destroyed_is_gone(gpu: Gpu) -> None:
    stream, function = gpu.new_stream(), gpu.function("number")
    gpu.do("cuStreamDestroy_v2", stream)
    assert gpu.call("cuStreamDestroy_v2", stream) == INVALID_HANDLE
    gpu.do("cuModuleUnload", gpu.module)
    assert gpu.launch(function, [ctypes.c_uint(1), 0]) == INVALID_HANDLE
    assert gpu.call("cuModuleUnload", gpu.module) == INVALID_HANDLE


def test_leaks_are_listed_if_asked_for(
    library: Path, small: Compiled, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in ("0", "1"):
        monkeypatch.setenv("HARNESS_SIMULATED_LEAKS", asked)
        gpu = Gpu(library).open(small.cubin)
        gpu.do("cuMemFree_v2", gpu.allocate(8))
        gpu.allocate(8)
        gpu.do("cuCtxDestroy_v2", gpu.context)
        lines = capfd.readouterr().err.splitlines()
        assert [line.split(": ")[-1] for line in lines] == ["GPU memory", "stream", "module"] * int(asked)


# Memory


def test_memory_is_freed_once_and_by_its_first_address(gpu: Gpu) -> None:
    for allocate, free in (("cuMemAlloc_v2", "cuMemFree_v2"), ("cuMemAllocHost_v2", "cuMemFreeHost")):
        address = gpu.make(allocate, 8)
        assert gpu.call(free, address + 1) == INVALID_VALUE
        assert (gpu.call(free, address), gpu.call(free, address)) == (0, INVALID_VALUE)
        assert gpu.call(allocate, OUT, 0) == INVALID_VALUE


def test_copies_stay_within_an_allocation(gpu: Gpu) -> None:
    host, pinned, a = np.zeros(16, np.uint8), gpu.pinned(8), gpu.allocate(8)
    table = gpu.make("cuModuleGetGlobal_v2", OUT, gpu.module, b"table")
    for address, values in ((a, host), (a + 1, host[:8]), (a - 1, host[:8]), (table, host[:8]), (12345, host[:1])):
        allowed = 0 if address == table else INVALID_VALUE
        assert (gpu.put(address, values), gpu.get(values, address)) == (allowed, allowed)
    behind = pinned.ctypes.data + 4
    assert gpu.call("cuMemcpyHtoDAsync_v2", a, behind, 8, gpu.stream) == INVALID_VALUE
    assert (gpu.put(a + 4, host[:4]), gpu.put(a, pinned), gpu.synchronize()) == (0, 0, 0)


def test_memory_that_is_freed_too_early_breaks_the_context(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    a = gpu.allocate(8)
    assert gpu.put(a, np.zeros(8, np.uint8)) == 0
    gpu.do("cuMemFree_v2", a)
    assert (gpu.synchronize(), gpu.call("cuMemAlloc_v2", OUT, 8)) == (ILLEGAL_ADDRESS, ILLEGAL_ADDRESS)
    assert "freed before a copy" in capfd.readouterr().err


def test_a_kernel_writes_only_into_memory_of_the_gpu(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    assert add_table(gpu, gpu.allocate(8), gpu.pinned(8).ctypes.data) == 0
    assert gpu.synchronize() == ILLEGAL_ADDRESS
    assert "add_table: parameter 2" in capfd.readouterr().err


def test_a_write_behind_an_allocation_is_found(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    assert gpu.launch(gpu.function("writes_behind"), [ctypes.c_uint(8), gpu.allocate(8)]) == 0
    assert gpu.synchronize() == ILLEGAL_ADDRESS
    assert "outside an allocation of 8 bytes of the GPU" in capfd.readouterr().err


# Launches


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [
        ((0, 1, 1), (1, 1, 1), 0),
        ((1, 65536, 1), (1, 1, 1), 0),
        ((1, 1, 1), (1, 0, 1), 0),
        ((1, 1, 1), (1025, 1, 1), 0),
        ((1, 1, 1), (32, 33, 1), 0),
        ((1, 1, 1), (1, 1, 65), 0),
        ((1, 1, 1), (1, 1, 1), 48 * 1024 + 1),
    ],
)
def test_a_launch_has_limits(gpu: Gpu, grid: Sequence[int], block: Sequence[int], shared: int) -> None:
    parameters = [ctypes.c_uint(0), 0]
    assert gpu.launch(gpu.function("number"), parameters, (1, 1, 1), (32, 32, 1), 48 * 1024) == 0
    assert gpu.launch(gpu.function("number"), parameters, grid, block, shared) == INVALID_VALUE


DYNAMIC = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@pytest.mark.parametrize(("arch", "most"), [("61", 48), ("72", 96), ("75", 64), ("86", 99), ("87", 163), ("90", 227)])
def test_a_kernel_must_ask_for_much_shared_memory(
    library: Path, small: Compiled, monkeypatch: pytest.MonkeyPatch, arch: str, most: int
) -> None:
    monkeypatch.setenv("HARNESS_SIMULATED_ARCH", arch)
    gpu = Gpu(library).open(ptx_of(small, "7.4").replace(b".target sm_72", b".target sm_61"))
    function, own = gpu.function("reversed"), 64
    assert gpu.make("cuDeviceGetAttribute", 97, 0) & 0xFFFFFFFF == most * 1024
    parameters = [ctypes.c_uint(1), gpu.allocate(64)]

    def launch(shared: int) -> int:
        return gpu.launch(function, parameters, (1, 1, 1), (1, 1, 1), shared)

    assert gpu.call("cuFuncSetAttribute", function, DYNAMIC, most * 1024 - own + 1) == INVALID_VALUE
    assert gpu.call("cuFuncSetAttribute", function, DYNAMIC + 1, 64) == INVALID_VALUE
    assert gpu.call("cuFuncSetAttribute", gpu.stream, DYNAMIC, 64) == INVALID_HANDLE
    assert (launch(48 * 1024 - own), launch(48 * 1024 - own + 1)) == (0, INVALID_VALUE)
    assert gpu.call("cuFuncSetAttribute", function, DYNAMIC, most * 1024 - own) == 0
    assert (launch(most * 1024 - own), launch(most * 1024 - own + 1)) == (0, INVALID_VALUE)


def test_nobody_writes_behind_the_shared_memory_of_a_launch(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    y = gpu.allocate(4)
    for shared, result in ((8, 0), (4, LAUNCH_FAILED)):
        assert gpu.launch(gpu.function("writes_shared"), [ctypes.c_uint(7), y], shared=shared) == 0
        assert gpu.synchronize() == result
    assert "writes_shared writes behind its 4 bytes of shared memory" in capfd.readouterr().err


@pytest.mark.parametrize("code", ["cubin", "ptx"])
def test_a_kernel_has_limits_of_its_own(library: Path, small: Compiled, code: str) -> None:
    gpu = Gpu(library).open(small.cubin if code == "cubin" else ptx_of(small, "7.4"))
    parameters = [ctypes.c_uint(1), gpu.allocate(64)]
    for threads, shared, expected in ((64, 0, 0), (65, 0, INVALID_VALUE), (1, 49088, 0), (1, 49089, INVALID_VALUE)):
        result = gpu.launch(gpu.function("reversed"), parameters, (1, 1, 1), (threads, 1, 1), shared)
        assert (threads, shared, result) == (threads, shared, expected)


def test_parameters_must_be_given(gpu: Gpu) -> None:
    function, nothing = gpu.function("number"), ctypes.c_void_p()
    call = ("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, gpu.stream)
    assert gpu.call(*call, nothing, nothing) == INVALID_VALUE
    assert gpu.call(*call, (ctypes.c_void_p * 2)(), nothing) == INVALID_VALUE
    count, y = ctypes.c_uint(0), ctypes.c_uint64(0)
    given = (ctypes.c_void_p * 2)(ctypes.addressof(count), ctypes.addressof(y))
    assert gpu.call(*call, given, (ctypes.c_void_p * 1)()) == INVALID_VALUE
    assert (gpu.call(*call, given, nothing), gpu.call("cuStreamSynchronize", 0)) == (0, INVALID_HANDLE)


# Images


def ptx_of(compiled: Compiled, version: str) -> bytes:
    return compiled.ptx.replace(".version 7.8", f".version {version}").encode()


def load(library: Path, image: bytes) -> int:
    gpu = Gpu(library)
    gpu.do("cuInit", 0)
    gpu.make("cuCtxCreate_v2", 0, 0)
    return gpu.call("cuModuleLoadData", OUT, image)


@pytest.mark.parametrize("arch", [72, 87, 90])
def test_a_cubin_is_for_one_architecture(
    library: Path, arch: int, small: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubin = small.cubin if arch == 72 else simulated.compiled(f"sm_{arch}", SMALL_CODE).cubin
    for pretended in (72, 86, 87, 90):
        monkeypatch.setenv("HARNESS_SIMULATED_ARCH", str(pretended))
        assert load(library, cubin) == (0 if pretended == arch else NO_BINARY_FOR_GPU)


def test_a_cubin_of_a_later_cuda_is_refused(library: Path, small: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SIMULATED_DRIVER", "10020")
    assert load(library, small.cubin) == INVALID_IMAGE


@pytest.mark.parametrize(
    ("driver", "arch", "version", "expected"),
    [
        (11040, 72, "7.4", 0),
        (11040, 90, "7.4", 0),
        (11040, 72, "7.5", UNSUPPORTED_PTX_VERSION),
        (11040, 72, "7.8", UNSUPPORTED_PTX_VERSION),
        (11080, 72, "7.8", 0),
        (12020, 72, "8.2", 0),
        (12020, 72, "8.3", UNSUPPORTED_PTX_VERSION),
        (11040, 70, "7.4", INVALID_PTX),
    ],
)
def test_ptx_has_a_version_and_a_target(
    library: Path, small: Compiled, monkeypatch: pytest.MonkeyPatch, driver: int, arch: int, version: str, expected: int
) -> None:
    monkeypatch.setenv("HARNESS_SIMULATED_DRIVER", str(driver))
    monkeypatch.setenv("HARNESS_SIMULATED_ARCH", str(arch))
    assert load(library, ptx_of(small, version)) == expected


def test_what_is_neither_cubin_nor_ptx_is_refused(library: Path, small: Compiled) -> None:
    another_machine = bytearray(small.cubin)
    another_machine[18] = 62
    for image in (b"", b"not an image", bytes(another_machine), Path(sys.executable).read_bytes()[:4096]):
        assert load(library, image) == INVALID_IMAGE


@pytest.mark.parametrize("code", ["cubin", "ptx"])
def test_names_are_those_of_the_image(library: Path, small: Compiled, code: str) -> None:
    gpu = Gpu(library).open(small.cubin if code == "cubin" else ptx_of(small, "7.4"))
    assert gpu.function("number") == gpu.function("number") != gpu.function("parts")
    for name in (b"numbe", b"umber", b"table", b"", b"codes"):
        assert gpu.call("cuModuleGetFunction", OUT, gpu.module, name) == NOT_FOUND, name
    size = ctypes.c_uint64()
    gpu.do("cuModuleGetGlobal_v2", OUT, ctypes.byref(size), gpu.module, b"table")
    assert size.value == 16
    for name in (b"tabl", b"able", b"number"):
        assert gpu.call("cuModuleGetGlobal_v2", OUT, OUT, gpu.module, name) == NOT_FOUND, name


@pytest.mark.parametrize("other", [b"x%s", b"%sx"])
def test_what_the_image_lacks_is_not_taken_from_the_simulation(library: Path, small: Compiled, other: bytes) -> None:
    ptx = ptx_of(small, "7.4")
    for name in (b"writes_behind", b"table"):
        ptx = ptx.replace(name, other % name)
    gpu = Gpu(library).open(ptx)
    for name in (b"writes_behind", other % b"writes_behind"):
        assert gpu.call("cuModuleGetFunction", OUT, gpu.module, name) == NOT_FOUND, name
    for name in (b"table", other % b"table"):
        assert gpu.call("cuModuleGetGlobal_v2", OUT, OUT, gpu.module, name) == NOT_FOUND, name


def test_tables_of_other_sources_are_refused(library: Path, small: Compiled) -> None:
    assert load(library, ptx_of(small, "7.4").replace(b"table[16]", b"table[20]")) == INVALID_IMAGE


def test_a_module_has_its_tables_as_they_were_compiled(gpu: Gpu, small: Compiled) -> None:
    found = np.zeros(4, np.uint32)
    for _ in range(2):
        address = ctypes.c_uint64()
        gpu.do("cuModuleGetGlobal_v2", ctypes.byref(address), OUT, gpu.module, b"table")
        assert (gpu.get(found, address.value), gpu.synchronize()) == (0, 0)
        assert found.tolist() == [1, 2, 3, 4]
        assert (gpu.put(address.value, found + 1), gpu.get(found, address.value), gpu.synchronize()) == (0, 0, 0)
        assert found.tolist() == [2, 3, 4, 5]
        assert gpu.call("cuModuleLoadData", OUT, small.cubin) == NOT_SUPPORTED  # one at a time
        gpu.do("cuModuleUnload", gpu.module)
        gpu.module = gpu.make("cuModuleLoadData", small.cubin)


# Faults


@pytest.fixture
def faulty(library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Gpu]:
    def make(text: str) -> Gpu:
        monkeypatch.setenv("HARNESS_SIMULATED_FAULT", text)
        return Gpu(library)

    return make


def test_calls_fail_as_the_environment_says(faulty: Callable[[str], Gpu], small: Compiled) -> None:
    gpu = faulty("cuMemAlloc_v2=2,cuStreamSynchronize=702@3").open(small.cubin)
    assert [gpu.call("cuMemAlloc_v2", OUT, 8) for _ in range(2)] == [2, 2]
    assert [gpu.synchronize() for _ in range(4)] == [0, 0, 702, 702]


def test_there_may_be_no_gpu(faulty: Callable[[str], Gpu]) -> None:
    gpu = faulty("cuInit=100")
    assert (gpu.call("cuInit", 0), gpu.call("cuDeviceGetCount", OUT)) == (100, NOT_INITIALIZED)


@pytest.mark.parametrize(
    "text", ["cuInti=100", "cuInit", "cuInit=", "cuInit=0", "cuInit=1@0", "cuInit=1,,", "cuInit=1x", "cuInit=hangs"]
)
def test_a_fault_that_is_misspelt_fails_every_call(
    faulty: Callable[[str], Gpu], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert faulty(text).call("cuDriverGetVersion", OUT) == INVALID_VALUE
    assert "HARNESS_SIMULATED_FAULT" in capfd.readouterr().err


def test_a_call_may_hang(driver: Path, library: Path, small: Compiled, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(small.cubin)
    (tmp_path / "input").write_bytes(bytes(8))
    given = [driver, library, tmp_path / "image", 8, tmp_path / "input", tmp_path / "output", 8, 1]
    for fault, expected in ("cuStreamSynchronize=hang@3", 0), ("cuStreamSynchronize=hang@2", None):
        command = [str(word) for word in [*given, 1, 0, "1,1", "add_table"]]
        environment = {"HARNESS_SIMULATED_FAULT": fault}
        try:
            done = subprocess.run(command, env=environment, check=False, timeout=2 if expected is None else 60)
            assert done.returncode == expected
        except subprocess.TimeoutExpired:
            assert expected is None


# Other machines


def test_it_is_built_for_the_board(chain: Network, host: Profile, tmp_path: Path) -> None:
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.31")
    code = device_code(chain, host, "cuda:fused")
    built = simulated.build(tmp_path, code, host, "-O2", "-Wall", "-Wextra", compiler=compiler)
    content = built.read_bytes()
    assert int.from_bytes(content[18:20], "little") == 183  # aarch64
    assert (toolchain.required_glibc(built) or (2, 17)) <= (2, 31)
    needed = subprocess.run(["readelf", "-d", str(built)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED.*\[(\w+)", needed)) <= {"libc", "libm", "libpthread", "ld"}
    assert "SONAME" in needed
    assert "libcuda.so.1" in needed
