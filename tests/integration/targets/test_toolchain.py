"""The compiler that a profile names, and that no flag of a profile can make it compute something else."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.boards.profile import BoardProfiles, Profile, Toolchain
from harness.core.debian_packages import install_command
from harness.core.errors import RequestError, ToolError
from harness.targets import compiler_flags, strip, toolchain
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.support.programs.board_program import with_flags

pytestmark = pytest.mark.usefixtures("identified_anew")


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


def test_zig_belongs_to_an_extra(host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda _: str(tmp_path))
    board = host.model_copy(update={"toolchain": Toolchain(compiler="python-zig cc")})
    with pytest.raises(ToolError, match="compiler 'python-zig' is not on this machine") as caught:
        toolchain.find(board)
    assert caught.value.hint == "run: make setup"


def test_one_line_installs_several_tools() -> None:
    line = install_command("gcc", "qemu-system-aarch64")
    assert line == "sudo apt-get install --no-install-recommends gcc g++ libc6-dev qemu-system-arm"


REFUSED = (
    *("-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-fassociative-math", "-freciprocal-math"),
    *("-ffinite-math-only", "-fno-signed-zeros", "-ffp-contract=fast", "-ffp-contract=on", "-ffp-model=fast"),
    *("-fsingle-precision-constant", "-frounding-math", "-ffloat-store", "-mrecip", "-mrecip=all", "-mdaz-ftz"),
    *("-mfpmath=387", "-mfpmath=sse", "-m32", "-mlow-precision-sqrt", "-funsigned-char", "-fshort-enums"),
    *("@flags", "-Drintf=roundf", "-Urintf", "-D", "-include", "-include=fake.h", "-imacros", "-I.", "-Iinclude", "-I"),
    *("-isystem", "-isystem/tmp", "-idirafter", "-iquote", "-iprefix", "-specs=my.specs", "--specs=my.specs", "-B."),
    *("-B", "-fplugin=evil.so", "-fplugin-arg-evil-x", "-wrapper", "-wrapper=sh", "-Wl,--wrap=rintf", "-Wl,-T,script"),
    *("-Wl,--defsym=rintf=roundf", "-Wl,-z,now,--wrap=rintf", "-Wl,@file", "-Wl,-rpath,/tmp", "-Wl,script", "-T"),
    *("-Wa,-march=x", "-Wp,-Drintf=roundf", "-Xlinker", "-Xpreprocessor", "-Xassembler", "-L.", "-L", "-lm", "-levil"),
    *("-x", "-xc++", "-o", "-oother", "-c", "-E", "-S", "-fuse-ld=/tmp/ld", "-fuse-ld=lld", "--sysroot=/tmp"),
    *("-nostdinc", "-nostdlib", "-nodefaultlibs", "-nostartfiles", "-fprofile-use=x", "-fauto-profile=x", "-flto"),
    *("-std=c99", "-ansi", "-dumpspecs", "-save-temps", "-fno-builtin-rintf", "-finstrument-functions", "-pg"),
    *("source.c", "evil.o", "", "-O3 -DX", "-march=native -DX", "-O3\n", "-march=", "--target=x y", "-ftrapv", "-s"),
    *(
        "-fsanitize=address",
        "-fdump-tree-all",
        "-fpack-struct",
        "-fcompare-debug",
        "-mcpu=x/../y",
        "--help",
        "--param=x",
    ),
)


@pytest.mark.parametrize("flag", REFUSED)
def test_a_flag_that_is_not_known_to_keep_results_is_refused(host: Profile, flag: str) -> None:
    with pytest.raises(RequestError) as caught:
        toolchain.find(with_flags(host, "-O3", flag))
    assert caught.value.message.startswith(f"board host: toolchain flag {flag!r} is not allowed")
    assert caught.value.exit_code == 2
    assert "allowed are -O0 to -O3, -Os, -Og, -Oz; -march= -mcpu= -mtune=;" in caught.value.hint


@pytest.mark.parametrize(
    ("compiler", "refused"),
    [
        ("gcc -x c++", "-x"),
        ("gcc -DX=1", "-DX=1"),
        ("gcc cc", "cc"),
        ("gcc evil.o", "evil.o"),
        ("gcc @file", "@file"),
        ("ccache gcc", "gcc"),
        ("python-zig c++", "c++"),
        ("python-zig cc -I/tmp", "-I/tmp"),
        ("python-zig cc cc", "cc"),
        ("python-zig cc -target", "-target"),
        ("python-zig cc -target -DX", "-target -DX"),
        ("python-zig cc -target @file", "-target @file"),
    ],
)
def test_a_word_of_the_compiler_is_a_flag_too(host: Profile, compiler: str, refused: str) -> None:
    with pytest.raises(RequestError) as caught:
        toolchain.find(host.model_copy(update={"toolchain": Toolchain(compiler=compiler)}))
    assert caught.value.message.startswith(f"board host: toolchain compiler {refused!r} is not allowed")


@pytest.mark.parametrize(
    "flag",
    [
        *("-O0", "-O3", "-Os", "-g", "-g0", "-march=native", "-march=armv8.2-a+dotprod", "-mcpu=cortex-a78ae"),
        *("-mcpu=generic+v8_2a", "-mtune=cortex_a72", "-mavx2", "-mno-avx512f", "-mavx512vnni", "-mfma", "-msse4.1"),
        *("-ffp-contract=off", "-funroll-loops", "-fno-tree-vectorize", "-fno-strict-aliasing", "-falign-loops=32"),
        *("-Wall", "-Wno-psabi", "-Werror", "-Wframe-larger-than=512", "-w", "-static", "-pipe", "-no-pie", "-fno-pie"),
        *("-Wl,-z,now", "-Wl,--gc-sections,-z,relro", "--target=aarch64-linux-gnu", "-mprefer-vector-width=256"),
    ],
)
def test_a_flag_that_keeps_results_is_allowed(flag: str) -> None:
    assert compiler_flags.first_refused([flag]) is None


@pytest.mark.parametrize("flag", ["-O0", "-O3", "-march=native", "-ffp-contract=off", "-funroll-loops"])
def test_other_flags_come_first_and_the_exact_ones_last(host: Profile, flag: str) -> None:
    flags = toolchain.find(with_flags(host, flag)).flags
    assert flags[0] == flag
    assert flags[-len(EXACTNESS_FLAGS) :] == EXACTNESS_FLAGS


def test_every_shipped_board_builds_exactly(laboratory: BoardProfiles) -> None:
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
    assert identity("-O2") != identity("-O2", "-mavx2")


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """This machine's gcc behind a script, which looks for its programs, libraries and headers in a folder first."""

    folder: Path
    board: Profile

    @classmethod
    def make(cls, folder: Path, host: Profile) -> Wrapped:
        (folder / "include").mkdir()
        script = folder / "gcc"
        script.write_text(f'#!/bin/sh\nexec /usr/bin/gcc -B{folder}/ -isystem {folder}/include "$@"\n')
        script.chmod(0o755)
        return cls(folder, host.model_copy(update={"toolchain": Toolchain(compiler=str(script))}))

    def put(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)
        (self.folder / name).chmod(0o755)

    def put_program(self, name: str, comment: str) -> None:
        asked = ["gcc", f"-print-prog-name={name}"]
        real = shutil.which(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
        self.put(name, f'#!/bin/sh\n# {comment}\nexec {real} "$@"\n'.encode())

    def put_file(self, name: str, comment: str) -> None:
        """Of a linker script or an object file: what follows its text changes nothing of it."""
        asked = ["gcc", f"-print-file-name={name}"]
        real = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()).read_bytes()
        self.put(name, real + f"/* {comment} */\n".encode())


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", ["cc1", "collect2", "as", "ld"])
def test_another_program_of_the_compiler_is_another_compiler(host: Profile, tmp_path: Path, name: str) -> None:
    wrapped = Wrapped.make(tmp_path, host)
    wrapped.put_program(name, "one")
    one = toolchain.find(wrapped.board)
    assert toolchain.find(wrapped.board) == one
    wrapped.put_program(name, "two")
    two = toolchain.find(wrapped.board)
    assert one.identity != two.identity
    assert {part for part in two.parts if one.parts[part] != two.parts[part]} == {name}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", ["libc.so", "libm.so", "Scrt1.o", "libgcc.a"])
