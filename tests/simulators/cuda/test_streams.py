"""Several items on one GPU: each has a stream, what they exchange stays on the GPU, and events order it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.boards.profile import ItemProfile, Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.plan import plan
from harness.reference import SpecificationReference
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import dags
from tests.support.programs.board_program import BoardProgram, assert_same, build_patched, parse, uniform_vectors

ITEMS = ("gpu_a", "gpu_b", "gpu_c")
LISTING_3 = ["e1..o1=gpu_a", "o2..o3=gpu_b", "o4..o5=gpu_c"]


def with_items(host: Profile, *names: str) -> Profile:
    """The board with these processing elements, all of them its GPU."""
    return host.model_copy(update={"items": {name: ItemProfile(target="cuda:layerwise") for name in names}})


def plan_of(net: Network, host: Profile, split: list[str], **choices: Any) -> plan.Plan:
    """The plan for the three items, of which those without work are left out; blocks are shorter than the vectors."""
    return plan.make(net, with_items(host, *ITEMS), split=split, **({"block": 16} | choices))


def assert_identical(program: BoardProgram, vectors: Array, folder: Path, *options: object) -> None:
    expected = SpecificationReference(program.network).activations(vectors)
    assert_same(program.activations(vectors, folder, *options), expected)


@pytest.mark.parametrize("target", ["cuda:layerwise", "cuda:fused"])
@pytest.mark.parametrize("sync", ["barrier", "flag"])
def test_the_papers_items(target: str, sync: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    """Listing 3: its three items on one GPU."""
    net = parse(dags.listing_2())
    made = plan_of(net, host, LISTING_3, sync=sync, targets=[target] * 3)
    program = build_patched(made, host, tmp_path / "bundle", flags=FLAGS, objects=objects)
    assert_identical(program, uniform_vectors(net, 70, seed=8), tmp_path / "out")
