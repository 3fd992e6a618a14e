"""What is built is named by what it was built from, complete, reused only if intact, and traceable to the model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

from harness import targets
from harness.boards.profile import ItemProfile, Profile
from harness.build import bundle, codegen
from harness.build.bundle import Bundle
from harness.core.arrays import Array
from harness.core.errors import RequestError, ToolError
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.plan import planner
from harness.plan.plan import Plan
from harness.targets import KERNELS
from harness.targets import c as target_c
from harness.targets.contraction import DEPTH_LIMIT
from tests.support import builders
from tests.support.cli.command import Ended, User
from tests.support.objects import kept
from tests.support.programs.board_program import (
    BoardProgram,
    assert_same,
    parse,
    references,
    uniform_vectors,
    with_flags,
)

pytestmark = pytest.mark.usefixtures("kept_objects")


@pytest.fixture(scope="module")
def net() -> Network:
    return parse(builders.random_network(np.random.default_rng(5), (3, 4, 2), per_column=True))


@pytest.fixture(scope="module")
def board(host: Profile) -> Profile:
    """Nothing here is about speed."""
    return with_flags(host, "-O0")


@pytest.fixture(scope="module")
def made(net: Network, board: Profile) -> Plan:
    return planner.make(net, board, block=10)


@pytest.fixture
def built(made: Plan, board: Profile, tmp_path: Path) -> Bundle:
    return bundle.build(codegen.generate(made), board, tmp_path)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def handshake(found: Bundle) -> dict[str, str]:
    done = subprocess.run([str(found.folder / "inference"), "--version"], capture_output=True, check=True)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def test_a_bundle_holds_the_program_and_all_that_it_was_built_from(built: Bundle) -> None:
    fixed = {
        f"kernels/{path.parent.name}/{path.name}"
        for folder in ("program", "c")
        for path in (KERNELS / folder).glob("*.[ch]")
    }
    assert {"kernels/program/inference.c", "kernels/c/qgemm.h"} < fixed
    assert set(built.files) == {"inference", "network.c", *fixed}
    assert built.files == {path: sha256(built.folder / path) for path in built.files}
    for path in fixed:
        assert (built.folder / path).read_bytes() == (KERNELS.parent / path).read_bytes()


def test_a_bundle_is_named_by_its_hash_everywhere(built: Bundle, tmp_path: Path) -> None:
    assert built.folder == tmp_path / "bundles" / built.sha256[:16]
    assert [path.name for path in built.folder.parent.iterdir()] == [built.sha256[:16]]
    assert handshake(built)["bundle"] == built.sha256
    manifest = json.loads((built.folder / "manifest.json").read_text())
    assert manifest["bundle"] == built.sha256
    assert manifest["compiler"] == built.compiler
    assert tuple(manifest["flags"]) == built.flags
    assert built.flags[0] == "-O0"


def test_what_is_there_is_reused(built: Bundle, made: Plan, board: Profile, tmp_path: Path) -> None:
    before = (built.folder / "inference").stat()
    again = bundle.build(codegen.generate(made), board, tmp_path)
    assert (built.reused, again.reused) == (False, True)
    assert dataclasses.replace(again, reused=False) == built
    assert (built.folder / "inference").stat() == before


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "inference").write_bytes(b""),
        lambda folder: (folder / "inference").unlink(),
        lambda folder: (folder / "network.c").write_text("int main(void) { return 0; }\n"),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text('{"files": {}}'),
        shutil.rmtree,
    ],
    ids=["empty program", "no program", "changed source", "no manifest", "no JSON", "a list", "no hash", "nothing"],
)
def test_what_is_damaged_is_built_again(
    built: Bundle, made: Plan, board: Profile, tmp_path: Path, damage: object
) -> None:
    assert callable(damage)
    damage(built.folder)
    again = bundle.build(codegen.generate(made), board, tmp_path)
    assert again == built  # `reused` is False in both
    assert {path: sha256(again.folder / path) for path in again.files} == built.files


def test_building_in_another_place_gives_the_same_bytes(
    built: Bundle, made: Plan, board: Profile, tmp_path: Path
) -> None:
    (tmp_path / "objects").mkdir()
    with kept(tmp_path / "objects"):  # none of those that were made in the first place
        assert bundle.build(codegen.generate(made), board, tmp_path / "a longer path").files == built.files


def test_builds_at_the_same_time_do_not_disturb_each_other(made: Plan, board: Profile, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: bundle.build(codegen.generate(made), board, tmp_path), range(4)))
    assert {result.sha256 for result in found} == {found[0].sha256}
    assert {path: sha256(found[0].folder / path) for path in found[0].files} == found[0].files
    assert [path.name for path in found[0].folder.parent.iterdir()] == [found[0].sha256[:16]]


def identity(made: Plan, board: Profile, cache: Path) -> str:
    """The hash, which must also be the program's."""
    found = bundle.build(codegen.generate(made), board, cache)
    assert handshake(found)["bundle"] == found.sha256
    return found.sha256