def test_another_file_of_the_c_library_is_another_compiler(host: Profile, tmp_path: Path, name: str) -> None:
    wrapped = Wrapped.make(tmp_path, host)
    wrapped.put_file(name, "one")
    one = toolchain.find(wrapped.board)
    wrapped.put_file(name, "two")
    two = toolchain.find(wrapped.board)
    assert one.identity != two.identity
    assert {part for part in two.parts if one.parts[part] != two.parts[part]} == {name}


def test_another_driver_is_another_compiler(host: Profile, tmp_path: Path) -> None:
    wrapped = Wrapped.make(tmp_path, host)
    one = toolchain.find(wrapped.board)
    with (tmp_path / "gcc").open("a") as script:
        script.write("# changed\n")
    assert toolchain.find(wrapped.board).identity != one.identity


def test_another_header_of_the_system_is_another_bundle(host: Profile, tmp_path: Path) -> None:
    wrapped = Wrapped.make(tmp_path, host)
    sources = {"kernels/c/a.c": b"#include <math.h>\n", "b.cpp": b"#include <math.h>\n"}
    compiler = toolchain.find(wrapped.board)
    plain = toolchain.headers(compiler, sources)
    assert toolchain.headers(compiler, sources) == plain
    wrapped.put("include/math.h", b"#include_next <math.h>\n#define rintf(x) roundf(x)\n")
    changed = toolchain.headers(compiler, sources)
    assert toolchain.find(wrapped.board).identity == compiler.identity, "the compiler is the same"
    assert {name for name in plain if plain[name] != changed[name]} == {"c", "c++"}
    assert toolchain.headers(compiler, {"kernels/c/a.c": b"#include <string.h>\n"})["c"] != plain["c"]


