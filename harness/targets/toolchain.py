"""Compilers found on this machine or named by the profile, with the exactness flags.

The flags below keep one IEEE operation per written operation; a profile adds processor and optimisation flags
and cannot weaken them: they come last on the command line, and a profile's flags are limited by compiler_flags.

A compiler runs in an environment of its own, which no variable of the user's reaches.  What compiles and links is
part of a bundle's name: see `Compiler.parts` and `headers`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.boards import workspace
from harness.boards.profile import Profile, Toolchain
from harness.core import file_digest, installation
from harness.core.debian_packages import install_command
from harness.core.errors import ToolError
from harness.targets import compiler_flags, strip

# -fno-math-errno and -fno-trapping-math change no value: they let rintf become one vector instruction.
EXACTNESS_FLAGS = ("-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math")
# No -Werror: what an optimiser warns of depends on the network's sizes and on the compiler; the tests see to warnings.
LANGUAGE_FLAGS = ("-std=gnu11", "-pthread")
# A program without an operating system: of the compiler's libraries only libgcc, for integers of 64 bits and, where the
# processor has none, double.  Its functions are those of IEEE 754, rounded to nearest.
BARE_METAL_FLAGS = ("-std=gnu11", "-ffreestanding", "-nostdlib")
REPRODUCIBLE_FLAGS = ("-Wl,--build-id=none",)
# The proof reads the machine code: a random number from the stack protector is no input of a layer.
READABLE_FLAGS = ("-fno-stack-protector",)

ZIG = "python-zig"  # of the extra `cross`, beside the harness's Python
INSTALL_ZIG = installation.install_extra("cross")

LONGEST_S = 1800.0  # for one call of a compiler

# Programs of GCC and files that it reads, by the option that asks for their place.
_PROGRAMS = ("cc1", "collect2", "as", "ld")
_FILES = ("liblto_plugin.so", "specs")
_CPLUSPLUS = ("-print-prog-name=cc1plus", "-print-file-name=libstdc++.so", "-print-file-name=libstdc++.a")

# x87 arithmetic would round twice.  16 is that of processors with float16, and the same for float.
_PROBE = """\
#include <float.h>
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "float operations must be rounded to float");
unsigned long long quotient(unsigned long long a, unsigned long long b) { return a / b; }
int main(void) { return 0; }
"""
_SPECIFIC = {"emmintrin.h": "__x86_64__", "immintrin.h": "__x86_64__", "arm_neon.h": "__ARM_NEON"}  # others refuse them
_LANGUAGES = {"c": (), "c++": ("-std=c++17",)}


@dataclass(frozen=True)
class Compiler:
    """A compiler as found: the command that starts it, its identity, and every flag that it is given.

    `parts` are the SHA-256 of the programs that compile and link, and of the libraries that every program is linked
    with, by their names.  `identity` has a hash of them.
    """

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    parts: Mapping[str, str] = field(default_factory=dict)

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
        arguments += [*(str(source) for source in sources), "-o", str(output), _library(self.flags)]
        done = _ended(arguments, folder)
        if done.returncode != 0:
            raise ToolError(
                f"{' '.join(self.command)} failed:\n{_text(done.stderr)[:2000]}", "the kernels must compile as they are"
            )
        if "-g" not in more_flags:  # a caller that asks for debug data reads it; a profile's -g changes nothing
            strip.debug_data(folder / output)


def environment(command: Sequence[str]) -> dict[str, str]:
    """Return all variables that a compiler gets: none of the user's that names folders, libraries or options.

    The folder of the compiler comes first on the PATH, then the system's own folders.
    """
    return {
        "PATH": os.pathsep.join([str(Path(command[0]).absolute().parent), "/usr/bin", "/bin"]),
        "LC_ALL": "C",
        "TMPDIR": tempfile.gettempdir(),
        "SOURCE_DATE_EPOCH": "0",
        "CCACHE_DISABLE": "1",  # of a gcc that is a link to ccache
        "ZIG_GLOBAL_CACHE_DIR": str(workspace.caches(os.environ) / "zig"),
    }


def find(profile: Profile) -> Compiler:
    """Return the compiler of `profile`.

    ToolError names the package that brings it, RequestError a flag that is not allowed.
    """
    return identify(_command(profile), flags_of(profile))


def identify(command: tuple[str, ...], flags: tuple[str, ...]) -> Compiler:
    """Return the compiler that `command` starts, with the hashes of everything that it compiles and links with."""
    with ThreadPoolExecutor() as pool:
        version = pool.submit(_output, [*command, "--version"])
        macros = pool.submit(_output, [*command, *flags, "-dM", "-E", "-x", "c", "/dev/null"])
        linked = None if compiler_flags.is_zig(command[0]) else pool.submit(_linked, command, flags)
        asked = [f"-print-prog-name={name}" for name in _PROGRAMS] + [f"-print-file-name={name}" for name in _FILES]
        placed = None if linked is None else pool.submit(_places, command, asked)
        first_line = version.result().partition("\n")[0]
        parts = {"macros": hashlib.sha256(macros.result().encode()).hexdigest()}
        if linked is None or placed is None:
            parts |= _zig_parts(version.result())
        else:
            parts |= _digests([Path(command[0]), *placed.result(), *linked.result()])
    short = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
    return Compiler(command, f"{first_line} [{short}]", flags, parts)


def _command(profile: Profile) -> tuple[str, ...]:
    compiler_flags.check(profile.name, profile.toolchain)
    program, *words = profile.toolchain.compiler.split()
    path = shutil.which(program) or shutil.which(program, path=sysconfig.get_path("scripts"))
    if path is None:
        raise ToolError(
            f"board {profile.name}: compiler {program!r} is not on this machine",
            INSTALL_ZIG if program == ZIG else f"run: {install_command(program)}",
        )
    return (path, *words)


def library(profile: Profile, name: str) -> Path:
    """Return a library that the profile's compiler brings for its programs; raise ToolError if there is none."""
    path = Path(_output([*_command(profile), *profile.toolchain.flags, f"-print-file-name={name}"]))
    if not path.is_absolute():
        raise ToolError(
            f"board {profile.name}: its compiler has no {name}", f"run: {install_command(profile.toolchain.compiler)}"
        )
    return path.resolve()


