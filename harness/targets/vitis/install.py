"""The kernels in the fabric of a Kria board: what must be there, the application's copy, its start by Kria's manager.

The manager is `dfx-mgrd`, which `xmutil` asks.  It takes every folder below /lib/firmware/xilinx with a shell.json for
an application, loads one at a time, and answers with exit status 0 whatever happens: what counts is what it lists.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.boards.hashes import hashes_of
from harness.boards.session import COMMAND_TIMEOUT_S, Board, Deadline
from harness.core.errors import BoardError, ConnectionFailed
from harness.targets.installer import checked, output, reply, require_copied, succeeds
from harness.targets.vitis.vendor import Package

FIRMWARE = PurePosixPath("/lib/firmware")
APPLICATIONS = FIRMWARE / "xilinx"
DRIVER = "/sys/bus/platform/drivers/zocl-drm"
DEVICE = "zyxclmm_drm"
MODULE = "zocl"
DIGEST_DIGITS = 16  # of the kernels' digest, in the program's description of the item

LOAD_TIMEOUT_S = 120.0
DEVICE_TIMEOUT_S = 10.0
POLL_S = 0.5
NEEDED_MIB = 32  # a K26's bitstream has 8 MiB, and lies there twice for a moment

ROOT = (
    "log in as root (user of the address); Ubuntu for Kria has no such login at first: "
    "sudo mkdir -p /root/.ssh && sudo cp ~/.ssh/authorized_keys /root/.ssh/"
)
MANAGER = "is this an image for Kria, and does its manager run? systemctl status dfx-mgr; systemctl restart dfx-mgr"

# Before 2025:  NAME TYPE BASE BASE_TYPE (PL+AIE) SLOT, where the slot is `0,`, `0->0` or -1; lines may be wrapped.
OLD_ROW = re.compile(r"(\S+)\s+[A-Z_]+\s+\S+\s+[A-Z_]+\s+\(\d+(?:\+\d+)+\)\s+(\S+)")
# Since then:   ID TYPE BASE SLOT NAME
NEW_ROW = re.compile(r"^\s*\d+\s+[A-Z_]+\s+\S+\s+(-?\d\S*)\s+(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Listed:
    """The list of Kria's manager: all applications, and those that are in the fabric."""

    applications: tuple[str, ...]
    active: tuple[str, ...]

    @property
    def loaded(self) -> str:
        """The loaded applications, as text."""
        return ", ".join(self.active) or "nothing"


@dataclass(frozen=True)
class BoardApplications:
    """A board that can be given applications: what it has loaded, its free memory on disk."""

    listed: Listed
    free_mib: int


def listed(text: str) -> Listed | None:
    """Read what `xmutil listapps` says; None if it is no such list."""
    if "accelerator" not in text.lower():
        return None
    rows = [(name, slot) for name, slot in OLD_ROW.findall(text)]
    rows += [(name, slot) for slot, name in NEW_ROW.findall(text)]
    return Listed(tuple(name for name, _ in rows), tuple(name for name, slot in rows if not slot.startswith("-1")))


def find_place(board: Board) -> BoardApplications:
    """Look whether an application could be installed and loaded; BoardError says what is missing.  Changes nothing."""
    user = reply(board, "id", "-u")
    if user != "0":
        raise BoardError(f"logged in on the board with user id {user}: only root may change {FIRMWARE}, and load", ROOT)
    found = list_applications(board)
    _check_driver(board)
    for flag, what in (("-d", "there is no folder"), ("-w", "cannot be written: the folder")):
        if not succeeds(board, "test", flag, str(APPLICATIONS)):
            raise BoardError(f"on the board {what} {APPLICATIONS}", "is this an image for Kria? mount -o remount,rw /")
    free_mib = _free_mib(board)
    if free_mib < NEEDED_MIB:
        raise BoardError(f"{free_mib} MiB are free in {FIRMWARE} on the board: {NEEDED_MIB} are needed", "free some")
    return BoardApplications(found, free_mib)


def list_applications(board: Board) -> Listed:
    """Return the list of Kria's manager after its search for new applications; raise BoardError without an answer."""
    done = board.run(["xmutil", "listapps"], COMMAND_TIMEOUT_S)
    if done.status == 127:
        raise BoardError("the board has no xmutil, Kria's manager of the fabric", MANAGER)
    found = listed(output(done))
    if done.status != 0 or found is None:
        raise BoardError(f"xmutil listapps gives no list on the board: {output(done) or 'it says nothing'}", MANAGER)
    return found


def _check_driver(board: Board) -> None:
    """Check that zocl is loaded or can be loaded: without an overlay with its node it has no device yet."""
    if succeeds(board, "test", "-d", f"/sys/module/{MODULE}"):
        return
    if not succeeds(board, "modinfo", MODULE):
        raise BoardError(
            f"the board's Linux has no driver {MODULE}, without which XRT does not reach the fabric",
            "install it: apt install xrt-dkms (docs/boards/kv260.md)",
        )


