"""The double of TIOVX: unmodified kernels compute right on it, and whatever they or the program do wrong is told."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from harness.targets.tiovx.constants import KERNELS_VERSION
from tests.simulators.tiovx import double
from tests.simulators.tiovx.double import Built, Case, drive, results

pytestmark = pytest.mark.campaign  # the stand-in itself; what runs on it is tested in make test

DSP, MPU = "DSP_C7-1", "MPU-0"
QGEMM = "org.harness.qgemm"
STRICT = 4
PERF = re.compile(r"(\S+): (node|graph) (\d+) (\d+) (\d+) (\d+) (\d+)")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built.make(tmp_path_factory.mktemp("double") / "built", "-O1")


@pytest.fixture(scope="module")
def network() -> Case:
    return double.case(depth=13, width=50, rows=7)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard error, of which every line is the double's."""
    lines = done.stderr.splitlines()
    assert all(line.startswith("TIOVX double: ") for line in lines), done.stderr
    return done.stderr


def assert_right(folder: Path, network: Case, core: str) -> None:
    accumulators, outputs = results(folder, network, core)
    np.testing.assert_array_equal(accumulators, network.accumulators)
    np.testing.assert_array_equal(outputs, network.outputs)


# Values


@pytest.mark.parametrize("core", [DSP, MPU])
@pytest.mark.parametrize(("depth", "width", "rows"), [(13, 50, 7), (1, 1, 1), (64, 16, 2), (300, 17, 3)])
def test_kernels_compute_right(built: Built, core: str, depth: int, width: int, rows: int) -> None:
    network = double.case(depth, width, rows)
    done = drive(built.folder, network, core, runs=2)
    assert (done.returncode, done.stderr) == (0, "")
    assert_right(built.folder, network, core)


def test_rows_larger_than_a_page(built: Built) -> None:
    network = double.case(depth=1100, width=5, rows=3)
    done = drive(built.folder, network, DSP)
    assert (done.returncode, done.stderr) == (0, "")
    assert_right(built.folder, network, DSP)


@pytest.mark.parametrize("core", [DSP, MPU])
def test_every_execution_sees_what_was_written_last(built: Built, network: Case, core: str) -> None:
    done = drive(built.folder, network, core, "other-input-first")
    assert (done.returncode, done.stderr) == (0, "")
    assert_right(built.folder, network, core)


def test_two_graphs_run_on_two_cores_at_once(built: Built, network: Case) -> None:
    done = drive(built.folder, network, "both", runs=50)
    assert (done.returncode, done.stderr) == (0, "")
    assert_right(built.folder, network, DSP)
    assert_right(built.folder, network, MPU)


def test_program_is_told_what_it_runs_on(built: Built, network: Case) -> None:
    lines = drive(built.folder, network, DSP).stdout.splitlines()
    assert lines[:3] == [
        "APP: Init ... done (double of TIOVX)",
        "host-simulation of TIOVX (double)",
        f"DSP_C7-1: version {KERNELS_VERSION} of {double.SOURCES}",
    ]
    assert lines[-2:] == ["APP: Deinit ... done (double of TIOVX)", "done"]


def test_times_are_whole_microseconds(built: Built, network: Case) -> None:
    done = drive(built.folder, network, MPU, runs=5)
    times = {kind: tuple(map(int, rest)) for _, kind, *rest in PERF.findall(done.stdout)}
    for count, total, average, least, greatest in times.values():
        assert count == 5
        assert total % 1000 == least % 1000 == greatest % 1000 == 0
        assert least <= average == total // 5 <= greatest
    assert times["node"][1] < times["graph"][1]


@pytest.mark.parametrize("flags", [("-fsanitize=address",), ("-fsanitize=undefined", "-fno-sanitize-recover=all")])
def test_sanitizers_find_nothing(tmp_path: Path, network: Case, flags: tuple[str, ...]) -> None:
    built = Built.make(tmp_path / "built", "-O1", *flags)
    done = drive(built.folder, network, "both", runs=3)
    assert (done.returncode, done.stderr) == (0, "")
    assert_right(built.folder, network, DSP)
    # A leak, or an access that is refused, is still told by the double.
    assert "not released: tensor 0" in said(drive(built.folder, network, DSP, "leak-tensor"))


