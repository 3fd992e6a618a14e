"""Compilers found on this machine or named by the profile, with the exactness flags.

The flags below keep one IEEE operation per written operation; a profile adds processor and optimisation flags
and cannot weaken them: they come last on the command line, and flags that break them are refused.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RequestError, ToolError
from harness.profile import Profile, Toolchain

# -fno-math-errno and -fno-trapping-math change no value: they let rintf become one vector instruction.
EXACTNESS_FLAGS = ("-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math")
# No -Werror: what an optimiser warns of depends on the network's sizes and on the compiler; the tests see to warnings.
LANGUAGE_FLAGS = ("-std=gnu11", "-pthread")
# Debug data names folders: also those in which zig has compiled its parts of the C library for whoever asked first.
REPRODUCIBLE_FLAGS = ("-Wl,--build-id=none", "-Wl,--strip-debug")

_INEXACT = re.compile(
    r"-Ofast$|-ffast-math|-funsafe-math|-fassociative-math|-freciprocal-math|-ffinite-math"
    r"|-fno-signed-zeros|-ffp-contract=(fast|on)|-ffp-model|-fsingle-precision-constant"
    r"|-mrecip|-mdaz-ftz|-mfpmath=(?!sse$)"
)

REQUIRED = ("python-zig",)  # comes with the harness's own requirements, beside its Python

LONGEST_S = 1800.0  # for one call of a compiler

# The Debian package that brings each tool that the harness may miss.
PACKAGES = {
    "gcc": "gcc g++ libc6-dev",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross",
    "qemu-system-aarch64": "qemu-system-arm",
}


def install_command(*tools: str) -> str:
    """The exact line that brings `tools` on Debian and Ubuntu."""
    packages = " ".join(PACKAGES.get(tool, tool) for tool in tools)
    return f"sudo apt-get install --no-install-recommends {packages}"


@dataclass(frozen=True)
class Compiler:
    """A compiler as found: the command that starts it, its identity, and every flag that it is given."""

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]

    def build(
        self,
        folder: Path,
        sources: Sequence[Path],
        include: Sequence[Path],
        definitions: Sequence[str],
        output: Path,
        more_flags: Sequence[str] = (),
    ) -> None:
        """Compile and link `sources`, relative to `folder`, into `output`; a -std of `more_flags` is the only one.

        The output's bytes do not depend on where `folder` is.

        ToolError with the compiler's first words if it refuses.
        """
        other_language = any(flag.startswith("-std=") for flag in more_flags)
        flags = [flag for flag in self.flags if not (other_language and flag.startswith("-std="))]
        anywhere = f"-ffile-prefix-map={folder.resolve()}=bundle"
        arguments = [*self.command, *flags, *more_flags, anywhere, *(f"-D{definition}" for definition in definitions)]
        arguments += [f"-I{folder}" for folder in include]
        arguments += [*(str(source) for source in sources), "-o", str(output), "-lm"]
        done = _ended(arguments, folder)
        if done.returncode != 0:
            raise ToolError(
                f"{' '.join(self.command)} failed:\n{_text(done.stderr)[:2000]}",
                "the kernels must compile as they are",
            )


def find(profile: Profile) -> Compiler:
    """The compiler of `profile`; ToolError names the package that brings it, RequestError an inexact flag."""
    toolchain = profile.toolchain
    for flag in toolchain.flags:
        if _INEXACT.match(flag):
            raise RequestError(
                f"board {profile.name}: toolchain flag {flag} would change results",
                f"remove it; every build ends with {' '.join(EXACTNESS_FLAGS)}",
            )
    program, *words = toolchain.compiler.split()
    path = shutil.which(program) or shutil.which(program, path=sysconfig.get_path("scripts"))
    if path is None:
        raise ToolError(
            f"board {profile.name}: compiler {program!r} is not on this machine",
            "run: make setup" if program in REQUIRED else f"run: {install_command(program)}",
        )
    command, flags = (path, *words), _flags(toolchain)
    return Compiler(command, _identify(command, flags), flags)


def library(profile: Profile, name: str) -> Path:
    """A library that the profile's compiler brings for its programs; ToolError if it has none of that name."""
    found = Path(_output([*find(profile).command, f"-print-file-name={name}"]))
    if not found.is_absolute():
        raise ToolError(
            f"board {profile.name}: its compiler has no {name}", f"run: {install_command(profile.toolchain.compiler)}"
        )
    return found.resolve()


def _identify(command: Sequence[str], flags: Sequence[str]) -> str:
    """Name and version, and a hash of the predefined macros, which tell what -march=native means here."""
    version = _output([*command, "--version"]).partition("\n")[0]
    macros = _output([*command, *flags, "-dM", "-E", "-x", "c", "/dev/null"])
    return f"{version} [{hashlib.sha256(macros.encode()).hexdigest()[:12]}]"


def _output(arguments: Sequence[str]) -> str:
    done = _ended(arguments)
    if done.returncode != 0:
        raise ToolError(
            f"{' '.join(arguments)} failed: {_text(done.stderr)[:500]}",
            "check the compiler and its flags in the profile",
        )
    return _text(done.stdout)


def _ended(arguments: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=folder, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"{arguments[0]} did not end within {LONGEST_S:g} s and was stopped",
            f"does it wait for a licence, a server or a disk? try: {shlex.join(arguments)}",
        ) from error


def _text(output: bytes) -> str:
    return output.decode(errors="replace").strip()


def _flags(toolchain: Toolchain) -> tuple[str, ...]:
    linked = ("-static",) if toolchain.static else ()
    return (*toolchain.flags, *LANGUAGE_FLAGS, *REPRODUCIBLE_FLAGS, *linked, *EXACTNESS_FLAGS)


def required_glibc(program: Path) -> tuple[int, int] | None:
    """The newest glibc version whose symbols `program` imports; None if it is linked statically.

    Read from the version names in the ELF file's dynamic string table.
    """
    content = program.read_bytes()
    versions = [(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)]
    dynamic = b"/ld-linux" in content
    return max(versions, default=None) if dynamic else None


def check_glibc(program: Path, toolchain: Toolchain) -> None:
    """ToolError if `program` would not start on a board with the profile's glibc."""
    required = required_glibc(program)
    if required is None or toolchain.glibc is None:
        return
    major, minor = toolchain.glibc.split(".")
    if required > (int(major), int(minor)):
        raise ToolError(
            f"the program needs glibc {required[0]}.{required[1]}, the board offers {toolchain.glibc}",
            "set static: true in the profile's toolchain, or name a compiler for an older glibc",
        )
