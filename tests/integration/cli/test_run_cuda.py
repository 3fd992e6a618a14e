"""`harness` with an item on a GPU, played by its simulation: what the evidence says, and a GPU that fails half-way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.installation import ROOT
from tests.support import builders
from tests.support.cli.command import User

SIMULATION = "host-simulation of CUDA"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    model = builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), argmax=True)
    onnx.save_model(model, tmp_path / "net.onnx")
    return User(tmp_path, cache, ROOT / "boards.yaml")


def arguments(user: User, command: str, kernels: str, *more: str) -> list[str]:
    given = ["--board", "host", "--model", str(user.folder / "net.onnx"), "--items", f"c,cuda:{kernels}"]
    return [command, *given, "--vectors", "300", *more, "--json"]


@pytest.mark.parametrize("kernels", ["layerwise", "fused"])
def test_a_run_says_everywhere_that_no_gpu_took_part(user: User, kernels: str) -> None:
    ended = user.harness(*arguments(user, "run", kernels))
    document = ended.document
    assert (ended.code, document["verdict"]) == (0, "identical")
    ran_on = {layer["item"]: layer["ran_on"] for layer in document["layers"]}
    assert ran_on == {"prepost": "hardware", "network": SIMULATION}
    folder = Path(document["run"])
    run = json.loads((folder / "run.json").read_text())
    device = f"{SIMULATION}, sm_72, driver for CUDA 11.4, cubin for sm_72"
    assert run["board"]["environment"]["device of item network"] == device
    assert SIMULATION in (folder / "report.html").read_text()
    assert SIMULATION in (folder / "junit.xml").read_text()
    shown = user.harness(*arguments(user, "run", kernels)[:-1]).out
    assert f"not on hardware: item network by {SIMULATION}" in shown


LENET5 = ["--board", "host", "--model", str(ROOT / "models/lenet5.onnx"), "--vectors", "200", "--json"]
LENET5 += ["--items", "cuda:layerwise,cuda:layerwise"]


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("small_proof")
def test_the_proof_of_lenet5_of_float32_holds(user: User) -> None:
    ended = user.with_local("host: {timeout_s: 1800}").here("prove", *LENET5, "--floats", "thresholds")
    assert (ended.code, ended.document["verdict"]) == (0, "identical")
    assert ended.document["proof"]["holds"]


@pytest.mark.campaign
def test_lenet5_of_float32_runs_on_the_gpu_alone(user: User) -> None:
    ended = user.harness("run", *LENET5)
    assert (ended.code, ended.document["verdict"]) == (0, "identical")
    assert {layer["ran_on"] for layer in ended.document["layers"]} == {SIMULATION}
    assert sum(layer["compared"] for layer in ended.document["layers"]) == 200 * 10_764


@pytest.mark.usefixtures("small_proof")
def test_a_proof_holds_and_says_what_it_holds_for(user: User) -> None:
    few_sums = builders.random_network(np.random.default_rng(7), (2, 3, 2), argmax=True)
    onnx.save_model(few_sums, user.folder / "net.onnx")
    ended = user.here(*arguments(user, "prove", "fused", "--floats", "thresholds"))
    assert (ended.code, ended.document["verdict"]) == (0, "identical")
    assert ended.document["proof"]["holds"]
    assert ended.document["proof"]["assumptions"][0].startswith(f"Item network ran on a stand-in, {SIMULATION}: ")


def test_a_gpu_that_is_lost_ends_the_run_which_goes_on_when_it_is_back(user: User) -> None:
    """Each of three chunks takes two launches; the fifth of a process comes when executions are traced."""
    asked = arguments(user, "run", "fused", "--chunk", "100", "--block", "50", "--trace", "40")
    ended = user.harness(*asked, HARNESS_SIMULATED_FAULT="cuGraphLaunch=999@5")
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert "cuGraphLaunch (layer_0_launch): CUDA_ERROR_UNKNOWN (999): the GPU was lost" in ended.document["reason"]
    resumed = user.harness("run", "--resume", ended.document["run"], "--json")
    assert (resumed.code, resumed.document["verdict"], resumed.document["vectors"]) == (0, "identical", 300)
    assert "resuming after 300 vectors" in resumed.err


def test_a_kernel_that_never_ends_is_killed_at_the_deadline(user: User) -> None:
    asking = user.with_local("host: {timeout_s: 3}")
    asked = arguments(asking, "run", "fused", "--block", "300")
    ended = asking.harness(*asked, HARNESS_SIMULATED_FAULT="cuGraphLaunch=hang")
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert "3" in ended.document["reason"]


def test_a_gpu_in_the_place_of_its_simulation_is_no_evidence_of_one(user: User, tmp_path: Path) -> None:
    """A profile that promises hardware, on a machine where the stand-in answers."""
    own = User(user.folder, tmp_path / "cache")
    assert own.harness(*arguments(own, "run", "layerwise")).code == 0
    [stand_in] = own.cache.glob("bundles/*/stand-in")
    deceived = own.with_local("host: {stand_ins: false}")
    ended = deceived.harness(*arguments(deceived, "run", "layerwise"), LD_LIBRARY_PATH=str(stand_in))
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert "calls itself 'host-simulation of CUDA" in ended.document["reason"]
    assert "but a GPU should be there" in ended.document["reason"]


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ("host: {cuda: null}", "board host: target cuda needs to know the GPU", "cuda: {archs: [sm_72]}"),
        (
            "host: {cuda: {archs: [sm_52]}}",
            "unknown GPU architecture 'sm_52'",
            "valid choices: sm_61, sm_62, sm_70, sm_72",
        ),
        ("host: {toolchain: {static: true}}", "a static program cannot load the NVIDIA driver", "set static: false"),
        ("host: {cuda: {archs: [sm_90], ptx: '7.4'}}", "sm_90", "7.8"),
    ],
)
def test_a_profile_that_cannot_serve_is_refused(user: User, change: str, message: str, hint: str) -> None:
    asking = user.with_local(change)
    ended = asking.harness(*arguments(asking, "run", "layerwise"))
    assert ended.code in {2, 3}
    assert message in ended.err + ended.out
    assert hint in ended.err + ended.out


def test_a_layer_too_wide_for_the_fused_kernel_is_refused_when_it_is_planned(user: User) -> None:
    model = builders.random_network(np.random.default_rng(7), (2100, 3))
    onnx.save_model(model, user.folder / "net.onnx")
    ended = user.harness(*arguments(user, "run", "fused", "--split", "layer_0=network"))
    assert ended.code == 2
    assert (
        "target cuda:fused cannot compute layer layer_0 (QGemm): 2100 inputs, but the fused kernel holds" in ended.err
    )
    assert "cuda:layerwise takes it" in ended.err
