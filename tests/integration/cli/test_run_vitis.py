"""`harness` with an item in the fabric, played by C++: what the evidence says, and an FPGA that fails half-way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.analysis.proof import claims
from harness.core.installation import ROOT
from harness.targets.vitis import Vitis
from tests.support import builders
from tests.support.cli.command import User
from tests.support.programs.convolutions import random_convolutions

SIMULATION = "host-simulation of Vitis HLS (C++)"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    model = builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), float_output=True, argmax=True)
    onnx.save_model(model, tmp_path / "net.onnx")
    return User(tmp_path, cache, ROOT / "boards.yaml")


def arguments(user: User, command: str, *more: str, board: str = "host") -> list[str]:
    given = ["--board", board, "--model", str(user.folder / "net.onnx"), "--items", "c,vitis"]
    return [command, *given, "--vectors", "300", *more, "--json"]


def test_a_run_says_everywhere_that_no_fpga_took_part(user: User) -> None:
    ended = user.harness(*arguments(user, "run"))
    document = ended.document
    assert (ended.code, document["verdict"]) == (0, "identical")
    ran_on = {layer["item"]: layer["ran_on"] for layer in document["layers"]}
    assert ran_on == {"prepost": "hardware", "network": SIMULATION}
    folder = Path(document["run"])
    run = json.loads((folder / "run.json").read_text())
    assert run["board"]["environment"]["device of item network"].startswith(f"{SIMULATION}, kernels ")
    assert SIMULATION in (folder / "report.html").read_text()
    assert SIMULATION in (folder / "junit.xml").read_text()
    assert "for the first time" not in ended.err
    assert f"not on hardware: item network by {SIMULATION}" in user.harness(*arguments(user, "run")[:-1]).out


@pytest.mark.campaign
@pytest.mark.usefixtures("few_floats")
def test_a_proof_of_a_large_network_holds_in_the_fabric_and_its_evidence(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large is relative: questions have fewer operations here."""
    monkeypatch.setattr(claims, "OPERATIONS", 1 << 17)
    network = random_convolutions(np.random.default_rng(2), 2, "uint8", "int8", 1)
    (user.folder / "net.onnx").write_bytes(network.onnx_bytes)
    split = f"{network.layers[1].name}..{network.layers[2].name}=network"
    ended = user.here(*arguments(user, "prove", "--floats", "thresholds", "--split", split))
    assert (ended.code, ended.document["verdict"]) == (0, "identical")
    assert ended.document["proof"]["holds"]
    stand_in, in_fabric, *_ = ended.document["proof"]["assumptions"]
    assert stand_in.startswith(f"Item network ran on a stand-in, {SIMULATION}: ")
    assert in_fabric.startswith("Of item network: It is a kernel for the fabric, ")
    [of_positions] = [text for text in ended.document["proof"]["assumptions"] if "all positions of an image" in text]
    assert of_positions.startswith("Stages of network, which ran on stand-ins, ")
    verified = user.here("verify", ended.document["run"], "--json", "--no-rebuild")
    states = {claim["claim"]: claim["state"] for claim in verified.document["claims"]}
    assert (states["proof"], states["answers"]) == ("ok", "ok")


def test_a_kernel_that_fails_ends_the_run_which_goes_on_when_it_is_back(user: User) -> None:
    """Each process asks first for the identity and the constants of three layers; then there is a run a block."""
    asked = arguments(user, "run", "--chunk", "100", "--block", "50", "--trace", "40")
    ended = user.harness(*asked, HARNESS_DOUBLE_FAULT="error@7")
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert "layer_0_kernel in the fabric ended in state" in ended.document["reason"]
    resumed = user.harness("run", "--resume", ended.document["run"], "--json")
    assert (resumed.code, resumed.document["verdict"], resumed.document["vectors"]) == (0, "identical", 300)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang@6", "layer_0_kernel in the fabric has not answered for 1 seconds"),
        ("identity", "layer_0_kernel in the fabric was made of other sources"),
        ("no_device", "opening the FPGA by XRT: "),
    ],
)
def test_an_fpga_that_does_not_serve_is_named(user: User, fault: str, reason: str) -> None:
    impatient = user.with_local("host: {vitis: {timeout_s: 1}}")
    ended = impatient.harness(*arguments(impatient, "run"), HARNESS_DOUBLE_FAULT=fault)
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert reason in ended.document["reason"]


def test_a_layer_without_a_kernel_is_refused_when_it_is_planned(user: User) -> None:
    ended = user.harness(*arguments(user, "run", "--split", "advisory=network"))
    assert ended.code == 2
    assert "target vitis cannot compute layer advisory (ArgMax): it has kernels for " in ended.err


@pytest.mark.parametrize(
    ("toolchain", "words"),
    [
        ("compiler: python-zig cc", "XRT needs GNU's C++ library, which zig does not link with"),
        ("static: true", "a static program cannot load XRT"),
    ],
)
def test_a_toolchain_that_cannot_use_xrt_is_refused(user: User, toolchain: str, words: str) -> None:
    other = user.with_local(f"host: {{toolchain: {{{toolchain}}}}}")
    ended = other.harness(*arguments(other, "run"))
    assert ended.code == 2
    assert words in ended.err


def test_the_double_in_the_place_of_xrt_is_no_evidence(user: User, tmp_path: Path) -> None:
    """A profile that promises hardware, and a library that is the double, on this machine as the board.

    Such a program wants an application that was installed; see tests/unit/targets/vitis/test_target.py for what then
    comes.
    """
    own = User(user.folder, tmp_path / "cache", user.boards)
    assert own.harness(*arguments(own, "run")).code == 0
    [bundle] = own.cache.glob("bundles/*")
    root = _xrt_with_the_double(tmp_path / "root", bundle)
    promising = own.with_local(f"host: {{stand_ins: false, vitis: {{xrt: {root}}}}}")
    ended = promising.harness(*arguments(promising, "run"), LD_LIBRARY_PATH=str(root / "lib"))
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive"), ended.err
    assert "the application of this bundle is not installed" in ended.document["reason"]
    assert "harness firmware" in ended.document["reason"]
    for line in Vitis.hardware_checklist:
        assert f"[ ] {line}" in ended.err


def _xrt_with_the_double(root: Path, bundle: Path) -> Path:
    """The double's headers and library where XRT has its own."""
    shutil.copytree(bundle / "simulators/vitis", root / "include/xrt")
    (root / "lib").mkdir()
    library = root / "lib/libxrt_coreutil.so.2"
    library.write_bytes((bundle / "stand-in/libxrt_coreutil.so.2").read_bytes())
    (root / "lib/libxrt_coreutil.so").symlink_to(library.name)
    return root
