"""The work folder, and another user of the board who would like to have it: a second uid of this machine."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from harness import model
from harness.boards.connect import EMULATED_WORK, Connection, reach
from harness.boards.local import LocalBoard
from harness.boards.profile import Address, Emulator, Profile
from harness.boards.session import Board, Completed
from harness.boards.work_folder import WorkFolderRefused, claim
from harness.build import bundle, codegen
from harness.build.bundle import Bundle
from harness.core.installation import ROOT
from harness.execution import dumps, program
from harness.model.network import Network
from harness.plan import planner
from tests.support.boards import sshd
from tests.support.boards.guest import sharing_guest

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
ELSEWHERE = "elsewhere"
COUNT = 20

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can play another user")


def nobody(script: str, folder: Path, *, check: bool = True) -> int:
    """Run a shell script as another user of this machine, in `folder`; return its exit status."""
    done = subprocess.run([*AS_NOBODY, "sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.returncode


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp, which all users may enter: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def refusal(work: Path, board: Board | None = None) -> str:
    with pytest.raises(WorkFolderRefused) as caught:
        claim(board or LocalBoard(), str(work), ELSEWHERE)
    assert caught.value.exit_code == 3
    assert caught.value.message.startswith(f"the work folder {work} is refused: ")
    assert caught.value.hint.endswith(ELSEWHERE)
    return caught.value.message.removeprefix(f"the work folder {work} is refused: ")


# ---- what is taken


@pytest.mark.parametrize("name", ["work", "two words", "new\nline", "*", "$HOME `id` $(id)", "-n", "naïve"])
def test_missing_components_are_created_for_this_user_alone(shared: Path, name: str) -> None:
    work = shared / name / "deep er"
    former = os.umask(0)
    try:
        assert claim(LocalBoard(), str(work), "") == PurePosixPath(work)
    finally:
        os.umask(former)
    for folder in (work.parent, work, work / "runs", work / "bundles"):
        assert (folder.stat().st_mode & 0o7777, folder.stat().st_uid) == (0o700, os.getuid())
    assert [path.name for path in shared.iterdir()] == [name]
    assert claim(LocalBoard(), str(work), "") == PurePosixPath(work), "once more"


def test_a_folder_that_others_may_read_is_taken(shared: Path) -> None:
    (shared / "work").mkdir(mode=0o755)
    assert claim(LocalBoard(), str(shared / "work"), "") == PurePosixPath(shared / "work")


def test_the_default_is_in_the_home_of_the_user(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home may be reached through a link: the system's table of users names it."""
    (shared / "real").mkdir(mode=0o755)
    (shared / "home").symlink_to("real")
    monkeypatch.setenv("HOME", str(shared / "home"))
    assert claim(LocalBoard(), None, "") == PurePosixPath(shared / "real/.cache/harness/board")
    monkeypatch.setenv("HOME", str(shared / "none"))
    with pytest.raises(
        WorkFolderRefused, match=r"~/\.cache/harness/board is refused: the home .* cannot be used"
    ) as no:
        claim(LocalBoard(), None, ELSEWHERE)
    assert no.value.hint == ELSEWHERE


# ---- what is refused


@needs_root
@pytest.mark.parametrize("below", ["", "/deep"])
def test_a_link_of_another_user(shared: Path, board: Board, below: str) -> None:
    (shared / "mine").mkdir(mode=0o700)
    nobody(f"ln -s {shared}/mine work", shared)
    assert refusal(Path(f"{shared}/work{below}"), board) == (
        f"{shared}/work is a symbolic link (mode lrwxrwxrwx, owner uid {NOBODY}), "
        "which may lead to the files of another user"
    )
    assert list((shared / "mine").iterdir()) == []


@needs_root
def test_a_link_that_leads_nowhere(shared: Path) -> None:
    nobody("ln -s missing work", shared)
    assert " is a symbolic link " in refusal(shared / "work")
    assert not (shared / "missing").exists()


@needs_root
@pytest.mark.parametrize("below", ["", "/deep"])
@pytest.mark.parametrize("mode", ["700", "755", "1777"])
def test_a_folder_of_another_user(shared: Path, board: Board, below: str, mode: str) -> None:
    nobody(f"mkdir work && chmod {mode} work", shared)
    said = refusal(Path(f"{shared}/work{below}"), board)
    assert said.startswith(f"{shared}/work (mode d")
    assert said.endswith(
        f", owner uid {NOBODY}) does not belong to this user (uid 0): its owner can replace what runs there"
    )
    assert list((shared / "work").iterdir()) == []


