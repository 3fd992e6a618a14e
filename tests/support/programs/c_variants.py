"""The variants of target c, and every implementation of kernels/c/lanes.h that a compiler here can make and run."""

from __future__ import annotations

import itertools
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.boards.profile import Profile, Toolchain
from harness.build import codegen
from harness.model.network import Network
from harness.plan import planner
from harness.targets import KERNELS
from harness.targets.toolchain import find
from tests.support.programs.board_program import BoardProgram, Patch, build_patched

VECTOR = "c:vector"
VARIANTS = (VECTOR, "c:generic", "c:inlined", "c:unrolled")
QEMU = shutil.which("qemu-aarch64")
EMULATED = (str(QEMU), "-cpu", "max", "-L", "/usr/aarch64-linux-gnu")
EVERY = ("c", *VARIANTS)
LEVEL = dict.fromkeys(EVERY, "-O2") | {"c:unrolled": "-O0"}
"""The optimisation of each variant: a compiler takes four times as long for unrolled loops at -O2."""
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wpedantic", "-Werror")
WARNED = {target: (level, *WARNINGS) for target, level in LEVEL.items()}
"""The flags of programs of which gcc must not warn: no other compilation of them is needed to know it."""
GNU, ZIG = "aarch64-linux-gnu-gcc", "python-zig cc -target aarch64-linux-gnu.2.31"
# Two compilers have one of the variants in `make test`, and all in `make campaigns`.
COMPILERS = [
    pytest.param(compiler, target, marks=() if compiler == "gcc" or target == VECTOR else pytest.mark.campaign)
    for compiler, target in itertools.product(["gcc", GNU, ZIG], EVERY)
]
OTHER_COMPILERS = [each for each in COMPILERS if each.values[0] != "gcc"]


@dataclass(frozen=True)
class Implementation:
    """One of lanes.h: how it is compiled, and what its QGemm is made of; `needs` names flags of /proc/cpuinfo."""

    name: str
    flags: tuple[str, ...]
    instructions: tuple[str, ...]
    compiler: str = "gcc"
    needs: tuple[str, ...] = ()

    @property
    def on_arm(self) -> bool:
        return "aarch64" in self.compiler

    def board(self, host: Profile) -> Profile:
        """This machine with the compiler and its flags, every item of the fastest variant."""
        given = Toolchain(compiler=self.compiler, flags=self.flags)
        return of_variant(host, VECTOR).model_copy(update={"toolchain": given})

    @property
    def runner(self) -> tuple[str, ...]:
        """The words before a program of it."""
        return EMULATED if self.on_arm else ()

    def require(self) -> None:
        """Skip where this machine cannot run its programs."""
        if self.on_arm and QEMU is None:
            pytest.skip("qemu-aarch64 is not on this machine: apt-get install qemu-user")
        missing = set(self.needs) - _processor_flags()
        if missing:
            pytest.skip(f"this processor has no {', '.join(sorted(missing))}")

    def program(
        self,
        net: Network,
        host: Profile,
        folder: Path,
        objects: Path,
        patches: Sequence[Patch] = (),
        target: str = VECTOR,
    ) -> BoardProgram:
        """Of a network, to be run here, its sources patched."""
        board = of_variant(self.board(host), target)
        made = build_patched(planner.make(net, board, block=16), board, folder, patches, objects=objects)
        kind = Emulated if self.on_arm else BoardProgram
        return kind(made.path, made.network, made.sha256, made.compiler)


@dataclass(frozen=True, eq=False)
class Emulated(BoardProgram):
    """A program for aarch64 in qemu's user mode, with the libraries of GNU's cross-compiler."""

    @property
    def command(self) -> tuple[str, ...]:
        """How it is started."""
        return (*EMULATED, *super().command)


IMPLEMENTATIONS = tuple(
    Implementation(*of_one)
    for of_one in (
        ("AVX512-VNNI", ("-O3", "-mavx512f", "-mavx512vnni"), ("vpdpbusd",), "gcc", ("avx512_vnni",)),
        (
            "AVX512-VNNI and VBMI",
            ("-O3", "-mavx512f", "-mavx512vnni", "-mavx512vbmi"),
            ("vpdpbusd",),
            "gcc",
            ("avx512_vnni", "avx512vbmi"),
        ),
        ("AVX-VNNI", ("-O3", "-mavx2", "-mavxvnni"), ("vpdpbusd",), "gcc", ("avx_vnni",)),
        ("AVX2", ("-O3", "-mavx2"), ("vpmaddwd", "vphaddd"), "gcc", ("avx2",)),
        ("portable", ("-O3", "-march=x86-64"), ()),
        ("portable, unoptimised", ("-O0", "-march=x86-64"), ()),
        ("SDOT", ("-O3", "-mcpu=neoverse-n1"), ("sdot",), GNU),
        ("NEON", ("-O3", "-mcpu=cortex-a53"), ("smull", "sadalp", "addp"), GNU),
        ("NEON without dot products", ("-O2", "-mcpu=neoverse-n1+nodotprod"), ("smull", "sadalp"), GNU),
        ("SDOT by clang", ("-O3", "-mcpu=neoverse_n1"), ("sdot",), ZIG),
        ("NEON by clang", ("-O3", "-mcpu=cortex_a72"), ("smull", "sadalp", "addp"), ZIG),
    )
)
BY_NAME = {implementation.name: implementation for implementation in IMPLEMENTATIONS}
SATURATING = ("maddubs", "dpbusds", "dpwssds", "sqadd", "sqdmlal", "sqdmull")
"""Parts of the names of instructions that would saturate a sum."""


def of_variant(host: Profile, target: str) -> Profile:
    """The profile with this target for every item."""
    items = {name: item.model_copy(update={"target": target}) for name, item in host.items.items()}
    return host.model_copy(update={"items": items})


def compile_network(net: Network, board: Profile, folder: Path, *flags: str) -> Path:
    """The object file of the generated network.c alone."""
    (folder / "network.c").write_text(codegen.generate(planner.make(net, board, block=1)).source, encoding="utf-8")
    definitions, include = (f"TIME_SOURCE={board.time_source}",), (KERNELS / "program", KERNELS / "c")
    output = folder / "network.o"
    find(board).build(folder, (Path("network.c"),), include, definitions, output, ("-c", *flags))
    return output


def disassembled(compiled: Path) -> str:
    """The whole object file."""
    program = "aarch64-linux-gnu-objdump" if b"\xb7\x00" in compiled.read_bytes()[18:20] else "objdump"
    command = [program, "-d", "--no-show-raw-insn", str(compiled)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def instructions(compiled: Path, function: str) -> list[str]:
    """The names of a function's instructions, as the compiler has made them."""
    text = disassembled(compiled)
    found = re.search(rf"^[0-9a-f]+ <{function}>:\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{function} is not in {compiled}"
    words = (re.sub(r"^\s*[0-9a-f]+:\s+(\{\w+\}\s+)?", "", line).split() for line in found[1].splitlines())
    return [word[0] for word in words if word]


def _processor_flags() -> set[str]:
    if platform.machine() != "x86_64":
        return set()
    found = re.search(r"^flags\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return set(found[1].split()) if found else set()