def test_the_hash_depends_on_the_block(built: Bundle, made: Plan, board: Profile, tmp_path: Path) -> None:
    assert identity(dataclasses.replace(made, block=11), board, tmp_path) != built.sha256


def test_the_hash_depends_on_the_flags(built: Bundle, made: Plan, board: Profile, tmp_path: Path) -> None:
    assert identity(made, with_flags(board, "-O0", "-g0"), tmp_path) != built.sha256


def test_the_hash_depends_on_the_time_source(built: Bundle, made: Plan, board: Profile, tmp_path: Path) -> None:
    assert identity(made, board.model_copy(update={"time_source": "CLOCK_MONOTONIC"}), tmp_path) != built.sha256


def test_the_hash_depends_on_every_constant(
    built: Bundle, net: Network, made: Plan, board: Profile, tmp_path: Path
) -> None:
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    bits = layer.multiplier.view(np.uint32)
    last_bit = (bits ^ np.eye(1, len(bits), dtype=np.uint32)[0]).view(np.float32)
    changed = dataclasses.replace(layer, multiplier=last_bit)
    layers = (net.layers[0], changed, *net.layers[2:])
    other = dataclasses.replace(made, network=dataclasses.replace(net, layers=layers))
    assert identity(other, board, tmp_path) != built.sha256


def test_what_another_process_has_put_in_place_is_not_taken_away(
    built: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has found any; the other is done before this one makes room for its own, or has to wait for it."""
    mine, others = (shutil.copytree(built.folder, tmp_path / name) for name in ("mine", "others"))
    shutil.rmtree(built.folder)
    taken_away = []

    def remove_late(folder: Path, *, ignore_errors: bool) -> None:
        monkeypatch.undo()
        wait([pool.submit(bundle._put_in_place, others, folder, built.sha256)], 0.5)
        taken_away.append(bundle._intact(folder, built.sha256))
        shutil.rmtree(folder, ignore_errors=ignore_errors)

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(bundle, "shutil", SimpleNamespace(rmtree=remove_late))
        bundle._put_in_place(mine, built.folder, built.sha256)
    assert taken_away == [False]
    assert bundle._intact(built.folder, built.sha256)


@pytest.mark.parametrize("source", ["program/schedule.c", "c/saturate.h"])
def test_the_hash_depends_on_the_kernels(
    built: Bundle, made: Plan, board: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(KERNELS, kernels)
    monkeypatch.setattr(bundle, "KERNELS", kernels)
    monkeypatch.setattr(target_c, "KERNELS", kernels)
    assert bundle.build(codegen.generate(made), board, tmp_path).reused
    with (kernels / source).open("a") as file:
        file.write("/* another version */\n")
    assert identity(made, board, tmp_path) != built.sha256


def test_kernels_that_do_not_compile_are_a_tools_failure_and_leave_nothing(
    made: Plan, board: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(KERNELS, kernels)
    (kernels / "program" / "fail.c").write_text("int broken(\n")
    monkeypatch.setattr(bundle, "KERNELS", kernels)
    with pytest.raises(ToolError, match=r"kernels/program/fail\.c:1:"):
        bundle.build(codegen.generate(made), board, tmp_path)
    assert list((tmp_path / "bundles").iterdir()) == []


def test_an_unknown_target_is_answered_with_the_choices(net: Network, board: Profile, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        bundle.build(codegen.generate(planner.make(net, board, ["c", "cc"])), board, tmp_path)
    assert caught.value.message == "unknown target 'cc'"
    assert caught.value.hint == f"did you mean c? valid choices: {', '.join(targets.names())}"


def test_a_layer_that_the_target_cannot_compute_is_refused(board: Profile, tmp_path: Path) -> None:
    deep = parse(builders.random_network(np.random.default_rng(5), (DEPTH_LIMIT + 1, 2)))
    with pytest.raises(RequestError) as caught:
        bundle.build(codegen.generate(planner.make(deep, board)), board, tmp_path)
    assert caught.value.message.startswith("target c cannot compute layer layer_0 (QGemm): 33026 inputs")
    assert "--items" in caught.value.hint


WITHOUT_ADD = """
from harness.targets.c import C

class Modest(C):
    name = "modest"
    variants = ("",)

    def unsupported(self, layer):
        return "it has no float32 unit" if layer.operator == "Add" else super().unsupported(layer)
"""


WITHOUT_METHODS = """
from harness.targets import Target

class Modest(Target):
    def environment(self, profile):
        return "hardware"
"""


@pytest.fixture
def modest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package that brings the target "modest", which computes all but Add."""
    installed = tmp_path / "site"
    information = installed / "modest-1.dist-info"
    information.mkdir(parents=True)
    (installed / "modest_target.py").write_text(WITHOUT_ADD)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: modest\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[harness.targets]\nmodest = modest_target:Modest\n")
    monkeypatch.syspath_prepend(installed)
    monkeypatch.delitem(sys.modules, "modest_target", raising=False)
    return installed


@pytest.mark.usefixtures("modest")
def test_a_target_without_add_refuses_residual_networks_and_computes_others(
    net: Network, board: Profile, tmp_path: Path
) -> None:
    items = ["modest", "modest"]
    residual = parse(builders.random_network(np.random.default_rng(5), (3, 4, 2), residual=2))
    with pytest.raises(RequestError) as caught:
        bundle.build(codegen.generate(planner.make(residual, board, items)), board, tmp_path)
    assert caught.value.message == ("target modest cannot compute layer layer_0_sum_2 (Add): it has no float32 unit")
    assert caught.value.hint == "choose another target for that item with --items"
    run(bundle.build(codegen.generate(planner.make(net, board, items)), board, tmp_path), net, tmp_path)


@pytest.mark.parametrize("command", [["plan"], ["run", "--vectors", "10"]])
def test_a_command_with_a_target_without_add_ends_with_2(modest: Path, tmp_path: Path, command: list[str]) -> None:
    model = builders.random_network(np.random.default_rng(5), (3, 2), residual=2)
    onnx.save_model(model, tmp_path / "residual.onnx")
    user = User(tmp_path, tmp_path / "cache")
    arguments = ("--board", "host", "--model", str(tmp_path / "residual.onnx"), "--items", "c,modest")
    arguments += ("--split", "layer_0_sum_2=network")
    ended = user.harness(*command, *arguments, PYTHONPATH=str(modest))
    assert ended.code == 2
    assert "target modest cannot compute layer layer_0_sum_2 (Add): it has no float32 unit" in ended.err


def test_a_target_that_is_not_whole_says_what_it_does_not_have(modest: Path) -> None:
    (modest / "modest_target.py").write_text(WITHOUT_METHODS)
    with pytest.raises(RequestError) as caught:
        targets.find("modest")
    assert caught.value.message == "target modest does not have folders, generate, headers, name"
    assert "add-a-target" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "reason"), [("import nowhere", "ModuleNotFoundError"), ("1 / 0", "ZeroDivisionError")]
)
def test_a_target_that_cannot_be_loaded_stops_nobody_else(modest: Path, text: str, reason: str) -> None:
    (modest / "modest_target.py").write_text(text)
    with pytest.raises(RequestError, match=f"modest_target:Modest: .*modest_target.py:1: '{text}': {reason}"):
        targets.find("modest")
    with pytest.raises(RequestError, match="unknown target 'modst'") as caught:
        targets.find("modst")
    assert "did you mean modest?" in caught.value.hint


