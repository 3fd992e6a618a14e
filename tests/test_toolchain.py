"""The compiler that a profile names, and that no flag of a profile can make it compute something else."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import toolchain
from harness.errors import RequestError, ToolError
from harness.profile import Laboratory, Profile, Toolchain
from harness.toolchain import EXACTNESS_FLAGS
from tests.kernels.board_program import with_flags


@pytest.mark.parametrize(
    ("compiler", "packages"),
    [
        ("gcc", "gcc g++ libc6-dev"),
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross"),
        ("riscv64-linux-gnu-gcc", "riscv64-linux-gnu-gcc"),
    ],
)
def test_a_missing_compiler_is_answered_with_the_line_that_installs_it(
    host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, packages: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    board = host.model_copy(update={"toolchain": Toolchain(compiler=compiler)})
    with pytest.raises(ToolError) as caught:
        toolchain.find(board)
    assert caught.value.message == f"board host: compiler {compiler!r} is not on this machine"
    assert caught.value.hint == f"run: sudo apt-get install --no-install-recommends {packages}"


def test_one_line_installs_several_tools() -> None:
    line = toolchain.install_command("gcc", "qemu-system-aarch64")
    assert line == "sudo apt-get install --no-install-recommends gcc g++ libc6-dev qemu-system-arm"


@pytest.mark.parametrize(
    "flag",
    [
        "-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-fassociative-math", "-freciprocal-math",
        "-ffinite-math-only", "-fno-signed-zeros", "-ffp-contract=fast", "-ffp-contract=on", "-ffp-model=fast",
        "-fsingle-precision-constant", "-mrecip", "-mrecip=all", "-mdaz-ftz", "-mfpmath=387", "-mfpmath=sse+387",
    ],
)  # fmt: skip
def test_a_flag_that_changes_results_is_refused(host: Profile, flag: str) -> None:
    with pytest.raises(RequestError) as caught:
        toolchain.find(with_flags(host, "-O3", flag))
    assert caught.value.message == f"board host: toolchain flag {flag} would change results"
    assert " ".join(EXACTNESS_FLAGS) in caught.value.hint


@pytest.mark.parametrize("flag", ["-O0", "-O3", "-march=native", "-mfpmath=sse", "-ffp-contract=off", "-funroll-loops"])
def test_other_flags_come_first_and_the_exact_ones_last(host: Profile, flag: str) -> None:
    flags = toolchain.find(with_flags(host, flag)).flags
    assert flags[0] == flag
    assert flags[-len(EXACTNESS_FLAGS) :] == EXACTNESS_FLAGS


def test_every_shipped_board_builds_exactly(laboratory: Laboratory) -> None:
    for board in laboratory.profiles.values():
        compiler = toolchain.find(board)
        assert compiler.flags[: len(board.toolchain.flags)] == board.toolchain.flags
        assert compiler.flags[-len(EXACTNESS_FLAGS) :] == EXACTNESS_FLAGS
        assert ("-static" in compiler.flags) == board.toolchain.static


def test_the_identity_tells_compilers_and_processors_apart(host: Profile) -> None:
    def identity(*flags: str) -> str:
        return toolchain.find(with_flags(host, *flags)).identity

    version = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    assert identity("-O2").startswith(f"{version} [")
    assert identity("-O2") == identity("-O2")
    assert identity("-O2") != identity("-O2", "-DNOT_THE_SAME")


def test_a_flag_that_the_compiler_does_not_know_is_its_failure(host: Profile) -> None:
    with pytest.raises(ToolError, match="-mcpu-of-dreams") as caught:
        toolchain.find(with_flags(host, "-mcpu-of-dreams"))
    assert caught.value.hint == "check the compiler and its flags in the profile"


def test_a_compiler_that_waits_for_something_is_given_up(
    host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = tmp_path / "waiting"
    waiting.write_text("#!/bin/sh\nexec sleep 20\n")
    waiting.chmod(0o755)
    monkeypatch.setattr(toolchain, "LONGEST_S", 0.2)
    with pytest.raises(ToolError) as caught:
        toolchain.find(host.model_copy(update={"toolchain": Toolchain(compiler=str(waiting))}))
    assert caught.value.message == f"{waiting} did not end within 0.2 s and was stopped"
    assert caught.value.hint.endswith(f"try: {waiting} --version")


# Contracted to one rounding, a * b + c is not 0 here.
CONTRACTIBLE = """
#include <stdio.h>
int main(int count, char **names)
{
    (void)names;
    const float a = (float)count + 0x1p-13f, b = (float)count - 0x1p-13f, c = (float)-count;
    printf("%a", (double)(a * b + c));
    return 0;
}
"""


def result(board: Profile, folder: Path, *flags: str) -> str:
    (folder / "source.c").write_text(CONTRACTIBLE)
    compiler = toolchain.find(board)
    compiler = dataclasses.replace(compiler, flags=(*compiler.flags, *flags))
    compiler.build(folder, [Path("source.c")], [], [], folder / "program")
    return subprocess.run([str(folder / "program")], capture_output=True, text=True, check=True).stdout


def test_a_product_and_a_sum_stay_two_operations(host: Profile, tmp_path: Path) -> None:
    board = with_flags(host, "-O3", "-march=native")
    assert result(board, tmp_path) == "0x0p+0"
    if " fma " in Path("/proc/cpuinfo").read_text():
        assert result(board, tmp_path, "-ffp-contract=fast") == "-0x1p-26"


def test_a_compilation_that_fails_shows_the_compilers_words(host: Profile, tmp_path: Path) -> None:
    (tmp_path / "source.c").write_text("int main(void) { return missing; }\n")
    with pytest.raises(ToolError, match=r"source\.c:1:25: error: .*missing"):
        toolchain.find(host).build(tmp_path, [Path("source.c")], [], [], tmp_path / "program")


def test_definitions_and_include_folders_reach_the_compiler(host: Profile, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "answer.h").write_text("#define ANSWER 42\n")
    (tmp_path / "source.c").write_text('#include "answer.h"\nint main(void) { return ANSWER - EXPECTED; }\n')
    toolchain.find(host).build(tmp_path, [Path("source.c")], [Path("include")], ["EXPECTED=42"], tmp_path / "program")
    assert subprocess.run([str(tmp_path / "program")], check=False).returncode == 0


@pytest.fixture(scope="module")
def programs(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same program for aarch64, `dynamic` and `static`."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "source.c").write_text('#include <stdio.h>\nint main(void) { return puts("ready") < 0; }\n')
    board = laboratory.board("kv260")
    for name, static in (("dynamic", False), ("static", True)):
        kind = board.toolchain.model_copy(update={"static": static})
        compiler = toolchain.find(board.model_copy(update={"toolchain": kind}))
        compiler.build(folder, [Path("source.c")], [], [], folder / name)
    return folder


def test_the_glibc_that_a_program_needs_is_read_from_it(programs: Path) -> None:
    """As readelf tells it."""
    text = subprocess.run(
        ["readelf", "--version-info", str(programs / "dynamic")], capture_output=True, text=True, check=True
    ).stdout
    needed = {tuple(map(int, word.split("_")[1].split("."))) for word in text.split() if word.startswith("GLIBC_")}
    assert toolchain.required_glibc(programs / "dynamic") == max(needed)
    assert toolchain.required_glibc(programs / "static") is None


def test_a_program_for_a_newer_glibc_than_the_boards_is_refused(programs: Path) -> None:
    needed = toolchain.required_glibc(programs / "dynamic")
    assert needed is not None
    major, minor = needed
    toolchain.check_glibc(programs / "dynamic", Toolchain(compiler="gcc", glibc=f"{major}.{minor}"))
    toolchain.check_glibc(programs / "dynamic", Toolchain(compiler="gcc", glibc=f"{major}.{minor + 1}"))
    toolchain.check_glibc(programs / "dynamic", Toolchain(compiler="gcc", glibc=f"{major + 1}.0"))
    toolchain.check_glibc(programs / "dynamic", Toolchain(compiler="gcc", glibc=None))
    with pytest.raises(ToolError) as caught:
        toolchain.check_glibc(programs / "dynamic", Toolchain(compiler="gcc", glibc=f"{major}.{minor - 1}"))
    assert caught.value.message == f"the program needs glibc {major}.{minor}, the board offers {major}.{minor - 1}"
    assert caught.value.hint.startswith("set static: true")


def test_a_static_program_starts_anywhere(programs: Path) -> None:
    toolchain.check_glibc(programs / "static", Toolchain(compiler="gcc", glibc="2.1"))


def test_a_compiler_of_several_words_beside_this_python_links_for_an_older_glibc(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """The Xavier's, which comes with the requirements and is not on the PATH."""
    board = laboratory.board("xavier")
    program = "#include <dlfcn.h>\n#include <pthread.h>\n#include <stddef.h>\nvoid *run(void *);\nvoid *run(void *x)"
    body = '{ return dlopen(x, RTLD_NOW); }\nint main(void) { pthread_t t; return pthread_create(&t, NULL, run, "x"); }'
    (tmp_path / "source.c").write_text(f"{program} {body}\n")
    toolchain.find(board).build(tmp_path, [Path("source.c")], [], [], tmp_path / "program")
    assert toolchain.required_glibc(tmp_path / "program") == (2, 17)
    toolchain.check_glibc(tmp_path / "program", board.toolchain)


def test_a_compiler_that_says_nothing_of_its_version_has_its_macros_alone(host: Profile, tmp_path: Path) -> None:
    silent = tmp_path / "cc"
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    board = host.model_copy(update={"toolchain": Toolchain(compiler=str(silent))})
    assert toolchain.find(board).identity == " [e3b0c44298fc]", "the SHA-256 of nothing"


def test_a_path_to_a_compiler_serves_as_well(host: Profile) -> None:
    gcc = shutil.which("gcc")
    assert gcc is not None
    assert toolchain.find(host.model_copy(update={"toolchain": Toolchain(compiler=gcc)})).command == (gcc,)