def test_a_header_that_another_processor_has_is_left_out(laboratory: BoardProfiles) -> None:
    sources = {"lanes.h": b"#include <immintrin.h>\n#include <arm_neon.h>\n#include <no/such.h>\n"}
    found = [toolchain.headers(toolchain.find(laboratory.board(name)), sources)["c"] for name in ("host", "xavier")]
    assert len({*found, hashlib.sha256().hexdigest()}) == 3


@pytest.mark.parametrize("name", ["xavier", "kv260"])
def test_the_parts_of_every_kind_of_compiler_are_known(laboratory: BoardProfiles, name: str) -> None:
    parts = toolchain.find(laboratory.board(name)).parts
    expected = {"zig", "zig's library"} if name == "xavier" else {"cc1", "as", "ld", "libc.so.6", "libgcc.a", "crti.o"}
    assert expected <= parts.keys()
    assert all(len(digest) == 64 for digest in parts.values())


HOSTILE_HEADERS = {
    "math.h": "#include_next <math.h>\n#undef rintf\n#define rintf(x) 42.0f\n",
    "string.h": "#include_next <string.h>\n#undef strlen\n#define strlen(x) 42\n",
}
VICTIM = """
#include <math.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **names)
{
    printf("%a %zu", (double)rintf((float)count + 0.5f), strlen(names[0] + strlen(names[0]) - 1));
    return 0;
}
"""


def hostile(folder: Path) -> dict[str, str]:
    """Variables by which a user could change what GCC, clang and zig compile, assemble and link."""
    (folder / "include").mkdir(parents=True)
    for name, text in HOSTILE_HEADERS.items():
        (folder / "include" / name).write_text(text)
    (folder / "m.c").write_text("float rintf(float x) { return 42.0f + x; }\n")
    for library in ("libm.so", "libc.so"):
        given = ["-shared", "-fPIC", str(folder / "m.c"), "-o", str(folder / library)]
        subprocess.run(["gcc", *given], check=True)
    for name in ("cc1", "as", "ld", "collect2"):
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    headers, here = str(folder / "include"), str(folder)
    return {
        **dict.fromkeys(("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH"), headers),
        **dict.fromkeys(("LIBRARY_PATH", "COMPILER_PATH", "LD_LIBRARY_PATH", "LD_RUN_PATH"), here),
        "GCC_EXEC_PREFIX": f"{here}/",
        "CCC_OVERRIDE_OPTIONS": "+-Drintf=roundf",
        "NIX_CFLAGS_COMPILE": "-Drintf=roundf",
        "NIX_LDFLAGS": f"-L{here}",
        "CFLAGS": "-Drintf=roundf",
        "CCACHE_PREFIX": f"{here}/as",
        "ZIG_LIB_DIR": here,
        "ZIG_LIBC": str(folder / "m.c"),
        "PYTHONPATH": here,
        "SOURCE_DATE_EPOCH": "1",
        "LDEMULATION": "elf_i386",
        "DEPENDENCIES_OUTPUT": f"{here}/dependencies",
    }


