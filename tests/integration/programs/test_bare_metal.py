"""Programs without an operating system: emulated processors compute the reference's bits, and say what is wrong."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from harness import model as networks
from harness.boards.bare_metal import BareBoard
from harness.boards.bare_metal import session as opened
from harness.boards.profile import BareMetal, BoardProfiles, Profile, Region
from harness.build import bundle, codegen
from harness.core.arrays import Array
from harness.core.errors import BoardError, RequestError
from harness.core.installation import ROOT
from harness.execution import program
from harness.model import stream as streams
from harness.model.network import Network
from harness.plan import planner
from harness.plan.plan import Plan
from harness.reference import generated
from harness.reference.stream import StreamReference
from tests.support.programs.board_program import (
    BoardProgram,
    Patch,
    assert_same,
    build,
    build_patched,
    mixed,
    references,
    uniform_vectors,
    with_flags,
)
from tests.support.streams import inputs_of, small_stream

TIMEOUT_S = 60.0
NEVER_ENDS = Patch(
    "network.c",
    "uint64_t execution __attribute__((unused)))\n{",
    "uint64_t execution)\n{ for (;;) { (void)execution; }",
)
NO_MEMORY = Patch(
    "network.c",
    "uint64_t execution __attribute__((unused)))\n{",
    "uint64_t execution)\n{ *(volatile char *)0x90000000u = (char)execution;",
)
TRUNCATED = Patch("kernels/c/saturate.h", "(int32_t)rintf(v)", "(int32_t)v")


@pytest.fixture(params=["cortex-r5", "cortex-m4", "cortex-m7", "cortex-m33", "stm32f405"])
def board(laboratory: BoardProfiles, request: pytest.FixtureRequest) -> Profile:
    return laboratory.board(request.param)


@pytest.fixture
def r5(laboratory: BoardProfiles) -> Profile:
    return laboratory.board("cortex-r5")


@pytest.fixture
def session(r5: Profile, tmp_path: Path) -> Iterator[BareBoard]:
    with opened(r5, tmp_path) as found:
        yield found


def activations(built: BoardProgram, board: Profile, vectors: Array, folder: Path, *options: str) -> tuple[Array, ...]:
    """All layers' outputs, as the emulated processor of `board` computes them."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", vectors)
    with opened(board, folder) as session:
        copied = str(shutil.copy(built.path, folder))
        words = [copied, "--vectors", str(folder / "vectors.npy"), "--out", str(folder), *options]
        done = session.run(words, TIMEOUT_S)
    assert (done.status, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["fault"] == ""
    return built.read_dumps(folder)


def made_of(net: Network, board: Profile) -> Plan:
    return planner.make(net, board, block=10)


def test_every_processor_computes_the_bits_of_the_reference(board: Profile, cache: Path, tmp_path: Path) -> None:
    net = mixed()
    vectors = uniform_vectors(net, 25, seed=8)
    built, folder = build(net, board, cache, block=10), tmp_path / "a folder, with a comma"
    found = activations(built, board, vectors, folder, "--time", "layer", "--trace", "--random-delay", "5:1")
    assert_same(found, references(net, vectors))
    assert np.load(folder / "time.npy").shape == (3, len(net.layers))


def test_streams_begin_after_2_to_the_32_executions_too(
    laboratory: BoardProfiles, tmp_path: Path, objects: Path
) -> None:
    """A size_t of these processors has 32 bits, and 12 does not divide 2^32."""
    board = laboratory.board("cortex-m4")
    stream = streams.stream(small_stream(), 2, pulse=4, steps=12)
    built = build_patched(planner.make(stream.network, board), board, tmp_path, objects=objects)
    words = ["--executions", "12", *generated.windows(16, 12)[0]]
    found = activations(built, board, inputs_of(stream, 1), tmp_path / "out", *words)
    assert_same(found, StreamReference(stream).activations(inputs_of(stream, 1)))


@pytest.mark.parametrize("model", ["acas_reg50", "lenet5_int8", "lenet5"])
@pytest.mark.campaign
def test_shipped_models_have_the_bits_of_the_reference(board: Profile, model: str, cache: Path, tmp_path: Path) -> None:
    net = networks.load(ROOT / "models" / f"{model}.onnx")
    vectors = uniform_vectors(net, 40, seed=8)
    assert_same(activations(build(net, board, cache, block=10), board, vectors, tmp_path), references(net, vectors))


@pytest.mark.parametrize("patch", [TRUNCATED, Patch("network.c", "dense_1_bias[", "dense_1_bias_of_old["), None])
def test_a_wrong_program_differs(r5: Profile, patch: Patch | None, tmp_path: Path, objects: Path) -> None:
    """A rounding that truncates, and a constant whose bits were changed; the program without a change is right."""
    net = networks.load(ROOT / "models" / "acas_coc.onnx")
    vectors, made = uniform_vectors(net, 20, seed=3), made_of(net, r5)
    patches = [] if patch is None else [patch]
    if patch and patch.file == "network.c":
        first = codegen.generate(made).source.partition("dense_1_bias[50] = {")[2].partition(",")[0]
        patches = [Patch("network.c", f"dense_1_bias[50] = {{{first},", f"dense_1_bias[50] = {{{int(first) + 4096},")]
    built = build_patched(made, r5, tmp_path, patches, objects=objects)
    found, right = activations(built, r5, vectors, tmp_path / "out"), references(net, vectors)
    same = [one.tobytes() == other.tobytes() for one, other in zip(found, right, strict=True)]
    assert all(same) == (patch is None)
    assert same[0] == (patch is not TRUNCATED), "only the rounding changes the quantised input"


def test_a_program_that_hangs_is_killed(session: BareBoard, r5: Profile, tmp_path: Path, objects: Path) -> None:
    net = mixed()
    built = build_patched(made_of(net, r5), r5, tmp_path, [NEVER_ENDS], objects=objects)
    np.save(tmp_path / "vectors.npy", uniform_vectors(net, 2, seed=1))
    with pytest.raises(BoardError, match=r"inference on cortex-r5 did not end within 2 s and was killed"):
        session.run([str(built.path), "--vectors", str(tmp_path / "vectors.npy"), "--out", str(tmp_path)], 2)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(built.path) not in listed


@pytest.mark.parametrize("name", ["cortex-r5", "cortex-m4"])
def test_a_fault_of_the_processor_is_told(laboratory: BoardProfiles, name: str, tmp_path: Path, objects: Path) -> None:
    net, board = mixed(), laboratory.board(name)
    built = build_patched(made_of(net, board), board, tmp_path, [NO_MEMORY], objects=objects)
    np.save(tmp_path / "vectors.npy", uniform_vectors(net, 2, seed=1))
    with opened(board, tmp_path) as session:
        words = [str(built.path), "--vectors", str(tmp_path / "vectors.npy"), "--out", str(tmp_path)]
        done = session.run(words, TIMEOUT_S)
    assert (done.status, done.stdout) == (4, b"")
    assert b"inference: the processor stopped at 0x" in done.stderr


def test_a_full_stack_is_told(r5: Profile, tmp_path: Path, objects: Path) -> None:
    net = mixed()
    assert r5.bare_metal
    board = r5.model_copy(update={"bare_metal": r5.bare_metal.model_copy(update={"stack_kib": 16})})
    np.save(tmp_path / "vectors.npy", uniform_vectors(net, 2, seed=1))
    for size, status in ((10_000, 0), (20_000, 4)):
        fill = f"{{ volatile char some[{size}]; for (size_t i = 0; i < {size}; ++i) some[i] = (char)execution;"
        patch = Patch("network.c", NEVER_ENDS.old, f"uint64_t execution)\n{fill}")
        built = build_patched(made_of(net, board), board, tmp_path / str(size), [patch], ["-w"], objects=objects)
        with opened(board, tmp_path) as session:
            words = [str(built.path), "--vectors", str(tmp_path / "vectors.npy"), "--out", str(tmp_path)]
            done = session.run(words, TIMEOUT_S)
        assert (done.status, b"the stack is full: raise stack_kib" in done.stderr) == (status, status != 0)


def test_another_file_and_another_program_are_refused(
    r5: Profile, cache: Path, session: BareBoard, tmp_path: Path
) -> None:
    built = bundle.build(codegen.generate(made_of(mixed(), r5)), r5, cache)
    work = PurePosixPath(tmp_path)
    for folder in ("runs", "bundles"):
        (tmp_path / folder).mkdir()
    changed = dataclasses.replace(built, files=built.files | {bundle.PROGRAM: "0" * 64})
    with pytest.raises(BoardError, match=r"inference: SHA-256 on the board is [0-9a-f]{64}, expected 0{64}"):
        program.deploy(session, changed, work, "changed")
    with pytest.raises(BoardError, match=rf"is bundle {built.sha256} with protocol 7, expected 0{{64}}"):
        program.deploy(session, dataclasses.replace(built, sha256="0" * 64), work, "another")
    assert program.deploy(session, built, work, "right").command == (f"{work}/runs/{_only(tmp_path)}/bundle/inference",)


def _only(folder: Path) -> str:
    [path] = (folder / "runs").glob("right.*")
    return path.name


@pytest.mark.parametrize(
    ("code_kib", "data_kib", "message"),
    [
        (100, 1024, "the constants take 21,316 bytes, and of the 102,400 bytes of its memory 4,096 are left"),
        (1024, 40, "the buffers of a block of 10 vectors take"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(r5: Profile, code_kib: int, data_kib: int, message: str) -> None:
    small = BareMetal(
        machine="none", cpu="cortex-r5f", code=Region(origin=0, kib=code_kib), data=Region(origin=1 << 26, kib=data_kib)
    )
    board = r5.model_copy(update={"bare_metal": small})
    made = made_of(networks.load(ROOT / "models" / "acas_coc.onnx"), board)
    with pytest.raises(RequestError, match=f"acas_coc on board cortex-r5: {message}"):
        bundle.check_memory(codegen.generate(made), board)


def test_a_target_that_needs_an_operating_system_is_refused(r5: Profile) -> None:
    items = {"network": r5.items["network"].model_copy(update={"target": "cuda:fused"})}
    made = made_of(mixed(), r5.model_copy(update={"items": items}))
    with pytest.raises(RequestError, match="no operating system, which target cuda:fused of item network needs"):
        bundle.check_targets(made, r5)


def test_the_rounding_of_the_library_is_that_of_ieee_754(tmp_path: Path) -> None:
    """Half to even for all floats around whole and half numbers, and for samples of all exponents."""
    source = ROOT / "kernels" / "bare" / "math.c"
    (tmp_path / "board.h").write_text(bundle.board_header(None, ()))
    flags = ["-O2", "-fno-builtin", "-fPIC", "-shared", "-ffp-contract=off", f"-I{tmp_path}"]
    subprocess.run(["gcc", *flags, "-Drintf=rounded", str(source), "-o", str(tmp_path / "math.so")], check=True)
    function = ctypes.CDLL(str(tmp_path / "math.so")).rounded
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    halves = np.arange(-400, 401, dtype=np.float32) / 2
    near = np.concatenate([np.nextafter(halves, np.float32(way)) for way in (-np.inf, np.inf)])
    bits = np.random.default_rng(1).integers(0, 1 << 32, 20_000, np.uint32).view(np.float32)
    values = np.concatenate([halves, near, bits[~np.isnan(bits)], np.float32([8388607.5, -8388608.5, np.inf])])
    found = np.array([function(value) for value in values.tolist()], np.float32)
    np.testing.assert_array_equal(found.view(np.uint32), np.rint(values).view(np.uint32))


def test_optimisation_levels_and_instruction_sets_change_no_bit(
    laboratory: BoardProfiles, cache: Path, tmp_path: Path
) -> None:
    """Thumb on the R5, no optimisation, and a double-precision unit."""
    net = mixed()
    vectors = uniform_vectors(net, 10, seed=8)
    right = references(net, vectors)
    for name, flags in (
        ("cortex-r5", ("-O0", "-mcpu=cortex-r5", "-mthumb", "-mfloat-abi=hard", "-mfpu=vfpv3xd")),
        ("cortex-m7", ("-O3", "-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16")),
    ):
        board = with_flags(laboratory.board(name), *flags)
        assert_same(activations(build(net, board, cache, block=10), board, vectors, tmp_path / name), right)
