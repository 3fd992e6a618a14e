"""XRT where it lies, and that programs and the double are built for a Kria with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.boards import workspace
from harness.boards.profile import Address, BoardProfiles, Profile
from harness.core import debian_packages
from harness.core.errors import ToolError
from harness.targets import toolchain
from harness.targets.vitis import xrt
from harness.targets.vitis.xrt import Xrt
from tests.simulators.vitis.xrt_double import DRIVER, FLAGS, ROOM, build_double

NOWHERE = "file:/nowhere/debian"  # apt tries an address on the network four times, for seven seconds
AARCH64, X86_64 = 183, 62
COMPILER = "aarch64-linux-gnu-g++"
UBUNTU_22_04 = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30)}
LIBRARIES = "usr/lib/aarch64-linux-gnu"

needs_compiler = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"no {COMPILER} here: apt-get install g++-aarch64-linux-gnu"
)


@pytest.fixture
def board(laboratory: BoardProfiles) -> Profile:
    """A KV260 that is really there."""
    return laboratory.board("kv260").model_copy(update={"address": Address(host="board.lab")})


@pytest.fixture(scope="module")
def of_debian(laboratory: BoardProfiles) -> Xrt:
    """Debian's XRT for arm64, downloaded once into the user's own cache."""
    board = laboratory.board("kv260").model_copy(update={"address": Address(host="board.lab")})
    try:
        return xrt.find(board, {"HARNESS_CACHE": str(workspace.cache_folder())})
    except ToolError as error:
        pytest.skip(error.message)


def elf(machine: int) -> bytes:
    """The head of an ELF file."""
    return b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little")


def copied(
    root: Path, include: str = "usr/include/xrt", library: str = LIBRARIES, uuid: str = LIBRARIES
) -> dict[str, str]:
    """A root with XRT, and the environment that names it."""
    contents = {f"{include}/{name}": b"header" for name in xrt.HEADERS}
    contents |= {f"{library}/{xrt.LIBRARY}.2.13.0": elf(AARCH64)}
    if uuid:
        contents |= {"usr/include/uuid/uuid.h": b"uuid", f"{uuid}/libuuid.so.1.3.0": elf(AARCH64)}
    for path, content in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return {xrt.VARIABLE: str(root), "HARNESS_CACHE": str(root / "cache")}


@pytest.mark.parametrize(
    ("include", "library"),
    [
        ("usr/include/xrt", LIBRARIES),
        ("usr/include/xrt", "usr/lib"),
        ("include", "lib"),
        ("opt/xilinx/xrt/include", "opt/xilinx/xrt/lib"),
    ],
)
def test_a_root_is_taken_as_it_is_laid_out(tmp_path: Path, board: Profile, include: str, library: str) -> None:
    found = xrt.find(board, copied(tmp_path, include, library))
    assert found.include == (tmp_path / include,)
    assert found.last == (tmp_path / "usr" / "include",)
    assert found.library == tmp_path / library / "libxrt_coreutil.so.2.13.0"
    assert found.uuid == tmp_path / LIBRARIES / "libuuid.so.1.3.0"


def test_flags_never_let_a_board_s_own_headers_come_first(tmp_path: Path, board: Profile) -> None:
    found = xrt.find(board, copied(tmp_path))
    assert found.compile_flags == (f"-I{tmp_path}/usr/include/xrt", "-idirafter", f"{tmp_path}/usr/include")
    assert found.link_flags == (str(found.library), str(found.uuid), "-Wl,--allow-shlib-undefined")


def test_the_profile_comes_before_the_environment(tmp_path: Path, board: Profile) -> None:
    copied(tmp_path / "named")
    vitis = board.section("vitis") | {"xrt": str(tmp_path / "named")}
    found = xrt.find(board.model_copy(update={"vitis": vitis}), {xrt.VARIABLE: "/nowhere"})
    assert found.library.is_relative_to(tmp_path / "named")


def test_another_library_or_header_is_another_bundle(tmp_path: Path, board: Profile) -> None:
    environment = copied(tmp_path)
    digests = [xrt.find(board, environment).digest]
    (tmp_path / LIBRARIES / "libxrt_coreutil.so.2.13.0").write_bytes(elf(AARCH64) + b"another")
    digests.append(xrt.find(board, environment).digest)
    for header in ("xrt/detail/abi.h", "version.h"):
        path = tmp_path / "usr/include/xrt" / header
        path.parent.mkdir(exist_ok=True)
        path.write_text("another")
        digests.append(xrt.find(board, environment).digest)
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (f"usr/include/xrt/{xrt.HEADERS[0]}", r"no include/xrt/xrt_device\.h"),
        (f"usr/include/xrt/{xrt.HEADERS[4]}", r"no experimental/xrt_xclbin\.h: this XRT is older than 2\.13"),
        (f"{LIBRARIES}/libxrt_coreutil.so.2.13.0", r"no libxrt_coreutil\.so"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, board: Profile, missing: str, words: str) -> None:
    environment = copied(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ToolError, match=words) as caught:
        xrt.find(board, environment)
    assert "docs/boards/kv260.md" in caught.value.hint


def test_the_xrt_of_a_machine_that_builds_is_not_the_board_s(tmp_path: Path, board: Profile) -> None:
    environment = copied(tmp_path)
    (tmp_path / LIBRARIES / "libxrt_coreutil.so.2.13.0").write_bytes(elf(X86_64))
    with pytest.raises(ToolError, match="is for x86_64, the board is aarch64"):
        xrt.find(board, environment)


def test_a_link_that_leads_out_of_the_copy_is_passed_over(tmp_path: Path, board: Profile) -> None:
    environment = copied(tmp_path)
    (tmp_path / LIBRARIES / "libxrt_coreutil.so").symlink_to("/nowhere/libxrt_coreutil.so.2")
    assert xrt.find(board, environment).library.name == "libxrt_coreutil.so.2.13.0"


def test_a_local_board_takes_what_is_installed_or_is_told_what_to_install(tmp_path: Path, host: Profile) -> None:
    environment = {"HARNESS_CACHE": str(tmp_path)}
    with pytest.raises(ToolError, match="this machine has no XRT") as caught:
        xrt.find(host, environment, system=tmp_path)
    assert "apt-get install libxrt-dev uuid-dev" in caught.value.hint
    copied(tmp_path, library="usr/lib", uuid="usr/lib")
    found = xrt.find(host, environment, system=tmp_path)
    assert found.include == (tmp_path / "usr/include/xrt",)
    assert found.library == tmp_path / "usr/lib/libxrt_coreutil.so.2.13.0"


def test_a_local_board_with_xrt_elsewhere_takes_the_system_s_libuuid(
    tmp_path: Path, host: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    copied(tmp_path / "system")
    environment = copied(tmp_path / "xilinx", "include", "lib", uuid="")
    found = xrt.find(host, environment, system=tmp_path / "system")
    assert found.library.is_relative_to(tmp_path / "xilinx")
    assert found.last == (tmp_path / "system" / "usr" / "include",)
    assert found.uuid.is_relative_to(tmp_path / "system")


def test_what_cannot_be_fetched_is_an_error_that_names_the_way_out(
    tmp_path: Path, board: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(debian_packages.MIRROR, NOWHERE)
    monkeypatch.setattr(debian_packages, "KEYRING", Path(__file__))
    with pytest.raises(ToolError, match="cannot fetch XRT of Debian for arm64: apt-get update failed") as caught:
        xrt.find(board, {"HARNESS_CACHE": str(tmp_path)}, notify=print)
    assert debian_packages.MIRROR in caught.value.hint


# Debian's


def test_debian_s_is_fetched_and_unpacked_once(
    of_debian: Xrt, board: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = workspace.cache_folder() / "xrt" / "packages"
    shutil.copytree(kept, tmp_path / "xrt" / "packages")
    monkeypatch.setenv(debian_packages.MIRROR, NOWHERE)
    said: list[str] = []
    found = [xrt.find(board, {"HARNESS_CACHE": str(tmp_path)}, notify=said.append) for _ in range(2)]
    assert said == []
    assert found[0] == found[1]
    assert found[0].digest == of_debian.digest
    assert all(path.exists() for path in (*found[0].include, found[0].library, found[0].uuid))


def test_a_root_without_libuuid_is_completed_by_debian_s(of_debian: Xrt, tmp_path: Path, board: Profile) -> None:
    """As an installation under /opt/xilinx/xrt."""
    environment = copied(tmp_path, "include", "lib", uuid="") | {"HARNESS_CACHE": str(workspace.cache_folder())}
    try:
        found = xrt.find(board, environment)
    except ToolError as error:
        pytest.skip(error.message)
    assert (found.last[0] / "uuid" / "uuid.h").is_file()
    assert found.uuid.is_file()
    assert of_debian.library != found.library


@needs_compiler
def test_a_program_for_a_kria_is_built_with_it(of_debian: Xrt, tmp_path: Path) -> None:
    assert_builds(of_debian, tmp_path / "driver")


@needs_compiler
def test_a_copy_of_a_board_does_not_lend_its_c_library_s_headers(
    of_debian: Xrt, tmp_path: Path, board: Profile
) -> None:
    root = shutil.copytree(of_debian.include[1].parents[1], tmp_path / "root", symlinks=True)
    (root / "usr/include/stdio.h").write_text("#error the board's own\n")
    found = xrt.find(board, {xrt.VARIABLE: str(root), "HARNESS_CACHE": str(tmp_path)})
    assert found.include == (root / "usr/include/xrt",)
    assert found.digest == of_debian.digest
    assert_builds(found, tmp_path / "driver")


def assert_builds(found: Xrt, program: Path) -> None:
    system = [flag.replace("-I", "-isystem") for flag in found.compile_flags]
    command = [COMPILER, *FLAGS, f"-I{ROOM}", *system, str(DRIVER), "-o", str(program), *found.link_flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert program.read_bytes()[18] == AARCH64
    assert b"libxrt_coreutil.so.2" in program.read_bytes()
    assert_runs_on_ubuntu_22_04(program)


@pytest.mark.campaign
@needs_compiler
def test_the_double_is_built_for_an_emulated_one(tmp_path: Path) -> None:
    built = build_double(tmp_path, "-O0", compiler=COMPILER)
    for path in (built.program, tmp_path / "libxrt_coreutil.so.2"):
        assert path.read_bytes()[18] == AARCH64
        assert_runs_on_ubuntu_22_04(path)


def assert_runs_on_ubuntu_22_04(path: Path) -> None:
    required = toolchain.required_glibc(path)
    assert required is None or required <= UBUNTU_22_04["GLIBC"]
    library = re.findall(rb"GLIBCXX_([\d.]+)", path.read_bytes())
    assert max(tuple(map(int, version.split(b"."))) for version in library) <= UBUNTU_22_04["GLIBCXX"]
