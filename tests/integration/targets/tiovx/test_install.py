"""The firmware step: a made-up SDK whose make is a real program, and a board that records what it is asked for."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest
from rich.console import Console as RichConsole

from harness.boards.locks import hold
from harness.boards.profile import Address, BoardProfiles, Profile
from harness.boards.session import Board, Completed
from harness.boards.workspace import Workspace
from harness.cli import _journal as journal
from harness.cli import firmware as command
from harness.core.console import Console
from harness.core.errors import BoardError, ConnectionFailed, RequestError, ToolError
from harness.targets.tiovx import install as steps
from harness.targets.tiovx.install import IMAGE, LINK, REGISTER_LINES, find_sdk
from harness.targets.tiovx.sources import kernels_digest
from tests.support.boards.recorded import RecordedBoard, ThisMachine, said

FOLDER = PurePosixPath("/usr/lib/firmware/vision_apps_evm")
PLACE, COPY, BACKUP = FOLDER / IMAGE, FOLDER / f"{IMAGE}.harness", FOLDER / f"{IMAGE}.before-harness"
OLD = b"TI's own image"
OURS = b"an older image, with org.harness.qgemm in it"
DIGEST = kernels_digest()

APP_INIT = f"""static void appRegisterOpenVXTargetKernels()
{{
        #ifdef C71
{REGISTER_LINES}
        #endif
}}
"""
MAKE = """#!/bin/sh
echo "$@" >>"$RECORD"
while [ "$1" ]; do [ "$1" = -C ] && folder=$2; shift; done
out=$folder/../vision_apps/out/J721E/C71/FREERTOS/release
mkdir -p "$out"
echo "linking the firmware"
sed -n 's/.*KERNELS_SOURCES "\\(.*\\)"/\\1/p' "$folder/../vision_apps/kernels/harness/target/identity.h" \\
    >"$out/vx_app_rtos_linux_c7x_1.out"
