"""Launches whose tasks do not stand side by side in network.c, and a GPU's items among others in a pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.model.network import Network
from harness.plan import launches, planner
from harness.reference import SpecificationReference
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import dags
from tests.support.examples import alternating
from tests.support.programs.board_program import assert_same, build_patched, parse, uniform_vectors


def two_branches() -> Network:
    """Which join; another layer reads the first of a branch."""
    graph = dags.Graph(np.random.default_rng(2))
    graph.quantize("q", "x", 0.4)
    for branch in ("a", "b"):
        graph.qgemm(f"{branch}1", "q")
        graph.qgemm(f"{branch}2", f"{branch}1", to_float=True)
    graph.add("sum", "a2", "b2")
    graph.qgemm("c", "a1")
    return parse(graph.model())


LAUNCHES = {
    "a source that is defined below": (["a1", "b1"], ["a2", "b2", "sum", "c"]),
    "an output with copies that the launch reads itself": (["q", "a1", "a2", "b1"], ["q", "a1", "a2", "b1"]),
}


TENSOR = [pytest.param(value, "cuda:tensor", id=f"{name}-tensor", marks=pytest.mark.campaign)
          for name, value in LAUNCHES.items()]  # fmt: skip


@pytest.mark.parametrize(("layers", "target"), [*alternating(LAUNCHES, ["cuda:layerwise", "cuda:fused"]), *TENSOR])
def test_a_launch_reads_and_writes_the_copies_of_its_execution(
    layers: tuple[list[str], list[str]], target: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net, (network, launch) = two_branches(), layers
    owners = [f"{layer.name}={'network' if layer.name in network else 'prepost'}" for layer in net.layers]
    plan = planner.make(net, host, [target, target], block=7, split=[*owners, "pipeline"])
    names = [[task.name for task in each.tasks] for each in launches.planned_launches(plan)]
    assert launch in names
    program = build_patched(plan, host, tmp_path / "bundle", flags=FLAGS, objects=objects)
    vectors = uniform_vectors(net, 60, seed=3)
    found = program.activations(vectors, tmp_path / "out", "--repeat", 2)
    assert_same(found, SpecificationReference(net).activations(vectors))