def headers(compiler: Compiler, sources: Mapping[str, bytes]) -> dict[str, str]:
    """Return a hash of the system's headers that `sources` include, by language; of C++ also what compiles it.

    `sources` are texts by their paths.
    """
    found = {"c": hash_headers(compiler, "c", _included(sources, (".c", ".h")))}
    if any(path.endswith(".cpp") for path in sources):
        names = _included(sources, (".cpp", ".hpp", ".cu", ".cuh", ".h"))
        found["c++"] = hash_headers(compiler, "c++", names)
        if not compiler_flags.is_zig(compiler.command[0]):
            found |= _digests(_places(compiler.command, _CPLUSPLUS))
    return found


def _included(sources: Mapping[str, bytes], suffixes: tuple[str, ...]) -> list[str]:
    texts = (text for path, text in sources.items() if path.endswith(suffixes))
    return sorted(
        {name.decode() for text in texts for name in re.findall(rb"(?m)^[ \t]*#[ \t]*include[ \t]*<(.+?)>", text)}
    )


def hash_headers(compiler: Compiler, language: str, names: Sequence[str]) -> str:
    """Return a hash of all files that are read when these headers are included."""
    lines = (
        f"#if __has_include(<{name}>) && defined({_SPECIFIC.get(name, '__STDC_HOSTED__')})\n#include <{name}>\n#endif\n"
        for name in names
    )
    flags = [flag for flag in compiler.flags if language == "c" or not flag.startswith("-std=")]
    with tempfile.TemporaryDirectory() as scratch:
        probe = Path(scratch).resolve() / "probe.c"
        probe.write_text("".join(lines))
        output = _output([*compiler.command, *flags, *_LANGUAGES[language], "-M", "-x", language, str(probe)])
    words = re.findall(r"(?:\\[^\n]|[^\s\\])+", output.partition(":")[2])
    read = {Path(re.sub(r"\\(.)", r"\1", word).replace("$$", "$")) for word in words} - {probe}
    digests = sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in read)
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _linked(command: Sequence[str], flags: Sequence[str]) -> list[Path]:
    """Return every file that the linker reads for a program of nothing: start files, C library, compiler's library."""
    with tempfile.TemporaryDirectory() as scratch:
        source, program = Path(scratch) / "probe.c", Path(scratch) / "probe"
        source.write_text(_PROBE)
        output = _output(
            [*command, *flags, "-Wl,-t", "-x", "c", str(source), "-o", str(program), _library(flags)], TMPDIR=scratch
        )
        read = dict.fromkeys(Path(path) for path in re.findall(r"(?m)^\(?(/[^\n()]+)", output))
        found = [path for path in read if Path(scratch) not in path.parents]
    if not found:
        raise ToolError(
            f"{shlex.join(command)} does not tell what it links a program with",
            "name a GCC, or python-zig cc, in the profile: other compilers cannot be identified",
        )
    return found


