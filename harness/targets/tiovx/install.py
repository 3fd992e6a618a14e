"""The kernels in the firmware of a board's DSP: what TI's SDK must have, its build, its image on the board.

TI's own files are never changed: if they do not link our library or call its registration, an error states what to
add.  The SDK gets one folder, vision_apps/kernels/harness; the board one file, in the place of the firmware that it
starts, which is kept in the same folder.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.boards.hashes import hashes_of
from harness.boards.profile import Profile
from harness.boards.session import COMMAND_TIMEOUT_S, Board, Connect, Deadline
from harness.core import subprocesses
from harness.core.errors import BoardError, ConnectionFailed, ToolError
from harness.core.file_digest import file_sha256
from harness.core.subprocesses import Notify, ToolCall
from harness.targets.base import KERNELS
from harness.targets.installer import checked, complaint, reply, require_copied, succeeds
from harness.targets.tiovx.sdk import MODERN
from harness.targets.tiovx.settings import TiovxSettings
from harness.targets.tiovx.sources import identity_header, kernel_sources, kernels_digest

LINK = PurePosixPath("/lib/firmware/j7-c71_0-fw")
IMAGE = "vx_app_rtos_linux_c7x_1.out"
LIBRARY = "harness_kernels"
REGISTER = "harness_kernels_register"
OWN_KERNEL = "org.harness.qgemm"  # in every firmware with our kernels, and in none without
BUILD_FILE = "concerto.mak"
GUIDE = "docs/boards/tda4vm.md says where it comes from"

BUILD_TIMEOUT_S = 7200.0
REBOOT_TIMEOUT_S = 300.0
POLL_S = 5.0
TELL_EVERY_S = 20.0

APP_INITS = (  # of older SDKs the second
    Path("vision_apps/platform/j721e/rtos/common/app_init.c"),
    Path("vision_apps/apps/basic_demos/app_rtos/common/app_init.c"),
)
LINKED_IN = (  # the first is where a line is asked for; in the others it does as well
    Path("vision_apps/platform/j721e/rtos/concerto_c7x_inc.mak"),
    Path("vision_apps/platform/j721e/rtos/c7x_1/concerto_c7x_1_inc.mak"),
    Path("vision_apps/platform/j721e/rtos/c7x_1/concerto.mak"),
    Path("vision_apps/apps/basic_demos/app_rtos/rtos_linux/c7x_1/concerto.mak"),
)
MEMORY_API = Path("tiovx/include/TI/tivx_mem.h")
REQUIRED = (Path("tiovx/include/TI/tivx.h"), MEMORY_API, Path("vision_apps/Makefile"))

REGISTER_LINES = f"""\
        {{
            int {REGISTER}(const char *core);

            {REGISTER}(TIVX_TARGET_DSP_C7_1);
        }}"""
LINK_LINE = f"STATIC_LIBS += {LIBRARY}"


@dataclass(frozen=True)
class Sdk:
    """A Processor SDK RTOS for the TDA4VM, with all that a firmware with our kernels needs."""

    root: Path

    @property
    def kernels(self) -> Path:
        """The folder that is ours."""
        return self.root / "vision_apps" / "kernels" / "harness"

    @property
    def build_command(self) -> tuple[str, ...]:
        """The command that builds the firmware of all cores; SDKs from 9.0 on have a folder for it."""
        builder = self.root / "sdk_builder"
        folder = builder if builder.is_dir() else self.root / "vision_apps"
        return ("make", "-C", str(folder), "vision_apps", "SOC=j721e", "PROFILE=release")


def find_sdk(asked: Path | None, profile: Profile, environment: Mapping[str, str] = os.environ) -> Sdk:
    """Return the SDK asked for, or named by the profile or by TIOVX_SDK; raise ToolError with what it lacks."""
    given = asked or profile.settings("tiovx", TiovxSettings).sdk or environment.get("TIOVX_SDK")
    if not given:
        raise ToolError(
            f"board {profile.name}: no Processor SDK RTOS to build its firmware with",
            f"name it with --sdk, TIOVX_SDK, or tiovx.sdk of the profile; {GUIDE}",
        )
    root = Path(given).expanduser().absolute()
    _check_parts(root)
    _check_version(root)
    _check_edits(root)
    sdk = Sdk(root)
    _check_ours(sdk.kernels)
    return sdk


def _check_parts(root: Path) -> None:
    missing = [str(path) for path in (*REQUIRED, _app_init(root)) if not (root / path).is_file()]
    if not list(root.glob("ti-cgt-c7000*/bin/cl7x")):
        missing.append("ti-cgt-c7000*/bin/cl7x, the C7x's compiler")
    if missing:
        raise ToolError(
            f"{root}: this is no Processor SDK RTOS for the TDA4VM, or one not wholly installed: no {missing[0]}",
            f"also missing: {', '.join(missing[1:])}; {GUIDE}" if missing[1:] else GUIDE,
        )


def _check_version(root: Path) -> None:
    """Refuse SDKs before 7, whose TIOVX does not pass pointers between cores as a pointer to a struct."""
    if not MODERN.search(_text(root / MEMORY_API)):
        raise ToolError(
            f"{root / MEMORY_API}: this TIOVX is too old: its tivxMemShared2TargetPtr takes no "
            "`const tivx_shared_mem_ptr_t *`",
            "use a Processor SDK RTOS of version 7.0 or later, the same as the board's image",
        )


def _check_edits(root: Path) -> None:
    """Raise ToolError unless TI's files contain the lines that link and register our kernels."""
    todo = []
    app_init = root / _app_init(root)
    if REGISTER not in _without_comments(_text(app_init)):
        todo.append(
            f"to {app_init}, in appRegisterOpenVXTargetKernels(), after its line `#ifdef C71`:\n{REGISTER_LINES}"
        )
    if not any(_links_library(root / path) for path in LINKED_IN):
        todo.append(f"to {root / LINKED_IN[0]}, after its other lines with STATIC_LIBS:\n{LINK_LINE}")
    if todo:
        raise ToolError(
            f"{root}: its C7x firmware does not have the harness's kernels yet",
            "TI's files are yours to edit; add\n" + "\nand ".join(todo),
        )


