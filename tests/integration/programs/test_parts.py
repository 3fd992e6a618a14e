"""Channels and rows of images on several items: the bits stay, traces conform, the proof holds, mistakes are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.analysis import proof
from harness.boards.profile import ItemProfile, Profile
from harness.build import codegen
from harness.model.network import Network
from harness.operators.obligations import Extent, ProofStep
from harness.operators.region import WAYS
from harness.operators.window import Window
from harness.plan import conformance, plan_check, planner
from harness.plan.nnef import folder
from harness.plan.plan import Sync
from harness.targets import supports
from tests.integration.programs.test_split import BLOCK, ITEMS, Subject, board, differing, replayed
from tests.support import float_images, images
from tests.support.codes import node
from tests.support.programs.board_program import Patch, build_patched
from tests.support.programs.c_variants import WARNED
from tests.support.programs.convolutions import random_convolutions
from tests.support.proof.trials import Workshop

__all__ = ["board"]  # a fixture


def chain() -> Network:
    """Layers that read each other's rows: odd sizes, strides, dilation, padding, groups; 7 rows in the end."""
    rng = np.random.default_rng(4)
    constants = {
        "image": np.array([-1, 2, 15, 5], np.int64),
        "w": rng.normal(size=(6, 2, 3, 3)).astype(np.float32),
        "b": rng.normal(size=6).astype(np.float32),
        "v": rng.normal(size=(6, 1, 3, 2)).astype(np.float32),
        "low": np.float32(-0.5),
        "high": np.float32(2),
    }
    nodes = [
        node("Reshape", "x", "image", output="image_of_x"),
        node("Conv", "image_of_x", "w", "b", output="conv", pads=[1, 1, 1, 1], dilations=[2, 1]),
        node("Clip", "conv", "low", "high", output="clip"),
        node("MaxPool", "clip", output="pool", kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 0, 1]),
        node("Conv", "pool", "v", output="depthwise", group=6, pads=[2, 0, 1, 0], strides=[2, 1]),
        node("Add", "depthwise", "depthwise", output="sum"),
        node("AveragePool", "sum", output="mean", kernel_shape=[2, 1], pads=[0, 0, 1, 0]),
    ]
    return images.image_network(nodes, constants, "float32", 2 * 15 * 5)


def listing_2() -> Network:
    """The paper's listing 2: o1 and two branches of convolutions, the second of which share their weights."""
    rng = np.random.default_rng(6)
    constants = {
        "image": np.array([-1, 1, 9, 7], np.int64),
        **{name: rng.normal(size=shape).astype(np.float32) for name, shape in
           {"v1": (4, 1, 3, 3), "v2": (4,), "v3": (3, 4, 2, 3), "v4": (3,), "v5": (2, 3, 3, 2), "v6": (2,),
            "v7": (3, 4, 2, 3), "v8": (3,), "v9": (32, 5), "v10": (5,)}.items()},
    }  # fmt: skip
    nodes = [
        node("Reshape", "x", "image", output="e1"),
        node("Conv", "e1", "v1", "v2", output="o1"),
        node("Conv", "o1", "v3", "v4", output="o2"),
        node("Conv", "o2", "v5", "v6", output="o3"),
        node("Conv", "o1", "v7", "v8", output="o4"),
        node("Conv", "o4", "v5", "v6", output="o5"),
        node("Concat", "o3", "o5", output="o6", axis=1),
        node("Flatten", "o6", output="o7"),
        node("Gemm", "o7", "v9", "v10", output="out"),
    ]
    return images.image_network(nodes, constants, "float32", 9 * 7)


NETWORKS: dict[str, Callable[[], Network]] = {
    "uint8": lambda: images.every_operator("uint8"),
    "int8": lambda: images.every_operator("int8"),
    "float32": float_images.every_operator,
    "chain": chain,
}


def everything(network: Network, *ways: str, over: Sequence[str] = ITEMS) -> list[str]:
    """Each layer that can be divided over two items or three, the ways in turn."""
    words = []
    for index, layer in enumerate(network.layers):
        for way in WAYS:
            pieces = layer.division.pieces(way)
            if pieces and pieces.count > 1 and way == ways[index % len(ways)]:
                items = over[: 2 + (pieces.count > 2 and index % 3 > 0)]
                words.append(f"{layer.name}={'+'.join(items[::-1] if index % 2 else items)}:{way}")
    return words


