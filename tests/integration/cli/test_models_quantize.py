"""`harness models quantize`, from the command line to the model."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from PIL import Image

from harness import model as networks
from harness.cli.models import quantize as command
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.float_network import DenseNetwork, forward, to_onnx
from harness.model.importer import Changes
from harness.model.onnx_runtime.products import exact_session
from harness.model.quantizer import FRESH, drawn
from harness.operators.qlinear_conv import QLinearConv
from harness.reference import OnnxRuntimeReference
from tests.support.cli.command import Ended, User
from tests.support.importer.convolutions import NODES, SHAPE, float_network
from tests.support.quantizer.networks import random_network


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


@pytest.fixture
def floats() -> DenseNetwork:
    return replace(random_network(np.random.default_rng(8), [4, 20, 10, 3]), input_name="state", output_name="scores")


def save(network: DenseNetwork, path: Path, *, with_box: bool = True) -> Path:
    """The network as a float ONNX file, its box in the metadata."""
    assert network.box is not None
    box = dict(zip(("input_box_low", "input_box_high"), (json.dumps(row.tolist()) for row in network.box), strict=True))
    metadata = {"description": json.dumps("a test"), **(box if with_box else {})}
    path.write_bytes(to_onnx(replace(network, metadata=metadata)).SerializeToString())
    return path


def quantize(user: User, file: Path, *options: str) -> Ended:
    """Quantise `file` with few vectors into `made.onnx` of the user's folder."""
    made = str(user.folder / "made.onnx")
    return user.harness("models", "quantize", str(file), "-o", made, "--vectors", "2000", *options)


def test_a_model_is_found_by_its_name(tmp_path: Path, floats: DenseNetwork) -> None:
    """As by its path; an unknown name is told with the nearest."""
    models = tmp_path / "models"
    models.mkdir()
    file = save(floats, models / "floats.onnx")
    (tmp_path / "boards.yaml").touch()
    runner = CliRunner()
    arguments = ["floats", "-o", "named", "--vectors", "2000", "--lab", str(tmp_path)]
    assert runner.invoke(command.command, arguments, catch_exceptions=False).exit_code == 0
    by_path = [str(file), *arguments[1:2], "other", *arguments[3:]]
    assert runner.invoke(command.command, by_path, catch_exceptions=False).exit_code == 0
    assert (models / "named.onnx").read_bytes() == (models / "other.onnx").read_bytes().replace(b"other", b"named")
    with pytest.raises(RequestError, match="unknown model 'float'") as caught:
        runner.invoke(command.command, ["float", *arguments[1:]], catch_exceptions=False)
    assert "did you mean floats?" in caught.value.hint


def test_the_model_is_accepted_named_and_near(user: User, floats: DenseNetwork) -> None:
    file = save(floats, user.folder / "floats.onnx")
    ended = quantize(user, file, "--select", "argmin", "--json")
    assert ended.code == 0, ended.err
    model = networks.load(user.folder / "made.onnx")
    assert [layer.operator for layer in model.layers] == ["QuantizeLinear", "QGemm", "QGemm", "QGemm", "ArgMin"]
    assert [layer.output.name for layer in model.layers[-2:]] == ["scores", "selected"]
    assert model.vector.name == "state"
    assert np.array_equal(model.box, floats.box)
    assert json.loads(model.metadata["description"]) == "a test"
    assert json.loads(model.metadata["source_file"]) == "floats.onnx"
    assert json.loads(model.metadata["source_sha256"]) == hashlib.sha256(file.read_bytes()).hexdigest()
    vectors = np.concatenate(list(drawn(floats.box, 1000, 99, FRESH)))
    scores = OnnxRuntimeReference(model).activations(vectors)[-2]
    assert np.abs(scores - forward(floats.layers, vectors)).max() < 0.1
    assert {path.name for path in user.folder.iterdir()} == {"floats.onnx", "made.onnx"}