def test_threads_are_sanitized(tmp_path: Path, network: Case) -> None:
    built = Built.make(tmp_path / "built", "-O1", "-fsanitize=thread")
    done = drive(built.folder, network, "both", runs=3)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer cannot run with this kernel's address layout")
    assert (done.returncode, done.stderr) == (0, "")


# Kernels: each change of a source breaks one rule

TARGET_POINTER = "*mapped = tivxMemShared2TargetPtr(memory_of(parameter, &bytes));"
MAP = "tivxMemBufferMap(*mapped, bytes, VX_MEMORY_TYPE_HOST, access)"
UNMAP = "return tivxMemBufferUnmap(mapped, bytes, VX_MEMORY_TYPE_HOST, access);"
ALLOCATE = "scratch = tivxMemAlloc(wanted, TIVX_MEM_EXTERNAL);"
FREE = "tivxMemFree(scratch, bytes, TIVX_MEM_EXTERNAL);"
SET_CONTEXT = "return tivxSetTargetKernelInstanceContext(kernel, scratch, wanted);"
ROWS_OF_SOURCE = "{mapped[first_of(parameters, which)], source->stride[1]}"
ROWS_OF_RESULT = "work->result = (struct rows){mapped[RESULT], result->stride[1]};"
ACCESS = "parameter == RESULT ? VX_WRITE_ONLY : VX_READ_ONLY"
COMPUTE = "    operation->compute(work);\n"
CREATE_UNMAPS = """    if (is_whole(constants, bytes))
        wanted = ((const struct operation *)operation)->scratch_bytes(constants);
    status = unmap(parameters[CONSTANTS], VX_READ_ONLY, constants);
"""
CREATE_UNMAPS_EARLY = """    status = unmap(parameters[CONSTANTS], VX_READ_ONLY, constants);
    if (is_whole(constants, bytes))
        wanted = ((const struct operation *)operation)->scratch_bytes(constants);
"""

RAW_POINTER = """*mapped = (void *)(uintptr_t)memory_of(parameter, &bytes)->{};
    (void)access;
    return *mapped ? VX_SUCCESS"""
WRONG_POINTER = """tivx_shared_mem_ptr_t wrong = *memory_of(parameter, &bytes);
    wrong.shared_ptr += 8;
    *mapped = tivxMemShared2TargetPtr(&wrong);"""
OTHER_POINTER = """    const uintptr_t first = (uintptr_t)work->sources[0].first;
    const tivx_obj_desc_tensor_t *source = (const tivx_obj_desc_tensor_t *)parameters[SOURCE];
    *(volatile uint8_t *)(first + (source->mem_ptr.shared_ptr - first) / 2); /* windows: DSP_C7-1, MPU-0, shared */
"""