CASES: tuple[tuple[tuple[str, ...], Sync], ...] = (
    (("chain", "rows"), "barrier"),
    (("chain", "rows", "channels"), "flag"),
    (("uint8", "rows"), "flag"),
    (("uint8", "channels", "rows"), "barrier"),
    (("int8", "channels"), "flag"),
    (("float32", "rows"), "barrier"),
    (("float32", "channels"), "flag"),
)


@pytest.mark.parametrize(
    ("case", "sync"),
    [
        pytest.param(case, sync, id="-".join(case), marks=() if "chain" in case else pytest.mark.campaign)
        for case, sync in CASES
    ],
)
def test_shared_images_have_the_bits_of_the_reference(
    board: Profile, objects: Path, tmp_path: Path, case: tuple[str, ...], sync: Sync
) -> None:
    name, *ways = case
    subject = Subject.of(NETWORKS[name]())
    plan = planner.make(subject.network, board, block=BLOCK, split=everything(subject.network, *ways), sync=sync)
    assert {task.runs > 1 for task in plan.tasks} == {False, "rows" in ways}
    assert conformance.check(plan) == ()
    program = build_patched(plan, board, tmp_path / "bundle", flags=WARNED["c"], objects=objects)
    assert differing(program, subject, tmp_path / "run", "--random-delay", "100:1") == []
    assert replayed(plan, tmp_path / "run").violations == ()


def test_rows_that_follow_each_other_stay_on_their_item(board: Profile) -> None:
    """A clip reads what its item has; windows read the rows of others that they need, and only these."""
    plan = planner.make(chain(), board, block=BLOCK, split=["conv..mean=first+second+third:rows"])
    read = {
        task.name: [plan.tasks[source].name for source in plan.reads[index]] for index, task in enumerate(plan.tasks)
    }
    assert [read[f"clip_{part}"] for part in range(3)] == [["conv_0"], ["conv_1"], ["conv_2"]]
    assert [read[f"pool_{part}"] for part in range(3)] == [
        ["clip_0", "clip_1"],
        ["clip_0", "clip_1", "clip_2"],
        ["clip_1", "clip_2"],
    ]
    assert plan.part(plan.tasks[1]).input.shape[1] < 15
    alone = planner.make(chain(), board, block=BLOCK, split=["conv..mean=first+second+third"])
    assert {hand_over.name for hand_over in alone.hand_overs} == {"image_of_x"}


def test_a_halo_can_be_larger_than_a_part(board: Profile, objects: Path, tmp_path: Path) -> None:
    """One row of the output for an item, from rows that three items have computed."""
    subject = Subject.of(chain())
    words = ["conv..pool=first+second+third:rows", "depthwise=third+first+second:rows"]
    plan = planner.make(subject.network, board, block=BLOCK, split=words)
    assert differing(build_patched(plan, board, tmp_path / "b", objects=objects), subject, tmp_path / "run") == []


