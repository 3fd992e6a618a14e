"""The command that imports, on an emulated processor without VNNI, where products of uint8 and int8 codes saturate."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from harness.core.installation import ROOT
from tests.integration.reference.test_other_hosts import EMULATOR, ON_X86
from tests.support.cli.command import HARNESS
from tests.support.importer.graphs import saved
from tests.support.importer.quantised import built, codes_of_two_types, draw, qdq, qgemm, shared_weights

TIMEOUT_S = 200


@pytest.fixture
def imported(tmp_path: Path) -> Callable[[bytes], subprocess.CompletedProcess[str]]:
    if not ON_X86:
        pytest.skip("onnxruntime of this machine is not for x86-64")
    if EMULATOR is None:
        pytest.skip("no qemu-x86_64: run `sudo apt-get install qemu-user`")

    def run(onnx_bytes: bytes) -> subprocess.CompletedProcess[str]:
        command = [str(EMULATOR), "-cpu", "Haswell", *HARNESS, "models", "import", str(saved(tmp_path, onnx_bytes))]
        command += ["-o", str(tmp_path / "imported.onnx")]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)

    return run


@pytest.mark.campaign
@pytest.mark.parametrize("codes", ["uint8", "int8"])
def test_qdq_codes_of_both_types_are_imported(
    imported: Callable[[bytes], subprocess.CompletedProcess[str]], codes: str
) -> None:
    """ONNX Runtime makes uint8 codes of int8 codes, and without its option their products saturate."""
    constants = draw(np.random.default_rng(3), (4, 9, 3), codes=codes)
    ended = imported(built(qdq(1) + qdq(2, end=True), constants, TensorProto.FLOAT))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.campaign
@pytest.mark.parametrize("options", [{"shape": [1, 4]}, {"shape": [1, 4], "listed": True}])
def test_constants_may_be_listed_as_inputs(
    imported: Callable[[bytes], subprocess.CompletedProcess[str]], options: dict[str, Any]
) -> None:
    """ONNX Runtime takes them for values that can change, and leaves them without its option."""
    ended = imported(built(qgemm(1) + qgemm(2), draw(np.random.default_rng(11), (4, 9, 3)), **options))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.campaign
@pytest.mark.parametrize("made", [shared_weights, codes_of_two_types])
def test_a_file_whose_products_cannot_be_exact_there_is_not_blamed(
    imported: Callable[[bytes], subprocess.CompletedProcess[str]], made: Callable[[], bytes]
) -> None:
    ended = imported(made())
    assert ended.returncode == 3, ended.stderr
    assert "ONNX Runtime is wrong on this machine" in ended.stderr
    assert "sums of two products saturate to int16 (x86-64 without VNNI)" in ended.stderr