CALLBACKS = {
    "no map": (
        MAP,
        "VX_SUCCESS",
        r"create: touches parameter 0 \(user data object \d+\) at row 0, byte 0, without map",
    ),
    "no unmap": (UNMAP, "return VX_SUCCESS;", r"create: parameter 0 \(.*\) is still mapped when the callback returns"),
    "used after unmap": (CREATE_UNMAPS, CREATE_UNMAPS_EARLY, r"create: touches parameter 0 .*, after unmapping it"),
    "unmapped twice": (UNMAP, UNMAP[7:] + UNMAP, "parameter 0 .* is unmapped without being mapped"),
    "mapped twice": (MAP, f"{MAP} + {MAP}", "parameter 0 .* is mapped twice"),
    "mapped too little": (MAP, MAP.replace("bytes", "bytes - 1"), r"mapped with \d+ bytes; its mem_size is \d+"),
    "unmapped too little": (UNMAP, UNMAP.replace("bytes", "bytes - 1"), r"unmapped with \d+ bytes; its mem_size is"),
    "mapped elsewhere": (MAP, MAP.replace("*mapped", "(char *)*mapped + 64"), "Map: .* is where no parameter's buffer"),
    "unmapped elsewhere": (UNMAP, UNMAP.replace("(mapped", "((char *)mapped + 64"), "Unmap: .* is where no parameter"),
    "unmapped otherwise": (
        UNMAP,
        UNMAP.replace("access)", "VX_READ_AND_WRITE)"),
        "READ_AND_WRITE.*mapped it was VX_READ",
    ),
    "mapped as other memory": (MAP, MAP.replace("_HOST", "_NONE"), "parameter 0 .* mapped for access 1, memory type 0"),
    "shared_ptr as pointer": (
        f"{TARGET_POINTER}\n    return *mapped ? {MAP}",
        RAW_POINTER.format("shared_ptr"),
        r"uses shared_ptr of parameter 0 \(user data object \d+\) as a pointer",
    ),
    "host_ptr as pointer": (
        f"{TARGET_POINTER}\n    return *mapped ? {MAP}",
        RAW_POINTER.format("host_ptr"),
        "uses host_ptr of parameter 0 .* as a pointer",
    ),
    "another descriptor's pointer": (
        TARGET_POINTER,
        WRONG_POINTER,
        "tivxMemShared2TargetPtr: the address is no parameter's",
    ),
    "input mapped to be written": (
        ACCESS,
        f"parameter == SOURCE ? VX_READ_AND_WRITE : {ACCESS}",
        r"process: parameter 2 \(tensor 0\) is an input, and mapped VX_READ_AND_WRITE",
    ),
    "output mapped to be read": (
        ACCESS,
        "parameter ? VX_READ_ONLY : VX_READ_ONLY",
        "parameter 3 .* and nobody has ever written it",
    ),
    "input written": (
        COMPUTE,
        "    work->sources[0].first[3] = 1;\n" + COMPUTE,
        r"process: touches parameter 2 \(tensor 0\) at row 0, byte 3, which it writes to, mapped VX_READ_ONLY",
    ),
    "rows of input dense": (
        ROWS_OF_SOURCE,
        "{mapped[first_of(parameters, which)], source->dimensions[0] * source->stride[0]}",
        r"touches parameter 2 \(tensor 0\) 1 bytes behind the last of row 0 \(stride\[1\] is \d+\)",
    ),
    "rows of output dense": (
        ROWS_OF_RESULT,
        "work->result = (struct rows){mapped[RESULT], result->dimensions[0] * result->stride[0]};",
        r"touches parameter 3 \(tensor 1\) 1 bytes behind the last of row 0",
    ),
    "one row too many": (
        COMPUTE,
        "    work->vectors += 1;\n" + COMPUTE,
        r"touches parameter 2 \(tensor 0\) at row 7, byte 0; it has 7 rows",
    ),
    "the other core's pointer": (
        COMPUTE,
        OTHER_POINTER + COMPUTE,
        r"touches the view of parameter 2 \(tensor 0\) that MPU-0 has",
    ),
    "before row 0": (
        COMPUTE,
        COMPUTE + "    work->result.first[-5000] = 0;\n",
        r"touches parameter 3 \(tensor 1\) 5000 bytes before row 0",
    ),
    "behind row 1": (
        COMPUTE,
        COMPUTE + "    work->result.first[work->result.stride + work->constants->width] = 1;\n",
        r"parameter 3 \(tensor 1\): something was written between rows, next to row 1",
    ),
    "before row 2": (
        COMPUTE,
        COMPUTE + "    work->result.first[2 * work->result.stride - 1] = 0;\n",
        r"parameter 3 \(tensor 1\): something was written between rows, next to row 2",
    ),
    "never freed": (FREE, "", r"delete: \d+ bytes of tivxMemAlloc were not freed"),
    "freed too little": (
        FREE,
        FREE.replace("bytes", "bytes - 1"),
        r"319 bytes of region 0 are freed; allocated were 320",
    ),
    "freed elsewhere": (
        FREE,
        FREE.replace("EXTERNAL", "INTERNAL_L2"),
        r"320 bytes of region 2 are freed; .* of region 0",
    ),
    "freed twice": (FREE, "{" + FREE * 2 + "}", "delete: tivxMemFree: the memory is freed twice"),
    "freed what is no memory": (FREE, FREE.replace("(scratch", "(parameters"), "the memory is none of tivxMemAlloc's"),
    "used after free": (
        FREE,
        "{" + FREE + " *(volatile char *)scratch = 0;}",
        "delete: touches memory of tivxMemAlloc after it was freed",
    ),
    "allocated too little": (
        ALLOCATE,
        ALLOCATE.replace("wanted", "wanted - 8"),
        "was set with 64 bytes; allocated were 56",
    ),
    "allocated nothing": (ALLOCATE, ALLOCATE.replace("wanted", "0"), "create: tivxMemAlloc: 0 bytes of region 0"),
    "context not set": (SET_CONTEXT, "return (void)kernel, VX_SUCCESS;", "create: the instance context was not set"),
    "context of other size": (SET_CONTEXT, SET_CONTEXT.replace("wanted", "8"), "set with 8 bytes; allocated were 64"),
    "context not of the core": (
        SET_CONTEXT,
        SET_CONTEXT.replace("scratch", "operation"),
        "is no memory of the instance",
    ),
    "create fails and keeps memory": (SET_CONTEXT, "return (void)kernel, VX_FAILURE;", "create: 64 bytes .* not freed"),
    "context of another instance": (
        SET_CONTEXT,
        SET_CONTEXT.replace("(kernel", "((tivx_target_kernel_instance)scratch"),
        "SetTargetKernelInstanceContext: not the instance that runs",
    ),
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_kernel_that_breaks_a_rule_is_told(built: Built, network: Case, tmp_path: Path, name: str) -> None:
    old, new, words = CALLBACKS[name]
    folder = built.changed(tmp_path / "changed", "callbacks.c", (old, new))
    done = drive(folder, network, DSP)
    assert (done.returncode, len(said(done).splitlines())) == (STRICT, 1), done.stderr
    assert re.match(rf"TIOVX double: org\.harness\.\w+ on {DSP}, \w+: ", done.stderr), done.stderr
    assert re.search(words, done.stderr), done.stderr


def test_scratch_that_is_too_small_is_told(built: Built, network: Case, tmp_path: Path) -> None:
    change = (
        "return sums_bytes(constants) + rounded_up(constants->depth, ALIGNMENT);",
        "return sums_bytes(constants);",
    )
    folder = built.changed(tmp_path / "changed", "qgemm.c", change)
    done = drive(folder, network, MPU)
    assert done.returncode == STRICT
    assert said(done) == f"TIOVX double: {QGEMM} on MPU-0, process: touches memory of tivxMemAlloc at byte 256 of 256\n"


def test_scratch_that_is_overrun_a_little_is_told(built: Built, network: Case, tmp_path: Path) -> None:
    change = ("+ rounded_up(constants->depth, ALIGNMENT);", "+ constants->depth;")  # 13 bytes, of which 16 are used
    done = drive(built.changed(tmp_path / "changed", "qgemm.c", change), network, DSP)
    assert done.returncode == STRICT
    assert "delete: tivxMemFree: something was written 1 bytes behind the last of 269" in said(done)


def test_delete_that_fails_is_told(built: Built, network: Case, tmp_path: Path) -> None:
    folder = built.changed(tmp_path / "changed", "callbacks.c", (FREE, "{" + FREE + " return VX_FAILURE;}"))
    done = drive(folder, network, DSP)
    assert done.returncode == STRICT
    assert f"node 0 of kernel {QGEMM}: delete returned -1" in said(done)


def test_memory_that_the_core_lacks_is_refused(built: Built, network: Case, tmp_path: Path) -> None:
    changes = [(each, each.replace("EXTERNAL", "INTERNAL_L2")) for each in (ALLOCATE, FREE)]
    folder = built.changed(tmp_path / "changed", "callbacks.c", *changes)
    assert drive(folder, network, DSP).returncode == 0
    done = drive(folder, network, MPU)
    assert done.returncode == 1
    assert "create: tivxMemAlloc: this core has no TIVX_MEM_INTERNAL_L2" in said(done)
    assert "on MPU-0: create returned -8" in done.stderr


def test_buffer_that_was_released_is_left_alone(built: Built, network: Case, tmp_path: Path) -> None:
    change = "    static volatile uint8_t *first;\n    first = first ? first : work->sources[0].first;\n    *first;\n"
    change = "    if (operation == &harness_quantize_linear) {\n" + change + "    }\n"
    folder = built.changed(tmp_path / "changed", "callbacks.c", (COMPUTE, change + COMPUTE))
    assert drive(folder, network, DSP).returncode == 0
    done = drive(folder, network, DSP, "again")
    assert done.returncode == STRICT
    assert re.search(r"process: touches tensor 0 \(no parameter of it\) after it was released", said(done))


def test_forgotten_copies_lose_data(built: Built, network: Case, tmp_path: Path) -> None:
    """What is mapped VX_WRITE_ONLY holds poison, not what was there: rows beyond those that count included."""
    change = (
        COMPUTE,
        "    if (work->command == WHOLE && work->constants->width == 50)\n        work->vectors -= 1;\n" + COMPUTE,
    )
    folder = built.changed(tmp_path / "changed", "callbacks.c", change)
    assert drive(folder, network, DSP, runs=2).returncode == 0
    outputs = results(folder, network, DSP)[1]
    np.testing.assert_array_equal(outputs[:-1], network.outputs[:-1])
    np.testing.assert_array_equal(outputs[-1], np.full(50, 0xA5))


# The program: what it does wrong, the exit status, what is told

MISUSES = {
    "core-unknown": ("node-target", 1, "vxSetNodeTarget: node 0: kernel org.harness.qgemm is not for core 'DSP-9'"),
    "core-not-listed": ("kernel-one-target", 1, "kernel org.harness.qgemm is not for core 'MPU-0'"),
    "kernel-target": (None, 1, "tivxAddKernelTarget: kernel org.harness.quantize_linear: there is no core 'DSP-9'"),
    "target-core": (None, STRICT, "tivxAddTargetKernelByName: org.x for core 'DSP-9', which there is not"),
    "target-foreign": (None, STRICT, "org.x for DSP_C7-1 is registered by the program: only a core's own firmware"),
    "target-callback": (None, STRICT, "tivxAddTargetKernelByName: org.x for MPU-0 lacks a callback"),
    "target-twice": (None, STRICT, "org.harness.qgemm for MPU-0 is registered twice"),
    "target-removed-twice": (None, 1, "tivxRemoveTargetKernel: there is no such kernel, or no longer"),
    "unregistered": (None, 1, "kernel org.harness.quantize_linear has not been registered on MPU-0"),
    "kernel-open": (None, 1, "vxCreateGenericNode: kernel org.harness.qgemm is not finalized"),
    "kernel-changed": (None, 1, "tivxAddKernelTarget: kernel org.harness.quantize_linear is finalized"),
    "kernel-unknown": (None, 1, "vxGetKernelByName: there is no 'org.x', or it is not finalized"),
    "kernel-name": (None, 1, "vxAddUserKernel: org.harness.quantize_linear: there is one of that name"),
    "kernel-parameter-missing": (
        None,
        1,
        "vxFinalizeKernel: kernel org.harness.quantize_linear: parameter 0 is missing",
    ),
    "kernel-parameter-index": (None, 1, "vxAddParameterToKernel: kernel org.harness.quantize_linear: index 4, of 4"),
    "kernel-direction": (None, 1, "parameter 1 of direction 2, type 0x80a"),
    "host-function": (None, 1, "vxAddUserKernel: org.harness.quantize_linear: a kernel of a target has no function"),
    "parameter-missing": (None, 1, "vxVerifyGraph: node 0 of kernel org.harness.qgemm lacks parameter 0"),
    "parameter-type": (None, 1, "vxSetParameterByIndex: scalar 0 instead of a tensor"),
    "parameter-index": (None, 1, "vxSetParameterByIndex: user data object 1 instead of a scalar"),
    "parameter-twice": (None, 1, "node 0 of kernel org.harness.qgemm: index 0, of 4, or set before"),
    "no-target": (None, 1, "vxVerifyGraph: node 0 of kernel org.harness.qgemm has no target (vxSetNodeTarget)"),
    "circle": (None, 1, "vxVerifyGraph: the nodes of graph 0 depend on each other in a circle"),
    "two-writers": (None, 1, "vxVerifyGraph: node 0 and node 1 write the same data"),
    "meta-unset": (None, 1, "node 0 of kernel org.harness.qgemm, parameter 3 (tensor 2): validate has left its meta"),
    "meta-dims": (None, 1, "parameter 3 (tensor 2): validate says it has other dimensions"),
    "meta-type": (None, 1, "parameter 3 (tensor 2): validate says it has another data type"),
    "meta-size": (None, 1, "vxSetMetaFormatAttribute: VX_TENSOR_NUMBER_OF_DIMS is 8 bytes, given 4"),
    "validate-fails": (None, 1, "vxVerifyGraph: node 0 of kernel org.harness.qgemm: validate returned -16"),
    "initialize-fails": (None, 1, "node 1 of kernel org.harness.quantize_linear: initialize returned -1"),
    "process-unverified": (None, STRICT, "vxProcessGraph: graph 0 is not verified"),
    "command-unverified": (None, 1, "tivxNodeSendCommand: the graph of node 0 is not verified"),
    "verify-twice": (None, 1, "vxVerifyGraph: graph 0 is verified already"),
    "change-verified": (None, 1, "vxSetNodeTarget: graph 0 is verified already"),
    "unwritten": (None, STRICT, "create: parameter 0 (user data object 0) is mapped VX_READ_ONLY, and nobody has ever"),
    "unwritten-input": (None, STRICT, "process: parameter 2 (tensor 0) is mapped VX_READ_ONLY, and nobody has ever"),
    "tensor-dims": (None, 1, "vxCreateTensor: 2 dimensions, or one that is 0"),
    "copy-end": (None, 1, "vxCopyTensorPatch: from 0 to 8 of dimension 1, which has 7"),
    "copy-stride": (None, 1, "vxCopyTensorPatch: stride 51 of dimension 1; elements have 4 bytes"),
    "copy-count": (None, 1, "vxCopyTensorPatch: 3 dimensions of 2"),
    "object-size": (None, 1, "vxCopyUserDataObject: 64 bytes from 1 on of 64"),
    "attribute-size": (None, 1, "VX_GRAPH_PERFORMANCE is 64 bytes, asked for 63"),
    "implementation-size": (None, 1, "VX_CONTEXT_IMPLEMENTATION is 64 bytes, asked for 63"),
    "release-twice": (None, 1, "vxReleaseTensor: tensor 0 is released already"),
    "used-too-late": (None, 1, "vxCopyTensorPatch: tensor 0 is released already"),
    "leak-tensor": (None, STRICT, "vxReleaseContext: not released: tensor 0"),
    "leak-graph": (None, STRICT, "vxRemoveKernel: a graph still uses kernel org.harness.quantize_linear"),
    "leak-kernel": (None, STRICT, "vxReleaseContext: not released: kernel org.harness.quantize_linear"),
    "leak-module": (None, STRICT, "vxReleaseContext: module harness is still loaded"),
    "leak-registration": (None, STRICT, "appDeInit: module harness is still registered"),
    "leak-target-kernel": (None, STRICT, "appDeInit: org.harness.quantize_linear on MPU-0 is still registered"),
    "leak-context": (None, STRICT, "appDeInit: the context is not released"),
    "module-twice": (None, 1, "tivxRegisterModule: harness is registered already"),
    "load-twice": (None, 1, "vxLoadKernels: module 'harness' is loaded already"),
    "second-context": (None, 1, "vxCreateContext: there is a context already"),
    "early-context": (None, 1, "vxCreateContext: before appInit"),
    "init-twice": (None, STRICT, "appInit: a second time"),
    "outside-alloc": (None, STRICT, "tivxMemAlloc: called outside a callback of a kernel"),
    "outside-map": (None, STRICT, "tivxMemBufferMap: called outside a callback of a kernel"),
    "outside-free": (None, STRICT, "tivxMemFree: called outside a callback of a kernel"),
    "outside-pointer": (None, STRICT, "tivxMemShared2TargetPtr: called outside a callback of a kernel"),
    "outside-context": (None, STRICT, "tivxSetTargetKernelInstanceContext: called outside a callback of a kernel"),
    "end-twice": (None, STRICT, "appDeInit: without appInit"),
    "scalar-type": (None, 1, "vxCreateScalar: type 10"),
    "replica": (None, 1, "tivxNodeSendCommand: node 0: replica 1, 4 references"),
    "attribute": (None, 1, "vxQueryContext: attribute 2"),
    "release-held-twice": (None, 1, "vxReleaseTensor: tensor 0 is released already"),
    "target-removed-early": (None, STRICT, "tivxRemoveTargetKernel: a graph still uses org.harness.quantize_linear on"),
    "module-unknown": (None, 1, "tivxUnRegisterModule: 'x' is not registered"),
    "module-early": (None, STRICT, "tivxUnRegisterModule: harness is still loaded"),
    "no-reference": (None, 1, "vxQueryTensor: no reference (NULL)"),
    "object-empty": (None, 1, "vxCreateUserDataObject: 0 bytes of type 'x'"),
    "limit-tensors": (None, 1, "vxCreateTensor: more than 256 of them"),
    "limit-objects": (None, 1, "vxCreateUserDataObject: more than 194 of them"),
    "limit-instances": (None, 1, "more than 64 instances of target kernels"),
    "limit-target-kernels": (None, 1, "tivxAddTargetKernelByName: more than 256 target kernels"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_program_that_breaks_a_rule_is_told(built: Built, network: Case, name: str) -> None:
    word, status, words = MISUSES[name]
    done = drive(built.folder, network, MPU, word or name)
    assert words in said(done)
    assert (done.returncode, done.stdout.endswith("done\n")) == (status, False)


@pytest.mark.parametrize("core", [DSP, MPU])
def test_kernels_refuse_an_object_that_is_too_small_for_their_identity(built: Built, network: Case, core: str) -> None:
    done = drive(built.folder, network, core, "answer-size")
    assert (done.returncode, done.stdout.splitlines()[-1].split("(")[0]) == (1, "status -10: tivxNodeSendCommand")


@pytest.mark.parametrize("limit", ["limit-tensors", "limit-objects", "limit-instances"])
def test_limits_are_a_lack_of_resources(built: Built, network: Case, limit: str) -> None:
    assert "status -9: " in drive(built.folder, network, MPU, limit).stdout


def test_result_that_nobody_has_written_is_not_read(built: Built, network: Case) -> None:
    done = drive(built.folder, network, DSP, runs=0)
    assert done.returncode == STRICT
    assert "vxCopyTensorPatch: tensor 2 is read, and nobody has ever written it" in said(done)


def test_graph_releases_its_nodes(built: Built, network: Case) -> None:
    assert drive(built.folder, network, DSP, "leave-nodes").returncode == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("running-copy", "vxCopyScalar: scalar 0 while a graph uses it"),
        ("running-process", "vxProcessGraph: graph 0 runs already"),
        ("running-release", "vxReleaseTensor: tensor 1 is released while a graph uses it"),
        ("running-release-graph", "vxReleaseGraph: graph 0 runs"),
    ],
)
def test_graph_that_runs_is_left_alone(built: Built, network: Case, name: str, words: str) -> None:
    done = drive(built.folder, network, DSP, name, fault="hang@1")
    assert done.returncode == STRICT
    assert words in said(done).splitlines()[-1]


# Faults of the environment


def test_failure_is_told_by_the_status_of_the_node_alone(built: Built, network: Case) -> None:
    done = drive(built.folder, network, DSP, runs=3, fault="fail@3")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "status -1: VX_NODE_STATUS"
    assert "process command 3 fails" in said(done)
    assert "node 1 (org.harness.quantize_linear) failed with status -1" in done.stderr


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (1, "vxCopyTensorPatch: tensor 2 was to be written by a node that failed with status -1, and nobody has asked"),
        (2, "vxProcessGraph: node 0 failed with status -1, and nobody has asked for its VX_NODE_STATUS"),
    ],
)
def test_failure_that_nobody_asks_for_is_told(built: Built, network: Case, runs: int, words: str) -> None:
    done = drive(built.folder, network, DSP, "status-unasked", runs=runs, fault="fail@2")
    assert done.returncode == STRICT
    assert words in said(done)