def run(found: Bundle, net: Network, folder: Path) -> None:
    """The program computes the network."""
    vectors = uniform_vectors(net, 25, seed=6)
    program = BoardProgram(found.folder / "inference", net, found.sha256, found.compiler)
    assert_same(program.activations(vectors, folder), references(net, vectors))


OF_TWO_KINDS = """
from harness.targets.c import C

class Modest(C):
    name = "modest"
    variants = ("one", "other")

    def __init__(self, variant):
        super().__init__()

    def resource_shortage(self, launches, profile):
        layers = [task.layer.name for launch in launches for task in launch]
        return f"needs room for {', '.join(layers)}" if len(layers) > 3 else None

    def estimate(self, launches, profile):
        return tuple(f"{launch[0].layer.name} alone on {profile.name}" for launch in launches)
"""


@pytest.fixture
def narrow(modest: Path) -> Path:
    """The folder of the target "modest" with two variants, which together hold three layers."""
    (modest / "modest_target.py").write_text(OF_TWO_KINDS)
    return modest


def ask_narrow(narrow: Path, folder: Path, widths: tuple[int, ...]) -> Ended:
    """A plan with two items of the target."""
    onnx.save_model(builders.random_network(np.random.default_rng(5), widths), folder / "network.onnx")
    arguments = ("--board", "host", "--model", str(folder / "network.onnx"), "--items", "modest:one,modest:other")
    return User(folder, folder / "cache").harness("plan", *arguments, "--json", PYTHONPATH=str(narrow))


def test_all_items_of_a_target_share_the_board(narrow: Path, tmp_path: Path) -> None:
    ended = ask_narrow(narrow, tmp_path, (3, 2, 4, 2))
    assert ended.code == 2
    said = " ".join(ended.err.split())
    assert "network on board host: target modest needs room for quantize, layer_0, layer_1, layer_2 hint: " in said
    assert "--split" in said


