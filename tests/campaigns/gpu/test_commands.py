"""What users start: `harness run` and `harness prove` with the network on the GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.targets import HARDWARE
from harness.targets.cuda import SIMULATION
from tests.campaigns.gpu.device import Device
from tests.support.cli.command import User

MODELS = [f"acas_{previous}" for previous in ("coc", "sl", "sr", "wl", "wr")]
KERNELS = ["layerwise", "fused", "tensor"]
IMAGES = ["lenet5_int8", "ds_cnn_int8", "resnet8_int8"]
# Of the reference only: on processors without VNNI it would be wrong, and the verdict inconclusive.


def harness(user: User, command: str, gpu: Device, kernels: str, *more: str) -> dict[str, Any]:
    """The document of a command that must end with `identical` within a quarter of an hour."""
    chosen = ["--board", gpu.board, "--items", f"c,cuda:{kernels}", "--json"]
    process = user.start(command, *chosen, *more)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    document: dict[str, Any] = json.loads(out)
    assert document["verdict"] == "identical"
    return document


def assert_ran_on(gpu: Device, document: dict[str, Any]) -> None:
    """The item `network` ran on this GPU and on nothing that plays one, or on the simulation that was asked for."""
    run = json.loads((Path(document["run"]) / "run.json").read_text())
    found = run["board"]["environment"]["device of item network"]
    assert found.startswith(f"{gpu.description}, ")
    assert (SIMULATION in found) == gpu.simulated
    layers = [layer for layer in document["layers"] if layer["item"] == "network"]
    expected = SIMULATION if gpu.simulated else HARDWARE
    assert layers
    assert {layer["ran_on"] for layer in layers} == {expected}


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("model", [*MODELS, *IMAGES])
def test_a_network_is_identical(model: str, kernels: str, gpu: Device, user: User) -> None:
    vectors = 100_000
    if gpu.simulated:
        vectors = 20 if model in IMAGES else 500
    elif model in IMAGES:
        vectors = 2000
    document = harness(user, "run", gpu, kernels, "--model", model, "--vectors", str(vectors))
    assert_ran_on(gpu, document)
    assert document["vectors"] == vectors
    assert {layer["target"] for layer in document["layers"]} == {"c", f"cuda:{kernels}"}
    assert all(layer["compared"] % vectors == 0 and layer["compared"] >= vectors for layer in document["layers"])
    assert all(layer["differing"] == 0 for layer in document["layers"])


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("model", ["lenet5", "lenet5_int8"])
def test_a_network_on_two_items_of_the_gpu_is_identical(model: str, gpu: Device, user: User) -> None:
    """The example of section III of the paper, both parts on the GPU; the traces are paths of the plan's net."""
    split = "conv_1..pool_1=prepost+network:rows,conv_2=network"
    both = ["--items", "cuda:layerwise,cuda:fused", "--split", split]
    vectors = 100 if gpu.simulated else 10_000
    document = harness(user, "run", gpu, "fused", *both, "--model", model, "--vectors", str(vectors))
    assert_ran_on(gpu, document)
    assert {layer["ran_on"] for layer in document["layers"]} == {SIMULATION if gpu.simulated else HARDWARE}
    assert all(layer["differing"] == 0 and layer["compared"] > 0 for layer in document["layers"])
    run = json.loads((Path(document["run"]) / "run.json").read_text())
    assert run["conformance"]["conforms"]
    assert run["conformance"]["executions"] == 100


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_network_of_which_the_gpu_computes_every_layer_is_proven(kernels: str, gpu: Device, user: User) -> None:
    """All accumulators through its requantisation and, on a GPU, all 2^32 inputs through its QuantizeLinear."""
    floats = "thresholds" if gpu.simulated else "all"
    everything = ["--split", "quantize_input..select_advisory=network", "--block", "20000"]
    document = harness(user, "prove", gpu, kernels, "--model", "acas_coc", "--floats", floats, *everything)
    assert_ran_on(gpu, document)
    assert {layer["target"] for layer in document["layers"]} == {f"cuda:{kernels}"}
    proof = document["proof"]
    assert proof["holds"]
    answered = [claim for claim in proof["claims"] if claim["answered_by"] == "program"]
    # A layer has two claims of a step, and the sweep has more cases than the independence of the columns.
    cases = {(claim["step"], claim["layer"]): claim for claim in sorted(answered, key=lambda claim: claim["cases"])}
    assert cases["quantization", "quantize_input"]["cases"] >= (1 if gpu.simulated else 2**32)
    requantised = [claim for (step, _), claim in cases.items() if step == "requantization"]
    assert all(claim["complete"] for claim in requantised)
    assert sum(claim["cases"] for claim in requantised) > 100_000_000