def _free_mib(board: Board) -> int:
    """Return the free space of the disk with the firmware, as reported by POSIX's df."""
    last = reply(board, "df", "-Pk", str(FIRMWARE)).splitlines()[-1].split()
    if len(last) < 6 or not re.fullmatch("[0-9]{1,18}", last[3]):
        raise BoardError(f"df on the board says something else than expected: {' '.join(last)}")
    return int(last[3]) // 1024


def install(board: Board, package: Package) -> bool:
    """Bring the package's files to their folder, all at once; whether anything had to be copied.

    Nothing is put in place before every copy on the board has been found equal.
    """
    folder = APPLICATIONS / package.app
    if _is_there(board, package, folder):
        return False
    # Not inside the folder that the manager watches: it would take an unfinished copy for an application.
    part, old = FIRMWARE / f".{package.app}.part", FIRMWARE / f".{package.app}.old"
    try:
        checked(board, "rm", "-rf", str(part), str(old))
        checked(board, "mkdir", str(part))
        for name in package.files:
            board.put(package.folder / name, part / name)
        require_copied(board, {part / name: sha256 for name, sha256 in package.files.items()})
        checked(board, "chmod", "644", *(str(part / name) for name in package.files))
        if succeeds(board, "test", "-e", str(folder)):
            checked(board, "mv", str(folder), str(old))
        checked(board, "mv", str(part), str(folder))
        checked(board, "sync")
    finally:
        with suppress(BoardError, ConnectionFailed):
            board.run(["rm", "-rf", str(part), str(old)], COMMAND_TIMEOUT_S)
    return True


def _is_there(board: Board, package: Package, folder: PurePosixPath) -> bool:
    """Return whether the folder has these files and no others, which the manager could load instead."""
    names = board.run(["ls", "-A", str(folder)], COMMAND_TIMEOUT_S)
    if names.status != 0 or set(names.stdout.decode(errors="replace").split()) != set(package.files):
        return False
    return hashes_of(board, [folder / name for name in package.files]) == list(package.files.values())


def load(board: Board, app: str, place: BoardApplications) -> str:
    """Take out of the fabric what is in it, and load the application; what the manager says of that.

    BoardError if it is not active then; what was loaded before is brought back, if that is possible.
    """
    if app not in list_applications(board).applications:
        raise BoardError(f"xmutil listapps does not know {app}, which is in {APPLICATIONS}", MANAGER)
    if place.listed.active:
        _unload(board)
    said = output(board.run(["xmutil", "loadapp", app], LOAD_TIMEOUT_S))
    active = list_applications(board).active
    if app not in active:
        raise BoardError(
            f"xmutil loadapp {app} has not loaded it: {said or 'it says nothing'}; {_brought_back(board, place)}",
            "what Linux says of it: dmesg | tail -30; does the overlay suit the platform, and the bitstream a K26?",
        )
    _wait_for_device(board, app)
    return said


def _unload(board: Board) -> None:
    said = output(board.run(["xmutil", "unloadapp"], LOAD_TIMEOUT_S))
    left = list_applications(board)
    if left.active:
        raise BoardError(
            f"xmutil unloadapp leaves {left.loaded} in the fabric: {said or 'it says nothing'}",
            "end the programs that use it, or reboot the board",
        )


def _brought_back(board: Board, place: BoardApplications) -> str:
    """Return the application from before, loaded again if it can be; in words."""
    if not place.listed.active:
        return "nothing is in the fabric now"
    before = place.listed.active[0]
    with suppress(BoardError, ConnectionFailed):
        board.run(["xmutil", "unloadapp"], LOAD_TIMEOUT_S)
        board.run(["xmutil", "loadapp", before], LOAD_TIMEOUT_S)
        if before in list_applications(board).active:
            return f"{before} is loaded again, as before"
    return f"{before}, which was there before, is not loaded either: xmutil loadapp {before}"


def _wait_for_device(board: Board, app: str) -> None:
    """Wait for the device: zocl probes it shortly after the overlay's node appears."""
    deadline = Deadline.after(DEVICE_TIMEOUT_S)
    while DEVICE not in output(board.run(["ls", DRIVER], COMMAND_TIMEOUT_S)):
        if deadline.passed:
            raise BoardError(
                f"{app} is loaded, but {MODULE} has found no {DEVICE}: XRT will not reach the fabric",
                f"what Linux says of it: dmesg | grep -i {MODULE}; modprobe {MODULE}",
            )
        time.sleep(min(POLL_S, deadline.remaining_s))


def confirm(answer: str, app: str, digest: str) -> None:
    """Raise BoardError unless the kernels that answered are those of these sources."""
    if digest[:DIGEST_DIGITS] not in answer:
        raise BoardError(
            f"the kernels in the fabric are others: they say {answer or 'nothing'!r}, these sources are "
            f"{digest[:DIGEST_DIGITS]}",
            f"was another application loaded meanwhile? xmutil unloadapp; xmutil loadapp {app}",
        )


def planned(package_files: Sequence[str], app: str) -> str:
    """Describe what `install` would do."""
    return f"{', '.join(package_files)} to {APPLICATIONS / app}"
