"""`--stream` from the command line to the evidence: what is compared, what is refused, what is found afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.targets.c.delay import DelayLowering
from tests.integration.cli.test_run import user
from tests.support.cli.command import User
from tests.support.streams import small_stream

__all__ = ["user"]  # fixture

ITEMS = ("--board", "host", "--items", "c,c:vector")
KEYWORDS = (*ITEMS, "--model", "kws_stream_int8", "--stream", "2")


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, ...]:
    """Words for the small stream, of 8 steps."""
    path = tmp_path / "small.onnx"
    onnx.save(onnx.load_model_from_string(small_stream().onnx_bytes), path)
    return (*ITEMS, "--model", str(path), "--stream", "2")


def test_a_keyword_spotter_is_identical_and_its_evidence_holds(user: User) -> None:
    ended = user.here("run", *KEYWORDS, "--vectors", "6", "--json")
    assert ended.code == 0, ended.err
    document, stream = ended.document, ended.document["stream"]
    assert (document["verdict"], document["vectors"]) == ("identical", 6 * 98)
    assert {key: stream[key] for key in ("axis", "pulse", "steps", "window", "windows")} == {
        "axis": 2, "pulse": 2, "steps": 98, "window": 49, "windows": 50,
    }  # fmt: skip
    delays = {layer["name"]: layer["delay"] for layer in stream["layers"]}
    assert {name: delays[name] for name in ("conv_1", "depthwise_3", "pool")} == {
        "conv_1": 1, "depthwise_3": 13, "pool": 48,
    }  # fmt: skip
    assert stream["operations_of_whole"] > 30 * stream["operations"]
    assert stream["history_bytes"] == 20 * 2 + 32 * (4 + 8 + 16 + 19)
    folder = Path(document["run"])
    assert "<h2>Stream</h2>" in (folder / "report.html").read_text()
    checked = user.here("verify", str(folder), "--no-rebuild")
    assert "WRONG" not in checked.out, checked.out
    assert "reference    ok" in checked.out
    request = json.loads((folder / "request.json").read_text())
    request["request"]["pulse"] = 14
    (folder / "request.json").write_text(json.dumps(request))
    forged = user.here("verify", str(folder), "--no-rebuild")
    assert "request.json, stream," in forged.out
    assert forged.code == 1


@pytest.mark.parametrize("model", ["kws_lstm", "kws_gru"])
def test_a_recurrence_is_computed_frame_by_frame(user: User, model: str) -> None:
    ended = user.here("run", *ITEMS, "--model", model, "--stream", "1", "--vectors", "4", "--json")
    assert ended.code == 0, ended.err
    document, stream = ended.document, ended.document["stream"]
    assert (document["verdict"], document["vectors"]) == ("identical", 4 * 25)
    assert (stream["steps"], stream["windows"], stream["pulse"]) == (25, 1, 1)
    assert stream["operations_of_whole"] > 20 * stream["operations"]
    assert stream["history_bytes"] == 4 * 24 * (2 if model == "kws_lstm" else 1)
    checked = user.here("verify", str(document["run"]), "--no-rebuild")
    assert "WRONG" not in checked.out, checked.out


def test_a_plan_of_steps_runs_again_in_whole_streams(user: User, small: tuple[str, ...]) -> None:
    first = user.here("run", *small, "--vectors", "5", "--chunk", "16", "--json").document
    plan = ("--plan", str(Path(first["run"]) / "plan"))
    again = user.here("run", *plan, "--vectors", "16", "--json")
    assert (again.code, again.document["stream"]) == (0, first["stream"])
    for words, number in ((("--vectors", "20"), "20"), (("--vectors", "16", "--chunk", "12"), "12")):
        cut = user.harness("run", *plan, *words)
        assert cut.code == 2
        assert f"{number} steps are not whole streams of small, which have 8" in cut.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stream", "1"), "node 'a' (QLinearConv): QLinearConv computes each channel from the others"),
        (("--stream", "7"), "choose an axis from 1 to 2"),
        (("--stream", "2", "--pulse", "3"), "choose a multiple of 2"),
        (("--stream", "2", "--steps", "7"), "choose 8 to 65,536"),
        (("--stream", "2", "--block", "4"), "--block 4: each execution of small is one step of a stream"),
        (("--stream", "2", "--cover", "0.5"), "--cover searches for vectors one by one"),
        (("--pulse", "2"), "add --stream AXIS, or omit them"),
    ],
)
def test_wrong_requests_end_with_2(user: User, small: tuple[str, ...], words: tuple[str, ...], message: str) -> None:
    ended = user.harness("run", *small[: small.index("--stream")], *words)
    assert ended.code == 2
    assert message in ended.err


def test_a_history_that_is_not_reset_is_found(
    user: User, small: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second stream begins with frames of the first; the diagnosis says so, and no single step fails alone."""
    right = DelayLowering.plain

    def endless(*arguments: object) -> object:
        code = right(*arguments)  # type: ignore[arg-type]
        return code.__class__(**{**vars(code), "forward": code.forward.replace("(execution % 8u)", "execution")})

    monkeypatch.setattr(DelayLowering, "plain", endless)
    document = user.here("run", *small, "--vectors", "30", "--json").document
    assert document["verdict"] == "differs"
    assert document["failing"] is None
    wrong = [layer["name"] for layer in document["layers"] if layer.get("own")]
    assert wrong[0] == "history_a"
    texts = [each["text"] for each in document["diagnoses"]]
    assert any("a stream begins with frames of the one before" in text for text in texts)
    assert document["layers"][1]["first_difference"]["vector"] >= 8


def test_steps_are_measured(user: User, small: tuple[str, ...]) -> None:
    ended = user.harness("measure", *small, "--samples", "100", "--warmup", "3", "--json")
    assert ended.code == 0, ended.err
    folder = Path(ended.document["run"])
    run = json.loads((folder / "run.json").read_text())
    assert (run["outputs"]["differing"], run["measured"]["warmup"] % 8) == (0, 0)
    assert np.load(folder / "readings.npy").shape == (run["measured"]["samples"], 1)
    assert run["measured"]["samples"] % 8 == 0