def victim(board: Profile, folder: Path) -> tuple[bytes, str, dict[str, str]]:
    """The program's bytes, and what tells who compiled it with which headers."""
    folder.mkdir()
    (folder / "source.c").write_text(VICTIM)
    compiler = toolchain.find(board)
    compiler.build(folder, [Path("source.c")], [], [], folder / "program")
    return (folder / "program").read_bytes(), compiler.identity, toolchain.headers(compiler, {"a.c": VICTIM.encode()})


@pytest.mark.parametrize("name", ["host", "kv260", "xavier"])
@pytest.mark.parametrize("variable", ["CPATH", "all"])
def test_no_variable_of_the_environment_reaches_a_compiler(
    laboratory: BoardProfiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    board = laboratory.board(name)
    clean = victim(board, tmp_path / "clean")
    variables = hostile(tmp_path / "hostile")
    for key in variables if variable == "all" else [variable]:
        monkeypatch.setenv(key, variables[key])
    assert victim(board, tmp_path / "dirty") == clean
    assert not (tmp_path / "hostile" / "dependencies").exists()


def test_arithmetic_that_rounds_twice_is_refused(host: Profile) -> None:
    """That of x87, which a 32-bit target of zig brings."""
    board = host.model_copy(update={"toolchain": Toolchain(compiler="gcc")})
    compiler = toolchain.find(board)
    with pytest.raises(ToolError, match="float operations must be rounded to float"):
        toolchain._linked(compiler.command, (*compiler.flags, "-mfpmath=387"))


def test_a_flag_that_the_compiler_does_not_know_is_its_failure(host: Profile) -> None:
    with pytest.raises(ToolError, match="dreams") as caught:
        toolchain.find(with_flags(host, "-march=dreams"))
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
def programs(laboratory: BoardProfiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    laboratory: BoardProfiles, tmp_path: Path
) -> None:
    """The Xavier's, which comes with the requirements and is not on the PATH."""
    board = laboratory.board("xavier")
    program = "#include <dlfcn.h>\n#include <pthread.h>\n#include <stddef.h>\nvoid *run(void *);\nvoid *run(void *x)"
    body = '{ return dlopen(x, RTLD_NOW); }\nint main(void) { pthread_t t; return pthread_create(&t, NULL, run, "x"); }'
    (tmp_path / "source.c").write_text(f"{program} {body}\n")
    toolchain.find(board).build(tmp_path, [Path("source.c")], [], [], tmp_path / "program")
    assert toolchain.required_glibc(tmp_path / "program") == (2, 17)
    toolchain.check_glibc(tmp_path / "program", board.toolchain)


def test_a_compiler_that_does_not_tell_what_it_links_is_refused(host: Profile, tmp_path: Path) -> None:
    silent = tmp_path / "cc"
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    board = host.model_copy(update={"toolchain": Toolchain(compiler=str(silent))})
    with pytest.raises(ToolError, match="does not tell what it links a program with") as caught:
        toolchain.find(board)
    assert "name a GCC, or python-zig cc" in caught.value.hint


def test_a_path_to_a_compiler_serves_as_well(host: Profile) -> None:
    gcc = shutil.which("gcc")
    assert gcc is not None
    assert toolchain.find(host.model_copy(update={"toolchain": Toolchain(compiler=gcc)})).command == (gcc,)


def test_a_program_does_not_depend_on_the_names_in_its_debug_data(tmp_path: Path) -> None:
    """Not by the values of symbols there, with which an assembler of Arm code marks data."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    programs = []
    for folder in ("/home/a", "/home/a_longer_name"):
        text = f'.file "folder.s"\n.section .debug_str,"MS",%progbits,1\n.asciz "{folder}"\nmark:\n.asciz "b"\n'
        (tmp_path / "folder.s").write_text(text)
        build = ["gcc", "-g", "-Wl,--build-id=none", "main.c", "folder.s", "-o", "program"]
        subprocess.run(build, cwd=tmp_path, check=True)
        strip.debug_data(tmp_path / "program")
        programs.append((tmp_path / "program").read_bytes())
    assert b"mark" in programs[0]
    assert programs[0] == programs[1]
