"""Every operator of the core: the activations, and the stages that a proof asks, of the networks that target c has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import targets
from harness.boards.profile import Profile
from harness.model.network import Network
from harness.plan import plan
from tests.simulators.test_accelerator_programs import FLAGS
from tests.simulators.tiovx.boards import with_dsp
from tests.support import codes, images
from tests.support.programs.board_program import assert_same, build_patched, references, uniform_vectors
from tests.support.programs.convolutions import random_convolutions

TYPES = {"u8u8": ("uint8", "uint8"), "u8s8": ("uint8", "int8"), "s8s8": ("int8", "int8")}


def convolutions(seed: int, types: str, axes: int = 2) -> Network:
    return random_convolutions(np.random.default_rng(seed), axes, *TYPES[types], 3)


NETWORKS = {
    "convolutions of uint8": lambda: convolutions(14, "u8u8"),
    "convolutions of uint8 by int8": lambda: convolutions(24, "u8s8"),
    "convolutions of int8": lambda: convolutions(7, "s8s8"),
    "convolutions of sequences": lambda: convolutions(2, "u8s8", 1),
    "images of uint8": lambda: images.every_operator("uint8"),
    "images of int8": lambda: images.every_operator("int8"),
    "codes of uint8": lambda: codes.every_operator("uint8", 37),
    "codes of int8": lambda: codes.every_operator("int8", 37),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_activation_is_that_of_the_specification(name: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    net, board = NETWORKS[name](), with_dsp(host)
    program = build_patched(
        plan.make(net, board, block=16, supports=targets.supports), board, tmp_path, flags=FLAGS, objects=objects
    )
    vectors = uniform_vectors(net, 40, seed=8)
    assert_same(program.activations(vectors, tmp_path / "out"), references(net, vectors))
