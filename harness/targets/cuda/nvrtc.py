"""Device code -> cubins and PTX, on a machine without a GPU: NVRTC 11.8, the last that compiles for sm_72.

Its cubins load on every driver of CUDA 11 and later (minor version compatibility); later compilers' do not.
"""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.boards import workspace
from harness.core import file_digest, installation
from harness.core.errors import ToolError

try:
    from cuda.bindings import nvrtc
except ImportError:
    nvrtc = None

INSTALL = installation.install_extra("cuda")

# One operation each, rounded to nearest; --fmad=false besides the intrinsics, which are never fused.
EXACTNESS_FLAGS = ("--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")
LANGUAGE_FLAGS = ("--std=c++17", "--no-source-include")  # no header of the folder in which the harness was started
FLAGS = (*LANGUAGE_FLAGS, *EXACTNESS_FLAGS)
RESTARTED = (signal.SIGINT, signal.SIGTERM)
"""Signals whose handlers NVRTC restores with SA_RESTART, so that they would not interrupt a wait of the main thread."""


@dataclass(frozen=True)
class Compiled:
    """The same text twice: `ptx`, the compiler's readable output, and `cubin`, machine code for one GPU."""

    ptx: str
    cubin: bytes


def _bindings() -> Any:
    """Return the compiler's interface; ToolError if the extra `cuda` is not installed."""
    if nvrtc is None:
        raise ToolError("NVRTC, the compiler of the targets cuda, is not installed", INSTALL)
    return nvrtc


def version() -> str:
    """Name and version of the compiler."""
    major, minor = _checked(_bindings().nvrtcVersion())
    return f"NVRTC {major}.{minor}"


def identity() -> str:
    """Return name and version, and a hash of the libraries: the one that is loaded, and those in its folder."""
    name = version()  # loads it
    loaded = re.findall(r"(?m) (/\S.*/libnvrtc[^/]*\.so[^/\n]*)$", Path("/proc/self/maps").read_text())
    if not loaded:
        raise ToolError(f"{name} is loaded from no file", "install the package nvidia-cuda-nvrtc-cu11 again")
    files = sorted(Path(loaded[0]).parent.glob("libnvrtc*.so*"))
    digests = [file_digest.of_file(path, workspace.cache_folder()) for path in files]
    return f"{name} [{hashlib.sha256(''.join(digests).encode()).hexdigest()[:12]}]"


def supported() -> tuple[str, ...]:
    """Return the GPU architectures that it compiles for: sm_35 and so on."""
    return tuple(f"sm_{arch}" for arch in _checked(_bindings().nvrtcGetSupportedArchs())[0][: _count()])


def _count() -> int:
    return int(_checked(_bindings().nvrtcGetNumSupportedArchs())[0])


def compile_for(arch: str, name: str, source: bytes, headers: Mapping[str, bytes]) -> Compiled:
    """Compile `source`, called `name`, for `arch` (sm_72, ...), with the headers that it includes by their names.

    ToolError with the compiler's first words if it refuses.  In a thread of its own, as the compiler leaves the locale
    "C" to its thread, in which Python takes files for ASCII.
    """
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(_compile, arch, name, source, headers).result()
    finally:
        for number in RESTARTED:
            signal.siginterrupt(number, True)


def _compile(arch: str, name: str, source: bytes, headers: Mapping[str, bytes]) -> Compiled:
    names = [header.encode() for header in headers]
    program = _checked(
        _bindings().nvrtcCreateProgram(source, name.encode(), len(names), list(headers.values()), names)
    )[0]
    try:
        options = [f"--gpu-architecture={arch}".encode(), *(flag.encode() for flag in FLAGS)]
        status, *_ = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            raise ToolError(
                f"{version()} failed for {arch} ({status.name}):\n{_words(log)[:2000]}",
                "the kernels must compile as they are",
            )
        ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        return Compiled(_without_comments(_words(ptx)), _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(size: Any, get: Any, program: Any) -> bytes:
    """Return what NVRTC writes into a buffer of the size that it states."""
    buffer = bytes(_checked(size(program))[0])
    _checked(get(program, buffer))
    return buffer


def _words(text: bytes) -> str:
    return text.rstrip(b"\0").decode()


def _without_comments(ptx: str) -> str:
    """Remove comments, which count earlier compilations: otherwise equal sources have different outputs."""
    return re.sub(r"[ \t]*//.*", "", ptx)


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    status, *values = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolError(f"NVRTC failed: {status.name}", "install the package nvidia-cuda-nvrtc-cu11 again")
    return tuple(values)
