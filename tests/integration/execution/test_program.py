"""What a board may do wrong between deployment and collection; the board here is this machine, and it lies."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np
import pytest

from harness import model
from harness.boards.local import LocalBoard
from harness.boards.profile import Profile
from harness.boards.session import Completed
from harness.boards.work_folder import claim
from harness.build import bundle, codegen
from harness.build.bundle import Bundle
from harness.core.errors import BoardError
from harness.core.installation import ROOT
from harness.execution import dumps
from harness.execution import program as board_program
from harness.execution.program import Deployed, Executed
from harness.model.network import Network
from harness.plan import planner

COUNT = 100


@pytest.fixture(scope="module")
def acas() -> Network:
    return model.load(ROOT / "models" / "acas_coc.onnx")


@pytest.fixture(scope="module")
def built(acas: Network, host: Profile, cache: Path) -> Bundle:
    return bundle.build(codegen.generate(planner.make(acas, host)), host, cache)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.npy"
    dumps.write(path, np.random.default_rng(1).uniform(-0.5, 0.5, (COUNT, 5)).astype(np.float32))
    return path


def claimed(folder: Path) -> PurePosixPath:
    """A work folder as `reach` gives it."""
    return claim(LocalBoard(), str(folder / "work"), "")


class LyingBoard(LocalBoard):
    """Does `mischief` after the program has run, or answers in its place."""

    def __init__(
        self, mischief: Callable[[Path], None] | None = None, answer: Callable[[Completed], Completed] | None = None
    ) -> None:
        super().__init__()
        self.mischief, self.answer = mischief, answer

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        done = super().run(argv, timeout_s)
        if "--out" not in argv:
            return done
        if self.mischief:
            self.mischief(Path(argv[argv.index("--out") + 1]))
        return self.answer(done) if self.answer else done


def _execute(board: LocalBoard, built: Bundle, acas: Network, vectors: Path, folder: Path) -> tuple[Deployed, Executed]:
    deployed = board_program.deploy(board, built, claimed(folder), "run")
    return deployed, board_program.execute_chunk(deployed, 0, vectors, COUNT, acas.layers, [], 30)


def test_an_honest_board_delivers(built: Bundle, acas: Network, vectors: Path, tmp_path: Path) -> None:
    deployed, executed = _execute(LyingBoard(), built, acas, vectors, tmp_path)
    values = board_program.collect(deployed, executed, [1], acas.layers, tmp_path)[1]
    assert values.shape == (COUNT, 50)
    board_program.clean(deployed)
    assert not (tmp_path / "work" / "runs" / "run").exists()


def _cut(out: Path) -> None:
    dump = out / "01_dense_1.npy"
    dump.write_bytes(dump.read_bytes()[:-1])


def _grow(out: Path) -> None:
    with (out / "01_dense_1.npy").open("ab") as file:
        file.write(b"\0")


@pytest.mark.parametrize("mischief", [_cut, _grow])
def test_a_dump_of_a_wrong_length_is_refused(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path, mischief: Callable[[Path], None]
) -> None:
    deployed, executed = _execute(LyingBoard(mischief), built, acas, vectors, tmp_path)
    with pytest.raises(BoardError, match=r"01_dense_1\.npy.* bytes"):
        board_program.collect(deployed, executed, [1], acas.layers, tmp_path)


def test_a_dump_changed_after_it_was_hashed_is_refused(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path
) -> None:
    deployed, executed = _execute(LyingBoard(), built, acas, vectors, tmp_path)
    dump = Path(executed.out / "01_dense_1.npy")
    content = dump.read_bytes()
    dump.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BoardError, match="does not have the SHA-256 that the board computed"):
        board_program.collect(deployed, executed, [1], acas.layers, tmp_path)


def test_a_missing_dump_is_a_failed_execution(built: Bundle, acas: Network, vectors: Path, tmp_path: Path) -> None:
    board = LyingBoard(lambda out: (out / "05_dense_5.npy").unlink())
    with pytest.raises(BoardError, match=r"05_dense_5\.npy is not on the board"):
        _execute(board, built, acas, vectors, tmp_path)


@pytest.mark.parametrize(
    "stdout", [b"", b"all fine\n", b'{"done": true}\n', b'{"done": true, "bundle": "0", "vectors": 100}\n', b"[1, 2]\n"]
)
def test_a_program_without_its_last_line_has_failed(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path, stdout: bytes
) -> None:
    board = LyingBoard(answer=lambda done: Completed(0, stdout, done.stderr))
    with pytest.raises(BoardError, match="did not finish its work"):
        _execute(board, built, acas, vectors, tmp_path)


def test_a_killed_program_is_told_with_what_may_have_killed_it(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path
) -> None:
    board = LyingBoard(answer=lambda done: Completed(137, done.stdout, b""))
    with pytest.raises(BoardError, match="killed by signal 9") as caught:
        _execute(board, built, acas, vectors, tmp_path)
    assert "use a smaller --block" in caught.value.hint


def test_a_program_that_counts_fewer_vectors_has_failed(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path
) -> None:
    board = LyingBoard(answer=lambda done: Completed(0, done.stdout.replace(b"100", b"99"), b""))
    with pytest.raises(BoardError, match="reports 99 vectors, not 100"):
        _execute(board, built, acas, vectors, tmp_path)


def test_a_stale_program_fails_the_handshake(built: Bundle, tmp_path: Path) -> None:
    class Stale(LocalBoard):
        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            done = super().run(argv, timeout_s)
            return (
                Completed(0, done.stdout.replace(b'"bundle": "', b'"bundle": "f'), b"") if "--version" in argv else done
            )

    with pytest.raises(BoardError, match="is bundle f"):
        board_program.deploy(Stale(), built, claimed(tmp_path), "run")


class Counting(LocalBoard):
    """Counts what is sent, and the commands."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.commands = list[str](), 0

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        self.commands += 1
        return super().run(argv, timeout_s)

    def put(self, source: Path, destination: PurePosixPath) -> None:
        self.sent.append(destination.name)
        super().put(source, destination)


