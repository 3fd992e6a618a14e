"""The board program itself on the real XRT, which here has no device: it gets as far as the kernel's identity."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.build import codegen
from harness.plan import planner
from harness.targets.vitis import build as vitis
from harness.targets.vitis import xclbin
from harness.targets.vitis.signature import ARGUMENTS
from tests.simulators.vitis.boards import with_fabric
from tests.simulators.vitis.test_xrt_noop import pytestmark as pytestmark  # noqa: PLC0414 - where XRT is
from tests.simulators.vitis.xrt_double import NOOP
from tests.support import builders
from tests.support.programs.board_program import BoardProgram, Patch, build_patched, parse, refusal

SECTIONS = ("EMBEDDED_METADATA", "IP_LAYOUT", "MEM_TOPOLOGY", "CONNECTIVITY")


@pytest.fixture(scope="module")
def program(host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> BoardProgram:
    """Built as for a board, but for where its application lies."""
    board = with_fabric(host).model_copy(update={"stand_ins": False})
    plan = planner.make(parse(builders.random_network(np.random.default_rng(7), (5, 3))), board)
    app = vitis.fabric_of(code.kernels for code in codegen.generate(plan).items if code.kernels).app
    here = Patch(vitis.SETTINGS, f"{vitis.INSTALLED}/{app}/{app}.xclbin", "network.xclbin")
    return build_patched(plan, board, tmp_path_factory.mktemp("real") / "bundle", [here], ["-O1"], objects)


def ask(program: BoardProgram, folder: Path, content: bytes) -> str:
    """What it says when it is asked for its devices and `content` is the application's metadata."""
    program.path.with_name("network.xclbin").write_bytes(content)
    (folder / "lib").symlink_to(NOOP.parent)
    environment = os.environ | {"XILINX_XRT": str(folder), "XCL_EMULATION_MODE": "noop"}
    command = [str(program.path), "--devices"]
    return refusal(subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment))


def test_kernels_that_compute_nothing_are_no_kernels_of_the_bundle(program: BoardProgram, tmp_path: Path) -> None:
    said = ask(program, tmp_path, xclbin.write(["layer_0_kernel"], 64 * "0"))
    assert "layer_0_kernel in the fabric was made of other sources (a5a5a5a5...) than this bundle (" in said


@pytest.mark.parametrize("section", SECTIONS)
def test_a_missing_section_is_named_before_xrt_crashes(program: BoardProgram, tmp_path: Path, section: str) -> None:
    said = ask(program, tmp_path, xclbin.write(["layer_0_kernel"], 64 * "0", without={section}))
    assert f"network.xclbin has no section {section}: build it and load it: harness firmware" in said


def test_another_kernel_is_named(program: BoardProgram, tmp_path: Path) -> None:
    said = ask(program, tmp_path, xclbin.write(["layer_1_kernel"], 64 * "0"))
    assert "network.xclbin has no kernel layer_0_kernel" in said


def test_a_kernel_with_an_argument_less_is_named(program: BoardProgram, tmp_path: Path) -> None:
    said = ask(program, tmp_path, xclbin.write(["layer_0_kernel"], 64 * "0", arguments=ARGUMENTS[:-1]))
    assert "layer_0_kernel has 7 arguments where this bundle has 8" in said