@needs_root
@pytest.mark.parametrize("inner", ["runs", "bundles"])
def test_a_folder_of_another_user_within(shared: Path, inner: str) -> None:
    """Left from a time when others could write to the work folder."""
    (shared / "work" / inner).mkdir(parents=True)
    os.chown(shared / "work" / inner, NOBODY, NOBODY)
    assert refusal(shared / "work").startswith(f"{shared}/work/{inner} (mode drwxr-xr-x, owner uid {NOBODY})")


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("mode", "shown"), [(0o775, "drwxrwxr-x"), (0o757, "drwxr-xrwx"), (0o777, "drwxrwxrwx"), (0o720, "drwx-w----")]
)
@pytest.mark.parametrize("at", ["", "/parent", "/parent/work", "/parent/work/runs"])
def test_a_folder_that_others_may_write(shared: Path, board: Board, at: str, mode: int, shown: str) -> None:
    work = shared / "top" / "parent" / "work"
    (work / "runs").mkdir(parents=True)
    weak = Path(f"{shared}/top{at}")
    weak.chmod(mode)
    assert refusal(work, board) == (
        f"other users can replace what runs in {weak} (mode {shown}, owner uid {os.getuid()})"
    )


def test_a_sticky_folder_is_no_work_folder_itself(shared: Path) -> None:
    """Others may create files in it."""
    assert refusal(shared).startswith(f"other users can replace what runs in {shared} (mode drwxrwxrwt")


def test_a_file_in_place_of_the_folder(shared: Path) -> None:
    (shared / "work").touch(mode=0o600)
    assert refusal(shared / "work").startswith(f"{shared}/work is no folder (mode -rw-------")


def test_a_folder_that_cannot_be_created() -> None:
    assert refusal(Path("/proc/work")).startswith("/proc/work cannot be created: mkdir: ")


def test_a_board_without_a_shell_is_told() -> None:
    class Bare(LocalBoard):
        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:  # noqa: ARG002 - Board's signature
            return Completed(127, b"", b"sh: not found")

    assert refusal(Path("/work"), Bare()) == "it cannot be checked: sh: not found"


# ---- sessions


def test_the_folder_of_this_machine_is_checked(host: Profile, shared: Path) -> None:
    (shared / "cache").mkdir(mode=0o700)
    (shared / "cache" / "host").mkdir()
    (shared / "cache" / "host").chmod(0o777)
    with pytest.raises(WorkFolderRefused) as caught, reach(host, shared / "cache", print):
        pytest.fail("the block is not reached")
    assert caught.value.hint.endswith("set HARNESS_CACHE to a folder that only you can write to")


def by_ssh(host: Profile, server: sshd.Server, work: Path | None) -> Profile:
    """This machine as a board that is reached by a real SSH server."""
    at = server.address
    given = {"host": at.host, "port": at.port, "user": at.user, "key": str(at.key), "known_hosts": str(at.known_hosts)}
    changes = {"local": False, "address": Address(**given), "work_folder": str(work) if work else None}
    return host.model_copy(update=changes)


def test_a_board_without_a_work_folder_has_one_in_its_users_home(
    host: Profile, server: sshd.Server, tmp_path: Path
) -> None:
    with reach(by_ssh(host, server, None), tmp_path, print) as connection:
        assert connection.work == PurePosixPath(server.folder / ".cache/harness/board")
        assert (Path(connection.work) / "runs").is_dir()


# ---- busybox