def _places(command: Sequence[str], asked: Iterable[str]) -> list[Path]:
    """Return the programs and files that the compiler names when it is asked so, but for those that are not there."""
    with ThreadPoolExecutor() as pool:
        named = list(pool.map(lambda option: _output([*command, option]), asked))
    there = (shutil.which(place, path=environment(command)["PATH"]) or place for place in named)
    return [Path(place) for place in there if Path(place).is_absolute() and Path(place).exists()]


def _digests(paths: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by their names; of several with one name each has its own."""
    found: dict[str, str] = {}
    for path in {path.resolve(): path for path in paths}.values():
        name = path.name
        while name in found:
            name += "'"
        found[name] = file_digest.of_file(path, workspace.cache_folder())
    return found


def _zig_parts(version: str) -> dict[str, str]:
    """Return the SHA-256 of zig's program, and of the list of its package's files, which has the SHA-256 of each."""
    match = re.search(r"(?m)^InstalledDir: (.+)$", version)
    if match is None:
        raise ToolError("zig does not tell where it is installed", INSTALL_ZIG)
    folder = Path(match[1])
    lists = sorted(folder.parent.glob("ziglang-*.dist-info/RECORD"))
    if not lists:
        raise ToolError(f"{folder}: zig is not installed as a Python package", INSTALL_ZIG)
    lines = [line for path in lists for line in path.read_text().splitlines() if line.startswith("ziglang/lib/")]
    listed = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return _digests([folder / "zig"]) | {"zig's library": listed}


def _output(arguments: Sequence[str], **variables: str) -> str:
    done = _ended(arguments, None, **variables)
    if done.returncode != 0:
        raise ToolError(
            f"{' '.join(arguments)} failed: {_text(done.stderr)[:500]}",
            "check the compiler and its flags in the profile",
        )
    return _text(done.stdout)


def _ended(arguments: Sequence[str], folder: Path | None, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a compiler; `variables` replace some of its environment."""
    try:
        return subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=folder,
            env=environment(arguments) | variables,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"{arguments[0]} did not end within {LONGEST_S:g} s and was stopped",
            f"does it wait for a licence, a server or a disk? try: {shlex.join(arguments)}",
        ) from error


def _text(output: bytes) -> str:
    return output.decode(errors="replace").strip()


def flags_of(profile: Profile) -> tuple[str, ...]:
    """Return all flags of every program: those of the profile, then those that they cannot change."""
    language = LANGUAGE_FLAGS if profile.bare_metal is None else BARE_METAL_FLAGS
    linked = ("-static",) if profile.toolchain.static else ()
    given = (*profile.toolchain.flags, *language, *REPRODUCIBLE_FLAGS, *READABLE_FLAGS)
    return (*given, *linked, *EXACTNESS_FLAGS)


def _library(flags: Sequence[str]) -> str:
    """Return the library that programs with these flags are linked with."""
    return "-lgcc" if "-nostdlib" in flags else "-lm"


def required_glibc(program: Path) -> tuple[int, int] | None:
    """Return the newest glibc version whose symbols `program` imports; None if it is linked statically.

    Read from the version names in the ELF file's dynamic string table.
    """
    content = program.read_bytes()
    versions = [(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)]
    dynamic = b"/ld-linux" in content
    return max(versions, default=None) if dynamic else None


def check_glibc(program: Path, toolchain: Toolchain) -> None:
    """Raise ToolError if `program` would not start on a board with the profile's glibc."""
    required = required_glibc(program)
    if required is None or toolchain.glibc is None:
        return
    major, minor = toolchain.glibc.split(".")
    if required > (int(major), int(minor)):
        raise ToolError(
            f"the program needs glibc {required[0]}.{required[1]}, the board offers {toolchain.glibc}",
            "set static: true in the profile's toolchain, or name a compiler for an older glibc",
        )
