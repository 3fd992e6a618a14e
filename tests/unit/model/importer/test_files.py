from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.errors import RequestError
from harness.model import importer
from tests.support.importer.graphs import model, node, saved
from tests.support.importer.quantised import built, draw, qgemm

FLOATS = model([node("MatMul", "x w", "y")], {"w": np.ones((2, 1), np.float32)}, shape=["n", 2])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.onnx", None, "No such file or directory"),
        ("weights.h5", b"", "weights.h5 is neither .onnx, .nnet nor .tflite"),
        ("empty.onnx", b"", "'empty' is empty (0 bytes)"),
        ("text.onnx", b"no protobuf at all", "'text' is not an ONNX model, or is cut short"),
        ("cut.onnx", FLOATS[: len(FLOATS) // 2], "'cut' is not an ONNX model, or is cut short"),
    ],
)
def test_files_that_are_no_network_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError) as refused:
        importer.bring_in(tmp_path / name)
    assert message in refused.value.message


def test_read_takes_float_networks_only(tmp_path: Path) -> None:
    assert importer.read(saved(tmp_path, FLOATS)).network.layers[0].weight.tolist() == [[1.0], [1.0]]
    path = saved(tmp_path, built(qgemm(1), draw(np.random.default_rng(0), (2, 3))))
    with pytest.raises(RequestError, match=r"'network' is quantised already"):
        importer.read(path)


def test_data_in_another_file_is_read(tmp_path: Path) -> None:
    made = onnx.load_model_from_string(FLOATS)
    onnx.save(made, tmp_path / "apart.onnx", save_as_external_data=True, location="data", size_threshold=0)
    network = importer.read(tmp_path / "apart.onnx").network
    assert network.layers[0].weight.tolist() == [[1.0], [1.0]]
    digest = hashlib.sha256((tmp_path / "data").read_bytes()).hexdigest()
    assert json.loads(network.metadata["source_data_sha256"]) == {"data": digest}


@pytest.mark.parametrize("place", ["absent", "../secret", "/etc/hostname"])
def test_data_outside_the_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret").write_bytes(bytes(8))
    made = onnx.load_model_from_string(FLOATS)
    onnx.external_data_helper.set_external_data(made.graph.initializer[0], place)
    made.graph.initializer[0].ClearField("raw_data")
    with pytest.raises(RequestError, match=r"its data in another file cannot be read"):
        importer.bring_in(saved(tmp_path / "inside", made.SerializeToString()))


def test_data_of_a_constant_node_in_another_file_is_read(tmp_path: Path) -> None:
    made = onnx.load_model_from_string(FLOATS)
    tensor = made.graph.initializer.pop()
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="here")
    tensor.ClearField("raw_data")
    made.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], value=tensor))
    (tmp_path / "here").write_bytes(np.full((2, 1), 3, np.float32).tobytes())
    network = importer.read(saved(tmp_path, made.SerializeToString())).network
    assert network.layers[0].weight.tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("net.h5", "tf2onnx.convert.from_keras"),
        ("net.pt", "torch.onnx.export(model.eval()"),
        ("net.onnx.gz", "gunzip"),
    ],
)
def test_files_of_other_tools_are_refused_with_a_command(tmp_path: Path, name: str, how: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(RequestError) as refused:
        importer.bring_in(tmp_path / name)
    assert how in refused.value.hint


@pytest.mark.parametrize("field", [b"xxxx", b"kkkk", b"vvvv"])
def test_names_that_are_no_text_are_refused(tmp_path: Path, field: bytes) -> None:
    nodes = [onnx.helper.make_node("MatMul", ["xxxx", "w"], ["y"])]
    made = onnx.load_model_from_string(model(nodes, {"w": np.ones((2, 1), np.float32)}, shape=["n", 2]))
    made.graph.input[0].name = "xxxx"
    onnx.helper.set_model_props(made, {"kkkk": "vvvv"})
    damaged = made.SerializeToString().replace(field, b"a\xff\xfea")
    with pytest.raises(RequestError, match=r"'network' is not an ONNX model, or is cut short"):
        importer.bring_in(saved(tmp_path, damaged))


def test_what_onnxruntime_refuses_is_refused(tmp_path: Path) -> None:
    made = onnx.load_model_from_string(FLOATS)
    made.ir_version = 13
    made.opset_import[0].version = 26
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    with pytest.raises(RequestError, match=r"ONNX Runtime refuses model 'network': .*double"):
        importer.bring_in(saved(tmp_path, made.SerializeToString()))
