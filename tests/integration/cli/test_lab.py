"""The Python interface."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import harness
from harness import Lab
from harness.core.installation import ROOT
from tests.support import builders

VECTORS = 500


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(ROOT, runs=tmp_path / "runs")


def test_the_example_of_the_page_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    program, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    shown = re.findall(r"(?m)^    (.*)$", page.partition("```\n\n")[2].partition("\n\n")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_LAB", str(ROOT))
    program = program.replace('Lab(".")', f'Lab(runs="{tmp_path}/runs")')
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "python.md", "exec"), {})  # noqa: S102 - the program of the page
    assert out.getvalue().splitlines()[: len(shown) - 1] == shown[:-1]


def test_a_run_has_the_activations_of_all_layers(lab: Lab) -> None:
    run = lab.run("host", "acas_coc", vectors=VECTORS, chunk=200, trace=0)
    assert (run.verdict, run.folder.name, run.board_kind) == ("identical", lab.runs[0], "this machine")
    assert run.reason == "all 205,500 activations of 11 layers over 500 vectors are bit for bit those of the reference"
    assert run.stimuli.shape == (VECTORS, 5)
    layer = run.layers["dense_1"]
    assert (layer.name, layer.differing, layer.first_difference, layer.entry.operator) == ("dense_1", 0, None, "QGemm")
    assert (layer.target.shape, layer.target.dtype) == ((VECTORS, 50), np.uint8)
    assert np.array_equal(layer.target, layer.reference)
    assert [*run.layers][::10] == ["quantize_input", "select_advisory"]
    again = lab.load()
    assert (again.document, again.folder) == (run.document, run.folder)
    assert again.report.is_file()


def test_vectors_are_an_array(lab: Lab) -> None:
    vectors = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 1, 5)
    run = lab.run("host", "acas_coc", vectors=vectors, trace=0)
    assert run.verdict == "identical"
    assert np.array_equal(run.stimuli, vectors.reshape(3, 5))


def test_a_changed_dump_is_read_as_it_is_on_disk(lab: Lab) -> None:
    run = lab.run("host", "acas_coc", vectors=VECTORS, trace=0)
    dump = run.folder / "target" / "00000" / "01_dense_1.npy"
    values = np.load(dump)
    values[7, 3] ^= 1
    np.save(dump, values)
    layer = lab.load(run.folder.name).layers["dense_1"]
    assert np.argwhere(layer.target != layer.reference).tolist() == [[7, 3]]


def test_activations_that_stayed_on_the_board_are_asked_for(lab: Lab) -> None:
    run = lab.run("host", "acas_coc", vectors=VECTORS, trace=0, fetch="mismatch")
    with pytest.raises(harness.RequestError, match="for 0 of 1 chunks") as caught:
        _ = run.layers["dense_1"].target
    assert caught.value.hint == 'run with fetch="all" to keep all activations'


def test_a_measurement_has_its_readings(lab: Lab) -> None:
    run = lab.measure("host", "acas_coc", samples=1000, items=("c", "c"))
    assert (run.verdict, run.readings.shape, run.readings.dtype) == ("measured", (1000, 1), np.uint64)
    assert dict(run.layers) == {}


@pytest.mark.usefixtures("small_proof")
def test_a_proof_is_a_run(lab: Lab, tmp_path: Path) -> None:
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), tmp_path / "small.onnx")
    run = lab.prove("host", str(tmp_path / "small.onnx"), vectors=100, floats="thresholds", trace=0)
    assert (run.verdict, run.document["proof"]["holds"]) == ("identical", True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"board": "hst"}, "unknown board 'hst'"),
        ({"model": "acas"}, "unknown model 'acas'"),
        ({"board": ""}, "unknown board ''"),
        ({"fetch": "none"}, "fetch 'none': input should be 'all' or 'mismatch'"),
        ({"seed": -1}, "seed -1: input should be greater than or equal to 0"),
        ({"items": "c,c"}, "items 'c,c': input should be a valid tuple"),
        ({"vectrs": 5}, "vectrs 5: unexpected keyword argument"),
        ({"vectors": -5}, "--vectors"),
        ({"vectors": np.zeros((3, 5))}, "array.npy: <f8, not float32"),
        ({"vectors": np.zeros((3, 4), np.float32)}, "array.npy: shape (3, 4)"),
        ({"vectors": np.array([[None] * 5])}, "vectors: an array of object, not float32"),
    ],
)
def test_an_invalid_request_is_a_request_error(lab: Lab, options: dict[str, object], message: str) -> None:
    with pytest.raises(harness.RequestError, match=re.escape(message)):
        lab.run(**({"board": "host", "model": "acas_coc"} | options))  # type: ignore[arg-type]


def test_a_board_that_cannot_be_reached_leaves_a_run_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_XAVIER_HOST", "127.0.0.1:1")
    lab = Lab(ROOT, runs=tmp_path / "runs")
    with pytest.raises(harness.InfrastructureError) as caught:
        lab.run("xavier", "acas_coc", vectors=10, items=("c", "c"))
    assert caught.value.run == tmp_path / "runs" / lab.runs[0]
    with pytest.raises(harness.RequestError, match="the run is not finished"):
        lab.load()
    with pytest.raises(harness.InfrastructureError):
        lab.resume()


def test_the_names_of_a_lab(lab: Lab) -> None:
    processors = ["cortex-r5", "cortex-m4", "cortex-m7", "stm32f405", "cortex-m33", "cortex-m55"]
    assert lab.boards == ["tda4vm", "xavier", "kv260", "host", "local-gpu", *processors]
    assert lab.models == [
        *("acas_coc", "acas_decr128", "acas_decr256", "acas_reg100", "acas_reg200", "acas_reg50"),
        *("acas_sl", "acas_sr", "acas_wl", "acas_wr", "autoencoder_int8", "cifarnet", "ds_cnn_int8"),
        *("efficientnet_lite_tiny", "forest_tiny", "kws_causal_int8", "kws_gru", "kws_lstm", "kws_stream_int8"),
        *("lenet5", "lenet5_int8", "mobilenet_int8", "mobilenet_v3_tiny", "resnet8_int8", "text_tiny", "unet_tiny"),
        *("vit_tiny", "vit_tiny_int8", "yolo_nms_tiny", "yolo_tiny"),
    ]
    assert lab.runs == []


def test_progress_is_printed_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Lab(ROOT, runs=tmp_path).run("host", "acas_coc", vectors=10, trace=0)
    assert capsys.readouterr() == ("", "")
    Lab(ROOT, runs=tmp_path, progress=True).run("host", "acas_coc", vectors=10, trace=0)
    told = capsys.readouterr()
    assert (told.out, "verdict: identical" in told.err) == ("", True)


def test_importing_the_package_alone_is_cheap() -> None:
    program = "import sys, harness; print({'numpy', 'click', 'pydantic'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    with pytest.raises(AttributeError):
        _ = harness.nothing
