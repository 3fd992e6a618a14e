"""libLiteRt.so for a board: of the installed package, or of the wheel for the board's processor."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from harness.boards.profile import Profile
from harness.boards.workspace import cache_folder, write_whole
from harness.core.errors import RequestError, ToolError
from harness.core.locking import exclusive
from harness.targets.litert.settings import LiteRtSettings

VERSION = "2.1.2"
NAME = "libLiteRt.so"
MEMBER = f"ai_edge_litert/{NAME}"
LONGEST_S = 600.0


class Wheel(NamedTuple):
    """The wheel of a processor: platform tag, SHA-256 of the wheel and of the library, glibc that the library needs."""

    platform: str
    sha256: str
    library_sha256: str
    glibc: tuple[int, int]


WHEELS = {
    "x86_64": Wheel(
        "manylinux_2_27_x86_64",
        "b3ff3b12df45dfc540934e33bde9af474b0b4c12c3bb6112b251aaae4d2930a0",
        "face65826e1a61a630cb65f596f290a4be2c57af179fc92f53ba122c7d2978d2",
        (2, 27),
    ),
    "aarch64": Wheel(
        "manylinux_2_27_aarch64",
        "7dc4afc4b67797e77d879e35ad558e60f746be7c1e616a6653bd2cbf1ffef9ad",
        "c4daa8812f03696bb22e10746cf592a99fe7c14763bef066043a099c0237ea8d",
        (2, 34),
    ),
}


def machine_of(profile: Profile) -> str:
    """Return the processor of a board, as `uname -m` names it."""
    return platform.machine() if profile.local else "aarch64"


def wheel_of(profile: Profile) -> Wheel:
    """Return the wheel for the processor of a board; raise RequestError if there is none."""
    machine = machine_of(profile)
    if machine not in WHEELS:
        raise RequestError(f"board {profile.name}: LiteRT {VERSION} has no wheel for {machine}", ", ".join(WHEELS))
    return WHEELS[machine]


def find(profile: Profile) -> Path:
    """Return the library for the board of `profile`, whose SHA-256 is right; fetch the wheel with pip if it is missing.

    Raises RequestError for a board whose glibc is older and for a library of another version, ToolError if pip fails.
    """
    wheel, machine = wheel_of(profile), machine_of(profile)
    glibc = profile.toolchain.glibc
    if glibc is not None and tuple(map(int, glibc.split("."))) < wheel.glibc:
        needed = ".".join(map(str, wheel.glibc))
        raise RequestError(
            f"board {profile.name}: {NAME} {VERSION} for {machine} needs glibc {needed}, the board has {glibc}",
            "use target c on this board, or a newer system image on it (toolchain: glibc)",
        )
    named = profile.settings("litert", LiteRtSettings).library
    if not named and (installed := _installed(wheel)):
        return installed
    path = Path(named) if named else _fetched(wheel)
    _require(path, wheel)
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require(path: Path, wheel: Wheel) -> None:
    try:
        found = _sha256(path)
    except OSError as error:
        raise RequestError(
            f"cannot read {path}: {error.strerror}", "correct `litert: library` of the profile"
        ) from None
    if found != wheel.library_sha256:
        raise RequestError(
            f"{path} has SHA-256 {found[:16]}..., not that of {NAME} of ai-edge-litert {VERSION}, "
            f"{wheel.library_sha256[:16]}...",
            "the interface is declared for this version alone: leave out `litert: library` of the profile",
        )


def _installed(wheel: Wheel) -> Path | None:
    """Return the library of the installed package if it is the right one."""
    try:
        path = Path(str(distribution("ai-edge-litert").locate_file(MEMBER)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() and _sha256(path) == wheel.library_sha256 else None


def _fetched(wheel: Wheel) -> Path:
    """Return the library of the wheel in the user's cache; pip checks the wheel's hash."""
    folder = cache_folder() / "litert"
    path = folder / wheel.library_sha256[:16] / NAME
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "lock"):
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, _member(wheel))
    return path


def _member(wheel: Wheel) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        pinned = Path(folder, "requirements.txt")
        pinned.write_text(f"ai-edge-litert=={VERSION} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", "--python-version", "3.11", "--abi", "cp311"),
            *("--platform", wheel.platform, "--dest", folder, "--requirement", str(pinned)),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        except subprocess.TimeoutExpired:
            raise ToolError(f"pip did not fetch LiteRT within {LONGEST_S:.0f} s", "check the network") from None
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            raise ToolError(
                f"pip cannot fetch ai-edge-litert {VERSION} for {wheel.platform}: {done.stderr.strip()[-400:]}",
                f"check the network, or name the library in the profile: `litert: library: PATH/{NAME}`",
            )
        with zipfile.ZipFile(wheels[0]) as archive:
            return archive.read(MEMBER)
