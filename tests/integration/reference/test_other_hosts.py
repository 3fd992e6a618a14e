"""The host check where ONNX Runtime is wrong: version 1.23.2 with AMX, and an emulated processor without VNNI."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from harness.core.installation import ROOT
from harness.model.onnx_runtime.hostcheck import instruction_set
from tests.support.builders import random_network

OTHER_RUNTIME = ROOT / "build" / "other-runtime" / "bin" / "python"
EMULATOR = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
ON_X86 = instruction_set().startswith("x86_64")
HAS_AMX = "amx_int8" in instruction_set().split()
TYPES = ("uint8 x int8", "uint8 x uint8", "int8 x int8")
LAYERS = ("layer_0", "layer_1", "layer_2")
EXACT = dict.fromkeys(TYPES, "NONE")
ALL_EXACT = dict.fromkeys(LAYERS, "NONE")


def wide_model(*, small_weights: bool = False) -> onnx.ModelProto:
    """Return a network with widths that are no multiples of 16, and with zero points."""
    model = random_network(np.random.default_rng(3), (5, 50, 50, 5), zero_points=True)
    for tensor in model.graph.initializer:
        if small_weights and tensor.name.endswith("_weights"):
            halved = (numpy_helper.to_array(tensor).astype(np.int32) // 2).astype(np.int8)
            tensor.CopyFrom(numpy_helper.from_array(halved, tensor.name))
    return model


def said_by(command: list[str], model: onnx.ModelProto, folder: Path) -> dict[str, Any]:
    onnx.save_model(model, folder / "model.onnx")
    program = [*command, "-m", "tests.support.reference.other_host", str(folder / "model.onnx")]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not OTHER_RUNTIME.exists():
        pytest.skip("no onnxruntime 1.23.2 to try: run `make other-runtime`")
    return said_by([str(OTHER_RUNTIME)], wide_model(), tmp_path_factory.mktemp("older"))


def test_onnxruntime_1_23_is_exact_or_its_defect_is_named(older: dict[str, Any]) -> None:
    assert older["onnxruntime"] == "1.23.2"
    assert older["host"]["int8 x int8"] == "NONE"
    if HAS_AMX:
        assert older["host"] == EXACT | dict.fromkeys(("uint8 x int8", "uint8 x uint8"), "RAGGED_COLUMNS")
        assert older["network"] == ALL_EXACT | dict.fromkeys(("layer_0", "layer_1"), "RAGGED_COLUMNS")


@pytest.mark.skipif(not HAS_AMX, reason="the defect of ONNX Runtime 1.21 to 1.24 shows only on a processor with AMX")
def test_the_defect_of_onnxruntime_1_23_ends_the_reference(older: dict[str, Any]) -> None:
    """Whether the check finds it before, or a run meets it."""
    for name in ("reference", "reference_precise", "unchecked"):
        message, hint = older[name]
        assert "onnxruntime 1.23.2, x86_64" in message
        assert "amx_int8" in message
        assert "the last columns are wrong from 32 rows on" in message
        assert "another ONNX Runtime than 1.21 to 1.24" in hint
    assert older["reference"][0].startswith("ONNX Runtime is wrong on this machine")
    assert "activations differ" in older["unchecked"][0]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if not ON_X86:
        pytest.skip("onnxruntime of this machine is not for x86-64")
    if EMULATOR is None:
        pytest.skip("no qemu-x86_64: run `sudo apt-get install qemu-user`")
    folder = tmp_path_factory.mktemp("emulated")

    def ask(cpu: str, model: onnx.ModelProto) -> dict[str, Any]:
        return said_by([str(EMULATOR), "-cpu", cpu, sys.executable], model, folder)

    return ask


def test_a_processor_without_vnni_saturates_which_is_named(emulated: Any) -> None:
    said = emulated("Haswell", wide_model())
    assert said["host"] == EXACT | {"uint8 x int8": "SATURATION"}
    assert said["network"] == dict.fromkeys(LAYERS, "SATURATION")
    for name in ("reference", "unchecked"):
        message, hint = said[name]
        assert "saturate to int16 (x86-64 without VNNI)" in message
        assert "leave --no-x64-quant-precision out" in hint
    assert "layer 'layer_0' (QGemm), vector" in said["unchecked"][0]
    assert said["precise"] == ALL_EXACT
    assert said["reference_precise"] is None


@pytest.mark.campaign
def test_zero_points_whose_products_would_saturate_do_not_fail_a_proof(emulated: Any) -> None:
    model = wide_model()
    for tensor in model.graph.initializer:
        if tensor.name in ("x_zero_point", "layer_0_y_zero_point"):
            tensor.CopyFrom(numpy_helper.from_array(np.uint8(250), tensor.name))
    assert emulated("Haswell", model)["proof"] is None


@pytest.mark.campaign
def test_small_weights_are_accepted_on_a_processor_without_vnni(emulated: Any) -> None:
    said = emulated("Haswell", wide_model(small_weights=True))
    assert said["host"]["uint8 x int8"] == "SATURATION", "it is that processor"
    assert said["network"] == ALL_EXACT
    assert (said["reference"], said["unchecked"]) == (None, None)


@pytest.mark.campaign
def test_a_processor_with_sse_alone_is_exact(emulated: Any) -> None:
    said = emulated("Nehalem", wide_model())
    assert (said["host"], said["network"]) == (EXACT, ALL_EXACT)
    assert said["reference"] is None
