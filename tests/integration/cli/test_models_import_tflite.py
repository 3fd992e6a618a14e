"""`harness models import` of TFLite files: converted networks come back, and those of MLPerf Tiny agree with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from harness.core.arrays import Array
from harness.core.errors import EXIT_REQUEST
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.model import load
from harness.model.importer import tflite
from harness.model.network import Network
from harness.model.tflite.file import OperatorCall, Scales, TensorValue, TfliteFile, encode
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


def run_identical(user: User) -> None:
    """Run what was imported: every imported file must also run."""
    ended = user.harness(
        *(
            "run",
            "--board",
            "host",
            "--model",
            str(user.folder / "new.onnx"),
            "--vectors",
            "3",
            "--trace",
            "0",
            "--json",
        )
    )
    assert ended.code == 0, ended.err
    assert ended.document["verdict"] == "identical"


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
    run_identical(user)


def test_a_converted_float_network_comes_back_with_its_constants(user: User) -> None:
    file = user.folder / "reg50.tflite"
    assert (
        user.harness("models", "convert", "acas_reg50", "--to", "tflite", "-o", str(file), "--vectors", "2").code == 0
    )
    assert imported(user, file).code == 0
    original, new = load(ROOT / "models" / "acas_reg50.onnx"), load(user.folder / "new.onnx")
    vectors = uniform_vectors(original, 20, seed=3)
    assert (outputs(original, vectors).view(np.uint32) == outputs(new, vectors).view(np.uint32)).all()
    run_identical(user)


@needs_shared
@pytest.mark.parametrize(
    ("name", "differing"),
    [
        ("kws_ref_model", set()),
        pytest.param("pretrainedResnet_quant", {"ADD", "AVERAGE_POOL_2D"}, marks=pytest.mark.campaign),
    ],
)
def test_mlperf_tiny_agrees_with_litert_in_all_sums(user: User, name: str, differing: set[str]) -> None:
    ended = imported(user, SHARED / f"{name}.tflite")
    assert ended.code == 0, ended.err
    checked = ended.document["check"]["operators"]
    assert {each["operator"] for each in checked if each["differing"]} <= differing
    assert {"CONV_2D", "FULLY_CONNECTED"} <= {each["operator"] for each in checked if not each["differing"]}
    run_identical(user)


@needs_shared
def test_weights_that_litert_quantises_on_the_way_are_refused(user: User) -> None:
    ended = imported(user, SHARED / "kws_ref_model_float32.tflite")
    assert ended.code == EXIT_REQUEST
    assert "operator 0 (CONV_2D" in ended.err
    assert "it has float32 activations and int8 weights" in ended.err


def value(name: str, *shape: int, dtype: type = np.float32, values: Array | None = None) -> TensorValue:
    codes = dtype in (np.int8, np.int16)
    scales = Scales(np.array([1 / 64], np.float32), 0) if codes else None
    return TensorValue(name, shape, np.dtype(dtype), scales, values)


def written(user: User, tensors: Sequence[TensorValue], calls: Sequence[OperatorCall]) -> Path:
    """Write a file that reads its first tensor and writes its last."""
    file = user.folder / "own.tflite"
    file.write_bytes(encode(TfliteFile(tuple(tensors), tuple(calls), (0,), (len(tensors) - 1,))))
    return file


def integers(name: str, *values: int) -> TensorValue:
    return value(name, len(values), dtype=np.int32, values=np.array(values, np.int32))


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1)])
def test_transposed_images_have_the_values_of_litert(user: User, order: tuple[int, ...]) -> None:
    shape = (1, 3, 4, 5)
    moved = value("moved", *(shape[axis] for axis in order))
    calls = [OperatorCall("TRANSPOSE", (0, 1), (2,)), OperatorCall("LOGISTIC", (2,), (3,))]
    file = written(user, [value("x", *shape), integers("order", *order), moved, replace(moved, name="y")], calls)
    ended = imported(user, file)
    assert ended.code == 0, ended.err
    checked = {each["operator"]: each for each in ended.document["check"]["operators"]}
    assert checked["TRANSPOSE"]["differing"] == 0
    assert checked["LOGISTIC"]["largest_difference"] < 1e-6
    run_identical(user)


def test_a_transposition_of_the_vectors_is_refused(user: User) -> None:
    tensors = [value("x", 1, 4), integers("order", 1, 0), value("y", 4, 1)]
    ended = imported(user, written(user, tensors, [OperatorCall("TRANSPOSE", (0, 1), (2,))]))
    assert ended.code == EXIT_REQUEST
    assert "its axes are [1, 0]" in ended.err


def test_a_shape_that_a_reshape_reads_is_known() -> None:
    tensors = [value("x", 1, 4, 3), value("of_x", 3, dtype=np.int32), integers("one", 1), integers("twelve", 12)]
    tensors += [value("first", 1, dtype=np.int32), value("shape", 2, dtype=np.int32), value("y", 1, 12)]
    calls = [
        OperatorCall("SHAPE", (0,), (1,), {"outType": 2}),
        OperatorCall("GATHER", (1, 2), (4,)),
        OperatorCall("CONCATENATION", (4, 3), (5,), {"axis": 0}),
        OperatorCall("RESHAPE", (0, 5), (6,)),
    ]
    assert "SHAPE" not in tflite.READERS
    model = tflite.bring_in(TfliteFile(tuple(tensors), tuple(calls), (0,), (6,)), "net").model
    assert [node.op_type for node in model.graph.node] == ["Reshape"]


@pytest.mark.parametrize("operator", ["LOGISTIC", "SOFTMAX", "LEAKY_RELU"])
def test_functions_of_codes_run_in_codes(user: User, operator: str) -> None:
    options = {"SOFTMAX": {"beta": 1.0}, "LEAKY_RELU": {"alpha": 0.25}, "LOGISTIC": {}}[operator]
    tensors = [value("x", 1, 8, dtype=np.int8), value("y", 1, 8, dtype=np.int8), value("scores", 1, 8)]
    if operator != "LEAKY_RELU":
        tensors[1] = replace(tensors[1], scales=Scales(np.array([1 / 256], np.float32), -128))
    calls = [OperatorCall(operator, (0,), (1,), options), OperatorCall("DEQUANTIZE", (1,), (2,))]
    ended = imported(user, written(user, tensors, calls))
    assert ended.code == 0, ended.err
    for each in ended.document["check"]["operators"]:
        assert each["largest_difference"] <= 1, each
    run_identical(user)


def test_codes_of_16_bits_are_within_one_code_of_litert(user: User) -> None:
    """Weights are int8, the bias int64 (TensorType 4); sums of codes round in another way than float32."""
    rng = np.random.default_rng(0)
    steps = np.linspace(0.002, 0.01, 6).astype(np.float32)
    weights, bias = rng.integers(-127, 128, (6, 8)), rng.integers(-90000, 90000, 6)
    tensors = [
        value("x", 1, 8),
        value("codes", 1, 8, dtype=np.int16),
        replace(value("w", 6, 8, dtype=np.int8, values=weights.astype(np.int8)), scales=Scales(steps, 0)),
        TensorValue("b", (6,), np.dtype(np.int64), Scales(steps / 64, 0), bias),
        value("sums", 1, 6, dtype=np.int16),
        value("shares", 1, 6, dtype=np.int16),
        value("y", 1, 6),
    ]
    tensors[5] = replace(tensors[5], scales=Scales(np.array([1 / 32768], np.float32), 0))
    calls = [
        OperatorCall("QUANTIZE", (0,), (1,)),
        OperatorCall("FULLY_CONNECTED", (1, 2, 3), (4,), {"quantizedBiasType": 4}),
        OperatorCall("LOGISTIC", (4,), (5,)),
        OperatorCall("DEQUANTIZE", (5,), (6,)),
    ]
    ended = imported(user, written(user, tensors, calls))
    assert ended.code == 0, ended.err
    checked = {each["operator"]: each["largest_difference"] for each in ended.document["check"]["operators"]}
    assert checked.keys() == {"QUANTIZE", "FULLY_CONNECTED", "LOGISTIC", "DEQUANTIZE"}
    assert max(checked.values()) <= 1
    run_identical(user)


def test_weights_of_another_type_become_float32() -> None:
    codes, steps = np.arange(-8, 8, dtype=np.int8).reshape(2, 8), np.array([0.5, 0.25], np.float32)
    stored = replace(value("codes", 2, 8, dtype=np.int8, values=codes), scales=Scales(steps, 0))
    tensors = [value("x", 1, 8), stored, value("weights", 2, 8), value("y", 1, 2)]
    calls = [OperatorCall("DEQUANTIZE", (1,), (2,)), OperatorCall("FULLY_CONNECTED", (0, 2, -1), (3,))]
    model = tflite.bring_in(TfliteFile(tuple(tensors), tuple(calls), (0,), (3,)), "net").model
    [weights] = [tensor for tensor in model.graph.initializer if tensor.name.endswith("weights")]
    assert (numpy_helper.to_array(weights) == codes * steps[:, None]).all()
    assert model.graph.node[0].op_type == "Gemm"


def test_analyse_and_view_read_tflite(user: User) -> None:
    file = written(user, [value("x", 1, 4), value("y", 1, 4)], [OperatorCall("TANH", (0,), (1,))])
    analysed = user.harness("models", "analyse", str(file), "--json")
    assert analysed.code == 0, analysed.err
    assert analysed.document["sha256"] == file_sha256(file)
    page = user.folder / "own.html"
    viewed = user.harness("models", "view", str(file), "-o", str(page))
    assert viewed.code == 0, viewed.err
    assert "Tanh" in page.read_text()


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
