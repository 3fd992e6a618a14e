"""`harness models import` and `harness run` of what PyTorch, tf2onnx, scikit-learn and ONNX Runtime export."""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime.quantization
import pytest

from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model import load
from tests.support import exports
from tests.support.cli.command import User, without_optimisations
from tests.support.examples import in_test

QUANTISED = [
    *(("lenet_flatten", mode) for mode in exports.MODES),
    *((name, "qdq_u8s8") for name in ("mlp", "resnet", "mobilenet_v3", "unet", "batch_norm_first", "shufflenet")),
    *((name, "qop_u8u8") for name in ("mobilenet_v2", "densenet", "squeezenet", "tcn", "inception", "efficientnet")),
    *((name, "qdq_s8s8_per_channel") for name in ("keyword", "cnn_1d", "unet_resize", "mobilenet_v2")),
]
EXPORTS = [*exports.NAMES, *(f"{name}/{mode}" for name, mode in QUANTISED)]
REFUSED: Mapping[str, str] = {
    "sklearn/minmax_mlp_classifier": "ai.onnx.ml.ArrayFeatureExtractor",
    "sklearn/mlp_classifier": "ai.onnx.ml.ArrayFeatureExtractor",
}
"""Exports that are refused, and the operator that the message names."""
IN_EVERY_SESSION = {
    "sklearn/mlp_regressor",
    "tf2onnx/mobilenet_11",
    "tf2onnx/separable_11",
    "torch_dynamo/attention",
    "torch_dynamo/densenet",
    "torch_dynamo/lenet_view",
    "torch_dynamo/lstm",
    "torch_dynamo/tcn",
    "torch_dynamo/two_inputs",
    "torch_legacy/mobilenet_v2",
    "torch_legacy/unet",
    "lenet_flatten/qdq_u8s8_reduced",
    "resnet/qdq_u8s8",
    "tcn/qop_u8u8",
    "keyword/qdq_s8s8_per_channel",
}
"""Exports that `make test` also runs: a program of each is compiled."""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    return without_optimisations(tmp_path_factory.mktemp("exports"), cache)


def write(name: str, path: Path) -> None:
    """Write an export, or the quantised form of one."""
    exporter, _, mode = name.partition("/")
    if mode in exports.MODES:
        exports.write_quantised(f"torch_legacy/{exporter}", mode, path)
    else:
        onnx.save(exports.model(name), path)


def imported(user: User, name: str) -> Path:
    """Return the file that `harness models import` makes of an export; raise RequestError if it refuses."""
    path = user.folder / f"{name.replace('/', '-')}.onnx"
    if not path.exists():
        write(name, path)
    new = path.with_suffix(".imported.onnx")
    user.here("models", "import", str(path), "-o", str(new), "--force")
    return new


ACCEPTED = [name for name in EXPORTS if name not in REFUSED]


@pytest.mark.parametrize("name", in_test(ACCEPTED, set(ACCEPTED[::4]) - IN_EVERY_SESSION))
def test_an_export_is_imported(user: User, name: str) -> None:
    network = load(imported(user, name))
    assert network.layers


@pytest.mark.parametrize("name", REFUSED)
def test_an_export_is_refused_for_the_stated_reason(user: User, name: str) -> None:
    with pytest.raises(RequestError) as refused:
        imported(user, name)
    assert REFUSED[name] in refused.value.message + refused.value.hint


def test_nine_of_ten_exports_are_imported() -> None:
    assert len(EXPORTS) >= 60
    assert len(REFUSED) <= len(EXPORTS) / 10


@pytest.mark.parametrize("name", in_test(ACCEPTED, IN_EVERY_SESSION))
def test_an_imported_export_runs_identical(user: User, name: str) -> None:
    new = imported(user, name)
    ran = user.harness("run", "--board", "host", "--model", str(new), "--vectors", "5", "--trace", "0", "--json")
    assert ran.document["verdict"] == "identical", ran.err
    assert ran.code == 0


def test_the_first_lines_of_the_page_lead_to_a_verdict(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute the lines of docs/bring-a-network.md; the export is a stored one of PyTorch, which is not installed."""
    page = (ROOT / "docs" / "bring-a-network.md").read_text()
    block, after = page.partition("```python\n")[2].split("```\n", 1)
    commands = after.strip().splitlines()[0]
    first, *lines = block.splitlines()
    assert first.startswith("torch.onnx.export(")
    folder = user.folder / "page"
    folder.mkdir()
    (user.folder / "models").mkdir()
    monkeypatch.chdir(folder)
    onnx.save(exports.model("torch_dynamo/lenet_flatten"), "net.onnx")
    images = np.random.default_rng(0).normal(0, 1, (8, 1, 16, 16)).astype(np.float32)
    exec("\n".join(lines), {"images": images, "types": types, "onnxruntime": onnxruntime})  # noqa: S102 - of the page
    importing, running = (command.split()[1:] for command in commands.split("&&"))
    user.here(*importing)
    ran = user.harness(*running, "--vectors", "5", "--trace", "0", "--json")
    assert (ran.code, ran.document["verdict"]) == (0, "identical"), ran.err
