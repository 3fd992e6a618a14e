"""The benchmarks can be run: they build on the kernels as they are, contenders agree.  No time is asserted."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.core.installation import ROOT


def run(cache: Path, script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments, "--json"]
    environment = os.environ | {"HARNESS_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_one_inference(cache: Path) -> None:
    core = str(max(os.sched_getaffinity(0)))
    results = run(cache, "inference.py", "--shape", "5-6-4", "--passes", "1", "--core", core)["results"]
    assert [result["weights"] for result in results] == ["int8", "uint8"]


@pytest.mark.campaign
def test_convolutional_networks(cache: Path) -> None:
    core = str(max(os.sched_getaffinity(0)))
    found = run(cache, "convolution.py", "--networks", "lenet5_int8,ds_cnn", "--passes", "1", "--core", core)
    made = [(result["network"], result["activations"]) for result in found["results"]]
    assert made == [(name, codes) for name in ("lenet5_int8", "ds_cnn") for codes in ("uint8", "int8")]


@pytest.mark.campaign
def test_kernels(cache: Path) -> None:
    layers = run(cache, "kernels.py")["layers"]
    assert len(layers) == 13
    assert all(layer["plain_ns"] > 0 and layer["kernel_ns"] > 0 for layer in layers)


@pytest.mark.campaign
def test_decisions(cache: Path) -> None:
    found = run(cache, "decide.py", "--boxes", "1")["code_vectors_per_s"]
    assert len(found) == 4
    assert all(speed > 0 for speed in found.values())


@pytest.mark.campaign
def test_a_split(cache: Path) -> None:
    found = run(cache, "split.py", "--shape", "5-6-4", "--blocks", "1000", "--rounds", "1")
    ways = ["one core", "parallel layers, barriers", "parallel layers, flags", "pipeline of two stages"]
    assert [result["name"] for result in found["results"]] == ways
    assert [crossing["sync"] for crossing in found["crossings"]] == ["barrier", "flag"]


GPU = ("gpu.py", "--shape", "5-6-4", "--vectors", "70", "--launches", "2", "--executions", "20", "--compilations", "1",
       "--wait", "spin")  # fmt: skip


@pytest.fixture(scope="module")
def simulated(cache: Path) -> dict[str, Any]:
    return run(cache, *GPU, "--simulated")


@pytest.mark.campaign
def test_a_simulated_gpu_is_marked_and_meets_no_target(simulated: dict[str, Any]) -> None:
    assert [each["kernels"] for each in simulated["built"]] == ["fused", "layerwise", "tensor"]
    assert simulated["gpu"]["name"] == "host-simulation of CUDA"
    times = simulated["launches"] + simulated["one_vector"]
    assert len(times) == 3 + 3
    assert all(each["simulated"] and each["median_us"] > 0 for each in times)
    assert all(each["bounds_us"] == {} and each["over_bound"] is None for each in simulated["launches"])
    assert simulated["targets"][-1].endswith(": not measured, this is host-simulation of CUDA")


@pytest.mark.campaign
@pytest.mark.usefixtures("simulated")
def test_a_simulation_in_the_place_of_the_driver_is_no_gpu(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = next(cache.glob("bundles/*/stand-in/libcuda.so.1"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in.parent))
    found = run(cache, *GPU)
    assert found["no_gpu_time_because"].startswith("libcuda.so.1 is a host-simulation of CUDA")
    assert (found["gpu"], found["launches"], found["one_vector"]) == (None, [], [])
    assert not any("GPU time" in target for target in found["targets"])
    assert all(each["bundle_bytes"] > 10_000 and each["compile_one_s"] > 0 for each in found["built"])


FAKE_WORKER = """
import json, sys
import numpy
folder, manner = sys.argv[1:]
if manner == "silent": sys.exit("Error: no voice")
if manner == "nonsense": print("hello", flush=True)
computes = "witchcraft" if manner == "witch" else "model"
print(json.dumps({"version": "0", "computes": computes}), flush=True)
for line in sys.stdin:
    command, argument = line.split()
    if command == "outputs":
        width = 9 if manner == "wide" else 4
        numpy.save(argument, numpy.zeros((4096, width), "f4"))
        print(argument, flush=True)