def test_the_document_says_what_was_chosen_and_found(user: User, floats: DenseNetwork) -> None:
    file = save(floats, user.folder / "floats.onnx")
    document = quantize(user, file, "--select", "argmax", "--weights", "uint8", "--json").document
    model = networks.load(user.folder / "made.onnx")
    chosen = {
        "weights": "uint8", "ranges": "calibration", "vectors": 2000, "seed": 1, "equalize": False, "residual": 1,
        "scores": "float32", "select": "argmax",
    }  # fmt: skip
    assert document["quantisation"] == json.loads(model.metadata["quantisation"]) == chosen
    file_made = str(user.folder / "made.onnx")
    assert (document["model"], document["file"], document["sha256"]) == ("made", file_made, model.sha256)
    layers = {layer["name"]: layer for layer in document["layers"]}
    assert list(layers) == ["quantize_input", "dense_1", "dense_2", "dense_3"]
    assert (layers["dense_2"]["inputs"], layers["dense_2"]["outputs"]) == (20, 10)
    assert layers["quantize_input"]["weight_scales"] is None
    assert layers["dense_1"]["range"][0] == 0
    assert layers["dense_1"]["codes_used"] > 0.75
    assert 0 < layers["dense_1"]["saturated"] < 0.01
    assert layers["dense_3"]["range"] is None
    near = document["agreement"]
    assert near["vectors"] == 20000
    assert near["selected"] > 0.9
    assert near["r2"] > 0.99
    assert 0 < near["difference_max"] < 0.1


def test_residual_bounds_and_uint8_scores_go_together(user: User, floats: DenseNetwork) -> None:
    file = save(floats, user.folder / "floats.onnx")
    options = ("--residual", "2", "--ranges", "bounds", "--scores", "uint8")
    document = quantize(user, file, *options, "--json").document
    model = networks.load(user.folder / "made.onnx")
    assert [layer.node for layer in model.layers][-4:] == [
        "dense_3_term_2",
        "dense_3_sum_2",
        "dense_3_quantize",
        "dequantize_output",
    ]
    assert document["agreement"]["selected"] is None
    assert document["layers"][-1]["range"] is not None
    assert {layer["saturated"] for layer in document["layers"][2:]} == {0}  # bounds hold


def test_bounds_that_leave_codes_idle_are_noted(user: User) -> None:
    deep = random_network(np.random.default_rng(1), [4, 30, 30, 30, 30, 3])
    ended = quantize(user, save(deep, user.folder / "floats.onnx"), "--ranges", "bounds")
    assert ended.code == 0, ended.err
    assert "note: the bounds of dense_4 are far wider than the observed ranges; use --ranges calibration" in ended.err


def test_a_person_reads_a_table_and_how_near_it_is(user: User, floats: DenseNetwork) -> None:
    floats.layers[0].bias[:] = -10
    ended = quantize(user, save(floats, user.folder / "floats.onnx"), "--select", "argmax")
    assert ended.code == 0, ended.err
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["layer", "shape", "weight", "scale", "range", "codes", "used", "saturated"] in lines
    assert ["dense_1", "4", "->", "20"] in [line[:4] for line in lines]
    assert "Compared with the float network on 20,000 new vectors of the box: the same argmax 100.00%" in ended.out
    assert "note: dense_1 is 0 for every vector; its codes span 0 to 1" in ended.err


def test_equal_requests_give_equal_bytes(user: User, floats: DenseNetwork) -> None:
    file = save(floats, user.folder / "floats.onnx")
    made = user.folder / "made.onnx"
    assert quantize(user, file).code == 0
    first = made.read_bytes()
    assert quantize(user, file).code == 2  # it is there
    assert quantize(user, file, "--force").code == 0
    assert made.read_bytes() == first


