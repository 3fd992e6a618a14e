"""The model that lies in the repository, against the table recomputed here and the figures that its page states."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest

from models.acas import report, samples

if TYPE_CHECKING:
    from tests.models.conftest import Solution

MODELS = Path(__file__).parents[2] / "models"
MODEL = MODELS / "acas_coc.onnx"


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(MODEL)


@pytest.fixture(scope="module")
def metadata(model: onnx.ModelProto) -> dict[str, Any]:
    return {entry.key: json.loads(entry.value) for entry in model.metadata_props}


def stated_percentages() -> list[float]:
    (row,) = re.findall(r"^\| `acas_coc\.onnx` \|.*$", (MODELS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [float(figure) for figure in re.findall(r"([\d.]+)%", row)]


def test_layers_have_the_stated_shapes_and_types(model: onnx.ModelProto) -> None:
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    weights = [constants[node.input[3]] for node in model.graph.node if node.op_type == "QGemm"]
    assert [weight.shape for weight in weights] == [(3, 50), *[(50, 50)] * 7, (50, 5)]
    assert {weight.dtype for weight in weights} == {np.dtype(np.int8)}


def test_metadata_say_what_goes_in_and_comes_out(metadata: dict[str, Any], solution: Solution) -> None:
    assert metadata["input_names"] == ["rho", "theta", "psi"]
    assert metadata["input_units"] == ["ft", "rad", "rad"]
    assert metadata["input_mean"] == [28_000.0, 0.0, 0.0]
    assert metadata["input_range"] == pytest.approx([56_000.0, 2 * np.pi, 2 * np.pi])
    assert (metadata["input_box_low"], metadata["input_box_high"]) == ([-0.5] * 3, [0.5] * 3)
    assert metadata["output_names"] == ["COC", "WL", "WR", "SL", "SR"]
    scores = solution.table(previous=0).scores
    assert (metadata["score_mean"], metadata["score_range"]) == pytest.approx((scores.mean(), np.ptp(scores)))
    assert re.fullmatch("[0-9a-f]{64}", metadata["recipe_sha256"])
    assert "COC" in metadata["description"]


def test_figures_on_the_grid_are_the_stated_ones(solution: Solution) -> None:
    grid = samples.grid_samples(solution.table(previous=0))
    measured = report.figures(report.model_scores(MODEL, grid.states), grid)
    agreement, r2, clear_of_conflict, *_ = stated_percentages()
    assert 100 * measured.agreement >= agreement - 0.5
    assert 100 * measured.r2 >= r2 - 0.5
    assert 100 * measured.clear_of_conflict == pytest.approx(clear_of_conflict, abs=0.5)


def test_advisory_is_the_index_of_the_greatest_score(rng: np.random.Generator) -> None:
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    states = rng.uniform(-0.5, 0.5, size=(300, 3)).astype(np.float32)
    scores, advisories = session.run(["scores", "advisory"], {"state": states})
    assert (advisories[:, 0] == scores.argmax(axis=1)).all()
    assert len(np.unique(advisories)) == 5
