"""`harness wcet` as a user calls it: bounds, evidence, and what `harness verify` finds in changed evidence."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.applications.wcet.cycles import PROGRAMS
from harness.applications.wcet.document import WcetDocument
from harness.applications.wcet.page import html
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from tests.support.builders import float_sums, random_network
from tests.support.cli.command import User

pytestmark = pytest.mark.skipif(
    shutil.which("aarch64-linux-gnu-gcc") is None,
    reason="there is no cross-compiler: apt-get install gcc-aarch64-linux-gnu",
)
BOARD = """\
small:
  soc: a core
  cores: 1
  toolchain: {compiler: aarch64-linux-gnu-gcc, flags: [-O1, -mcpu=cortex-a53], glibc: "2.36"}
  items: {all: {target: "c:inlined"}}
  emulator: {cpu: cortex-a53, cores: 1}
"""


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    (tmp_path / "boards.yaml").write_text(BOARD)
    onnx.save_model(float_sums(), tmp_path / "sums.onnx")
    return User(tmp_path, cache, tmp_path / "boards.yaml")


def wcet(user: User, *more: str) -> tuple[str, ...]:
    return ("wcet", "--board", "small", "--model", str(user.folder / "sums.onnx"), *more)


def test_items_of_other_targets_are_named(user: User) -> None:
    pytest.importorskip("ai_edge_litert")
    items = "prepost: {target: c}, network: {target: litert:xnnpack, operators: [QGemm]}"
    two = BOARD.replace('all: {target: "c:inlined"}', items)
    (user.folder / "boards.yaml").write_text(two)
    onnx.save_model(random_network(np.random.default_rng(3), (5, 6, 4)), user.folder / "sums.onnx")
    shown = user.here(*wcet(user, "--core", "none"))
    assert shown.code == 0, shown.err
    assert "item network (litert:xnnpack): no bound; 2 layers missing above" in " ".join(shown.out.split())
    [folder] = (user.folder / "runs").glob("*_wcet_*")
    content = json.loads((folder / "wcet.json").read_text())
    assert content["unbounded"] == [{"name": "network", "target": "litert:xnnpack", "layers": ["layer_0", "layer_1"]}]
    assert "Item network (litert:xnnpack) has no bound" in (folder / "report.html").read_text()
    reported = ["bounds", "reports"]
    for changes, wrong in (({}, []), ({"unbounded": []}, reported), ({"profile": {"cores": 1}}, ["bundle"])):
        (folder / "wcet.json").write_text(json.dumps(content | changes))
        claims = user.here("verify", str(folder), "--json").document["claims"]
        assert [claim["claim"] for claim in claims if claim["state"] == "not ok"] == wrong


def test_bounds_are_evidence_that_can_be_verified(user: User) -> None:
    modelled = any(map(shutil.which, PROGRAMS))
    ended = user.here(*wcet(user, *(() if modelled else ("--core", "none")), "--json"))
    assert ended.code == 0, ended.err
    found, folder = ended.document, Path(ended.document["run"])
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert list(layers) == ["dense_1", "relu_1", "dense_2"]
    assert (
        found["instructions"]
        == sum(layer["instructions"] for layer in layers.values())
        == found["items"][0]["instructions"]
    )
    assert [layer["decided_by_data"] for layer in layers.values()] == [[], [], []]
    assert {(e["name"], e["written"], e["start"], e["end"]) for e in layers["dense_2"]["accessed"]} >= {
        ("dense_2_output", True, 0, 16),
        ("dense_2_weights", False, 0, 12 * 4 * 4),
    }
    facts = (folder / "flow_facts.ffx").read_text()
    assert re.findall(r'(?m)^  <function address="0x[0-9a-f]+" name="(\w+)">', facts) == [
        "dense_1_forward", "relu_1_forward", "dense_2_forward",
    ]  # fmt: skip
    assert "dense_1" in (folder / "report.html").read_text()
    if modelled:
        assert found["core"]["name"] == "cortex-a53"
        assert found["cycles"] == sum(layer["cycles"] for layer in layers.values()) > 0
        assert found["core"]["assumptions"][0] == "an estimate of LLVM's model of the core, not a bound of the hardware"
    verified = user.here("verify", str(folder), "--json")
    assert verified.code == 0, verified.out
    claims = {claim["claim"]: claim["state"] for claim in verified.document["claims"]}
    assert claims.pop("signature") == "not checked"
    checked = ("files", "times", "plan", "bundle", "bounds", "description", "program", "reports")
    assert claims == dict.fromkeys(checked, "ok")
    earlier = found | {"schema": 1}
    for entry in ("unbounded", "profile", "run"):
        del earlier[entry]
    (folder / "wcet.json").write_text(json.dumps(earlier))
    assert user.here("verify", str(folder)).code == 0
    _require_found(user, folder)


def test_a_program_of_other_flags_under_the_name_of_the_bundle_is_rejected(user: User) -> None:
    folders = []
    for flag in ("-O2", "-O1"):
        (user.folder / "boards.yaml").write_text(BOARD.replace("-O1", flag))
        folders.append(Path(user.here(*wcet(user, "--core", "none", "--json")).document["run"]))
    other, folder = folders
    for name in ("bundle/inference", "flow_facts.ffx", "flow_facts.ais"):
        shutil.copy(other / name, folder / name)
    stated, faster = (json.loads((path / "wcet.json").read_text()) for path in (folder, other))
    stated |= {key: faster[key] for key in ("program_sha256", "layers", "items", "instructions")}
    manifest = json.loads((folder / "bundle" / "manifest.json").read_text())
    manifest["files"]["inference"] = stated["program_sha256"]
    (folder / "bundle" / "manifest.json").write_text(json.dumps(manifest))
    (folder / "wcet.json").write_text(json.dumps(stated))
    (folder / "report.html").write_text(html(WcetDocument.read(folder / "wcet.json")))
    files = {name: file_sha256(folder / name) for name in stated["files"]}
    (folder / "wcet.json").write_text(json.dumps(stated | {"files": files}))
    verified = user.here("verify", str(folder), "--json")
    wrong = {claim["claim"]: claim["text"] for claim in verified.document["claims"] if claim["state"] == "not ok"}
    assert (verified.code, list(wrong)) == (1, ["program"])
    assert "other bytes are in: inference" in wrong["program"]


def _require_found(user: User, folder: Path) -> None:
    """Assert that changed evidence is found to be wrong."""
    document = json.loads((folder / "wcet.json").read_text())
    document["layers"][0]["instructions"] -= 1
    document["items"][0]["instructions"] -= 1
    document["instructions"] -= 1
    (folder / "wcet.json").write_text(json.dumps(document))
    wrong = user.here("verify", str(folder), "--json")
    assert wrong.code == 1
    assert [claim["claim"] for claim in wrong.document["claims"] if claim["state"] == "not ok"] == ["bounds", "reports"]
    (folder / "bundle" / "inference").write_bytes(b"another program")
    wrong = user.here("verify", str(folder), "--json")
    claims = [claim["claim"] for claim in wrong.document["claims"] if claim["state"] == "not ok"]
    assert claims == ["files", "bundle", "bounds", "reports"]


@pytest.mark.parametrize(
    ("more", "message"), [(("--core", "z80"), "no model of core 'z80'"), (("--items", "cuda:fused"), "cuda")]
)
def test_refusals(user: User, more: tuple[str, ...], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        user.here(*wcet(user, *more))


def test_a_board_with_another_processor_is_refused_before_a_build(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(RequestError, match="board cortex-r5: programs for A32 of Arm are not bounded"):
        User(tmp_path, cache).here("wcet", "--board", "cortex-r5", "--model", "acas_coc")


@pytest.mark.parametrize("board", ["xavier", pytest.param("tda4vm", marks=pytest.mark.campaign)])
def test_bounds_beside_an_accelerator_can_be_verified(board: str, tmp_path: Path, cache: Path) -> None:
    user = User(tmp_path, cache)
    ended = user.here("wcet", "--board", board, "--model", "acas_coc", "--core", "none", "--json")
    assert ended.code == 0, ended.err
    assert len(ended.document["layers"]) + len(ended.document["unbounded"][0]["layers"]) == 11
    assert user.here("verify", ended.document["run"]).code == 0
