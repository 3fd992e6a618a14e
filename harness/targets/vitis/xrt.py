"""XRT where it lies, to build for a board with it: a copy of the board's, this machine's, or Debian's for arm64."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.boards import workspace
from harness.boards.profile import Profile
from harness.core.debian_packages import fetch_alone, run_tool
from harness.core.errors import ToolError
from harness.core.locking import exclusive
from harness.targets.vitis.settings import VitisSettings

VARIABLE = "XRT"
HEADERS = ("xrt/xrt_device.h", "xrt/xrt_kernel.h", "xrt/xrt_bo.h", "xrt/xrt_uuid.h", "experimental/xrt_xclbin.h")
LIBRARY = "libxrt_coreutil.so"
UUID_HEADER, UUID_LIBRARY = "uuid/uuid.h", "libuuid.so"  # that XRT's headers include and call
GUIDE = "docs/boards/kv260.md says where it comes from"

PACKAGES = ("libxrt-dev", "libxrt1", "uuid-dev", "libuuid1")
UUID_PACKAGES = ("uuid-dev", "libuuid1")
SYSTEM = Path("/")
TRIPLETS = {"aarch64": "aarch64-linux-gnu", "x86_64": "x86_64-linux-gnu"}
MACHINES = {183: "aarch64", 62: "x86_64"}  # e_machine of an ELF file
BOARD = "aarch64"

INCLUDE_FOLDERS = ("include", "usr/include/xrt", "include/xrt", "opt/xilinx/xrt/include", "usr/include")


@dataclass(frozen=True)
class Xrt:
    """The XRT installation for a build: folders of headers, XRT's first, and libraries.

    `last` are folders of headers that must not hide the compiler's own, as those of a whole system would.
    """

    include: tuple[Path, ...]
    last: tuple[Path, ...]
    library: Path
    uuid: Path

    @property
    def digest(self) -> str:
        """A hash of all XRT headers and of the library's bytes: another XRT gives another bundle."""
        digest = hashlib.sha256()
        headers = [path for name in ("xrt", "experimental") for path in (self.include[0] / name).rglob("*.h")]
        for path in [*sorted(headers), *sorted(self.include[0].glob("*.h")), self.library]:
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
        return digest.hexdigest()[:12]

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """Compiler flags for sources that include its headers; they need C++17."""
        last = (word for folder in self.last for word in ("-idirafter", str(folder)))
        return (*(f"-I{folder}" for folder in self.include), *last)

    @property
    def link_flags(self) -> tuple[str, ...]:
        """Linker flags for a program that calls it; the dependencies of the library are on the board."""
        return (str(self.library), str(self.uuid), "-Wl,--allow-shlib-undefined")


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def find(
    profile: Profile,
    environment: Mapping[str, str] = os.environ,
    *,
    notify: Callable[[str], None] = _tell,
    system: Path = SYSTEM,
) -> Xrt:
    """Return the XRT to build for a profile's board with.

    Named by vitis.xrt of the profile, or by XRT of the environment: the root of a board's file system or a copy, or
    an installation such as /opt/xilinx/xrt.  Else this machine's if it is the board itself (`system`: its root), or
    Debian's for arm64, fetched once into the cache.  ToolError names the missing file and its folder.
    """
    cache = workspace.cache_folder(environment)
    given = profile.settings("vitis", VitisSettings).xrt or environment.get(VARIABLE)
    if given and profile.local:
        return _in_root(Path(given).expanduser(), platform.machine(), lambda: system)
    if given:
        return _in_root(Path(given).expanduser(), BOARD, lambda: _unpacked(UUID_PACKAGES, cache, notify))
    if profile.local:
        return _in_system(profile, system)
    return _of_debian(_unpacked(PACKAGES, cache, notify))


def _in_root(root: Path, machine: str, elsewhere: Callable[[], Path]) -> Xrt:
    """Return XRT below a root; `elsewhere` is the root with libuuid if an installation of XRT has none."""
    include = _include(root)
    library = _library(root, LIBRARY, machine)
    if library is None:
        raise _missing(root, LIBRARY)
    _check_machine(library, machine)
    last, uuid = root / "usr" / "include", _library(root, UUID_LIBRARY, machine)
    if not (last / UUID_HEADER).is_file() or uuid is None:
        last, uuid = elsewhere() / "usr" / "include", _library(elsewhere(), UUID_LIBRARY, machine)
    return Xrt((include,), (last,), library, _there(uuid, root, UUID_LIBRARY))


def _in_system(profile: Profile, root: Path) -> Xrt:
    machine = platform.machine()
    folder = root / "usr" / "include" / "xrt"
    library, uuid = _library(root, LIBRARY, machine), _library(root, UUID_LIBRARY, machine)
    if not (folder / HEADERS[0]).is_file() or library is None or uuid is None:
        raise ToolError(
            f"board {profile.name}: this machine has no XRT to build with",
            f"run: sudo apt-get install libxrt-dev uuid-dev, or name a root with XRT by vitis.xrt or {VARIABLE}",
        )
    return Xrt((folder,), (root / "usr" / "include",), library, uuid)


def _of_debian(tree: Path) -> Xrt:
    library, uuid = (_there(_library(tree, name, BOARD), tree, name) for name in (LIBRARY, UUID_LIBRARY))
    return Xrt((_include(tree), tree / "usr" / "include"), (), library, uuid)


def _unpacked(packages: Sequence[str], cache: Path, notify: Callable[[str], None]) -> Path:
    """Return a folder with the contents of Debian's packages; several processes may ask for it at once."""
    folder = cache / "xrt"
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "lock"):
        files = fetch_alone(packages, "XRT of Debian for arm64", "about 5 MB, once", folder / "packages", notify)
        tree = folder / files.digest[:16]
        if not tree.exists():
            part = folder / "part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            for file in files.files:
                run_tool(["dpkg-deb", "-x", str(file), str(part)])
            part.rename(tree)
    return tree


def _include(root: Path) -> Path:
    for name in INCLUDE_FOLDERS:
        if (root / name / HEADERS[0]).is_file():
            _check_headers(root / name)
            return root / name
    raise _missing(root, f"include/{HEADERS[0]}")


def _check_headers(folder: Path) -> None:
    for name in HEADERS:
        if not (folder / name).is_file():
            raise ToolError(f"{folder}: no {name}: this XRT is older than 2.13, or incomplete", GUIDE)


def _library(root: Path, name: str, machine: str) -> Path | None:
    """Return the file itself: a link may lead out of a copy."""
    triplet = TRIPLETS.get(machine, machine)
    for folder in ("lib", "usr/lib", f"usr/lib/{triplet}", f"lib/{triplet}", "usr/lib64", "opt/xilinx/xrt/lib"):
        for path in sorted((root / folder).glob(f"{name}*")):
            if path.is_file():
                return path
    return None


def _check_machine(library: Path, machine: str) -> None:
    """Refuse the XRT of the build machine, which can be mistaken for the board's."""
    with library.open("rb") as file:
        head = file.read(20)
    found = MACHINES.get(int.from_bytes(head[18:20], "little"), "another machine")
    if found != machine:
        raise ToolError(f"{library} is for {found}, the board is {machine}", f"name a copy of the board's XRT; {GUIDE}")


def _there(path: Path | None, root: Path, what: str) -> Path:
    if path is None:
        raise _missing(root, what)
    return path


def _missing(root: Path, what: str) -> ToolError:
    return ToolError(
        f"{root}: no {what}: this is neither XRT nor a board's root file system with it, or an incomplete copy",
        f"copy /usr/include and /usr/lib from the board, or name none: then Debian's XRT is fetched; {GUIDE}",
    )
