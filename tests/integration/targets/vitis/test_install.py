"""The steps for a Kria: tools played by strict fakes, and a board that behaves as Kria's manager does."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest
from rich.console import Console as RichConsole

from harness.boards.locks import hold
from harness.boards.profile import Address, BoardProfiles, Profile
from harness.boards.session import Board, Completed
from harness.boards.workspace import Workspace
from harness.cli import _journal as journal
from harness.cli import _overlay as command
from harness.core.console import Console
from harness.core.errors import BoardError, ConnectionFailed, ToolError
from harness.targets.vitis import install as steps
from harness.targets.vitis import vendor
from harness.targets.vitis.install import APPLICATIONS, FIRMWARE, Listed
from harness.targets.vitis.vendor import Package
from tests.support.boards.recorded import RecordedBoard, ThisMachine, said
from tests.support.vitis import vendor_tools
from tests.support.vitis.vendor_tools import KERNELS, fabric

pytestmark = pytest.mark.skipif(not shutil.which("dtc"), reason="no dtc: install device-tree-compiler")

APP, DIGEST = fabric().app, fabric().digest
STARTER = "k26-starter-kits"
FOLDER, PART, OLD = APPLICATIONS / APP, FIRMWARE / f".{APP}.part", FIRMWARE / f".{APP}.old"
FILES = {f"{APP}.bit.bin", f"{APP}.dtbo", f"{APP}.xclbin", "shell.json"}
HEADING = f"{'Accelerator':>32}          Accel_type                            Base           Base_type      #slots"


@dataclass
class Kria(RecordedBoard):
    """Files in a dictionary, Kria's manager, and faults on demand; a command that it does not know fails the test."""

    files: dict[PurePosixPath, bytes] = field(default_factory=lambda: {APPLICATIONS / STARTER / "shell.json": b"{}"})
    active: str | None = STARTER
    looks: int = 0

    def put(self, source: Path, destination: PurePosixPath) -> None:
        self.calls.append(f"put {destination}")
        assert self.is_folder(destination.parent)
        if "full" in self.faults and destination.suffix == ".xclbin":
            raise BoardError(f"cannot write {destination}: No space left on device")
        self.files[destination] = source.read_bytes() + (b"?" if "corrupts" in self.faults else b"")

    def is_folder(self, path: PurePosixPath) -> bool:
        return path in {FIRMWARE, APPLICATIONS} or any(path in file.parents for file in self.files)

    @property
    def applications(self) -> list[str]:
        """What the manager takes for one: a folder with shell.json."""
        found = {file.parent.name for file in self.files if file.name == "shell.json" and APPLICATIONS in file.parents}
        return sorted(found - ({APP} if "blind" in self.faults else set()))

    def _id(self, flag: str) -> Completed:
        assert flag == "-u"
        return said("1000" if "user" in self.faults else "0")

    def _xmutil(self, verb: str, *arguments: str) -> Completed:
        if "no manager" in self.faults:
            return said("", 127)
        if "dead manager" in self.faults:
            return said("DFX-MGRD> ERROR:initSocket():374 connect(/tmp/dfx-mgrd.socket): Connection refused")
        answer: Completed = getattr(self, f"_{verb}")(*arguments)
        return answer

    def _listapps(self) -> Completed:
        rows = [
            f"{name:>32}            XRT_FLAT {name:>31}            XRT_FLAT               (0+0)"
            f"                  {'0,' if name == self.active else '-1'}"
            for name in self.applications
        ]
        return said("\n".join([f"{HEADING}(PL+AIE)         Active_slot", "", *rows]))

    def _unloadapp(self) -> Completed:
        if "busy" in self.faults:
            return said("remove from slot 0 returns: -1 (Error)")
        self.active = None
        return said("remove from slot 0 returns: 0 (Ok)")

    def _loadapp(self, name: str) -> Completed:
        refused = name == APP or "lost" in self.faults
        if self.active is not None or ("refuses" in self.faults and refused):
            return said(f"{name}: load Error: -1")  # with exit status 0, as the manager's client does
        assert name in self.applications
        self.active = name
        return said(f"{name}: loaded to slot 0")

    def _test(self, flag: str, path: str) -> Completed:
        there = PurePosixPath(path)
        answers: dict[str, Callable[[], bool]] = {
            "-d": lambda: path == "/sys/module/zocl" if there.parts[1] == "sys" else self.is_folder(there),
            "-w": lambda: "read-only" not in self.faults,
            "-e": lambda: self.is_folder(there) or there in self.files,
        }
        good = answers[flag]() and not (path.startswith("/sys") and "no driver" in self.faults)
        return Completed(0 if good else 1, b"", b"")

    def _modinfo(self, name: str) -> Completed:
        assert name == "zocl"
        return said("modinfo: ERROR: Module zocl not found.", 1)

    def _df(self, *arguments: str) -> Completed:
        assert arguments == ("-Pk", "/lib/firmware")
        free = "²" if "strange" in self.faults else 1024 * (3 if "small" in self.faults else 4000)
        head = "Filesystem     1024-blocks    Used Available Capacity Mounted on"
        return said(f"{head}\n/dev/mmcblk1p2    14929820 9000000   {free}      61% /")

    def _ls(self, *arguments: str) -> Completed:
        if arguments == (steps.DRIVER,):
            self.looks += 1
            probed = self.active == APP and self.looks > 1 and "no device" not in self.faults
            return said("bind\nuevent\naxi:zyxclmm_drm\nunbind" if probed else "bind\nuevent\nunbind")
        flag, path = arguments
        assert flag == "-A"
        found = [file.name for file in self.files if file.parent == PurePosixPath(path)]
        return said("\n".join(found)) if found else Completed(2, b"", b"No such file or directory\n")

    def _sha256sum(self, *paths: str) -> Completed:
        here = [PurePosixPath(path) for path in paths if PurePosixPath(path) in self.files]
        return said("\n".join(f"{hashlib.sha256(self.files[path]).hexdigest()}  {path}" for path in here))

    def _mkdir(self, path: str) -> Completed:
        assert not self.is_folder(PurePosixPath(path))
        self.files[PurePosixPath(path) / ".kept"] = b""
        return said("")

    def _mv(self, source: str, destination: str) -> Completed:
        old, new = PurePosixPath(source), PurePosixPath(destination)
        if "mv" in self.faults and new == FOLDER:
            return Completed(1, b"", b"Read-only file system\n")
        assert self.is_folder(old)
        assert not self.is_folder(new), "mv would move it into the folder"
        moved = {path: new / path.relative_to(old) for path in self.files if old in path.parents}
        self.files |= {there: self.files.pop(path) for path, there in moved.items() if path.name != ".kept"}
        return said("")

    def _rm(self, flag: str, *paths: str) -> Completed:
        assert flag == "-rf"
        gone = {PurePosixPath(path) for path in paths}
        assert all(path.parent == FIRMWARE and path.name.startswith(f".{APP}.") for path in gone)
        self.files = {path: content for path, content in self.files.items() if not gone & set(path.parents)}
        return said("")


