"""`harness models import` of TFLite files: converted networks come back, and those of MLPerf Tiny agree with LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import EXIT_REQUEST
from harness.core.installation import ROOT
from harness.model import load
from harness.model.network import Network
from harness.reference.specification import SpecificationReference
from tests.support.cli.command import Ended, User
from tests.support.programs.board_program import uniform_vectors

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

SHARED = ROOT.parent / "shared" / "data" / "mlperf_tiny"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the networks of MLPerf Tiny are not here")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


def imported(user: User, file: Path) -> Ended:
    return user.harness("models", "import", str(file), "-o", str(user.folder / "new.onnx"), "--json")


def outputs(net: Network, vectors: Array) -> Array:
    return SpecificationReference(net).activations(vectors)[-1]


@pytest.mark.parametrize(
    "model",
    ["lenet5_int8", *(pytest.param(name, marks=pytest.mark.campaign) for name in ("ds_cnn_int8", "autoencoder_int8"))],
)
def test_a_converted_network_of_codes_comes_back_with_its_bits(user: User, model: str) -> None:
    file = user.folder / f"{model}.tflite"
    converted = user.harness("models", "convert", model, "--to", "tflite", "-o", str(file), "--vectors", "2")
    assert converted.code == 0, converted.err
    ended = imported(user, file)
    assert ended.code == 0, ended.err
    assert sum(each["differing"] for each in ended.document["check"]["operators"]) == 0
    original, new = load(ROOT / "models" / f"{model}.onnx"), load(user.folder / "new.onnx")
    vectors = uniform_vectors(original, 20, seed=3)
    assert (outputs(original, vectors).view(np.uint32) == outputs(new, vectors).view(np.uint32)).all()


def test_a_converted_float_network_comes_back_with_its_constants(user: User) -> None:
    file = user.folder / "reg50.tflite"
    assert (
        user.harness("models", "convert", "acas_reg50", "--to", "tflite", "-o", str(file), "--vectors", "2").code == 0
    )
    assert imported(user, file).code == 0
    original, new = load(ROOT / "models" / "acas_reg50.onnx"), load(user.folder / "new.onnx")
    vectors = uniform_vectors(original, 20, seed=3)
    assert (outputs(original, vectors).view(np.uint32) == outputs(new, vectors).view(np.uint32)).all()


@needs_shared
@pytest.mark.parametrize(
    ("name", "differing"),
    [("kws_ref_model", {"SOFTMAX"}), ("pretrainedResnet_quant", {"ADD", "AVERAGE_POOL_2D", "SOFTMAX"})],
)
def test_mlperf_tiny_agrees_with_litert_in_all_sums(user: User, name: str, differing: set[str]) -> None:
    ended = imported(user, SHARED / f"{name}.tflite")
    assert ended.code == 0, ended.err
    checked = ended.document["check"]["operators"]
    assert {each["operator"] for each in checked if each["differing"]} <= differing
    assert {"CONV_2D", "FULLY_CONNECTED"} <= {each["operator"] for each in checked if not each["differing"]}


@needs_shared
def test_weights_that_litert_quantises_on_the_way_are_refused(user: User) -> None:
    ended = imported(user, SHARED / "kws_ref_model_float32.tflite")
    assert ended.code == EXIT_REQUEST
    assert "operator 0 (CONV_2D" in ended.err
    assert "it has float32 activations and int8 weights" in ended.err


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is no TFLite file"), (b"\0" * 64, "is no TFLite file"), (b"\x20\0\0\0TFL3" + b"\xff" * 40, "cannot read")],
)
def test_a_damaged_file_is_refused(user: User, content: bytes, message: str) -> None:
    file = user.folder / "damaged.tflite"
    file.write_bytes(content)
    ended = imported(user, file)
    assert ended.code == EXIT_REQUEST
    assert message in ended.err
