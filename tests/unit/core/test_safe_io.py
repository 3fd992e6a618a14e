"""Files that a user names: no reader waits for a pipe, or takes a pointer of Git LFS for the content."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness import model
from harness.applications.decide.hybrid import build as hybrid
from harness.boards import profile, workspace
from harness.cli.models.load import _source
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.core.safe_io import load_array, read_input, read_input_text
from harness.core.strict_yaml import Source
from harness.model.importer.files import bring_in, float_graph
from harness.model.quantizer import image_folder
from harness.plan.nnef import folder
from harness.reference.vector_files import from_file
from harness.runs.folder import RunFolder

READERS: dict[str, Callable[[Path], object]] = {
    ".onnx": model.load,
    ".nnet": bring_in,
    ".float.onnx": float_graph,
    ".npy": lambda path: from_file(path, model.load(ROOT / "models" / "acas_coc.onnx")),
    ".png": lambda path: image_folder._read(path, np.empty((1, 1, 1), np.uint8), "L"),
    ".txt": _source,
    ".yaml": profile.load,
    ".nightly": lambda path: Source.read(path, "", ""),
    ".hybrid": hybrid.read,
    ".nnef": folder._read_text,
    ".dat": folder.read_tensor,
}


@pytest.mark.parametrize("suffix", READERS)
def test_a_pipe_and_a_pointer_of_git_lfs_are_refused(tmp_path: Path, suffix: str) -> None:
    """Without a writer, a reader of the pipe would wait without end."""
    pipe, pointer = tmp_path / f"pipe{suffix}", tmp_path / f"pointer{suffix}"
    os.mkfifo(pipe)
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(RequestError, match="it is a pipe; write its content to a regular file"):
        READERS[suffix](pipe)
    with pytest.raises(RequestError, match="it is a Git LFS pointer, not the content; run: git lfs pull"):
        READERS[suffix](pointer)


def test_regular_files_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"version\r\n" * 3000)
    assert read_input(path) == b"version\r\n" * 3000
    assert read_input_text(path) == "version\n" * 3000
    with path.open("rb") as file:  # as a shell passes `< file`
        assert read_input(Path(f"/dev/fd/{file.fileno()}")) == path.read_bytes()
    receiver, sender = os.pipe()
    threading.Timer(0.2, lambda: (os.write(sender, b"late"), os.close(sender))).start()
    assert read_input_text(Path(f"/dev/fd/{receiver}")) == "late"  # as a shell passes `<(command)`
    with pytest.raises(OSError, match="it is a pipe"):  # an array is mapped into memory
        load_array(Path(f"/dev/fd/{receiver}"))
    np.save(path, np.arange(3), allow_pickle=False)
    assert load_array(tmp_path / "file.npy").tolist() == [0, 1, 2]
    with pytest.raises(IsADirectoryError):
        read_input(tmp_path)
    with pytest.raises(OSError, match="it is a device"):
        read_input(Path("/dev/zero"))


def test_a_file_is_no_folder_of_runs(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for runs in (file, file / "runs"):
        with pytest.raises(RequestError, match=f"^folder of runs {runs}: {file} is not a folder$"):
            workspace.find(runs=runs, environment={"HARNESS_CACHE": str(tmp_path)})
    new = workspace.find(runs=tmp_path / "new" / "runs", environment={"HARNESS_CACHE": str(tmp_path)})
    assert new.runs == tmp_path / "new" / "runs"


def test_a_long_name_of_a_model_is_cut_in_the_name_of_its_run(tmp_path: Path) -> None:
    created = RunFolder.create(tmp_path, "host", "m" * 250, datetime(2026, 11, 28, tzinfo=UTC))
    assert len(created.name) == 200
    assert created.name.startswith("20261128-000000_host_mmm")
    assert RunFolder.create(tmp_path, "host", "m" * 250, datetime(2026, 11, 28, tzinfo=UTC)).name == f"{created.name}_2"


def test_an_output_without_a_shape_is_named(tmp_path: Path) -> None:
    proto = onnx.load(ROOT / "models" / "acas_coc.onnx")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(RequestError, match=r"is not valid ONNX: .*; these inputs and outputs have no shape: 'scores'$"):
        model.load(tmp_path / "model.onnx")
