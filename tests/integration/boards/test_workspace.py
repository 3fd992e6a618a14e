from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from harness.boards import workspace
from harness.core import installation
from harness.core.errors import RequestError
from harness.core.installation import ROOT


def no_user(uid: int) -> pwd.struct_passwd:
    raise KeyError(uid)


def test_a_user_without_a_home_says_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started for a number."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", no_user)
    assert workspace.cache_folder({"HARNESS_CACHE": str(tmp_path)}) == tmp_path
    assert workspace.cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "harness"
    with pytest.raises(RequestError) as caught:
        workspace.cache_folder({})
    assert caught.value.hint == "set HOME, or HARNESS_CACHE to a folder"


def test_a_git_that_hangs_changes_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test a git that waits, as on a remote disk or with a program in its settings."""
    (tmp_path / "git").write_text("#!/bin/sh\nsleep 20\necho told\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(installation, "GIT_TIMEOUT_S", 0.2)
    assert installation.revision() is None
    assert installation.git("status") is None


def test_variables_of_a_git_hook_do_not_change_the_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = installation.git("rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert installation.git("rev-parse", "HEAD") == before


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    (folder / "models" / "more").mkdir(parents=True)
    (folder / "boards.yaml").write_text("{}")
    return folder


def test_the_lab_is_the_nearest_folder_with_a_boards_file(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab / "models" / "more")
    space = workspace.find(environment={"HARNESS_CACHE": "/c"})
    assert (space.lab, space.boards, space.models, space.runs) == (
        *(lab, lab / "boards.yaml", lab / "models", lab / "runs"),
    )


def test_a_named_lab_comes_first(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boards.yaml").write_text("{}")
    monkeypatch.chdir(tmp_path)
    by_variable = {"HARNESS_LAB": str(lab), "HARNESS_CACHE": "/c"}
    assert workspace.find(environment=by_variable).lab == lab
    assert workspace.find(lab=tmp_path, environment=by_variable).lab == tmp_path
    given = workspace.find(Path("b.yaml"), Path("r"), environment=by_variable)
    assert (given.boards, given.runs, given.models) == (Path("b.yaml"), Path("r"), lab / "models")


@pytest.mark.parametrize("by", ["--lab", "HARNESS_LAB"])
def test_a_named_lab_must_have_a_boards_file(by: str, tmp_path: Path) -> None:
    named = {"HARNESS_LAB": str(tmp_path)} if by == "HARNESS_LAB" else {}
    with pytest.raises(RequestError, match=f"^{by} {tmp_path}: there is no boards.yaml in it$") as caught:
        workspace.find(lab=None if named else tmp_path, environment={"HARNESS_CACHE": "/c"} | named)
    assert caught.value.hint == f"create a lab folder: harness init {tmp_path}"


def test_without_a_lab_the_installed_boards_and_models_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space = workspace.find(environment={"HARNESS_CACHE": "/c"})
    assert (space.lab, space.boards, space.models) == (None, ROOT / "boards.yaml", ROOT / "models")
    assert space.runs == tmp_path / "runs"


def test_the_boards_file_of_another_user_is_refused(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab)
    assert workspace.find(environment={"HARNESS_CACHE": "/c"}).lab == lab
    if os.getuid() == 0:  # whose files everyone accepts
        os.chown(lab / "boards.yaml", 1000, -1)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(RequestError, match="belongs to another user, and it may contain commands"):
        workspace.find(environment={"HARNESS_CACHE": "/c"})
    assert workspace.find(lab=lab, environment={"HARNESS_CACHE": "/c"}).lab == lab
    assert workspace.find(Path("own.yaml"), environment={"HARNESS_CACHE": "/c"}).boards == Path("own.yaml")


def test_models_of_the_lab_take_precedence_over_installed_ones(lab: Path) -> None:
    (lab / "models" / "acas_sl.onnx").write_bytes(b"own")
    (lab / "models" / "zz.onnx").write_bytes(b"own")
    space = workspace.find(lab=lab, environment={"HARNESS_CACHE": "/c"})
    assert space.model_file("acas_sl") == lab / "models" / "acas_sl.onnx"
    assert space.model_file("acas_coc") == ROOT / "models" / "acas_coc.onnx"
    assert [path.stem for path in space.model_files()] == [
        *("acas_coc", "acas_decr128", "acas_decr256", "acas_reg100", "acas_reg200", "acas_reg50"),
        *("acas_sl", "acas_sr", "acas_wl", "acas_wr", "autoencoder_int8", "cifarnet", "ds_cnn_int8"),
        *("efficientnet_lite_tiny", "forest_tiny", "kws_causal_int8", "kws_gru", "kws_lstm", "kws_stream_int8"),
        *("lenet5", "lenet5_int8", "mobilenet_int8", "mobilenet_v3_tiny", "resnet8_int8", "text_tiny", "unet_tiny"),
        *("vit_tiny", "vit_tiny_int8", "yolo_nms_tiny", "yolo_tiny", "zz"),
    ]
    with pytest.raises(RequestError, match="unknown model 'acas_no'"):
        space.model_file("acas_no")