@pytest.fixture(scope="module")
def emulated(host: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    emulator = Emulator(cpu="cortex-a53", cores=2, memory_mib=512, disk_mib=16)
    profile = host.model_copy(update={"name": "folderboard", "local": False, "emulator": emulator, "stand_ins": None})
    with reach(profile, sharing_guest(tmp_path_factory.mktemp("cache")), print) as connection:
        yield connection


@pytest.mark.campaign
def test_an_emulated_board_takes_its_disk(emulated: Connection) -> None:
    assert emulated.work == EMULATED_WORK
    said = (
        emulated.board.run(["ls", "-ldn", "/board", "/board/runs", "/board/bundles"], 20).stdout.decode().splitlines()
    )
    assert [line.split()[0] for line in said] == ["drwx------"] * 3


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ("ln -s /root work", r"/w/work is a symbolic link \(mode lrwxrwxrwx, owner uid 0\), .*"),
        (
            "mkdir work; chown 7 work",
            r"/w/work \(mode drwxr-xr-x, owner uid 7\) does not belong to this user \(uid 0\).*",
        ),
        (
            "mkdir work; chmod 775 work",
            r"other users can replace what runs in /w/work \(mode drwxrwxr-x, owner uid 0\)",
        ),
        (
            "mkdir -p work/bundles; chown 7 work/bundles",
            r"/w/work/bundles \(mode drwxr-xr-x, owner uid 7\) does not .*",
        ),
        ("chmod 777 .", r"other users can replace what runs in /w \(mode drwxrwxrwx, owner uid 0\)"),
        ("echo >work", r"/w/work is no folder \(mode -rw-r--r--, owner uid 0\)"),
        ("mount -t tmpfs -o ro none .", "/w/work cannot be created: .*Read-only file system.*"),
    ],
)
def test_busybox_refuses_the_same(emulated: Connection, prepare: str, message: str) -> None:
    board = emulated.board
    try:
        done = board.run(["sh", "-c", f"mkdir /w && cd /w && {prepare}"], 20)
        assert (done.status, done.stderr) == (0, b"")
        with pytest.raises(WorkFolderRefused, match=f"^the work folder /w/work is refused: {message}"):
            claim(board, "/w/work", "")
    finally:
        board.run(["sh", "-c", "umount /w 2>/dev/null; rm -rf /w"], 20)
    assert claim(board, "/w/new/work", "") == PurePosixPath("/w/new/work")
    board.run(["rm", "-r", "/w"], 20)


# ---- the program


@pytest.fixture(scope="module")
def acas() -> Network:
    return model.load(ROOT / "models" / "acas_coc.onnx")


@pytest.fixture(scope="module")
def built(acas: Network, host: Profile, cache: Path) -> Bundle:
    return bundle.build(codegen.generate(planner.make(acas, host)), host, cache)


class Attacked(LocalBoard):
    """Lets another user act when the files have been hashed and are about to be used, and again after that."""

    def __init__(self, before: Callable[[], object], after: Callable[[], object]) -> None:
        super().__init__()
        self.before, self.after = before, after

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        attacked = "--version" in argv or "--vectors" in argv
        if attacked:
            self.before()
        done = super().run(argv, timeout_s)
        if attacked:
            self.after()
        return done


FAKE = """#!/bin/sh
id -u >>{marker}
exec {program}.real "$@"
"""

# The owner of a folder can exchange the folders of others in it by copies of his own.
SWAP = """
cd {work} || exit
for folder in bundles runs; do
    [ -e $folder.before ] || {{ mv $folder $folder.before && cp -r $folder.before $folder; }}
    for program in $(find $folder -name inference); do
        mv $program $program.real && cp {fake} $program && chmod 755 $program
    done
done
"""

RESTORE = """
cd {work} && for program in $(find bundles runs -name inference.real); do mv $program ${{program%.real}}; done
"""


def attack(host: Profile, acas: Network, built: Bundle, shared: Path, prepare: Callable[[Path], object]) -> Path:
    """Deploy and execute while nobody exchanges the program around every use; return the file that the fake writes."""
    cache, marker, fake = shared / "cache", shared / "marker", shared / "fake"
    cache.mkdir(mode=0o755)
    prepare(cache)
    fake.write_text(FAKE.format(marker=marker, program="$0"))
    fake.chmod(0o644)
    upload = shared / "vectors.npy"
    dumps.write(upload, np.random.default_rng(1).uniform(-0.5, 0.5, (COUNT, 5)).astype(np.float32))

    def act(script: str) -> Callable[[], object]:
        return lambda: nobody(script.format(work=cache / "host", fake=fake), shared, check=False)

    with reach(host, cache, print) as connection:
        board = Attacked(act(SWAP), act(RESTORE))
        deployed = program.deploy(board, built, connection.work, "run")
        program.execute_chunk(deployed, 0, upload, COUNT, acas.layers, [], 30)
    return marker


@needs_root
@pytest.mark.parametrize("how", ["mkdir -m 777 host", "mkdir -m 777 hidden && ln -s hidden host"])
def test_nothing_runs_in_a_folder_that_another_user_made_first(
    host: Profile, acas: Network, built: Bundle, shared: Path, how: str
) -> None:
    def prepare(cache: Path) -> None:
        cache.chmod(0o1777)
        nobody(how, cache)

    with pytest.raises(WorkFolderRefused):
        attack(host, acas, built, shared, prepare)
    assert not (shared / "marker").exists(), "a program of another user ran as root"


