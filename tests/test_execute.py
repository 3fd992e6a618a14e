"""What a board may do wrong between deployment and collection; the board here is this machine, and it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from harness import bundle, dumps, execute, network, plan
from harness.board.local import LocalBoard
from harness.board.session import Completed
from harness.bundle import Bundle
from harness.errors import BoardError
from harness.execute import Deployed, Executed
from harness.network import Network
from harness.profile import Profile
from harness.workspace import ROOT

COUNT = 100


@pytest.fixture(scope="module")
def acas() -> Network:
    return network.load(ROOT / "models" / "acas_coc.onnx")


@pytest.fixture(scope="module")
def built(acas: Network, host: Profile, cache: Path) -> Bundle:
    return bundle.build(plan.make(acas, host), host, cache)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.npy"
    dumps.write(path, np.random.default_rng(1).uniform(-0.5, 0.5, (COUNT, 5)).astype(np.float32))
    return path


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
    deployed = execute.deploy(board, built, PurePosixPath(folder / "work"), "run")
    return deployed, execute.execute_chunk(deployed, 0, vectors, COUNT, acas.layers, [], 30)


def test_an_honest_board_delivers(built: Bundle, acas: Network, vectors: Path, tmp_path: Path) -> None:
    deployed, executed = _execute(LyingBoard(), built, acas, vectors, tmp_path)
    values = execute.collect(deployed, executed, [1], acas.layers, tmp_path)[1]
    assert values.shape == (COUNT, 50)
    execute.clean(deployed)
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
        execute.collect(deployed, executed, [1], acas.layers, tmp_path)


def test_a_dump_changed_after_it_was_hashed_is_refused(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path
) -> None:
    deployed, executed = _execute(LyingBoard(), built, acas, vectors, tmp_path)
    dump = Path(executed.out / "01_dense_1.npy")
    content = dump.read_bytes()
    dump.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BoardError, match="does not have the SHA-256 that the board computed"):
        execute.collect(deployed, executed, [1], acas.layers, tmp_path)


def test_a_missing_dump_is_a_failed_execution(built: Bundle, acas: Network, vectors: Path, tmp_path: Path) -> None:
    board = LyingBoard(lambda out: (out / "05_dense_5.npy").unlink())
    with pytest.raises(BoardError, match=r"05_dense_5\.npy is not on the board"):
        _execute(board, built, acas, vectors, tmp_path)


@pytest.mark.parametrize(
    "stdout",
    [
        b"",
        b"all fine\n",
        b'{"done": true}\n',
        b'{"done": true, "bundle": "0", "vectors": 100}\n',
        b"[1, 2]\n",
    ],
)
def test_a_program_without_its_last_line_has_failed(
    built: Bundle, acas: Network, vectors: Path, tmp_path: Path, stdout: bytes
) -> None:
    board = LyingBoard(answer=lambda done: Completed(0, stdout, done.stderr))
    with pytest.raises(BoardError, match="did not finish its work"):
        _execute(board, built, acas, vectors, tmp_path)


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
        execute.deploy(Stale(), built, PurePosixPath(tmp_path / "work"), "run")


def test_a_file_damaged_on_the_board_is_sent_again(built: Bundle, tmp_path: Path) -> None:
    deployed = execute.deploy(LocalBoard(), built, PurePosixPath(tmp_path / "work"), "first")
    program = Path(deployed.folder / "inference")
    program.write_bytes(b"damaged")
    execute.deploy(LocalBoard(), built, PurePosixPath(tmp_path / "work"), "second")
    assert program.read_bytes() == (built.folder / "inference").read_bytes()


def test_a_board_that_stores_other_bytes_is_found(built: Bundle, tmp_path: Path) -> None:
    class Rotten(LocalBoard):
        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            done = super().run(argv, timeout_s)
            if argv[0] == "tar":
                (Path(argv[-1]) / "network.c").write_bytes(b"rot")
            return done

    with pytest.raises(BoardError, match=r"network\.c: SHA-256 on the board"):
        execute.deploy(Rotten(), built, PurePosixPath(tmp_path / "work"), "run")


def test_a_board_that_cannot_start_the_program_says_why(built: Bundle, tmp_path: Path) -> None:
    class Foreign(LocalBoard):
        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            return Completed(126, b"", b"Exec format error") if "--version" in argv else super().run(argv, timeout_s)

    with pytest.raises(BoardError, match=r"does not start on the board \(exit status 126\): Exec format error"):
        execute.deploy(Foreign(), built, PurePosixPath(tmp_path / "work"), "run")