"""


@dataclass
class FakeBoard(RecordedBoard):
    """Files in a dictionary, the commands that the firmware step needs, and faults on demand."""

    files: dict[PurePosixPath, bytes] = field(default_factory=lambda: {PLACE: OLD})
    link: str = str(PLACE)
    boots: int = 0
    refusals: int = 0
    connected: int = 0

    def put(self, source: Path, destination: PurePosixPath) -> None:
        self.calls.append(f"put {destination}")
        if "full" in self.faults:
            raise BoardError(f"cannot write {destination}: No space left on device")
        self.files[destination] = source.read_bytes() + (b"?" if "corrupts" in self.faults else b"")

    def _readlink(self, _flag: str, path: str) -> Completed:
        assert path == str(LINK)
        return said(self.link)

    def _test(self, flag: str, path: str) -> Completed:
        good = PurePosixPath(path) in self.files if flag == "-f" else "read-only" not in self.faults
        return Completed(0 if good else 1, b"", b"")

    def _grep(self, _flag: str, text: str, path: str) -> Completed:
        return Completed(0 if text.encode() in self.files[PurePosixPath(path)] else 1, b"", b"")

    def _sha256sum(self, *paths: str) -> Completed:
        lines = [f"{hashlib.sha256(self.files[PurePosixPath(path)]).hexdigest()}  {path}" for path in paths]
        return said("\n".join(lines))

    def _cp(self, _flag: str, source: str, destination: str) -> Completed:
        if "cp" in self.faults:
            return Completed(1, b"", b"No space left on device\n")
        self.files[PurePosixPath(destination)] = self.files[PurePosixPath(source)]
        return said("")

    def _mv(self, *arguments: str) -> Completed:
        source, destination = map(PurePosixPath, arguments[-2:])
        if "mv" in self.faults and source == COPY:
            return Completed(1, b"", b"Read-only file system\n")
        self.files[destination] = self.files.pop(source)
        return said("")

    def _rm(self, _flag: str, path: str) -> Completed:
        self.files.pop(PurePosixPath(path), None)
        return said("")

    def _cat(self, path: str) -> Completed:
        assert path == "/proc/sys/kernel/random/boot_id"
        return said(f"boot-{self.boots}")

    def _reboot(self) -> Completed:
        if "denied" in self.faults:
            return Completed(1, b"", b"must be superuser\n")
        if "stays" not in self.faults:
            self.boots += 1
            self.refusals = 1_000_000 if "dead" in self.faults else 2
        raise ConnectionFailed("the connection is gone")


@dataclass
class Bench:
    """A laboratory with an SDK and a board, and what the command wrote."""

    sdk: Path
    board: FakeBoard
    profile: Profile
    workspace: Workspace
    record: Path
    out: io.StringIO = field(default_factory=io.StringIO)
    err: io.StringIO = field(default_factory=io.StringIO)
    verified: int = 0

    def firmware(self, *, dry_run: bool = False, answer: str = f"kernels 1 ({DIGEST}) on DSP_C7-1") -> int:
        def verify() -> str:
            self.verified += 1
            return answer

        console = Console(RichConsole(file=self.out, width=300), RichConsole(file=self.err, width=300), as_json=False)
        return command.firmware(
            self.profile, self.sdk, self.workspace, console, dry_run=dry_run, verify=verify, connect=self.connect
        )

    @contextmanager
    def connect(self) -> Iterator[Board]:
        if self.board.refusals:
            self.board.refusals -= 1
            raise ConnectionFailed("no route to host")
        self.board.connected += 1
        with self.board as board:
            yield board

    def builds(self) -> list[str]:
        return self.record.read_text().splitlines() if self.record.exists() else []

    @property
    def kernels(self) -> Path:
        return self.sdk / "vision_apps" / "kernels" / "harness"

    @property
    def log(self) -> str:
        (path,) = (self.workspace.cache / "firmware").glob("*_tda4vm.log")
        return path.read_text()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def made_up_sdk(root: Path) -> Path:
    """What an SDK has of what is looked at, with the edits that a person makes."""
    write(root / "tiovx/include/TI/tivx.h", "")
    write(root / "tiovx/include/TI/tivx_mem.h", "void *tivxMemShared2TargetPtr(const tivx_shared_mem_ptr_t *shared);\n")
    write(root / "vision_apps/Makefile", "")
    write(root / "vision_apps/platform/j721e/rtos/common/app_init.c", APP_INIT)
    write(root / "vision_apps/platform/j721e/rtos/concerto_c7x_inc.mak", "STATIC_LIBS += other\n" + steps.LINK_LINE)
    write(root / "ti-cgt-c7000_3.1.0.LTS/bin/cl7x", "")
    (root / "sdk_builder").mkdir()
    return root


@pytest.fixture
def bench(tmp_path: Path, laboratory: BoardProfiles, monkeypatch: pytest.MonkeyPatch) -> Bench:
    tools = tmp_path / "tools"
    write(tools / "make", MAKE)
    (tools / "make").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.delenv("TIOVX_SDK", raising=False)
    monkeypatch.setattr(steps, "POLL_S", 0.01)
    monkeypatch.setattr(steps, "REBOOT_TIMEOUT_S", 0.2)
    profile = laboratory.board("tda4vm").model_copy(update={"address": Address(host="board.example")})
    workspace = Workspace(tmp_path / "boards.yaml", tmp_path, tmp_path / "runs", tmp_path / "cache")
    return Bench(made_up_sdk(tmp_path / "sdk"), FakeBoard(), profile, workspace, tmp_path / "record")


def untouched(bench: Bench) -> bool:
    """Whether board and SDK are as they were."""
    return bench.board.files == {PLACE: OLD} and bench.board.boots == 0 and not bench.kernels.exists()


def test_all_steps_in_their_order(bench: Bench) -> None:
    assert bench.firmware() == 0
    board = bench.board
    look = [
        f"readlink -f {LINK}",
        f"test -f {PLACE}",
        f"test -w {FOLDER}",
        f"grep -qF org.harness.qgemm {PLACE}",
        f"sha256sum {PLACE}",
    ]
    assert board.calls == [
        *look,
        "close",
        *look,
        f"put {COPY}",
        f"sha256sum {COPY}",
        f"chmod 644 {COPY}",
        "sync",
        f"cp -p {PLACE} {BACKUP}.part",
        f"mv -f {BACKUP}.part {BACKUP}",
        f"mv -f {COPY} {PLACE}",
        "sync",
        "close",
        "cat /proc/sys/kernel/random/boot_id",
        "reboot",
        "close",
        "cat /proc/sys/kernel/random/boot_id",
        "close",
    ]
    assert board.files == {PLACE: f"{DIGEST}\n".encode(), BACKUP: OLD}
    assert (board.boots, board.connected, bench.verified) == (1, 4, 1)
    assert bench.builds() == [f"-C {bench.sdk}/sdk_builder vision_apps SOC=j721e PROFILE=release"]
    shown = [line for line in bench.err.getvalue().splitlines() if line.startswith("[")]
    assert [line.split(":")[0] for line in shown] == [
        "[1/6] check",
        "[2/6] copy sources",
        "[3/6] build",
        "[4/6] deploy",
        "[5/6] restart",
        "[6/6] verify",
    ]
    assert f"mv {BACKUP} {PLACE} && sync && reboot" in bench.err.getvalue()
    assert all(line in bench.log for line in [*shown, "linking the firmware"])


def test_the_document_tells_what_was_done(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(RichConsole(file=bench.out), RichConsole(file=bench.err), as_json=True)
    command.firmware(
        bench.profile,
        bench.sdk,
        bench.workspace,
        console,
        dry_run=False,
        verify=lambda: f"kernels {DIGEST}",
        connect=bench.connect,
    )
    document = json.loads(capsys.readouterr().out)
    assert bench.out.getvalue() == ""
    assert document["board"] == "tda4vm"
    assert document["kernels"] == DIGEST
    assert document["firmware"] == str(PLACE)
    assert document["backup"] == str(BACKUP)
    assert document["sha256"] == hashlib.sha256(f"{DIGEST}\n".encode()).hexdigest()
    assert document["verified"] == f"kernels {DIGEST}"
    assert document["dry_run"] is False
    assert list(document["steps"]) == list(command.STEPS)


def test_a_dry_run_looks_and_changes_nothing(bench: Bench) -> None:
    assert bench.firmware(dry_run=True) == 0
    assert untouched(bench)
    assert bench.builds() == []
    assert bench.verified == 0
    assert not [call for call in bench.board.calls if call.split()[0] in {"put", "mv", "cp", "rm", "reboot"}]
    assert "build: would be: make -C" in bench.out.getvalue()
    assert f"kept as {BACKUP.name}" in bench.out.getvalue()


def test_the_copied_folder_is_what_concerto_mak_names(bench: Bench) -> None:
    steps.copy_sources(steps.Sdk(bench.sdk))
    made = (bench.kernels / "concerto.mak").read_text()
    named = {line.split()[-1] for line in made.splitlines() if line.startswith("CSOURCES")}
    assert named == {f"target/{path.name}" for path in (bench.kernels / "target").glob("*.c")} != set()
    folders = [line.split("kernels/harness")[-1] for line in made.splitlines() if line.startswith("IDIRS")]
    assert folders == ["", "/target", "/integer"]
    assert all((bench.kernels / folder.lstrip("/")).is_dir() for folder in folders)
    assert (bench.kernels / "protocol.h").is_file()
    assert f'"{DIGEST}"' in (bench.kernels / "target/identity.h").read_text()
    headers = {path.name for path in bench.kernels.rglob("*.h")}
    included = {
        line.split('"')[1]
        for path in bench.kernels.rglob("*.[ch]")
        for line in path.read_text().splitlines()
        if line.startswith('#include "')
    }
    assert included <= headers


def test_the_library_has_the_name_that_the_firmware_must_link(bench: Bench) -> None:
    assert f"TARGET      := {steps.LIBRARY}\n" in steps.copied_files()["concerto.mak"].decode()
    assert steps.REGISTER in steps.copied_files()["target/harness_kernels.h"].decode()
    assert bench.sdk.exists()


def test_sources_that_are_right_keep_their_time_and_others_go(bench: Bench) -> None:
    sdk = steps.Sdk(bench.sdk)
    assert set(steps.copy_sources(sdk)) == set(steps.copied_files())
    register, stale = bench.kernels / "target/register.c", bench.kernels / "target/old.c"
    os.utime(register, (1, 1))
    stale.touch()
    (bench.kernels / "protocol.h").write_text("changed")
    assert set(steps.copy_sources(sdk)) == {"protocol.h", "target/old.c"}
    assert register.stat().st_mtime == 1
    assert not stale.exists()
    assert steps.copy_sources(sdk) == []


# What the SDK lacks


def removed(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new))

    return edit


INIT = "vision_apps/platform/j721e/rtos/common/app_init.c"
LINKED = "vision_apps/platform/j721e/rtos/concerto_c7x_inc.mak"
DEFECTS = {
    "no tiovx": (removed("tiovx/include/TI/tivx.h"), "no tiovx/include/TI/tivx.h"),
    "no vision_apps": (removed("vision_apps/Makefile"), "no vision_apps/Makefile"),
    "no compiler": (removed("ti-cgt-c7000_3.1.0.LTS/bin/cl7x"), "cl7x, the C7x's compiler"),
    "too old": (replaced("tiovx/include/TI/tivx_mem.h", "const tivx_shared_mem_ptr_t *", "uint64_t "), "is too old"),
    "not registered": (replaced(INIT, steps.REGISTER, "other"), "does not have the harness's kernels"),
    "registered in a comment": (
        replaced(INIT, REGISTER_LINES, f"/* {steps.REGISTER}(x); */\n// {steps.REGISTER}(x);"),
        "does not have the harness's kernels",
    ),
    "not linked": (replaced(LINKED, "harness_kernels", "other"), "does not have the harness's kernels"),
    "linked in a comment": (replaced(LINKED, steps.LINK_LINE, f"# {steps.LINK_LINE}"), "does not have"),
    "linked behind a comment sign": (
        replaced(LINKED, steps.LINK_LINE, "STATIC_LIBS += other # harness_kernels"),
        "does not have",
    ),
    "linked by a similar name": (replaced(LINKED, steps.LINK_LINE, f"{steps.LINK_LINE}_old"), "does not have"),
    "a stranger's folder": (
        lambda root: write(root / "vision_apps/kernels/harness/concerto.mak", "TARGET := other\n"),
        "is not what the harness copies there",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_the_sdk_is_named_before_anything_is_changed(name: str, bench: Bench) -> None:
    spoil, message = DEFECTS[name]
    spoil(bench.sdk)
    before = {path: path.read_bytes() for path in bench.sdk.rglob("*") if path.is_file()}
    with pytest.raises(ToolError) as error:
        bench.firmware()
    assert message in error.value.message
    assert error.value.hint
    assert before == {path: path.read_bytes() for path in bench.sdk.rglob("*") if path.is_file()}
    assert bench.board.calls == bench.builds() == []
    assert "step 'check' failed" in bench.log
    assert "failed" not in bench.err.getvalue(), "the command tells the error once, when it ends"


def test_the_lines_to_add_are_given_with_their_places_and_suffice(bench: Bench) -> None:
    replaced(INIT, REGISTER_LINES, "")(bench.sdk)
    replaced(LINKED, steps.LINK_LINE, "")(bench.sdk)
    with pytest.raises(ToolError) as error:
        find_sdk(bench.sdk, bench.profile, {})
    hint = error.value.hint
    assert f"{bench.sdk / INIT}, in appRegisterOpenVXTargetKernels()" in hint
    assert f"{bench.sdk / LINKED}, after" in hint
    assert "harness_kernels_register(TIVX_TARGET_DSP_C7_1);" in hint
    assert "\nSTATIC_LIBS += harness_kernels" in hint
    (bench.sdk / INIT).write_text(hint)
    (bench.sdk / LINKED).write_text(hint)
    assert find_sdk(bench.sdk, bench.profile, {}).root == bench.sdk


def test_an_older_sdk_registers_kernels_in_another_file(bench: Bench) -> None:
    older = bench.sdk / steps.APP_INITS[1]
    write(older, (bench.sdk / INIT).read_text())
    (bench.sdk / INIT).unlink()
    assert find_sdk(bench.sdk, bench.profile, {}).root == bench.sdk
    older.write_text("")
    with pytest.raises(ToolError) as error:
        find_sdk(bench.sdk, bench.profile, {})
    assert f"{older}, in appRegisterOpenVXTargetKernels()" in error.value.hint
    older.unlink()
    with pytest.raises(ToolError, match=f"no {INIT}"):
        find_sdk(bench.sdk, bench.profile, {})


@pytest.mark.parametrize("place", steps.LINKED_IN, ids=str)
def test_the_library_may_be_linked_in_any_file_of_that_core(place: Path, bench: Bench) -> None:
    replaced(LINKED, steps.LINK_LINE, "")(bench.sdk)
    write(bench.sdk / place, "  STATIC_LIBS   += other harness_kernels # ours\n")
    assert find_sdk(bench.sdk, bench.profile, {}).root == bench.sdk


def test_the_sdk_is_the_one_asked_for_then_the_profiles_then_the_environments(bench: Bench, tmp_path: Path) -> None:
    second, third = made_up_sdk(tmp_path / "second"), made_up_sdk(tmp_path / "third")
    tiovx = bench.profile.section("tiovx") | {"sdk": str(second)}
    profile = bench.profile.model_copy(update={"tiovx": tiovx})
    environment = {"TIOVX_SDK": str(third)}
    assert find_sdk(bench.sdk, profile, environment).root == bench.sdk
    assert find_sdk(None, profile, environment).root == second
    assert find_sdk(None, bench.profile, environment).root == third
    with pytest.raises(ToolError, match="no Processor SDK RTOS") as error:
        find_sdk(None, bench.profile, {})
    assert "TIOVX_SDK" in error.value.hint


def test_an_sdk_without_a_builder_is_built_in_vision_apps(bench: Bench) -> None:
    (bench.sdk / "sdk_builder").rmdir()
    assert bench.firmware() == 0
    assert bench.builds() == [f"-C {bench.sdk}/vision_apps vision_apps SOC=j721e PROFILE=release"]


@pytest.mark.parametrize("change", [{"address": None}, {"address": None, "local": True, "emulator": None}])
def test_a_board_without_a_firmware_of_its_own_is_refused(change: dict[str, object], bench: Bench) -> None:
    bench.profile = bench.profile.model_copy(update=change)
    with pytest.raises(RequestError, match=r"it has no firmware|is this machine"):
        bench.firmware()
    assert untouched(bench)
    assert bench.board.calls == []


# What goes wrong while building


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo cannot find cl7x; exit 2", "exit status 2: cannot find cl7x"),
        ("exit 0", "made no .*vx_app_rtos_linux_c7x_1.out"),
        (MAKE.replace("\\1/p", "other/p"), "has not the kernels that were copied"),
        ("kill -9 $$", "exit status -9"),
    ],
)
def test_a_build_that_fails_leaves_the_board_alone(script: str, message: str, bench: Bench, tmp_path: Path) -> None:
    write(tmp_path / "tools" / "make", script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    with pytest.raises(ToolError, match=message):
        bench.firmware()
    assert bench.board.files == {PLACE: OLD}
    assert (bench.board.boots, bench.board.connected) == (0, 1)
    assert "step 'build' failed" in bench.log


def test_a_build_without_end_is_stopped_with_all_its_children(bench: Bench, tmp_path: Path) -> None:
    write(
        tmp_path / "tools" / "make",
        f"#!/bin/sh\n(sleep 60; touch {tmp_path}/survived) &\necho $! >{tmp_path}/child\nwait\n",
    )
    steps.copy_sources(steps.Sdk(bench.sdk))
    with pytest.raises(ToolError, match=r"did not end within 0\.5 s"):
        steps.build(steps.Sdk(bench.sdk), tmp_path / "log", lambda _: None, timeout_s=0.5)
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "status"
    with suppress(FileNotFoundError, ProcessLookupError):
        while "Z (zombie)" not in child.read_text():
            time.sleep(0.01)  # it is on its way; a test has a time limit


def test_no_make_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").symlink_to(str(shutil.which("ssh")))  # which reads the configuration of the board's address
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(ToolError, match="cannot run make"):
        bench.firmware()
    assert bench.board.files == {PLACE: OLD}


def test_progress_is_told_while_the_build_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "TELL_EVERY_S", -1.0)
    assert bench.firmware() == 0
    assert "building, 1 lines: linking the firmware" in bench.err.getvalue()


# What goes wrong on the board


def test_the_board_is_ours_alone_while_it_is_changed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOCK_WAIT_S", 0.0)
    with (
        hold(bench.profile, bench.workspace.locks(bench.profile), "run", 0, lambda _: None),
        pytest.raises(BoardError, match="in use by"),
    ):
        bench.firmware()
    assert untouched(bench)
    holders: list[str] = []
    put = bench.board.put

    def watched_put(source: Path, destination: PurePosixPath) -> None:
        holders.extend(path.read_text() for path in bench.workspace.locks(bench.profile).glob("*.ticket"))
        put(source, destination)

    monkeypatch.setattr(bench.board, "put", watched_put)
    assert bench.firmware() == 0
    assert ['"purpose": "firmware"' in holder for holder in holders] == [True]


def test_the_program_that_verifies_can_have_the_board(bench: Bench) -> None:
    def verify() -> str:
        with hold(bench.profile, bench.workspace.locks(bench.profile), "run", 0, lambda _: None):
            return DIGEST

    console = Console(RichConsole(file=bench.out), RichConsole(file=bench.err), as_json=False)
    arguments = (bench.profile, bench.sdk, bench.workspace, console)
    assert command.firmware(*arguments, dry_run=False, verify=verify, connect=bench.connect) == 0


def test_a_board_without_the_firmware_link_is_refused_before_the_build(bench: Bench) -> None:
    bench.board.link = str(LINK)
    with pytest.raises(BoardError, match="leads to no file"):
        bench.firmware()
    assert untouched(bench)


def test_a_read_only_firmware_folder_is_refused_before_the_build(bench: Bench) -> None:
    bench.board.faults = {"read-only"}
    with pytest.raises(BoardError, match="cannot be written") as error:
        bench.firmware()
    assert "remount,rw" in error.value.hint
    assert untouched(bench)
    assert bench.builds() == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("corrupts", "differs from the file that was sent"),
        ("full", "No space left"),
        ("cp", "No space left"),
        ("mv", "Read-only file system"),
    ],
)
def test_a_copy_that_fails_leaves_the_boards_image_in_its_place(fault: str, message: str, bench: Bench) -> None:
    bench.board.faults = {fault}
    with pytest.raises(BoardError, match=message):
        bench.firmware()
    assert bench.board.files[PLACE] == OLD
    assert COPY not in bench.board.files
    assert bench.board.files.get(BACKUP, OLD) == OLD
    assert (bench.board.boots, bench.verified) == (0, 0)
    assert "step 'deploy' failed" in bench.log


def test_real_commands_do_what_is_expected_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, link = tmp_path / "vision_apps_evm", tmp_path / "j7-c71_0-fw"
    folder.mkdir()
    (folder / IMAGE).write_bytes(OLD)
    link.symlink_to(Path(folder.name) / IMAGE)
    monkeypatch.setattr(steps, "LINK", PurePosixPath(link))
    built = tmp_path / "built.out"
    with ThisMachine() as board:
        for content, has_kernels in ((OURS, False), (OURS + b"!", True)):
            built.write_bytes(content)
            place = steps.find_place(board)
            assert (place.image, place.has_kernels) == (PurePosixPath(folder / IMAGE), has_kernels)
            assert steps.deploy(board, built, place) == hashlib.sha256(content).hexdigest()
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
                IMAGE: content,
                f"{IMAGE}.before-harness": OLD,
            }
            assert link.read_bytes() == content
        link.unlink()
        with pytest.raises(BoardError, match="leads to no file"):
            steps.find_place(board)


def test_an_image_with_our_kernels_does_not_become_the_backup(bench: Bench) -> None:
    bench.board.files = {PLACE: OURS, BACKUP: OLD}
    assert bench.firmware() == 0
    assert bench.board.files == {PLACE: f"{DIGEST}\n".encode(), BACKUP: OLD}


def test_another_image_of_tis_replaces_an_older_backup(bench: Bench) -> None:
    bench.board.files = {PLACE: b"TI's newer image", BACKUP: OLD}
    assert bench.firmware() == 0
    assert bench.board.files[BACKUP] == b"TI's newer image"


def test_an_image_that_is_there_already_is_not_sent_again(bench: Bench) -> None:
    bench.board.files = {PLACE: f"{DIGEST}\n".encode(), BACKUP: OLD}
    assert bench.firmware() == 0
    assert f"put {COPY}" not in bench.board.calls
    assert bench.board.files == {PLACE: f"{DIGEST}\n".encode(), BACKUP: OLD}
    assert (bench.board.boots, bench.verified) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("denied", "refuses to restart: must be superuser"),
        ("stays", "did not restart within 0.2 s: it still answers"),
        ("dead", "does not answer 0.2 s after its restart"),
    ],
)
def test_a_restart_that_does_not_come_is_told_apart(fault: str, message: str, bench: Bench) -> None:
    bench.board.faults = {fault}
    with pytest.raises(BoardError, match=message) as error:
        bench.firmware()
    assert error.value.hint
    assert bench.verified == 0
    assert "step 'restart' failed" in bench.log


@pytest.mark.parametrize("answer", ["kernels 1 (0123456789abcdef) on DSP_C7-1", ""])
def test_an_old_firmware_after_the_restart_is_named_with_the_way_back(answer: str, bench: Bench) -> None:
    with pytest.raises(BoardError, match="is another one") as error:
        bench.firmware(answer=answer)
    assert DIGEST in error.value.message
    assert f"mv {BACKUP} {PLACE} && sync && reboot" in error.value.hint
    assert "the DSP runs" not in bench.out.getvalue()