@needs_root
def test_another_user_cannot_exchange_the_program_in_a_private_folder(
    host: Profile, acas: Network, built: Bundle, shared: Path
) -> None:
    marker = attack(host, acas, built, shared, lambda _: None)
    assert not marker.exists()


@needs_root
def test_an_archive_that_another_user_has_open_is_not_what_runs(acas: Network, built: Bundle, shared: Path) -> None:
    """Its owner writes to it after it was hashed, through a descriptor from before the folder was closed."""
    with LocalBoard() as board:
        work = claim(board, str(shared / "work"), "")
        program.deploy(board, built, work, "first")
    [kept] = Path(work / "bundles").iterdir()
    os.chown(kept, NOBODY, NOBODY)
    with kept.open("r+b") as open_file:

        def write() -> None:
            open_file.seek(0)
            open_file.write(bytes(kept.stat().st_size))
            open_file.flush()

        deployed = program.deploy(Attacked(write, lambda: None), built, work, "second")
        upload = shared / "vectors.npy"
        dumps.write(upload, np.zeros((COUNT, 5), np.float32))
        program.execute_chunk(deployed, 0, upload, COUNT, acas.layers, [], 30)
    assert kept.stat().st_uid == 0, "the copy that was checked has taken its place"
    assert program.deploy(LocalBoard(), built, work, "third").files.keys() != deployed.files.keys()


@needs_root
def test_nobody_can_enter_the_folder_of_an_attempt(built: Bundle, shared: Path) -> None:
    """Vectors, dumps and libraries lie in it as well as the program."""
    (shared / "work").mkdir(mode=0o755)
    deployed = program.deploy(LocalBoard(), built, claim(LocalBoard(), str(shared / "work"), ""), "run")
    assert nobody(f"ls {shared}/work", shared) == 0
    for folder in (deployed.run_folder, deployed.folder, program.out_folder(deployed.run_folder, 0)):
        assert nobody(f"ls {folder}", shared, check=False) != 0
        assert nobody(f"touch {folder}/inference", shared, check=False) != 0


class AsNobody(LocalBoard):
    """This machine as a board whose user is not root."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        return super().run([*AS_NOBODY, *argv], timeout_s)

    def put(self, source: Path, destination: PurePosixPath) -> None:
        super().put(source, destination)
        os.chown(destination, NOBODY, NOBODY)


@needs_root
def test_what_root_executes_for_another_user_is_that_users_alone(acas: Network, built: Bundle, shared: Path) -> None:
    """As a measurement with `as_root`: the program is deployed by one user, executed by root, attacked by a third."""
    third = ("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups")
    work = claim(AsNobody(), str(shared / "work"), "")
    deployed = program.deploy(AsNobody(), built, work, "run")
    for folder in (work, deployed.run_folder, deployed.folder):
        assert (Path(folder).stat().st_uid, Path(folder).stat().st_mode & 0o777) == (NOBODY, 0o700)
    for script in (f"echo >{deployed.folder}/inference", f"mv {work} {work}.real", f"ls {deployed.run_folder}"):
        assert subprocess.run([*third, "sh", "-c", script], capture_output=True, check=False).returncode != 0
    upload = shared / "vectors.npy"
    dumps.write(upload, np.zeros((COUNT, 5), np.float32))
    as_root = dataclasses.replace(deployed, board=LocalBoard())
    assert program.execute_chunk(as_root, 0, upload, COUNT, acas.layers, [], 30).vectors == COUNT


@needs_root
def test_a_folder_of_root_is_not_that_of_another_user(shared: Path) -> None:
    (shared / "top").mkdir(mode=0o755)
    (shared / "top" / "work").mkdir(mode=0o755)
    said = refusal(shared / "top" / "work", AsNobody())
    assert said.startswith(f"{shared}/top/work (mode drwxr-xr-x, owner uid 0) does not belong to this user (uid 65534)")
    os.chown(shared / "top" / "work", NOBODY, NOBODY)
    assert claim(AsNobody(), str(shared / "top" / "work"), "") == PurePosixPath(shared / "top" / "work")
    os.chown(shared / "top", 65533, 65533)
    assert refusal(shared / "top" / "work", AsNobody()).startswith(f"{shared}/top (mode drwxr-xr-x, owner uid 65533)")