CHANGES = ("put", "mv", "rm", "mkdir", "chmod", "xmutil unloadapp", "xmutil loadapp")


@dataclass
class Bench:
    """A laboratory with tools and a board, and what the command wrote."""

    board: Kria
    profile: Profile
    workspace: Workspace
    record: Path
    out: io.StringIO = field(default_factory=io.StringIO)
    err: io.StringIO = field(default_factory=io.StringIO)
    verified: int = 0

    def install(self, *, dry_run: bool = False, answer: str = f"XRT 2.13, kernels {DIGEST[:16]}") -> int:
        def verify() -> str:
            self.verified += 1
            with hold(self.profile, self.workspace.locks(self.profile), "run", 0, lambda _: None):
                return answer

        console = Console(RichConsole(file=self.out, width=300), RichConsole(file=self.err, width=300), as_json=False)
        return command.install(
            self.profile,
            fabric(),
            self.workspace,
            console,
            dry_run=dry_run,
            verify=verify,
            connect=self.connect,
            environment={},
        )

    @contextmanager
    def connect(self) -> Iterator[Board]:
        with self.board as board:
            yield board

    @property
    def changes(self) -> list[str]:
        return [call for call in self.board.calls if call.startswith(CHANGES)]

    @property
    def tools(self) -> list[str]:
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [line.split()[0] for line in lines if not line.endswith("--version")]

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in (self.workspace.cache / "firmware").glob("*_kv260.log"))

    @property
    def installed(self) -> set[str]:
        return {path.name for path in self.board.files if path.parent == FOLDER}