def _app_init(root: Path) -> Path:
    """Return the file in which a firmware registers its kernels."""
    return next((path for path in APP_INITS if (root / path).is_file()), APP_INITS[0])


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def _links_library(path: Path) -> bool:
    pattern = rf"^[ \t]*STATIC_LIBS[ \t]*[+:]?=[^#\n]*\b{LIBRARY}\b"
    return path.is_file() and re.search(pattern, _text(path), re.MULTILINE) is not None


def _check_ours(folder: Path) -> None:
    """Refuse to replace a folder that the harness did not create."""
    if folder.exists() and LIBRARY not in (_text(folder / BUILD_FILE) if (folder / BUILD_FILE).is_file() else ""):
        raise ToolError(
            f"{folder} exists and is not what the harness copies there",
            "move it away: the harness replaces this folder",
        )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror}", "check its rights") from error


def copied_files() -> dict[str, bytes]:
    """Return the files of the SDK's folder, by path."""
    files = {
        name.removeprefix("tiovx/").removeprefix("c/"): path.read_bytes() for name, path in kernel_sources().items()
    }
    files[BUILD_FILE] = (KERNELS / "tiovx" / "firmware" / BUILD_FILE).read_bytes()
    return files | {"target/identity.h": identity_header().encode()}


def copy_sources(sdk: Sdk) -> list[str]:
    """Make the SDK's folder hold `copied_files` and nothing else; the paths that were written or removed.

    A file that is right already keeps its time, so that it is not compiled again.
    """
    wanted = copied_files()
    try:
        stale = [path for path in sdk.kernels.rglob("*") if path.is_file() and _relative(path, sdk) not in wanted]
        for path in stale:
            path.unlink()
        written = [name for name, content in wanted.items() if _write(sdk.kernels / name, content)]
    except OSError as error:
        raise ToolError(f"cannot write {error.filename}: {error.strerror}", "check rights and free space") from error
    return written + [_relative(path, sdk) for path in stale]


def _relative(path: Path, sdk: Sdk) -> str:
    return path.relative_to(sdk.kernels).as_posix()


def _write(path: Path, content: bytes) -> bool:
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return True


def build(sdk: Sdk, log: Path, notify: Notify, timeout_s: float) -> Path:
    """Run TI's build, all that it says into `log`; the C7x's image, which has these very kernels.

    ToolError if it fails, outlasts `timeout_s`, or makes no such image.
    """
    call = ToolCall(
        sdk.build_command,
        doing="building",
        noun="the build",
        log=log,
        timeout_s=timeout_s,
        tell_every_s=TELL_EVERY_S,
        if_missing="install GNU make",
        if_failed=f"run it by hand to see more: {' '.join(sdk.build_command)}",
    )
    subprocesses.run(call, notify)
    return _built_image(sdk)


def _built_image(sdk: Sdk) -> Path:
    """Return the newest image that carries the digest of the kernels' sources."""
    out = sdk.root / "vision_apps" / "out"
    images = sorted(out.glob(f"*/C71/*/release/{IMAGE}"), key=lambda path: path.stat().st_mtime)
    if not images:
        raise ToolError(
            f"the build ended well, but made no {out}/*/C71/*/release/{IMAGE}", "its log shows what it made"
        )
    right = [path for path in images if kernels_digest().encode() in path.read_bytes()]
    if not right:
        raise ToolError(
            f"{images[-1]} has not the kernels that were copied into the SDK: no digest {kernels_digest()} in it",
            f"see in the build's log whether {LIBRARY} was built and linked",
        )
    return right[-1]


