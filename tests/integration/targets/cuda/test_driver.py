"""Whether this machine's NVIDIA driver can be used, with stand-ins for the driver: the tests' machine may have none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.boards import profile
from harness.core.installation import ROOT
from harness.targets.cuda import driver

PROGRAM = "from harness.targets.cuda import driver; print(driver.fault())"


@pytest.mark.parametrize(
    ("status", "fault"), [(0, ""), (100, "the NVIDIA driver of this machine finds no usable GPU (cuInit: error 100)")]
)
def test_a_driver_is_asked_for_a_gpu(tmp_path: Path, status: int, fault: str) -> None:
    library = tmp_path / driver.LIBRARY
    source = f"int cuInit(unsigned flags) {{ return flags ? -1 : {status}; }}"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True, cwd=tmp_path
    )
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{fault}\n"


def test_only_boards_of_this_machine_with_its_gpu_need_its_driver() -> None:
    boards = profile.load(ROOT / "boards.yaml", {}).profiles
    assert [name for name, board in boards.items() if driver.is_needed(board)] == ["local-gpu"]