"""

PEERS = ("run_peers.py", "--shape", "5-6-4", "--targets", "c", "--rounds", "3", "--block", "20")


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in found["results"]}


@pytest.mark.campaign
def test_peers(cache: Path, tmp_path: Path) -> None:
    picture = tmp_path / "peers.svg"
    found = run(
        cache, *PEERS, "--only", "harness", "--only", "onnxruntime", "--only", "naive", "--picture", str(picture)
    )
    measured = rows(found)
    assert set(measured) == {"harness, c", "onnxruntime, QGemm", "onnxruntime, float", "naive C, -O2"}
    assert all(row["times"]["calls"] == 60 and row["times"]["minimum_ns"] > 0 for row in measured.values())
    exact = {name for name, row in measured.items() if row["outputs"] == "the model's, bit for bit"}
    assert exact == set(measured) - {"onnxruntime, float"}
    assert measured["harness, c"]["ratio"] == measured["harness, c"]["median_ratio"] == 1
    texts = [element.text for element in ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - ours
    assert set(measured) <= set(texts)


@pytest.mark.campaign
def test_peers_of_a_float_network(cache: Path, tmp_path: Path) -> None:
    few = ("--targets", "c:vector", "--rounds", "2", "--only", "harness", "--only", "onnxruntime")
    found = run(cache, "run_peers.py", "--network", "lenet5", *few)
    measured = rows(found)
    assert set(measured) == {"harness, c:vector", "onnxruntime, float"}
    assert measured["harness, c:vector"]["outputs"] == "the model's, bit for bit"
    assert re.fullmatch(r"float's to \de-0[678]", measured["onnxruntime, float"]["outputs"])
    products = 24 * 24 * 6 * 25 + 8 * 8 * 16 * 150 + 256 * 120 + 120 * 84 + 84 * 10
    weights = 4 * (6 * 25 + 16 * 150 + 256 * 120 + 120 * 84 + 84 * 10)
    assert (found["multiply_adds"], found["weight_bytes"]) == (products, weights)
    assert measured["harness, c:vector"]["times"]["calls"] == 2 * (100_000_000 // products)
    assert [bound["name"] for bound in found["bounds"]] == [
        f"{products:,} multiply-adds", f"{products:,} contracted multiply-adds", f"{weights:,} bytes of weights",
    ]  # fmt: skip
    document, picture = tmp_path / "lenet5.json", tmp_path / "roofline.svg"
    document.write_text(json.dumps(found))
    script = [sys.executable, str(ROOT / "benchmarks/roofline.py"), str(document), "--picture", str(picture)]
    subprocess.run(script, check=True, timeout=60)
    drawn = ET.parse(picture)  # noqa: S314 - ours
    dots = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("class", "").endswith(" dot")]
    assert len(dots) == len(measured)
    assert "lenet5" in [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.campaign
def test_a_peer_that_cannot_be_measured_is_a_row_that_says_why(cache: Path, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(FAKE_WORKER)
    manners = ("silent", "nonsense", "witch", "wide", "wrong")
    own = [f"--worker={manner}={sys.executable} {worker} {{folder}} {manner}" for manner in manners]
    only = [f"--only={name}" for name in (*manners, "LiteRT", "absent")]
    found = rows(run(cache, *PEERS, *only, "--python", f"litert={sys.executable}", *own, "--worker=absent=/no/worker"))
    assert all(row["times"] is None and row["ratio"] is None for row in found.values())
    assert {name: row["failure"] for name, row in found.items()} == {
        "LiteRT/XNNPACK, int8": "not installed: pip install ai-edge-litert",
        "LiteRT/XNNPACK, float": "not installed: pip install ai-edge-litert",
        "silent": "failed: Error: no voice (exit status 1)",
        "nonsense": "failed: introduced itself with 'hello'",
        "witch": "failed: computes 'witchcraft', which is none of model, int8, float",
        "wide": "failed: its outputs are float32 (4096, 9), not finite float32 (4096, 4)",
        "wrong": found["wrong"]["failure"],
        "absent": "failed: /no/worker: No such file or directory",
    }
    assert re.fullmatch(r"failed: [\d,]+ of 16,384 outputs are not the model's; it was not timed",
                        found["wrong"]["failure"])  # fmt: skip


def test_of_ours_none_is_left_out_silently(cache: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks/run_peers.py"), "--shape", "5-6-4", "--targets", "d", "--json"]
    environment = os.environ | {"HARNESS_CACHE": str(cache)}
    done = subprocess.run(
        [*command, "--only", "harness"], env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 1, done.stderr
    assert rows(json.loads(done.stdout))["harness, d"]["failure"].startswith("failed: unknown target 'd'; ")


@pytest.fixture
def contest(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("peers.schedule")


def test_outputs_are_judged_before_anything_is_timed(contest: Any, tmp_path: Path) -> None:
    case_of, failed = sys.modules["peers.case"], sys.modules["peers.worker"].Failed
    case = case_of.make((5, 6, 4), tmp_path)
    assert contest.judge(case, "model", case.exact) == "the model's, bit for bit"
    one_bit = case.exact.copy()
    one_bit.view(np.uint32)[-1, -1] ^= 1
    with pytest.raises(failed, match="1 of 16,384 outputs are not the model's"):
        contest.judge(case, "model", one_bit)
    assert contest.judge(case, "int8", one_bit) == "16,383 of 16,384 are the model's"
    assert contest.judge(case, "float", case.real.astype(np.float32)).startswith("float's to ")
    wrong = (("float", case.exact, "float network"), ("int8", case.exact[::-1].copy(), "model"))
    for computes, outputs, right in wrong:
        with pytest.raises(failed, match=f"are off those of the {right}"):
            contest.judge(case, computes, outputs)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["lenet5_int8", "resnet8"])
def test_ours_computes_a_convolutional_network(contest: Any, name: str, tmp_path: Path) -> None:
    shop = importlib.import_module("run_peers").workshop("", name, tmp_path, {})
    ours = sys.modules["peers.competitors"].roster(["c:vector"], {})[:1]
    (row,) = contest.compare(ours, shop, max(os.sched_getaffinity(0)), rounds=1, block=5)
    assert row.outputs == "the model's, bit for bit", row.failure


def test_ours_is_refused_for_one_bit(contest: Any, tmp_path: Path) -> None:
    shop = importlib.import_module("run_peers").workshop("5-6-4", None, tmp_path, {})
    shop.case.exact.view(np.uint32)[2, 1] ^= 1
    ours = sys.modules["peers.competitors"].roster(["c"], {})[:1]
    (row,) = contest.compare(ours, shop, max(os.sched_getaffinity(0)), rounds=1, block=5)
    assert row.failure == "failed: 1 of 16,384 outputs are not the model's; it was not timed"
    assert (row.times, row.computes, row.outputs) == (None, "model", "")


@pytest.mark.usefixtures("contest")
def test_two_contenders_of_one_name_are_refused() -> None:
    with pytest.raises(RequestError, match="2 contenders are called 'harness, c'"):
        sys.modules["peers.competitors"].roster(["c", "c"], {})


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('1 2')", "answered go 3 with 2 times"),
        ("print('1 x 3')", "answered go with '1 x 3'"),
        ("print('1 0 3')", "answered go 3 with 3 times"),
        ("raise SystemExit(7)", r"not a word \(exit status 7\)"),
        ("import time; time.sleep(60)", r"no answer within 0.5 s"),
    ],
)
@pytest.mark.usefixtures("contest")
def test_a_worker_that_fails_in_its_turn(code: str, reason: str, tmp_path: Path) -> None:
    workers = sys.modules["peers.worker"]
    program = f'print(\'{{"version": "0", "computes": "float"}}\', flush=True); input(); {code}'
    core = max(os.sched_getaffinity(0))
    worker = workers.Worker([sys.executable, "-c", program], core, tmp_path / "log.txt")
    if "sleep" in code:
        worker._limit_s = 0.5
    with pytest.raises(workers.Failed, match=reason):
        worker.times_ns("go", 3)
    worker.close()
    assert worker._process.returncode is not None


@pytest.mark.campaign
def test_a_run_that_is_killed_goes_on_to_the_same_evidence(cache: Path) -> None:
    found = run(
        cache, *("resume.py", "--board", "host", "--items", "c,c"), "--vectors", "3000", "--kills", "1", "--undisturbed"
    )
    assert found["verdict"] == "identical"
    assert [attempt["chunks"] < 100 for attempt in found["attempts"]] == [True, False]
    assert found["same_evidence"] is True


def test_a_simulated_laboratory(cache: Path) -> None:
    found = run(cache, "laboratory.py", *("--boards", "3", "--models", "2", "--nights", "2", "--repetitions", "0"))
    assert found["simulated"]["entries"] == 3 * 2 * 2
    assert 0 < found["simulated"]["scheduler_s"] < found["simulated"]["boards_s"]


@pytest.mark.campaign
def test_the_page_of_a_simulated_laboratory(cache: Path) -> None:
    found = run(cache, "laboratory_site.py", *("--boards", "2", "--nights", "2", "--repetitions", "1"))
    assert found["runs"] == 20
    assert {result["name"]: len(result["wall_s"]) for result in found["results"]}["site from nothing, index too"] == 1


def test_the_page_with_the_picture_states_the_load_that_was_measured() -> None:
    [load] = re.findall(r"load averages before [0-9. ]*[0-9]", (ROOT / "docs/pictures/peers.svg").read_text())
    page = (ROOT / "benchmarks/README.md").read_text()
    assert "../docs/pictures/peers.svg" in page
    assert load in page
    assert "quiet" not in page
