"""Object files and programs, identities of compilers, ties: each is made once, because it takes long."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.installation import ROOT
from harness.model.network import Network
from harness.reference import stimuli
from harness.targets import toolchain
from harness.targets.cuda import nvrtc
from harness.targets.toolchain import Compiler

OF_ALL_SESSIONS = "of_all_sessions"
PACKAGES = Path("/var/lib/dpkg/status")
UNUSED_S = 14 * 24 * 3600
NO_LANGUAGE = Path("-xnone")  # the option: object files follow, whatever language the flags name
COMPILE = Compiler.build
IDENTIFY, HASH_HEADERS = toolchain.identify, toolchain.hash_headers
COMPILE_FOR, COMPILING = nvrtc.compile_for, Path(nvrtc.__file__).read_bytes()


def share_with_all_sessions(objects: Path) -> None:
    """Let `objects` also have the object files of other sessions, in build/, while the system's packages are the same.

    Files that no session has used for two weeks are removed.
    """
    shared = _of_all_sessions()
    for file in shared.parent.glob("*/*"):
        with suppress(FileNotFoundError):  # another process removes them, too
            if time.time() - file.stat().st_mtime > UNUSED_S:
                file.unlink()
    with suppress(FileExistsError):
        (objects / OF_ALL_SESSIONS).symlink_to(shared)


def _of_all_sessions() -> Path:
    packages = PACKAGES.read_bytes() if PACKAGES.exists() else b""
    shared = ROOT / "build" / "objects" / hashlib.sha256(packages).hexdigest()[:16]
    shared.mkdir(parents=True, exist_ok=True)
    return shared


def _file_once(file: Path, make: Callable[[Path], object]) -> Path:
    """Return a file that other processes may make at the same time: `make` gets a name of its own beside it."""
    if file.exists():
        os.utime(file)  # used in this session
        return file
    mine = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}{file.suffix}")
    make(mine)
    mine.replace(file)
    return file


def made_once(program: Path, asked: object, sources: Iterable[Path], make: Callable[[], object]) -> None:
    """Make a program, or copy that which a session has made of the same request, sources and packages."""
    content = repr(asked).encode() + b"".join(path.read_bytes() for path in sorted(sources) if path.is_file())
    there = _of_all_sessions() / f"{hashlib.sha256(content).hexdigest()}.linked"

    def made(mine: Path) -> None:
        make()
        shutil.copy(program, mine)

    _file_once(there, made)
    shutil.copy(there, program)


@contextmanager
def kept(objects: Path) -> Iterator[None]:
    """Until it ends, whatever is built in this process takes the object files of its sources from a folder."""

    def build(self: Compiler, *given: object) -> None:
        Keeping(self.command, self.identity, self.flags, self.parts, objects).build(*given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiler, "build", build)
        yield


@contextmanager
def identified_once(folder: Path) -> Iterator[None]:
    """Identify each compiler once for all processes that share `folder`, instead of once for each program.

    The program of a compiler that is replaced has another time or size, so the compiler is identified anew.
    """

    def identify(command: tuple[str, ...], flags: tuple[str, ...]) -> Compiler:
        facts = _once(folder, command, flags, lambda: asdict(IDENTIFY(command, flags)))
        return Compiler(tuple(facts["command"]), facts["identity"], tuple(facts["flags"]), facts["parts"])

    def hash_headers(compiler: Compiler, language: str, names: Sequence[str]) -> str:
        asked = (compiler.identity, compiler.flags, language, tuple(names))
        return str(_once(folder, compiler.command, asked, lambda: HASH_HEADERS(compiler, language, names)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "identify", identify)
        patch.setattr(toolchain, "hash_headers", hash_headers)
        yield


@contextmanager
def compiled_once(objects: Path) -> Iterator[None]:
    """Compile each text for a GPU once for all processes, and sessions, that share `objects`."""
    shared = objects / OF_ALL_SESSIONS
    place = shared if shared.exists() else objects

    def compile_for(arch: str, name: str, source: bytes, headers: Mapping[str, bytes]) -> nvrtc.Compiled:
        asked = repr((nvrtc.identity(), arch, name, source, sorted(headers.items()))).encode()

        def compiled(mine: Path) -> None:
            made = COMPILE_FOR(arch, name, source, headers)
            mine.write_bytes(made.ptx.encode() + b"\0" + made.cubin)

        file = _file_once(place / f"{hashlib.sha256(COMPILING + asked).hexdigest()}.gpu", compiled)
        ptx, _, cubin = file.read_bytes().partition(b"\0")
        return nvrtc.Compiled(ptx.decode(), cubin)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "compile_for", compile_for)
        yield


@contextmanager
def searched_once(folder: Path) -> Iterator[None]:
    """Search the ties of a model once for all processes that share `folder`, instead of once for each command."""
    search = stimuli.tie_bank

    def tie_bank(network: Network) -> stimuli.Vectors:
        file = folder / f"ties_{network.sha256}.npy"
        found: stimuli.Vectors = np.load(_file_once(file, lambda mine: np.save(mine, search(network))))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stimuli, "tie_bank", tie_bank)
        yield


def _once(folder: Path, command: Sequence[str], asked: object, answer: Callable[[], Any]) -> Any:
    """Return the answer to a question about a compiler, from a file in `folder` if it was asked before."""
    status = Path(command[0]).stat()
    variables = toolchain.environment(command)
    key = repr((tuple(command), asked, variables, status.st_ino, status.st_size, status.st_mtime_ns))
    file = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    return json.loads(_file_once(file, lambda mine: mine.write_text(json.dumps(answer()))).read_text())


@dataclass(frozen=True)
class Keeping(Compiler):
    """Compiles a source once: what has the same text, headers and flags has one object file; links these once, too.

    Flags with paths or for the linker alone may name files: with them it links anew.  Processes may share the folder.
    """

    objects: Path = Path()

    def build(
        self,
        folder: Path,
        sources: Sequence[Path],
        include: Sequence[Path],
        definitions: Sequence[str],
        output: Path,
        more_flags: Sequence[str] = (),
    ) -> None:
        """As a compiler does."""

        read = _reader([folder / path for path in include])
        shared = self.objects / OF_ALL_SESSIONS
        elsewhere = any(flag.startswith(("/", "-I/", "-isystem/")) for flag in more_flags)
        place = shared if shared.exists() and not elsewhere else self.objects

        def kept(source: Path) -> Path:
            if source.suffix not in {".c", ".cpp"}:
                return source
            text = _text(source, folder, read)
            meant = [each for each in definitions if each.partition("=")[0].encode() in text]
            settings = repr((self.command, self.identity, source, self.flags, meant, more_flags)).encode()

            def compiled(mine: Path) -> None:
                COMPILE(self, folder, [source], include, definitions, mine, (*more_flags, "-c"))

            return _file_once(place / f"{hashlib.sha256(settings + text).hexdigest()}.o", compiled)

        if "-c" in more_flags:
            [source] = sources
            shutil.copy(kept(source), output)
            return
        # Linked in their order, for the same bytes as without this.
        units = [kept(source) for source in sources]
        flags = (*self.flags, *more_flags)
        others = [flag for flag in flags if flag not in toolchain.REPRODUCIBLE_FLAGS]
        names_files = any("/" in flag or flag.startswith(("-T", "-Wl,-")) for flag in others)
        if names_files or any(unit.parent not in {self.objects, place} for unit in units):
            COMPILE(self, folder, [NO_LANGUAGE, *units], include, definitions, output, more_flags)
            return
        settings = repr((self.command, self.identity, flags, [unit.name for unit in units])).encode()

        def link(mine: Path) -> None:
            COMPILE(self, folder, [NO_LANGUAGE, *units], include, definitions, mine, more_flags)

        shutil.copy(_file_once(place / f"{hashlib.sha256(settings).hexdigest()}.linked", link), folder / output)


def _reader(include: Sequence[Path]) -> Callable[[Path], tuple[bytes, list[Path]]]:
    """Return a cached reader of a file: its content, and the headers it may include from its folder or `include`."""

    @cache
    def read(path: Path) -> tuple[bytes, list[Path]]:
        content = path.read_bytes()
        names = re.findall(rb'^\s*#\s*include\s*["<](.+?)[">]', content, re.MULTILINE)
        there = (place / name.decode() for name in names for place in (path.parent, *include))
        return content, [each for each in there if each.is_file()]

    return read


def _text(source: Path, folder: Path, read: Callable[[Path], tuple[bytes, list[Path]]]) -> bytes:
    """The source, every header that it or one of them may include, and the files of its binary sections."""
    found = {folder / source: None}
    for path in (reading := [folder / source]):
        new = [each for each in read(path)[1] if each not in found]
        found.update(dict.fromkeys(new))
        reading += new
    binary = re.findall(rb'\.incbin \\"(.+?)\\"', read(folder / source)[0])
    return b"".join([*(read(path)[0] for path in found), *((folder / name.decode()).read_bytes() for name in binary)])
