"""Operators on codes on a simulated GPU in both variants: bits as the reference has them, their proof, and mutants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from harness import targets
from harness.boards.profile import Profile
from harness.model.network import Network
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import codes, images
from tests.support.programs.board_program import Patch, assert_same, references, uniform_vectors, with_flags
from tests.support.programs.convolutions import random_convolutions
from tests.support.proof.trials import Trial, Workshop

NETWORKS = {
    "codes": lambda dtype: codes.every_operator(dtype, 23),
    "images": images.every_operator,
    "convolutions": lambda dtype: random_convolutions(np.random.default_rng(2), 2, dtype, dtype, 3),
    "sequences": lambda dtype: random_convolutions(np.random.default_rng(1), 1, dtype, "int8", 2),
}
VARIANTS = ("layerwise", "fused")
IN_TEST = {("codes", "uint8", "fused"), ("images", "int8", "layerwise"), ("convolutions", "uint8", "fused")}
EVERY = [
    pytest.param(*each, marks=() if each in IN_TEST else pytest.mark.campaign)
    for each in ((name, dtype, variant) for name in NETWORKS for dtype in ("uint8", "int8") for variant in VARIANTS)
]


def trial(net: Network, variant: str, host: Profile, objects: Path, folder: Path, wrong: Sequence[Patch] = ()) -> Trial:
    """A program in which the GPU computes all layers that it can."""
    target = targets.find(f"cuda:{variant}")
    owners = [f"{layer.name}={'prepost' if target.unsupported(layer) else 'network'}" for layer in net.layers]
    items = {
        name: item.model_copy(update={"target": name_of})
        for (name, item), name_of in zip(host.items.items(), ("c", f"cuda:{variant}"), strict=True)
    }
    board = with_flags(host.model_copy(update={"items": items}), *FLAGS)
    return Workshop(board, objects, folder).trial(net, wrong, block=7, split=owners)


@pytest.mark.parametrize(("name", "dtype", "variant"), EVERY)
def test_every_operator_has_the_bits_of_the_reference(
    name: str, dtype: str, variant: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net = NETWORKS[name](dtype)
    made = trial(net, variant, host, objects, tmp_path)
    vectors = uniform_vectors(net, 50, seed=1)
    assert_same(made.program.activations(vectors, tmp_path / "run"), references(net, vectors))