def test_the_time_to_hash_depends_on_the_size(built: Bundle, acas: Network, vectors: Path, tmp_path: Path) -> None:
    class Timed(LocalBoard):
        given_s: ClassVar[list[float]] = []

        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            self.given_s += [timeout_s] * (argv[0] == "sha256sum")
            return super().run(argv, timeout_s)

    _execute(Timed(), built, acas, vectors, tmp_path)
    size = sum((built.folder / path).stat().st_size for path in built.files) + vectors.stat().st_size
    size += sum(dumps.size(layer, COUNT) for layer in acas.layers)
    assert Timed.given_s == [60 + size / 1_000_000]


def test_a_bundle_is_sent_once_and_deployed_in_two_commands(built: Bundle, tmp_path: Path) -> None:
    board, work = Counting(), claimed(tmp_path)
    first = board_program.deploy(board, built, work, "first")
    assert board.sent == [board_program.ARCHIVE]
    board.commands = 0
    second = board_program.deploy(board, built, work, "second")
    assert (board.sent, board.commands) == ([board_program.ARCHIVE], 2)
    for deployed in (first, second):
        assert Path(deployed.folder / "inference").read_bytes() == (built.folder / "inference").read_bytes()
        assert Path(deployed.run_folder).stat().st_mode & 0o777 == 0o700
    assert first.folder != second.folder


