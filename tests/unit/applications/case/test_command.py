from __future__ import annotations

from pathlib import Path

from harness.applications.case.command.build import placed


def test_a_case_names_its_model_so_that_any_folder_finds_it() -> None:
    assert placed("acas_coc") == "acas_coc"
    for path in ("net.onnx", "models/net.onnx", "folder/net"):
        assert placed(path) == str(Path.cwd() / path)
    assert placed("/models/net.onnx") == "/models/net.onnx"
