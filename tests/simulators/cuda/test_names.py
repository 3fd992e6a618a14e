"""Layers and items may be called what they like: nothing of the fixed sources has the name of generated code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.plan import planner
from harness.reference import SpecificationReference
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import dags
from tests.support.programs.board_program import assert_same, build_patched, parse, uniform_vectors


def with_an_item_called_gpu(board: Profile) -> Profile:
    items = board.model_dump()["items"]
    return Profile.model_validate(board.model_dump() | {"items": {"cpu": items["prepost"], "gpu": items["network"]}})


@pytest.mark.parametrize("target", ["cuda:layerwise", "cuda:fused", "cuda:tensor"])
def test_names_of_the_fixed_sources_serve_for_layers_and_items(
    target: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    graph = dags.Graph(np.random.default_rng(2))
    graph.quantize("each", "x", 0.4)
    graph.qgemm("qgemm", "each")
    graph.qgemm("gpu", "qgemm", to_float=True)
    net, board = parse(graph.model()), with_an_item_called_gpu(host)
    assert [layer.name for layer in net.layers] == ["each", "qgemm", "gpu"]
    plan = planner.make(net, board, [target, target], block=16)
    program = build_patched(plan, board, tmp_path / "bundle", flags=FLAGS, objects=objects)
    vectors = uniform_vectors(net, 40, seed=3)
    assert_same(program.activations(vectors, tmp_path / "out"), SpecificationReference(net).activations(vectors))