def test_the_box_of_the_request_goes_before_the_file(user: User, floats: DenseNetwork) -> None:
    file = save(floats, user.folder / "floats.onnx", with_box=False)
    ended = quantize(user, file)
    assert ended.code == 2
    assert "does not say between which bounds its inputs lie" in ended.err
    assert "--box LOW:HIGH, or one pair for each of the 4 inputs" in ended.err
    assert quantize(user, file, "--box", "-0.5:0.25").code == 0
    assert networks.load(user.folder / "made.onnx").box.tolist() == [[-0.5] * 4, [0.25] * 4]
    file = save(floats, user.folder / "floats.onnx")
    assert quantize(user, file, "--box", "-1:0,0:1,0:0,-2:3", "--force").code == 0
    assert networks.load(user.folder / "made.onnx").box.tolist() == [[-1, 0, 0, -2], [0, 1, 0, 3]]


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ("1", "--box '1' is not a box"),
        ("1:2:3", "--box '1:2:3' is not a box"),
        ("a:b", "--box 'a:b' is not a box"),
        ("0:1,0:1", "--box has 2 pairs, the network 4 inputs"),
        ("1:0", "the box of input 0 is 1.0:0.0"),
        ("0:1e99", "the box of input 0 is 0.0:inf"),
    ],
)
def test_a_box_that_is_none_is_refused(tmp_path: Path, floats: DenseNetwork, box: str, message: str) -> None:
    file = save(floats, tmp_path / "floats.onnx")
    with pytest.raises(RequestError, match=re.escape(message)):
        command.quantize(file, tmp_path / "made.onnx", box, {}, Changes(), Console.open(as_json=True))
    assert not (tmp_path / "made.onnx").exists()


def test_a_quantised_model_and_one_with_nan_are_refused(user: User, floats: DenseNetwork) -> None:
    ended = quantize(user, ROOT / "models" / "acas_coc.onnx")
    assert ended.code == 2
    assert "quantised" in ended.err
    floats.layers[1].weight[3, 2] = np.nan
    ended = quantize(user, save(floats, user.folder / "floats.onnx"))
    assert ended.code == 2
    assert "nan" in ended.err
    assert "dense_2" in ended.err
    assert not (user.folder / "made.onnx").exists()


def test_a_folder_that_cannot_be_written_is_named(user: User, floats: DenseNetwork) -> None:
    file = save(floats, user.folder / "floats.onnx")
    (user.folder / "made.onnx").mkdir()
    ended = quantize(user, file, "--force")
    assert ended.code == 2
    assert f"cannot write {user.folder / 'made.onnx'}" in ended.err
    assert {path.name for path in user.folder.iterdir()} == {"floats.onnx", "made.onnx"}


class Convolutional:
    """A convolutional float network with calibration vectors, test vectors and their classes, as files."""

    def __init__(self, folder: Path, network: str) -> None:
        random = np.random.default_rng(0)
        self.file = folder / "float.onnx"
        self.file.write_bytes(float_network(network))
        self.vectors = random.uniform(-1, 1, (40, *SHAPE)).astype(np.float32)
        self.data, self.test, self.labels = (folder / f"{name}.npy" for name in ("data", "test", "labels"))
        np.save(self.data, random.uniform(-1, 1, (60, *SHAPE)).astype(np.float32))
        np.save(self.test, self.vectors)
        np.save(self.labels, self.scores(self.file.read_bytes()).argmax(axis=1))

    def scores(self, onnx_bytes: bytes) -> npt.NDArray[np.float32]:
        session = exact_session(onnx_bytes, "given", 1, 1)
        return np.concatenate([session.run(["y"], {"x": image[None]})[0] for image in self.vectors])


@pytest.mark.parametrize("codes", ["int8", "uint8"])
@pytest.mark.parametrize("network", NODES)
def test_a_convolutional_network_is_quantised_with_data(user: User, network: str, codes: str) -> None:
    given = Convolutional(user.folder, network)
    made = user.folder / "made.onnx"
    ended = user.harness(
        *("models", "quantize", str(given.file), "-o", str(made), "--data", str(given.data), "--codes", codes),
        *("--test", str(given.test), "--labels", str(given.labels), "--json"),
    )
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    model = networks.load(made)
    scores = given.scores(model.onnx_bytes)
    right = float(np.mean(scores.argmax(axis=1) == np.load(given.labels)))
    assert document["accuracy"] == [1.0, right]
    assert right > 0.8
    assert document["agreement"]["r2"] > 0.95
    assert document["agreement"]["difference_max"] == float(
        np.abs(scores.astype(np.float64) - given.scores(given.file.read_bytes())).max()
    )
    assert {str(layer.dtype) for layer in model.layers[:-1]} == {codes}
    assert next(layer.per_column for layer in model.layers if isinstance(layer, QLinearConv))
    assert json.loads(model.metadata["source_sha256"]) == hashlib.sha256(given.file.read_bytes()).hexdigest()
    assert json.loads(model.metadata["quantisation"])["calibration_vectors"] == 60