def test_a_plan_tells_what_its_targets_estimate(narrow: Path, tmp_path: Path) -> None:
    ended = ask_narrow(narrow, tmp_path, (3, 2, 4))
    assert ended.code == 0, ended.err
    assert ended.document["forecast"] == [f"{name} alone on host" for name in ("quantize", "layer_0", "layer_1")]


HOSTILE = ['*/ #error "*/', "/* nested", "??/", "a\\", '"; } int main(', "name  -with ??- trigraphs", "ünïcödé", "%s%n"]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_end_a_comment_or_a_string_cannot(
    net: Network, board: Profile, tmp_path: Path, name: str
) -> None:
    model = onnx.load_model_from_string(net.onnx_bytes)
    for index, node in enumerate(model.graph.node):
        node.name, node.output[0] = f"{name}{index}", f"{name} out {index}"
        node.input[0] = f"{name} out {index - 1}" if index else f"{name} in"
    model.graph.input[0].name, model.graph.output[0].name = f"{name} in", f"{name} out 2"
    hostile = dataclasses.replace(parse(model), name=name)
    board = with_flags(board, "-O0", "-Wall", "-Wextra", "-Wtrigraphs", "-Werror")
    found = bundle.build(codegen.generate(planner.make(hostile, board)), board, tmp_path)
    run(found, hostile, tmp_path)
    assert re.fullmatch(r"[A-Za-z0-9_./:+-]*", handshake(found)["model"])


def test_a_single_item_needs_no_barrier(net: Network, board: Profile, tmp_path: Path) -> None:
    everything = ItemProfile(target="c", operators=("QuantizeLinear", "QGemm"))
    alone = board.model_copy(update={"items": {"all": everything}})
    run(bundle.build(codegen.generate(planner.make(net, alone)), alone, tmp_path), net, tmp_path)


def test_layers_with_the_same_name_get_their_own(net: Network, board: Profile, tmp_path: Path) -> None:
    model = onnx.load_model_from_string(net.onnx_bytes)
    for index, node in enumerate(model.graph.node):
        node.name = ["layer", "Layer", "LAYER"][index]
    same = parse(model)
    assert [layer.name for layer in same.layers] == ["layer", "layer_2", "layer_3"]
    run(bundle.build(codegen.generate(planner.make(same, board)), board, tmp_path), same, tmp_path)


def test_every_table_names_its_node_and_tensors(built: Bundle, net: Network) -> None:
    source = (built.folder / "network.c").read_text()
    assert f"/* The network network, generated from its ONNX file (SHA-256 {net.sha256}). */" in source
    for index, layer in enumerate(net.layers):
        tensors = f"reads {layer.sources[0]}, writes {layer.output.name}"
        assert f"/* Layer {index}, {layer.operator}: node {layer.node}, {tensors}. */" in source
    assert "static float input[BLOCK][3]; /* tensor x */" in source


def table(source: str, name: str) -> list[float]:
    """The numbers of the table `name`."""
    match = re.search(rf"\b{name}(\[\d+\])+ = (\{{[^;]*\}});", source)
    assert match is not None, name
    literals = re.findall(r"-?0x[0-9a-f.]+p[+-]?\d+|-?\d+", match[2])
    return [float.fromhex(literal) if "p" in literal else int(literal) for literal in literals]


def test_a_sum_names_both_its_terms_and_its_constant_is_the_models_bit_for_bit(board: Profile) -> None:
    model = builders.random_network(np.random.default_rng(5), (3, 2), residual=2)
    addend = np.array([-0.0, 1e-45], np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(addend, "addend"))
    model.graph.node.append(onnx.helper.make_node("Add", ["addend", "layer_0_sum_2_out"], ["y"], name="shift"))
    model.graph.output[0].name = "y"
    source = codegen.generate(planner.make(parse(model), board)).source
    terms = "reads layer_0_term_1_out and layer_0_term_2_out, writes layer_0_sum_2_out"
    assert f"/* Layer 3, Add: node layer_0_sum_2, {terms}. */" in source
    assert np.array(table(source, "shift_addend"), np.float32).tobytes() == addend.tobytes()


def test_the_constants_are_the_models_bit_for_bit(built: Bundle, net: Network) -> None:
    source = (built.folder / "network.c").read_text()
    for layer in net.layers[1:]:
        assert isinstance(layer, QGemm)
        assert table(source, f"{layer.name}_weights") == layer.weights.T.ravel().tolist()
        assert table(source, f"{layer.name}_bias") == layer.bias.tolist()
        multiplier: Array = np.array(table(source, f"{layer.name}_multiplier"))
        assert np.array_equal(multiplier, layer.multiplier.astype(np.float64))
