"""`harness` with an item on the DSP, played by the double: what the evidence says, and a core that fails half-way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.installation import ROOT
from harness.runs import folder
from harness.targets.tiovx import Tiovx
from harness.targets.tiovx.constants import KERNELS_VERSION
from harness.targets.tiovx.sources import kernels_digest
from tests.support import builders
from tests.support.cli.command import User

DOUBLE = "host-simulation of TIOVX (double)"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    model = builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), float_output=True, argmax=True)
    onnx.save_model(model, tmp_path / "net.onnx")
    return User(tmp_path, cache, ROOT / "boards.yaml")


def arguments(user: User, command: str, core: str, *more: str, board: str = "host") -> list[str]:
    given = ["--board", board, "--model", str(user.folder / "net.onnx"), "--items", f"c,tiovx:{core}"]
    return [command, *given, "--vectors", "300", *more, "--json"]


@pytest.mark.parametrize(("core", "name"), [("c7x", "DSP_C7-1"), ("mpu", "MPU-0")])
def test_a_run_says_everywhere_that_no_dsp_took_part(user: User, core: str, name: str) -> None:
    ended = user.harness(*arguments(user, "run", core))
    document = ended.document
    assert (ended.code, document["verdict"]) == (0, "identical")
    ran_on = {layer["item"]: layer["ran_on"] for layer in document["layers"]}
    assert ran_on == {"prepost": "hardware", "network": DOUBLE}
    folder = Path(document["run"])
    run = json.loads((folder / "run.json").read_text())
    device = f"{DOUBLE}, {name}, kernels {KERNELS_VERSION} ({kernels_digest()})"
    assert run["board"]["environment"]["device of item network"] == device
    assert DOUBLE in (folder / "report.html").read_text()
    assert DOUBLE in (folder / "junit.xml").read_text()
    assert "for the first time" not in ended.err
    assert f"not on hardware: item network by {DOUBLE}" in user.harness(*arguments(user, "run", core)[:-1]).out


@pytest.mark.campaign
@pytest.mark.parametrize("model", ["lenet5_int8", "ds_cnn_int8", "resnet8_int8"])
def test_a_convolutional_network_is_identical_on_the_emulated_board(model: str, user: User) -> None:
    """The profile as it is shipped: the core computes all but the conversion of the outputs to float32."""
    ended = user.harness("run", "--board", "tda4vm", "--model", model, "--vectors", "10", "--block", "5", "--json")
    assert (ended.code, ended.document["verdict"]) == (0, "identical")
    *on_core, last = ended.document["layers"]
    assert {(layer["target"], layer["ran_on"]) for layer in on_core} == {("tiovx:c7x", DOUBLE)}
    assert last["target"] == "c"


@pytest.mark.campaign
@pytest.mark.usefixtures("small_proof")
def test_a_proof_holds_with_quantisation_on_the_core(user: User) -> None:
    few_sums = builders.random_network(np.random.default_rng(7), (2, 3, 2), float_output=True, argmax=True)
    onnx.save_model(few_sums, user.folder / "net.onnx")
    split = ["--split", "quantize=network", "--floats", "thresholds"]
    ended = user.here(*arguments(user, "prove", "c7x", *split))
    assert (ended.code, ended.document["verdict"]) == (0, "identical")
    assert ended.document["proof"]["holds"]
    assert ended.document["proof"]["assumptions"][0].startswith(f"Item network ran on a stand-in, {DOUBLE}: ")
    assert {layer["name"]: layer["item"] for layer in ended.document["layers"]}["quantize"] == "network"


def test_a_core_that_fails_ends_the_run_which_goes_on_when_it_is_back(user: User) -> None:
    """A graph of three nodes, twice a chunk: the seventh in a process comes when executions are traced."""
    asked = arguments(user, "run", "c7x", "--chunk", "100", "--block", "50", "--trace", "40")
    ended = user.harness(*asked, HARNESS_DOUBLE_FAULT="fail@7")
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert "the kernel's process callback (layer_0): status -1 of TIOVX" in ended.document["reason"]
    resumed = user.harness("run", "--resume", ended.document["run"], "--json")
    assert (resumed.code, resumed.document["verdict"], resumed.document["vectors"]) == (0, "identical", 300)
    assert "resuming after 300 vectors" in resumed.err


def test_a_core_that_does_not_answer_is_named(user: User) -> None:
    impatient = user.with_local("host: {tiovx: {timeout_s: 1}}")
    ended = impatient.harness(*arguments(impatient, "run", "c7x"), HARNESS_DOUBLE_FAULT="hang@2")
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert "DSP_C7-1 has not answered for 1 seconds" in ended.document["reason"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("old", f"the kernels on DSP_C7-1 are older than this bundle (version 0, expected {KERNELS_VERSION})"),
        ("missing=org.harness.qgemm", "either DSP_C7-1 has no kernels of the harness, then install them"),
    ],
)
def test_a_firmware_that_does_not_serve_is_named(user: User, fault: str, reason: str) -> None:
    ended = user.harness(*arguments(user, "run", "c7x"), HARNESS_DOUBLE_FAULT=fault)
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert reason in ended.document["reason"]
    assert "harness firmware" in ended.document["reason"]


def test_hardware_without_an_sdk_never_gets_the_double(user: User) -> None:
    asking = user.with_local("tda4vm: {address: {host: 127.0.0.1, port: 9}}")
    ended = asking.harness(*arguments(asking, "run", "c7x", board="tda4vm"), TARGET_FS="")
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert "needs the headers and the library of TIOVX" in ended.document["reason"]
    told = asking.harness("doctor", "--json", TARGET_FS="")
    [finding] = [each for each in told.document["findings"] if each["topic"] == "tda4vm: item network"]
    assert (told.code, finding["ok"]) == (3, False)
    assert "TARGET_FS" in finding["remedy"]


def test_a_layer_without_a_kernel_is_refused_when_it_is_planned(user: User) -> None:
    ended = user.harness(*arguments(user, "run", "c7x", "--split", "advisory=network"))
    assert ended.code == 2
    assert "target tiovx:c7x cannot compute layer advisory (ArgMax): it has kernels for " in ended.err


def test_the_double_in_the_place_of_tiovx_is_no_evidence(user: User, tmp_path: Path) -> None:
    """A profile that promises hardware, and a library that is the double, on this machine as the board."""
    own = User(user.folder, tmp_path / "cache", user.boards)
    assert own.harness(*arguments(own, "run", "mpu")).code == 0
    [bundle] = own.cache.glob("bundles/*")
    root = _file_system(tmp_path / "root", bundle)
    promising = own.with_local(f"host: {{stand_ins: false, tiovx: {{target_fs: {root}}}}}")
    ended = promising.harness(*arguments(promising, "run", "mpu"), LD_LIBRARY_PATH=str(root / "usr/lib"))
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive"), ended.err
    assert "calls itself 'host-simulation of TIOVX (double)" in ended.document["reason"]
    assert "but TI's should be there" in ended.document["reason"]
    for line in Tiovx.hardware_checklist:
        assert f"[ ] {line}" in ended.err


def _file_system(root: Path, bundle: Path) -> Path:
    """The double's headers and library where an image has TIOVX's; a libm.so of the board, for no linker's eyes."""
    double, sdk = bundle / "simulators/tiovx", root / "usr/include/processor_sdk"
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/libm.so").write_text("GROUP ( /nowhere/libm.so.6 )")
    (root / "usr/lib/libtivision_apps.so").write_bytes((bundle / "stand-in/libtivision_apps.so").read_bytes())
    for there, folders in (("tiovx/include", ["TI", "VX"]), ("vision_apps", ["utils"])):
        for path in (path for each in folders for path in (double / each).rglob("*.h")):
            copy = sdk / there / path.relative_to(double)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return root


def test_the_checklist_comes_once(tmp_path: Path) -> None:
    """Until a run on that board's hardware is finished."""

    def finished(name: str, board: str, target: str, ran_on: str) -> None:
        document = {"board": {"name": board}, "plan": {"items": [{"target": target, "ran_on": ran_on}]}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(document))

    asked = (tmp_path, "tda4vm", "tiovx:c7x")
    finished("20261122-000000_tda4vm_net", "tda4vm", "tiovx:c7x", DOUBLE)
    finished("20261122-000001_tda4vm_net", "tda4vm", "tiovx:mpu", "hardware")
    finished("20261122-000002_other_tda4vm_net", "other", "tiovx:c7x", "hardware")
    (tmp_path / "20261122-000003_tda4vm_net").mkdir()
    (tmp_path / "20261122-000003_tda4vm_net" / "run.json").write_text("[]")
    assert not folder.was_on_hardware(*asked)
    finished("20261122-000004_tda4vm_net", "tda4vm", "tiovx:c7x", "hardware")
    assert folder.was_on_hardware(*asked)