@pytest.mark.parametrize(
    "words",
    [("e1..out=first", "o4..o5=second"), ("e1..out=first", "o1..o5=first+second:rows", "out=second+first")],
    ids=["branches", "rows"],
)
def test_listing_2_runs_on_two_items(board: Profile, objects: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    subject = Subject.of(listing_2())
    plan = planner.make(subject.network, board, block=BLOCK, split=words)
    assert [item.name for item in plan.items] == ["first", "second"]
    assert plan_check.assess(plan).objections == ()
    folder.write(plan, tmp_path / "plan")
    assert folder.read(tmp_path / "plan").tasks == plan.tasks
    program = build_patched(plan, board, tmp_path / "bundle", objects=objects)
    assert differing(program, subject, tmp_path / "run", "--random-delay", "100:1") == []
    assert replayed(plan, tmp_path / "run").violations == ()


@pytest.mark.parametrize("ways", [("rows",), pytest.param(("channels", "rows"), marks=pytest.mark.campaign)])
def test_the_proof_of_shared_images_holds(board: Profile, objects: Path, tmp_path: Path, ways: tuple[str, ...]) -> None:
    network = images.every_operator("int8", "conv", "largest", "mean")
    trial = Workshop(board, objects, tmp_path).trial(network, block=7, split=everything(network, *ways))
    assert trial.refuted() == {}
    assert all(claim.holds for claim in trial.launched())
    asked = proof.questions(trial.subject, Extent(all_floats=False))
    claims = [question.ask() for question in asked if "are the layer" in question.statement]
    assert [claim.question.layer for claim in claims] == ["q", "conv", "largest", *["mean"] * (len(ways) - 1)]
    assert all(claim.holds for claim in claims)


MISTAKES = {
    "the halo is one row short": (
        r"(depthwise_1_source_0_merge\(.*?\n\{\n.*?), (\d+) \* sizeof",
        r"\1, (\2 - 2) * sizeof",
    ),
    "the halo is from other rows": (r"(depthwise_1_source_0_merge\(.*?&in\[0\]\[)(\d+)", r"\1(\2 - 3)"),
    "two parts are exchanged": (
        r"(depthwise_1_source_0_merge\(.*?\{)(pool_\d_output\[v\]), (pool_\d_output\[v\])",
        r"\1\3, \2",
    ),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_copy_is_found(board: Profile, objects: Path, tmp_path: Path, mistake: str) -> None:
    subject = Subject.of(chain())
    plan = planner.make(subject.network, board, block=BLOCK, split=everything(subject.network, "rows"))
    source, (old, new) = codegen.generate(plan).source, MISTAKES[mistake]
    wrong, count = re.subn(old, new, source, count=1, flags=re.DOTALL)
    assert count == 1
    program = build_patched(plan, board, tmp_path / "b", [Patch("network.c", source, wrong)], objects=objects)
    assert differing(program, subject, tmp_path / "run")[:1] == ["depthwise"]


of_wrong_windows = pytest.mark.parametrize(
    "wrong_windows", [pytest.param((-1, 0), id="halo"), pytest.param((0, 1), id="inner border")], indirect=True
)


@pytest.fixture
def wrong_windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part reads a row less than its halo, or its inner border is padded as an outer one."""
    (rows, before), right = request.param, Window.part

    def part(window: Window, axis: int, first: int, last: int) -> tuple[Window, int, int]:
        found, low, high = right(window, axis, first, last)
        if first == 0:
            return found, low, high
        shape, padding = (found.shape[0] + rows, found.shape[1]), (found.before[0] + before, found.before[1])
        return Window(shape, found.kernel, found.stride, found.dilation, padding, found.output), low, high + rows

    monkeypatch.setattr(Window, "part", part)


@pytest.mark.half_of_cases
@of_wrong_windows
@pytest.mark.usefixtures("wrong_windows")
def test_a_wrong_window_is_found(board: Profile, objects: Path, tmp_path: Path) -> None:
    subject = Subject.of(chain())
    plan = planner.make(subject.network, board, block=BLOCK, split=["conv=first+second:rows"])
    asked = proof.questions(proof.Subject.of(codegen.generate(plan), None), Extent(all_floats=False))
    [claim] = [question.ask() for question in asked if "are the layer" in question.statement]
    assert claim.counterexample.startswith("conv_1, vector 0: column ")
    program = build_patched(plan, board, tmp_path / "b", objects=objects)
    assert "conv" in differing(program, subject, tmp_path / "run")


def wrong_constants(network: Network, board: Profile, target: str, split: Sequence[str]) -> list[str]:
    """What is wrong with the tables of a plan for `target`, by the model's file, before anything is built."""
    items = board.items | {name: ItemProfile(target=target) for name in ITEMS[1:]}
    plan = planner.make(network, board.model_copy(update={"items": items}), split=split)
    asked = proof.questions(proof.Subject.of(codegen.generate(plan), None), Extent(all_floats=False))
    claims = [question.ask() for question in asked if question.step is ProofStep.CONSTANTS]
    return [claim.counterexample for claim in claims if claim.question.layer is None and not claim.holds]


@pytest.mark.campaign
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", ["c:vector", "cuda:layerwise", "cuda:fused", "tiovx:c7x", "vitis:fold2"])
def test_the_tables_of_parts_follow_from_the_file(board: Profile, target: str, way: str) -> None:
    for seed in range(12):
        types = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")][seed % 3]
        network = random_convolutions(np.random.default_rng(seed), 1 + seed % 2, *types, 3)
        layers = {layer.name: layer for layer in network.layers}
        words = everything(network, way, over=ITEMS[1:])
        split = [word for word in words if supports(target, layers[word.partition("=")[0]])]
        assert wrong_constants(network, board, target, split) == [], seed
        assert len(split) > 1


@of_wrong_windows
@pytest.mark.usefixtures("wrong_windows")
def test_a_table_of_a_wrong_window_is_found(board: Profile) -> None:
    """Under TIOVX, whose tables have the windows of parts."""
    network = images.every_operator("int8", "conv")
    [found] = wrong_constants(network, board, "tiovx:c7x", ["conv=first+second:rows"])
    assert re.match(r"table conv_1_(head|window)\[0\]\[\d+\] holds ", found)