@pytest.fixture
def fresh(tmp_path: Path, laboratory: BoardProfiles, monkeypatch: pytest.MonkeyPatch) -> Bench:
    root, platform = vendor_tools.install(tmp_path / "Xilinx")
    for name, value in vendor_tools.environment(tmp_path / "record").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(steps, "POLL_S", 0.01)
    monkeypatch.setattr(steps, "DEVICE_TIMEOUT_S", 0.05)
    found = laboratory.board("kv260")
    keys = {"vitis": str(root), "platform": str(platform), "clock_mhz": 200}
    changes = {"address": Address(host="board.example"), "vitis": found.section("vitis") | keys}
    workspace = Workspace(tmp_path / "boards.yaml", tmp_path, tmp_path / "runs", tmp_path / "cache")
    return Bench(Kria(), found.model_copy(update=changes), workspace, tmp_path / "record")


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory, laboratory: BoardProfiles) -> Path:
    """A cache with the package that all of these tests would build."""
    folder = tmp_path_factory.mktemp("package")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in vendor_tools.environment(folder / "record").items():
            patch.setenv(name, value)
        root, platform = vendor_tools.install(folder / "Xilinx")
        given = {"VITIS": str(root), "PLATFORM": str(platform)}
        tools = vendor.find(laboratory.board("kv260"), given)
        vendor.build(fabric(), tools, 200, folder / "cache", lambda _: None)
    return folder / "cache"


@pytest.fixture
def bench(fresh: Bench, package: Path) -> Bench:
    """A bench that has built the package before."""
    shutil.copytree(package, fresh.workspace.cache)
    return fresh


def untouched(bench: Bench) -> bool:
    return bench.changes == [] and bench.board.active == STARTER


LOOK = [
    "id -u",
    "xmutil listapps",
    "test -d /sys/module/zocl",
    "test -d /lib/firmware/xilinx",
    "test -w /lib/firmware/xilinx",
    "df -Pk /lib/firmware",
]


def test_all_steps_in_their_order(fresh: Bench) -> None:
    assert fresh.install() == 0
    board = fresh.board
    names = [f"{APP}.bit.bin", f"{APP}.dtbo", f"{APP}.xclbin", "shell.json"]
    assert board.calls == [
        *LOOK,
        "close",
        *LOOK,
        f"ls -A {FOLDER}",
        f"rm -rf {PART} {OLD}",
        f"mkdir {PART}",
        *(f"put {PART / name}" for name in names),
        f"sha256sum {' '.join(str(PART / name) for name in names)}",
        f"chmod 644 {' '.join(str(PART / name) for name in names)}",
        f"test -e {FOLDER}",
        f"mv {PART} {FOLDER}",
        "sync",
        f"rm -rf {PART} {OLD}",
        "xmutil listapps",
        "xmutil unloadapp",
        "xmutil listapps",
        f"xmutil loadapp {APP}",
        "xmutil listapps",
        f"ls {steps.DRIVER}",
        f"ls {steps.DRIVER}",
        "close",
    ]
    assert board.active == APP
    assert fresh.installed == FILES
    assert fresh.verified == 1
    shown = [line for line in fresh.err.getvalue().splitlines() if line.startswith("[")]
    assert [line.split(":")[0] for line in shown] == [
        "[1/5] check",
        "[2/5] build",
        "[3/5] copy",
        "[4/5] load",
        "[5/5] verify",
    ]
    assert f"load: {APP}; {STARTER} is loaded now" in fresh.err.getvalue()
    assert "II=1 in all 2 pipelined loops" in fresh.log
    assert "timing met: WNS 0.287 ns" in fresh.log
    assert f"the fabric has {APP}, kernels {DIGEST[:16]}" in fresh.out.getvalue()


