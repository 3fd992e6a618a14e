"""A copy of a board's root file system, as far as a build looks into it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.boards.profile import Address, BoardProfiles, Profile
from harness.core.errors import RequestError, ToolError
from harness.targets.tiovx import build, sdk
from harness.targets.tiovx.build import COMPILER

HEADERS = "usr/include/processor_sdk"


@pytest.fixture
def board(laboratory: BoardProfiles) -> Profile:
    """A TDA4VM that is really there."""
    return laboratory.board("tda4vm").model_copy(update={"address": Address(host="board.lab")})


def copied(root: Path, app_init: str = "vision_apps") -> Path:
    texts = dict.fromkeys(sdk.HEADERS, "")
    texts["TI/tivx_mem.h"] = "void* tivxMemShared2TargetPtr(const tivx_shared_mem_ptr_t *shared_ptr);"
    paths = {f"{HEADERS}/tiovx/include/{name}": text for name, text in texts.items()}
    paths |= {f"{HEADERS}/{app_init}/{sdk.APP_INIT}": "", "usr/lib/libtivision_apps.so.9.2.0": "library"}
    for path, text in paths.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize("app_init", ["vision_apps", "app_utils"])
def test_a_whole_copy_is_taken(tmp_path: Path, board: Profile, app_init: str) -> None:
    found = sdk.find(board, {"TARGET_FS": str(copied(tmp_path, app_init))})
    assert found.include == (tmp_path / HEADERS / "tiovx/include", tmp_path / HEADERS / app_init)
    assert found.library == tmp_path / "usr/lib/libtivision_apps.so.9.2.0"


def test_another_library_or_header_is_another_bundle(tmp_path: Path, board: Profile) -> None:
    environment = {"TARGET_FS": str(copied(tmp_path))}
    before = sdk.find(board, environment).digest
    (tmp_path / "usr/lib/libtivision_apps.so.9.2.0").write_text("another")
    after = sdk.find(board, environment).digest
    (tmp_path / HEADERS / "tiovx/include/TI/tivx_obj_desc.h").write_text("another")
    assert len({before, after, sdk.find(board, environment).digest}) == 3


def test_a_link_that_leads_out_of_the_copy_is_passed_over(tmp_path: Path, board: Profile) -> None:
    library = copied(tmp_path) / "usr/lib/libtivision_apps.so.9.2.0"
    library.with_name("libtivision_apps.so").symlink_to("/nowhere/libtivision_apps.so.9.2.0")
    assert sdk.find(board, {"TARGET_FS": str(tmp_path)}).library == library


def test_the_profile_comes_before_the_environment(tmp_path: Path, board: Profile) -> None:
    named = board.model_copy(update={"tiovx": {"target_fs": str(copied(tmp_path / "named"))}})
    assert sdk.find(named, {"TARGET_FS": "/nowhere"}).library.is_relative_to(tmp_path / "named/usr/lib")


def test_without_a_copy_it_is_said_how_to_name_one(board: Profile) -> None:
    with pytest.raises(ToolError, match="needs the headers and the library of TIOVX") as caught:
        sdk.find(board, {})
    assert "TARGET_FS" in caught.value.hint
    assert "docs/boards/tda4vm.md" in caught.value.hint


@pytest.mark.parametrize(
    "missing",
    [
        f"{HEADERS}/tiovx/include/{sdk.HEADERS[1]}",
        f"{HEADERS}/vision_apps/{sdk.APP_INIT}",
        "usr/lib/libtivision_apps.so.9.2.0",
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, board: Profile, missing: str) -> None:
    (copied(tmp_path) / missing).unlink()
    with pytest.raises(ToolError, match=r"no root file system of a TDA4VM image with TIOVX") as caught:
        sdk.find(board, {"TARGET_FS": str(tmp_path)})
    assert Path(missing).name.split(".so")[0] in caught.value.message


def test_an_old_tiovx_is_refused(tmp_path: Path, board: Profile) -> None:
    header = copied(tmp_path) / HEADERS / "tiovx/include/TI/tivx_mem.h"
    header.write_text("void* tivxMemShared2TargetPtr(uint64_t shared_ptr, vx_enum mem_heap_region);")
    with pytest.raises(ToolError, match="older than that of Processor SDK 7"):
        sdk.find(board, {"TARGET_FS": str(tmp_path)})


def test_flags_name_what_was_found(tmp_path: Path, board: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET_FS", str(copied(tmp_path)))
    flags = COMPILER.flags(board)
    assert f"-I{tmp_path}/{HEADERS}/tiovx/include" in flags
    assert {f"{tmp_path}/usr/lib/libtivision_apps.so.9.2.0", "-DSOC_J721E"} <= set(flags)
    assert not any(path.startswith("simulators/tiovx") for path in COMPILER.sources([], board))


def test_a_bundle_that_was_made_in_another_way_is_not_reused(
    host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "tiovx"
    shutil.copytree(build.HERE, here)
    before = COMPILER.identity(host)
    monkeypatch.setattr(build, "HERE", here)
    assert COMPILER.identity(host) == before
    with (here / "trial.py").open("a") as file:
        file.write("# stricter\n")
    assert COMPILER.identity(host) != before


def test_hardware_without_tiovx_never_gets_the_double(board: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TARGET_FS", raising=False)
    with pytest.raises(ToolError):
        COMPILER.identity(board)
    with pytest.raises(ToolError):
        COMPILER.flags(board)


def test_a_static_program_is_refused(laboratory: BoardProfiles) -> None:
    board = laboratory.board("tda4vm")
    static = board.model_copy(update={"toolchain": board.toolchain.model_copy(update={"static": True})})
    with pytest.raises(RequestError, match="a static program cannot load TIOVX"):
        COMPILER.identity(static)