def test_a_folder_of_images_calibrates_and_its_subfolders_are_classes(user: User) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3)).astype(np.uint8)
    file, folder, made = user.folder / "float.onnx", user.folder / "images", user.folder / "made.onnx"
    file.write_bytes(float_network("residual"))
    session = onnxruntime.InferenceSession(file)
    images = (pixels.transpose(0, 3, 1, 2) / 127.5 - 1).astype(np.float32)
    classes = [int(session.run(["y"], {"x": image[None]})[0].argmax()) for image in images]
    for number, (image, label) in enumerate(zip(pixels, classes, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / str(label) / f"{number}.png")
    options = ("--data", str(folder), "--pixels=-1:1", "--json")
    ended = user.harness("models", "quantize", str(file), "-o", str(made), *options)
    assert ended.code == 0, ended.err
    right, quantised = ended.document["accuracy"]
    assert right == 1
    assert quantised > 0.8
    assert any(note.startswith(f"40 images of {folder}: RGB, 0 to 255 as -1 to 1") for note in ended.document["notes"])
    (folder / str(classes[0])).rename(folder / "5")
    refused = user.harness("models", "quantize", str(file), "-o", str(made), *options, "--force")
    assert refused.code == 2
    assert f"{folder}: classes " in refused.err
    assert "to 5, the network has 5 scores" in refused.err
    again = ("models", "quantize", str(file), "-o", str(made), "--force")
    assert "--pixels '1:1' is no pair" in user.harness(*again, "--data", str(folder), "--pixels=1:1").err
    assert "--pixels is for a folder of images" in user.harness(*again, "--pixels=0:255").err


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.zeros((4, 3, 8, 7), np.float32), (), "float32 of shape (4, 3, 8, 7)"),
        (np.zeros((4, 192)), (), "float64 of shape (4, 192)"),
        (np.full((4, 192), np.nan, np.float32), (), "NaN or infinite values"),
        (np.zeros((4, 192), np.float32), ("--equalize",), "--data cannot be combined with --equalize"),
        (np.zeros((4, 192), np.float32), ("--weights", "uint8"), "--data cannot be combined with --weights uint8"),
        (np.zeros((4, 192), np.float32), ("--labels", "data.npy"), "float32 of shape (4, 192)"),
    ],
)
def test_bad_data_and_options_are_refused(
    user: User, array: npt.NDArray[Any], options: tuple[str, ...], message: str
) -> None:
    file, data = user.folder / "float.onnx", user.folder / "data.npy"
    file.write_bytes(float_network("residual"))
    np.save(data, array)
    options = tuple(str(data) if option == "data.npy" else option for option in options)
    ended = quantize_with(user, file, "--data", str(data), *options)
    assert ended.code == 2
    assert message in ended.err
    assert not (user.folder / "made.onnx").exists()


def quantize_with(user: User, file: Path, *options: str) -> Ended:
    return user.harness("models", "quantize", str(file), "-o", str(user.folder / "made.onnx"), *options)


def test_without_data_a_convolutional_network_is_refused_with_the_command(user: User) -> None:
    file = user.folder / "float.onnx"
    file.write_bytes(float_network("residual"))
    ended = quantize_with(user, file)
    assert ended.code == 2
    assert f"harness models quantize {file} --data VECTORS.npy -o NAME" in ended.err


def test_weights_that_are_no_numbers_are_refused(user: User) -> None:
    model = onnx.load_model_from_string(float_network("residual"))
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w2")
    weight.CopyFrom(numpy_helper.from_array(np.full((4, 1, 3, 3), np.nan, np.float32), "w2"))
    file, data = user.folder / "float.onnx", user.folder / "data.npy"
    onnx.save(model, file)
    np.save(data, np.zeros((4, 192), np.float32))
    ended = quantize_with(user, file, "--data", str(data))
    assert ended.code == 2
    assert "'w2' has NaN or infinite values" in ended.err