@pytest.mark.parametrize("damage", ["flipped", "cut", "removed"])
def test_an_archive_damaged_on_the_board_is_sent_again(built: Bundle, tmp_path: Path, damage: str) -> None:
    board, work = Counting(), claimed(tmp_path)
    board_program.deploy(board, built, work, "first")
    [kept] = Path(work / "bundles").iterdir()
    {"flipped": _flip, "cut": _cut_off, "removed": Path.unlink}[damage](kept)
    deployed = board_program.deploy(board, built, work, "second")
    assert board.sent == [board_program.ARCHIVE] * 2
    assert Path(deployed.folder / "inference").read_bytes() == (built.folder / "inference").read_bytes()


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_a_board_that_stores_another_archive_is_found(built: Bundle, tmp_path: Path) -> None:
    class Rotten(LocalBoard):
        def put(self, source: Path, destination: PurePosixPath) -> None:
            super().put(source, destination)
            _flip(Path(destination))

    with pytest.raises(BoardError, match=r"bundle\.tar on the board differs from the archive that was sent"):
        board_program.deploy(Rotten(), built, claimed(tmp_path), "run")
    assert not list((tmp_path / "work" / "runs").iterdir())


def test_a_board_that_unpacks_other_bytes_is_found(built: Bundle, tmp_path: Path) -> None:
    class Rotten(LocalBoard):
        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            rotten = [word.replace("&& cd", "&& echo rot >$run/bundle/network.c && cd") for word in argv]
            return super().run(rotten, timeout_s)

    with pytest.raises(BoardError, match=r"network\.c: SHA-256 on the board is [0-9a-f]{64}, expected"):
        board_program.deploy(Rotten(), built, claimed(tmp_path), "run")


def test_a_board_that_cannot_start_the_program_says_why(built: Bundle, tmp_path: Path) -> None:
    class Foreign(LocalBoard):
        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            return Completed(126, b"", b"Exec format error") if "--version" in argv else super().run(argv, timeout_s)

    with pytest.raises(BoardError, match=r"does not start on the board \(exit status 126\): Exec format error"):
        board_program.deploy(Foreign(), built, claimed(tmp_path), "run")


def _flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("changed", ["vectors0.npy", "network.c"])
def test_what_was_changed_while_it_was_in_use_tells_nothing(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path, changed: str
) -> None:
    """Wrong vectors, or another program that gives the bundle's name, would differ; the board is to blame."""
    board = LyingBoard(lambda out: [_flip(path) for path in out.parents[2].rglob(changed)])  # type: ignore[arg-type, return-value]
    with pytest.raises(BoardError, match=rf"{changed} was changed on the board while it was in use"):
        _execute(board, built, acas, vectors, tmp_path)


def test_a_bundle_that_was_changed_after_the_last_chunk_is_found(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path
) -> None:
    deployed, _ = _execute(LyingBoard(), built, acas, vectors, tmp_path)
    board_program.require_unchanged(deployed)
    (Path(deployed.folder) / "network.c").unlink()
    with pytest.raises(BoardError, match=r"network\.c was changed .* is missing now"):
        board_program.require_unchanged(deployed)


def test_an_attempt_has_a_folder_of_its_own_and_the_next_ends_what_is_left_of_it(built: Bundle, tmp_path: Path) -> None:
    """A program that lost its link would else write into the dumps of the attempt that follows."""
    work = claimed(tmp_path)
    first, second, other = (board_program.deploy(LocalBoard(), built, work, run) for run in ("run", "run", "another"))
    assert first.run_folder != second.run_folder
    holding = ["sh", "-c", "echo here; read -r line", f"{first.run_folder}/out0"]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stdout.readline() == b"here\n"
        board_program.forget(LocalBoard(), work, "run")
        assert program.wait(10) == -signal.SIGKILL
    assert list(Path(work / "runs").iterdir()) == [Path(other.run_folder)]


def test_a_bundle_that_finds_no_room_leaves_none_of_it(built: Bundle, tmp_path: Path) -> None:
    class Full(LocalBoard):
        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            full = [word.replace("tar -xf", "echo tar: No space left on device >&2; false") for word in argv]
            return super().run(full, timeout_s)

    with pytest.raises(BoardError, match="No space left on device") as caught:
        board_program.deploy(Full(), built, claimed(tmp_path), "run")
    assert caught.value.hint == "its disk is full: free some of it"
    assert not list((tmp_path / "work" / "runs").iterdir())
