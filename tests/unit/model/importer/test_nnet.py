from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model import importer
from harness.model.float_network import forward, to_onnx
from harness.model.importer import FloatImport, nnet
from tests.support.importer.graphs import run

PUBLIC = ROOT.parent / "shared" / "data" / "acasxu"

SMALL = """// A comment, the licence
// and more
2,2,1,3,
2,3,1,
0,
-1.0,0.0,
3.0,10.0,
1.0,5.0,7.5,
2.0,10.0,100.0,
1.0,2.0,
-3.5,4e-1,
0.1,-6,
0.5,
-0.25,
1e1,
1,2,3,
-1.5,
"""


def small(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.nnet"
    path.write_text(text)
    return path


def floats(path: Path) -> FloatImport:
    found = importer.bring_in(path)
    assert isinstance(found, FloatImport)
    return found


def test_a_small_file_is_read_number_by_number(tmp_path: Path) -> None:
    network = floats(small(tmp_path)).network
    first, second = network.layers
    assert first.weight.tolist() == np.float32([[1, -3.5, 0.1], [2, 0.4, -6]]).tolist()
    assert first.bias.tolist() == [0.5, -0.25, 10.0]
    assert (first.relu, second.relu) == (True, False)
    assert second.weight.tolist() == [[1.0], [2.0], [3.0]]
    assert second.bias.tolist() == [-1.5]
    assert (network.name, network.input_name, network.output_name) == ("small", "x", "y")
    assert network.box is not None
    assert network.box.tolist() == [[-1.0, -0.5], [1.0, 0.5]]


def test_its_header_becomes_metadata(tmp_path: Path) -> None:
    found = floats(small(tmp_path)).network
    metadata = {key: json.loads(value) for key, value in found.metadata.items()}
    assert metadata.pop("source_sha256") == hashlib.sha256(SMALL.encode()).hexdigest()
    assert metadata == {
        "description": "A comment, the licence\nand more",
        "input_names": ["x0", "x1"],
        "input_units": ["", ""],
        "input_mean": [1.0, 5.0],
        "input_range": [2.0, 10.0],
        "input_box_low": [-1.0, -0.5],
        "input_box_high": [1.0, 0.5],
        "score_mean": 7.5,
        "score_range": 100.0,
        "source_file": "small.nnet",
    }
    assert found.normalisation is not None
    assert found.normalisation.mean == (1.0, 5.0)


@pytest.mark.parametrize(
    ("line", "text", "message", "expected"),
    [
        (3, "2,2,1,", "line 3: '2,2,1,'", "4 whole numbers of 1 or more: the numbers of layers, inputs, outputs"),
        (3, "2,2,0,3,", "line 3: '2,2,0,3,'", "4 whole numbers of 1 or more"),
        (3, "2,2,1.5,3,", "line 3: '2,2,1.5,3,'", "4 whole numbers of 1 or more"),
        (3, f"{'1' * 5000},2,1,3,", "line 3: '1111", "4 whole numbers of 1 or more"),
        (4, "2,3,4,", "the layer widths [2, 3, 4] contradict 2 inputs and 1 outputs", "the same in both"),
        (6, "-1.0,", "line 6: 1 numbers", "2: the minimum of every input"),
        (7, "3.0,-10.0,", "a minimum above its maximum", "ranges above 0"),
        (8, "1.0,5.0,", "line 8: 2 numbers", "3: the mean of every input, and of the outputs"),
        (9, "2.0,0.0,100.0,", "a range of 0", "ranges above 0"),
        (10, "1.0,2.O,", "line 10: '2.O' is no finite number", "weights of neuron 1 of layer 1"),
        (10, "1.0,1_0,", "line 10: '1_0' is no finite number", "weights of neuron 1 of layer 1"),
        (11, "nan,4e-1,", "line 11: 'nan' is no finite number", "weights of neuron 2 of layer 1"),
        (12, "0.1,-1e999,", "line 12: '-1e999' is no finite number", "weights of neuron 3 of layer 1"),
        (14, "1,2,", "line 14: 2 numbers", "1: the bias of neuron 2 of layer 1"),
        (17, "", "line 17: the file ends", "the bias of neuron 1 of layer 2"),
        (17, "1,\n2,", "line 18: '2,' after the last bias", "the end of the file"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(
    tmp_path: Path, line: int, text: str, message: str, expected: str
) -> None:
    lines = SMALL.splitlines()
    lines[line - 1] = text
    with pytest.raises(RequestError) as refused:
        importer.bring_in(small(tmp_path, "\n".join(lines) + "\n"))
    assert message in refused.value.message
    assert expected in refused.value.hint


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.nnet").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RequestError, match=r"binary.nnet is not text"):
        importer.bring_in(tmp_path / "binary.nnet")


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    assert floats(small(tmp_path, "\ufeff" + SMALL)).network.layers[1].bias.tolist() == [-1.5]


@pytest.mark.parametrize(
    ("before", "after"), [("2.0,10.0,100.0,", "1e-300,10.0,100.0,"), ("1.0,5.0,7.5,", "1e300,5,7,")]
)
def test_bounds_beyond_float32_are_refused(tmp_path: Path, before: str, after: str) -> None:
    with pytest.raises(RequestError, match=r"small.nnet: the normalised bounds of the inputs are \[-?inf, "):
        importer.bring_in(small(tmp_path, SMALL.replace(before, after)))


def test_an_overflow_of_float32_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"'layer_1', 'relu_1': a constant is beyond float32"):
        importer.bring_in(small(tmp_path, SMALL.replace("-3.5,", "-3.5e38,")))


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["ACASXU_run2a_1_1_batch_2000", "ACASXU_run2a_4_1_batch_2000"])
def test_the_public_networks(stem: str) -> None:
    path = PUBLIC / f"{stem}.nnet"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    found = floats(path)
    network = found.network
    assert [layer.weight.shape for layer in network.layers] == [(5, 50), *[(50, 50)] * 5, (50, 5)]
    assert [layer.relu for layer in network.layers] == [True] * 6 + [False]
    assert sum(layer.weight.size + layer.bias.size for layer in network.layers) == 13_305
    assert json.loads(network.metadata["score_mean"]) == 7.5188840201005975
    assert json.loads(network.metadata["score_range"]) == 373.94992
    assert json.loads(network.metadata["input_range"]) == [60261.0, 6.28318530718, 6.28318530718, 1100.0, 1200.0]
    assert "Attribution 4.0" in network.metadata["description"]
    assert network.box is not None
    assert np.round(network.box[:, 0], 4).tolist() == np.float32([-0.3284, 0.6799]).tolist()
    assert found.folded == ()
    assert found.check.difference < 1e-6
    assert found.check.vectors > 100

    exact = _by_hand(nnet.read(path.read_text(), path.name))
    vectors = np.random.default_rng(1).uniform(*network.box, (200, 5)).astype(np.float32)
    (ours,) = run(to_onnx(network).SerializeToString(), vectors)
    assert np.abs(ours - [exact(vector) for vector in vectors]).max() < 1e-6
    assert np.abs(forward(network.layers, vectors) - ours).max() < 1e-6


def _by_hand(found: nnet.NnetFile):  # noqa: ANN202 - a function of a vector
    products = [step for step in found.steps if isinstance(step, nnet.Product)]

    def evaluate(vector: np.ndarray) -> list[float]:
        values = [float(value) for value in vector]
        for number, product in enumerate(products, start=1):
            columns = zip(product.weight.T.tolist(), product.bias.tolist(), strict=True)
            values = [sum(w * v for w, v in zip(row, values, strict=True)) + bias for row, bias in columns]
            values = values if number == len(products) else [max(value, 0.0) for value in values]
        return values

    return evaluate
