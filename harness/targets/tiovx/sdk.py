"""TI's software where it lies: the root file system of a board's image, or a copy, with TIOVX's headers and library."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.boards.profile import Profile
from harness.core.errors import ToolError
from harness.targets.tiovx.settings import TiovxSettings

HEADERS = ("TI/tivx.h", "TI/tivx_target_kernel.h", "TI/tivx_mem.h", "VX/vx_khr_user_data_object.h")
APP_INIT = "utils/app_init/include/app_init.h"
LIBRARY = "libtivision_apps.so"
MODERN = re.compile(r"tivxMemShared2TargetPtr\s*\(\s*const\s+tivx_shared_mem_ptr_t\b")  # since Processor SDK 7
GUIDE = "docs/boards/tda4vm.md says where it comes from"


@dataclass(frozen=True)
class Sdk:
    """The TIOVX software for a build: folders of headers, those of TIOVX first, and the library."""

    include: tuple[Path, ...]
    library: Path

    @property
    def digest(self) -> str:
        """A hash of all TIOVX headers and of the library's bytes: another image gives another bundle."""
        digest = hashlib.sha256()
        for path in [*sorted(self.include[0].rglob("*.h")), self.library]:
            digest.update(f"{path.name}\0".encode() + path.read_bytes())
        return digest.hexdigest()[:12]


def find(profile: Profile, environment: Mapping[str, str] = os.environ) -> Sdk:
    """Return the software of the board's image; raise ToolError if something is missing or too old."""
    given = profile.settings("tiovx", TiovxSettings).target_fs or environment.get("TARGET_FS")
    if not given:
        raise ToolError(
            f"board {profile.name}: target tiovx needs the headers and the library of TIOVX from the board's image",
            f"name a copy of its root file system by tiovx.target_fs of the profile, or by TARGET_FS; {GUIDE}",
        )
    root = Path(given).expanduser()
    headers = root / "usr" / "include" / "processor_sdk"
    include = (headers / "tiovx" / "include", *_with_app_init(headers, root))
    library = _library(root)
    _check_headers(include[0])
    return Sdk(include, library)


def _with_app_init(headers: Path, root: Path) -> list[Path]:
    """Return the folders that contain the header of appInit; newer software stores it separately."""
    choices = [headers / "vision_apps", headers / "app_utils"]
    found = [folder for folder in choices if (folder / APP_INIT).exists()]
    if not found:
        raise _missing(root, f"processor_sdk/*/{APP_INIT}")
    return found


def _library(root: Path) -> Path:
    """Return the library by its path: the linker must not find the board's libc.so and others in its folder."""
    for folder in ("usr/lib", "usr/lib/aarch64-linux-gnu", "usr/lib64"):
        for path in sorted((root / folder).glob(f"{LIBRARY}*")):
            if path.is_file():  # a link may lead out of a copy
                return path
    raise _missing(root, LIBRARY)


def _check_headers(headers: Path) -> None:
    """Require the headers that are included, in a version that is not too old."""
    for name in HEADERS:
        if not (headers / name).exists():
            raise _missing(headers, name)
    if not MODERN.search((headers / "TI/tivx_mem.h").read_text(encoding="utf-8", errors="replace")):
        raise ToolError(
            f"{headers / 'TI/tivx_mem.h'}: this TIOVX is older than that of Processor SDK 7",
            "use the headers of a newer image, 7.0 or later, and run that image on the board",
        )


def _missing(place: Path, what: str) -> ToolError:
    return ToolError(
        f"{place}: no {what}: this is no root file system of a TDA4VM image with TIOVX, or an incomplete copy",
        f"copy /usr/include and /usr/lib from the board; {GUIDE}",
    )