def test_hanging_core_never_answers(built: Built, network: Case) -> None:
    done = drive(built.folder, network, DSP, "running-nothing", fault="hang@1")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "process command 1 never answers" in said(done)


@pytest.mark.parametrize(
    ("fault", "call", "words"),
    [
        ("init", "status -1: appInit", "appInit fails"),
        ("verify", "status -1: vxVerifyGraph(item->graph)", "vxVerifyGraph fails"),
        ("memory@1", "status -8: item->constants[which]", "there is no memory for object 1"),
        ("memory@4", "status -8: tensor", "there is no memory for object 4"),
        (
            "missing=org.harness.qgemm",
            "status -1: vxVerifyGraph(item->graph)",
            f"{QGEMM} has not been registered on DSP",
        ),
        (
            "missing=org.harness.quantize_linear,verify",
            "status -1: vxVerifyGraph(item->graph)",
            "the firmware has no org.harness.quantize_linear",
        ),
    ],
)
def test_fault_is_a_status(built: Built, network: Case, fault: str, call: str, words: str) -> None:
    done = drive(built.folder, network, DSP, fault=fault)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, call)
    assert words in said(done)


def test_missing_kernel_is_one_of_the_firmware(built: Built, network: Case) -> None:
    assert drive(built.folder, network, MPU, fault="missing=org.harness.qgemm").returncode == 0


@pytest.mark.parametrize(
    ("fault", "identity"),
    [
        ("old", f"version 0 of {double.SOURCES}"),
        ("other", f"version {KERNELS_VERSION} of 1000000000000000"),
        ("old,other", "version 0 of 1000000000000000"),
    ],
)
def test_identity_is_another(built: Built, network: Case, fault: str, identity: str) -> None:
    done = drive(built.folder, network, DSP, fault=fault)
    assert done.returncode == 0
    assert f"DSP_C7-1: {identity}\n" in done.stdout


@pytest.mark.parametrize("fault", ["hang", "hang@", "hang@0", "fail@1x", "fail@-1", "missing=org.x", "sleep@1", "old,"])
def test_misspelt_fault_ends_the_process(built: Built, network: Case, fault: str) -> None:
    done = drive(built.folder, network, DSP, fault=fault)
    assert done.returncode == STRICT
    assert "is none of hang@N, fail@N, memory@N, verify, init, missing=KERNEL, old, other" in said(done)