@dataclass(frozen=True)
class InstalledFirmware:
    """The path of the image that starts on the board's C7x, and the state of that file."""

    image: PurePosixPath
    sha256: str
    has_kernels: bool

    @property
    def backup(self) -> PurePosixPath:
        """The path at which TI's own image is kept."""
        return self.image.with_name(f"{self.image.name}.before-harness")

    @property
    def restore(self) -> str:
        """The command that brings TI's own image back."""
        return f"mv {self.backup} {self.image} && sync && reboot"


def find_place(board: Board) -> InstalledFirmware:
    """Follow the link that the kernel loads; BoardError if there is none, or if it cannot be replaced."""
    image = PurePosixPath(reply(board, "readlink", "-f", str(LINK)))
    if not succeeds(board, "test", "-f", str(image)):
        raise BoardError(
            f"{LINK} on the board leads to no file ({image})",
            "is this a TDA4VM image with vision_apps? its firmware must be there first",
        )
    if not succeeds(board, "test", "-w", str(image.parent)):
        raise BoardError(
            f"{image.parent} on the board cannot be written",
            "log in as root (user of the address), and if it is mounted read-only: mount -o remount,rw /",
        )
    has_kernels = succeeds(board, "grep", "-qF", OWN_KERNEL, str(image))
    return InstalledFirmware(image, hashes_of(board, [image])[0], has_kernels)


def deploy(board: Board, image: Path, place: InstalledFirmware) -> str:
    """Put `image` in the place of the board's; its SHA-256.

    Nothing is replaced before the copy on the board has been found equal.  What lay there is kept as `place.backup`,
    unless it has our kernels itself: that one is not what TI made.
    """
    sha256 = file_sha256(image)
    if sha256 == place.sha256:
        return sha256
    copy = place.image.with_name(f"{place.image.name}.harness")
    try:
        _send(board, image, copy, sha256)
        if not place.has_kernels:
            _keep(board, place)
        checked(board, "mv", "-f", str(copy), str(place.image))
    except BoardError:
        with suppress(BoardError, ConnectionFailed):
            board.run(["rm", "-f", str(copy)], COMMAND_TIMEOUT_S)
        raise
    checked(board, "sync")
    return sha256


def _send(board: Board, image: Path, copy: PurePosixPath, sha256: str) -> None:
    """Copy the image to the board, where all of it is on the disk afterwards."""
    board.put(image, copy)
    require_copied(board, {copy: sha256}, image.stat().st_size)
    checked(board, "chmod", "644", str(copy))
    checked(board, "sync")


def _keep(board: Board, place: InstalledFirmware) -> None:
    """Keep a copy of the image, under its name only when it is complete."""
    part = f"{place.backup}.part"
    checked(board, "cp", "-p", str(place.image), part)
    checked(board, "mv", "-f", part, str(place.backup))


def reboot(connect: Connect, notify: Notify, timeout_s: float) -> None:
    """Restart the board and wait until it answers again; BoardError if it does not within `timeout_s`."""
    with connect() as board:
        before = _boot(board)
        _ask_to_restart(board)
    deadline = Deadline.after(timeout_s)
    notify(f"waiting for the board, {timeout_s:g} s at most")
    answered = False
    while not deadline.passed:
        time.sleep(min(POLL_S, deadline.remaining_s))
        with suppress(ConnectionFailed, BoardError), connect() as board:
            answered = True
            if _boot(board) != before:
                return
    if answered:
        raise BoardError(
            f"the board did not restart within {timeout_s:g} s: it still answers, from before",
            "restart it by hand; the new firmware is in place",
        )
    raise BoardError(
        f"the board does not answer {timeout_s:g} s after its restart",
        "look at its serial console; TI's own firmware is kept in the same folder, as *.before-harness",
    )


def _ask_to_restart(board: Board) -> None:
    """Restart the board; it may go down before it answers, or kill the command."""
    with suppress(ConnectionFailed):
        done = board.run(["reboot"], COMMAND_TIMEOUT_S)
        if 0 < done.status < 128:
            raise BoardError(f"the board refuses to restart: {complaint(done)}", "log in as root (user of the address)")


def _boot(board: Board) -> str:
    """Return the kernel's name for the time since it started."""
    return reply(board, "cat", "/proc/sys/kernel/random/boot_id")


def confirm(answer: str, place: InstalledFirmware) -> None:
    """Raise BoardError unless the kernels that answered are those of these sources."""
    if kernels_digest() not in answer:
        raise BoardError(
            f"the firmware that runs after the restart is another one: its kernels say {answer or 'nothing'!r}, "
            f"these sources are {kernels_digest()}",
            f"is {place.image} what remoteproc loads (dmesg | grep remoteproc)? the old one: {place.restore}",
        )
