"""Build of a program with LiteRT: the library lies beside the program, which finds it there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.targets import toolchain
from harness.targets.base import CompileC, method
from harness.targets.litert import library

HERE = Path(__file__).parent
FOLDER = "libraries"
LIBRARY = f"{FOLDER}/{library.NAME}"
RUNTIME = ("libstdc++.so.6", "libgcc_s.so.1")
"""Libraries that LiteRT loads; an emulated board has only those that are brought."""


class _LiteRt:
    """See KernelCompiler."""

    def sources(self, kernels: Sequence[Any], profile: Profile) -> dict[str, bytes]:  # noqa: ARG002 - the files are tables
        """Return nothing: the TFLite files are tables of the program."""
        return {}

    def identity(self, profile: Profile) -> str:
        """Return the version and the hash of the library; raise RequestError if the board cannot load it."""
        if profile.toolchain.static:
            raise RequestError(
                f"board {profile.name}: a static program cannot load LiteRT", "set static: false in its toolchain"
            )
        library.find(profile)  # refuses a library with another hash
        return f"LiteRT {library.VERSION} {library.wheel_of(profile).library_sha256[:16]} [{method(HERE)}]"

    def flags(self, profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - the same for all boards
        """Return where the program and the library find what they load; DT_RUNPATH would not count for the library."""
        return ("-Wl,--disable-new-dtags", f"-Wl,-rpath,$ORIGIN/{FOLDER}", "-Wl,--allow-shlib-undefined")

    def deployed(self, profile: Profile) -> tuple[str, ...]:
        """Return the library, and what an emulated board lacks."""
        return (LIBRARY, *(f"{FOLDER}/{name}" for name in RUNTIME if profile.emulated))

    def build(
        self,
        bundle: Path,
        kernels: Sequence[Any],  # noqa: ARG002 - the files are tables
        profile: Profile,
        compile_c: CompileC,  # noqa: ARG002 - nothing is compiled
    ) -> tuple[Path, ...]:
        """Copy the libraries."""
        (bundle / FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(library.find(profile), bundle / LIBRARY)
        if profile.emulated:
            for name in RUNTIME:
                shutil.copyfile(toolchain.library(profile, name), bundle / FOLDER / name)
        return (Path(LIBRARY),)


COMPILER = _LiteRt()
