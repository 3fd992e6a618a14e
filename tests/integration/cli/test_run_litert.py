"""`harness run` with items that LiteRT computes: identical by XNNPACK, different and named by LiteRT's own kernels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from harness.boards.emulator import Machine, emulated
from harness.core.errors import EXIT_DIFFERS, EXIT_REQUEST
from harness.core.installation import ROOT
from tests.support import builders, images
from tests.support.cli.command import User

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

NAME = "litertboard"
MACHINE = Machine(cpu="cortex-a53", cores=2, memory_mib=512, disk_mib=64)


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    model = builders.random_network(np.random.default_rng(7), (5, 40, 30, 3), float_output=True, argmax=True)
    onnx.save_model(model, tmp_path / "net.onnx")
    return User(tmp_path, cache, ROOT / "boards.yaml")


def run(user: User, items: str, *more: str, model: str = "net", board: str = "host") -> list[str]:
    return ["run", "--board", board, "--model", str(user.folder / f"{model}.onnx"), "--items", items, *more, "--json"]


@pytest.mark.usefixtures("clean_checkout")
def test_xnnpack_is_identical_and_the_evidence_holds(user: User) -> None:
    ended = user.harness(*run(user, "c,litert:xnnpack", "--vectors", "300"))
    document = ended.document
    assert (ended.code, document["verdict"]) == (0, "identical")
    assert {layer["target"] for layer in document["layers"]} == {"c", "litert:xnnpack"}
    found = json.loads((Path(document["run"]) / "run.json").read_text())
    assert found["board"]["environment"]["device of item network"].startswith("LiteRT 2.1.2, XNNPACK, ")
    verified = user.harness("verify", document["run"], "--json")
    assert verified.code == 0, verified.out


def test_images_of_codes_are_identical(user: User) -> None:
    net = images.every_operator("uint8", "conv", "largest", "mean", "added")
    (user.folder / "images.onnx").write_bytes(net.onnx_bytes)
    ended = user.harness(*run(user, "litert:xnnpack,litert:xnnpack", "--vectors", "40", "--trace", "4", model="images"))
    assert (ended.code, ended.document["verdict"]) == (0, "identical"), ended.err


def test_float_sums_are_within_their_bounds(user: User) -> None:
    (user.folder / "floats.onnx").write_bytes(builders.float_sums().SerializeToString())
    asked = run(user, "litert:xnnpack,litert:xnnpack", "--vectors", "40", "--trace", "4", model="floats")
    refused, accepted = user.harness(*asked), user.harness(*asked, "--accept", "bound")
    assert (refused.document["verdict"], accepted.document["verdict"]) == ("within bound", "within bound")
    assert (refused.code, accepted.code) == (EXIT_DIFFERS, 0)


def test_the_built_in_kernels_differ_and_their_arithmetic_is_named(user: User) -> None:
    ended = user.harness(*run(user, "c,litert:builtin", "--vectors", "3000", "--trace", "4"))
    assert (ended.code, ended.document["verdict"]) == (EXIT_DIFFERS, "differs")
    assert "two roundings (gemmlowp)" in json.dumps(ended.document)


def test_a_board_with_an_old_glibc_is_refused(user: User) -> None:
    refused = user.harness(*run(user, "c,litert:xnnpack", board="xavier"))
    assert refused.code == EXIT_REQUEST
    assert "for aarch64 needs glibc 2.34, the board has 2.31" in refused.err


def test_a_proof_and_a_trace_are_refused_because_a_library_computes(user: User) -> None:
    model, given = str(user.folder / "net.onnx"), ["--board", "host", "--items", "c,litert:xnnpack"]
    layers = "the layers that target litert:xnnpack computes, because a library computes them"
    for command, action in ((["prove", "--model"], "a proof cannot query"), (["trace"], "a trace cannot find")):
        refused = user.harness(*command, model, *given)
        assert refused.code == EXIT_REQUEST
        assert action in refused.err
        assert layers in refused.err


def test_a_measurement_times_litert_on_its_own_core(user: User) -> None:
    given = ["--board", "host", "--model", str(user.folder / "net.onnx"), "--items", "c,litert:xnnpack"]
    measured = user.harness("measure", *given, "--samples", "200", "--json")
    assert (measured.code, measured.document["verdict"]) == (0, "measured"), measured.err


@pytest.fixture
def emulated_user(user: User, cache: Path) -> Iterator[User]:
    entry = yaml.safe_load((ROOT / "boards.yaml").read_text())["kv260"]
    machine = {"cpu": MACHINE.cpu, "cores": 2, "memory_mib": MACHINE.memory_mib, "disk_mib": MACHINE.disk_mib}
    boards = user.folder / "boards.yaml"
    boards.write_text(yaml.safe_dump({NAME: entry | {"emulator": machine, "work_folder": "/board"}}))
    with emulated(NAME, MACHINE, cache, print):
        yield User(user.folder, cache, boards)


def test_xnnpack_on_an_emulated_arm_core_is_identical(emulated_user: User) -> None:
    ended = emulated_user.harness(
        *run(emulated_user, "c,litert:xnnpack", "--vectors", "100", "--trace", "4", board=NAME)
    )
    document = ended.document
    assert (ended.code, document["verdict"]) == (0, "identical"), ended.err
    ran_on = {layer["item"]: layer["ran_on"] for layer in document["layers"]}
    assert ran_on["network"] == "emulated-cpu (qemu cortex-a53)"