def test_the_document_tells_what_was_done(fresh: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(RichConsole(file=fresh.out), RichConsole(file=fresh.err), as_json=True)
    command.install(
        fresh.profile,
        fabric(),
        fresh.workspace,
        console,
        dry_run=False,
        verify=lambda: f"kernels {DIGEST[:16]}",
        connect=fresh.connect,
        environment={},
    )
    document = json.loads(capsys.readouterr().out)
    assert fresh.out.getvalue() == ""
    assert document["application"] == APP
    assert document["kernels"] == DIGEST
    assert document["before"] == [STARTER]
    assert document["timing"].startswith("timing met")
    assert set(document["files"]) == FILES
    assert document["verified"] == f"kernels {DIGEST[:16]}"
    assert (document["dry_run"], document["reused"]) == (False, False)
    assert list(document["steps"]) == list(command.STEPS)


def test_a_dry_run_looks_and_changes_nothing(fresh: Bench) -> None:
    assert fresh.install(dry_run=True) == 0
    assert untouched(fresh)
    assert fresh.tools == []
    assert fresh.verified == 0
    shown = fresh.out.getvalue()
    assert f"build: would be: {', '.join(KERNELS)} for kv260_custom.xpfm at 200 MHz; the build takes an hour" in shown
    assert f"load: would be: xmutil unloadapp, xmutil loadapp {APP}" in shown
    assert f"{STARTER} loaded, 4000 MiB free" in shown
    fresh.install()
    fresh.install(dry_run=True)
    assert "build: would be: nothing: " in fresh.out.getvalue()


def test_what_is_there_already_is_neither_built_nor_copied_but_loaded_again(fresh: Bench) -> None:
    fresh.install()
    tools = fresh.tools
    fresh.board.calls.clear()
    assert fresh.install() == 0
    assert fresh.tools == tools
    assert fresh.changes == ["xmutil unloadapp", f"xmutil loadapp {APP}"]
    assert "already on the board" in fresh.err.getvalue()
    assert fresh.err.getvalue().count("II=1 in all 2 pipelined loops") == 4
    assert fresh.verified == 2


@pytest.mark.parametrize("change", ["content", "another file"])
def test_other_files_under_that_name_are_replaced(change: str, bench: Bench) -> None:
    bench.install()
    stale = FOLDER / (f"{APP}.bit.bin" if change == "content" else "other.bit.bin")
    bench.board.files[stale] = b"other"
    bench.board.calls.clear()
    assert bench.install() == 0
    assert f"mv {FOLDER} {OLD}" in bench.changes
    assert bench.installed == FILES
    assert bench.board.files[FOLDER / f"{APP}.bit.bin"] == b"configuration"
    assert not [path for path in bench.board.files if path.is_relative_to(OLD) or path.is_relative_to(PART)]


def test_nothing_loaded_is_nothing_to_unload(bench: Bench) -> None:
    bench.board.active = None
    assert bench.install() == 0
    assert "xmutil unloadapp" not in bench.board.calls
    assert f"{APP}; nothing is loaded now" in bench.err.getvalue()


# What is refused before anything is changed


@pytest.mark.parametrize(
    ("fault", "message", "advice"),
    [
        ("user", "user id 1000: only root may change /lib/firmware", "/root/.ssh"),
        ("no manager", "the board has no xmutil", "systemctl status dfx-mgr"),
        ("dead manager", "gives no list on the board: DFX-MGRD> ERROR:.*Connection refused", "systemctl restart"),
        ("no driver", "has no driver zocl", "apt install xrt-dkms"),
        ("read-only", "cannot be written: the folder /lib/firmware/xilinx", "remount,rw"),
        ("strange", "df on the board says something else than expected", ""),
        ("small", "3 MiB are free in /lib/firmware on the board: 32 are needed", "free some"),
    ],
)
def test_a_board_that_cannot_be_given_an_application_is_refused_before_the_build(
    fault: str, message: str, advice: str, bench: Bench
) -> None:
    bench.board.faults = {fault}
    with pytest.raises(BoardError, match=message) as error:
        bench.install()
    assert advice in error.value.hint
    assert untouched(bench)
    assert bench.tools == []
    assert "step 'check' failed" in bench.log


def test_no_vitis_is_refused_before_the_board_is_asked(bench: Bench) -> None:
    keys = bench.profile.section("vitis") | {"vitis": None}
    bench.profile = bench.profile.model_copy(update={"vitis": keys})
    with pytest.raises(ToolError, match="no Vitis to build its fabric with"):
        bench.install()
    assert bench.board.calls == []


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("FAULTS", "link", "failed, exit status 1"),
        ("TIMING", vendor_tools.timing(vendor_tools.MISSED), "timing NOT met"),
    ],
)
def test_a_build_that_fails_leaves_the_board_alone(
    variable: str, text: str, message: str, fresh: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(ToolError, match=message):
        fresh.install()
    assert untouched(fresh)
    assert "step 'build' failed" in fresh.log


def test_the_board_is_ours_alone_while_it_is_changed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOCK_WAIT_S", 0.0)
    with (
        hold(bench.profile, bench.workspace.locks(bench.profile), "run", 0, lambda _: None),
        pytest.raises(BoardError, match="in use by"),
    ):
        bench.install()
    assert untouched(bench)


# What goes wrong on the board


@pytest.mark.parametrize(
    ("fault", "message"),
    [("corrupts", "differs from the file that was sent"), ("full", "No space left"), ("mv", "Read-only file system")],
)
def test_a_copy_that_fails_leaves_nothing_behind_and_the_fabric_as_it_was(
    fault: str, message: str, bench: Bench
) -> None:
    before = dict(bench.board.files)
    bench.board.faults = {fault}
    with pytest.raises(BoardError, match=message):
        bench.install()
    assert bench.board.files == before
    assert bench.board.active == STARTER
    assert bench.verified == 0
    assert "step 'copy' failed" in bench.log


def test_an_application_that_the_manager_does_not_see_is_named(bench: Bench) -> None:
    bench.board.faults = {"blind"}
    with pytest.raises(BoardError, match=f"does not know {APP}") as error:
        bench.install()
    assert "systemctl restart dfx-mgr" in error.value.hint
    assert bench.board.active == STARTER


def test_what_cannot_be_unloaded_is_named(bench: Bench) -> None:
    bench.board.faults = {"busy"}
    with pytest.raises(BoardError, match=f"leaves {STARTER} in the fabric: remove from slot 0 returns: -1"):
        bench.install()
    assert bench.board.active == STARTER
    assert f"xmutil loadapp {APP}" not in bench.board.calls


def test_a_load_that_fails_with_exit_status_0_is_seen_and_undone(bench: Bench) -> None:
    bench.board.faults = {"refuses"}
    with pytest.raises(BoardError, match=f"{APP}: load Error: -1; {STARTER} is loaded again, as before") as error:
        bench.install()
    assert "dmesg" in error.value.hint
    assert bench.board.active == STARTER
    assert bench.verified == 0
    assert "step 'load' failed" in bench.log


def test_what_cannot_be_brought_back_is_said(bench: Bench) -> None:
    bench.board.faults = {"refuses", "lost"}
    with pytest.raises(BoardError, match=f"is not loaded either: xmutil loadapp {STARTER}"):
        bench.install()
    bench.board.faults = {"refuses"}
    with pytest.raises(BoardError, match="nothing is in the fabric now"):
        bench.install()


def test_a_driver_that_finds_no_device_is_named(bench: Bench) -> None:
    bench.board.faults = {"no device"}
    with pytest.raises(BoardError, match="zocl has found no zyxclmm_drm") as error:
        bench.install()
    assert "dmesg" in error.value.hint


@pytest.mark.parametrize("answer", ["XRT, kernels 0123456789abcdef", f"kernels {DIGEST[:12]}", ""])
def test_other_kernels_in_the_fabric_are_named(answer: str, bench: Bench) -> None:
    with pytest.raises(BoardError, match="the kernels in the fabric are others") as error:
        bench.install(answer=answer)
    assert DIGEST[:16] in error.value.message
    assert f"xmutil loadapp {APP}" in error.value.hint
    assert "the fabric has" not in bench.out.getvalue()
    assert "step 'verify' failed" in bench.log


# What the manager lists

OLD_LIST = f"""{HEADING}(PL+AIE)         Active_slot

           kv260-benchmark-b4096            XRT_FLAT           kv260-benchmark-b4096            XRT_FLAT               \
(0+0)                  0,
                k26-starter-kits            XRT_FLAT                k26-starter-kits            XRT_FLAT               \
(0+0)                  -1
"""
WRAPPED = OLD_LIST.replace("XRT_FLAT               (0+0)", "XRT_FLAT\n        (0+0)").replace("0,\n", "0->0\n")
NEW_LIST = """\
ID accelType   Base        slotLoc Accelerator
-- ----------- ----------- ------- -----------
 1 RPU         rpu         -1      vek280-r5-0-matrix-multiply
 2 XRT_FLAT    vek280-p... 0       vek280-pl-bram-gpio-fw
"""


def test_the_lists_of_old_and_new_managers_are_read() -> None:
    old = Listed(("kv260-benchmark-b4096", "k26-starter-kits"), ("kv260-benchmark-b4096",))
    assert steps.listed(OLD_LIST) == old
    assert steps.listed(WRAPPED) == old
    new = Listed(("vek280-r5-0-matrix-multiply", "vek280-pl-bram-gpio-fw"), ("vek280-pl-bram-gpio-fw",))
    assert steps.listed(NEW_LIST) == new
    assert steps.listed("                     Accelerator          Accel_type\n") == Listed((), ())
    assert steps.listed("command not found") is None


def test_real_commands_do_what_is_expected_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    firmware, made = PurePosixPath(tmp_path / "firmware"), tmp_path / "package"
    (Path(firmware) / "xilinx").mkdir(parents=True)
    made.mkdir()
    monkeypatch.setattr(steps, "FIRMWARE", firmware)
    monkeypatch.setattr(steps, "APPLICATIONS", firmware / "xilinx")

    def package(text: str) -> Package:
        for name in FILES:
            (made / name).write_text(text + name)
        files = {name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in sorted(FILES)}
        return Package(made, APP, "", files, "", (), tmp_path / "log", reused=False)

    with ThisMachine() as board:
        assert steps._free_mib(board) >= 0
        for text, copied in (("one ", True), ("one ", False), ("two ", True)):
            assert steps.install(board, package(text)) is copied
            folder = Path(firmware) / "xilinx" / APP
            assert {path.name: path.read_text() for path in folder.iterdir()} == {name: text + name for name in FILES}
            assert {path.name for path in Path(firmware).iterdir()} == {"xilinx"}
        (made / "shell.json").write_text("changed")
        with pytest.raises(BoardError, match="differs from the file that was sent"):
            steps.install(
                board, Package(made, "harness_000000000000", "", {"shell.json": "0" * 64}, "", (), made, False)
            )
        assert [path.name for path in Path(firmware).iterdir()] == ["xilinx"]
        assert [path.name for path in Path(firmware / "xilinx").iterdir()] == [APP]


def test_a_connection_that_is_lost_while_clearing_up_does_not_hide_the_cause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(source: Path, destination: PurePosixPath) -> None:
        monkeypatch.setattr(bench.board, "run", lost)
        raise ConnectionFailed(f"lost at {destination} of {source.name}")

    def lost(argv: Sequence[str], timeout_s: float) -> Completed:
        raise ConnectionFailed(f"{argv} {timeout_s}")

    monkeypatch.setattr(bench.board, "put", put)
    with pytest.raises(ConnectionFailed, match="lost at"):
        bench.install()
