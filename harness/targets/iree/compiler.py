"""iree-compile: MLIR text to an object file and the schedule of its dispatches, kept by content.

A dispatch is a function of the object file, executed once for each workgroup.  IREE's host program around it, which
allocates buffers and records commands, is read for its dispatches and never executed: `schedule`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.boards import workspace
from harness.boards.profile import Profile
from harness.core import file_digest, installation
from harness.core.errors import RequestError, ToolError
from harness.targets.base import method
from harness.targets.iree.settings import IreeSettings

PACKAGE, VERSION = "iree-base-compiler", "3.13.0"
HERE = Path(__file__).parent
CPUINFO = Path("/proc/cpuinfo")
LONGEST_S = 600.0
DEVICE = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
ORDER = ("--iree-llvmcpu-reassociate-fp-reductions=false",)  # from --iree-opt-level=O2 on, sums have another order
DIRECT = ("--iree-hal-memoization=false", "--iree-hal-indirect-command-buffers=false")  # the form that `schedule` reads
STATIC = ("--iree-llvmcpu-link-embedded=false", "--iree-llvmcpu-link-static", "--output-format=vm-c")
LEVELS = {
    "x86-64-v2": "cx16 lahf_lm popcnt ssse3 sse4_1 sse4_2",
    "x86-64-v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe",
    "x86-64-v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}
"""LLVM's names of x86-64 processors, each with the flags in /proc/cpuinfo that it needs beyond the one before."""
FEATURES = {"avx512_vnni": "avx512vnni", "avx512vbmi": "avx512vbmi", "avx512_vbmi2": "avx512vbmi2"}
"""Further flags, as LLVM names them, whose instructions the decoder of machine code (capstone 5) knows.

It does not know AVX-VNNI, AVX512-FP16, AMX and AVX10, so that their code cannot be checked.
"""


@dataclass(frozen=True)
class Processor:
    """The processor that machine code is for: LLVM's triple, name and features."""

    triple: str
    cpu: str
    features: str = ""

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of iree-compile."""
        found = (f"--iree-llvmcpu-target-triple={self.triple}", f"--iree-llvmcpu-target-cpu={self.cpu}")
        return (*found, f"--iree-llvmcpu-target-cpu-features={self.features}") if self.features else found

    @property
    def identity(self) -> str:
        """The name, and for `host` what this machine's processor is."""
        return " ".join((*self.flags, _host() if self.cpu == "host" else ""))


def processor_of(profile: Profile) -> Processor:
    """Return the processor of a board."""
    settings = profile.settings("iree", IreeSettings)
    machine = platform.machine() if profile.local else "aarch64"
    cpu = settings.cpu or ("host" if profile.local else "generic")
    features = settings.features
    if cpu == "host" and machine == "x86_64":
        cpu, known = x86_64_host(CPUINFO.read_text(encoding="utf-8"))
        features = ",".join(filter(None, (*known, features)))
    return Processor(f"{machine}-linux-gnu", cpu, features)


def x86_64_host(cpuinfo: str) -> tuple[str, list[str]]:
    """Return LLVM's processor and features for the text of /proc/cpuinfo, as far as the decoder knows them."""
    line = next((each for each in cpuinfo.splitlines() if each.startswith("flags")), "")
    flags = set(line.split())
    cpu = "x86-64"
    for level, needed in LEVELS.items():
        if not flags >= set(needed.split()):
            return cpu, []
        cpu = level
    return cpu, [f"+{feature}" for flag, feature in FEATURES.items() if flag in flags]


def _host() -> str:
    """Return a hash of the lines of /proc/cpuinfo that say what instructions this machine has."""
    lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    kinds = ("flags", "Features", "model name", "CPU part", "CPU implementer")
    return hashlib.sha256("\n".join(sorted({line for line in lines if line.startswith(kinds)})).encode()).hexdigest()


def program(name: str = "iree-compile") -> Path:
    """Return a program of the package; raise RequestError without the package, or with another version of it."""
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        raise RequestError(
            f"target iree needs the Python package {PACKAGE} {VERSION}, which is not installed",
            installation.install_extra("iree"),
        ) from None
    if found != VERSION:
        raise RequestError(
            f"target iree needs {PACKAGE} {VERSION}, not {found}: the interface of its objects is declared for one "
            "version",
            installation.install_extra("iree"),
        )
    return Path(str(importlib.import_module("iree.compiler").__path__[0]), "_mlir_libs", name)


def identity() -> str:
    """Return version and hash of the compiler, and of this package's own part."""
    library = program().parent / "libIREECompiler.so"
    return f"IREE {VERSION} {file_digest.of_file(library, workspace.cache_folder())[:16]} [{method(HERE)}]"


def kept(key: str, make: Callable[[], bytes]) -> bytes:
    """Return the bytes that `make` returns, from the user's cache if they were made before for the same key."""
    digest = hashlib.sha256(f"{identity()}\n{key}".encode()).hexdigest()
    path = workspace.cache_folder() / "iree" / digest[:2] / digest
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return content[32:]
    except OSError:
        pass
    plan = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    workspace.write_whole(path, hashlib.sha256(plan).digest() + plan)
    return plan


def run(text: str, path: str, what: str, folder: Path, *flags: str) -> None:
    """Compile a module below `folder`; raise ToolError with the compiler's first words if it refuses.

    The objects name the path, which is relative, and no other folder.
    """
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")
    command = [str(program()), path, "-o", os.devnull, *flags]
    variables = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "TMPDIR": tempfile.gettempdir()}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=variables, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"iree-compile did not end within {LONGEST_S:.0f} s for {what}", "use another target") from None
    if done.returncode:
        words = done.stderr.strip()[:1500]
        raise ToolError(f"iree-compile failed for {what} (status {done.returncode}):\n{words}", "use another target")


def flags_of(processor: Processor) -> tuple[str, ...]:
    """Return the flags by which a module becomes an object file."""
    return (*DEVICE, *ORDER, *DIRECT, *STATIC, *processor.flags)


def compiled(text: str, path: str, what: str, processor: Processor) -> tuple[bytes, str, str]:
    """Return the object file of a module, and as MLIR text IREE's host program and its form before, see `schedule`."""

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            made = "--iree-llvmcpu-static-library-output-path=made.o"
            run(text, path, what, folder, *flags_of(processor), made, "--dump-compilation-phases-to=phases")
            [host], [executables] = (folder.glob(f"phases/*.{phase}.mlir") for phase in ("hal", "executable-sources"))
            content = (folder / "made.o").read_bytes() if (folder / "made.o").is_file() else b""
            texts = [path.read_text(encoding="utf-8") for path in (host, executables)]
            return json.dumps([content.hex(), *texts]).encode()

    content, host, executables = json.loads(kept(f"{processor.identity}\n{path}\n{text}", make))
    return bytes.fromhex(content), host, executables
