"""Programs with layers on images in the fabric: their bits, their proof, and mistakes that both must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import ItemProfile, Profile
from harness.model.network import Network
from tests.simulators.test_accelerator_programs import ACCELERATORS
from tests.simulators.vitis.boards import ON_PROCESSOR
from tests.simulators.vitis.test_image_layers import residual
from tests.support.images import every_operator
from tests.support.programs.board_program import assert_same, references, uniform_vectors, with_flags
from tests.support.proof.trials import Workshop

IN_FABRIC = (
    "QLinearConv", "MaxPool", "QLinearGlobalAveragePool", "QLinearAdd", "QLinearMul", "QGemm", "Flatten",
)  # fmt: skip
WINDOWS = ("conv", "largest", "mean", "vector")


def with_images(host: Profile, fold: int = 1) -> Profile:
    """This machine with all operators on images in the simulated fabric."""
    target = "vitis" if fold == 1 else f"vitis:fold{fold}"
    on_processor = ItemProfile(target=ON_PROCESSOR.target, operators=None)
    items = {"prepost": on_processor, "network": ItemProfile(target=target, operators=IN_FABRIC)}
    return with_flags(host.model_copy(update={"items": items}), *ACCELERATORS["vitis"].flags)


def cases() -> dict[str, Network]:
    """The cases of target c, and branches."""
    return {
        f"{name}, {dtype}": make(dtype)
        for name, make in (("windows", lambda dtype: every_operator(dtype, *WINDOWS)), ("branches", residual))
        for dtype in ("uint8", "int8")
    }


@pytest.mark.parametrize(
    ("name", "fold"),
    [
        ("windows, uint8", 2),
        ("branches, int8", 1),
        *(pytest.param(*each, marks=pytest.mark.campaign) for each in (("windows, int8", 1), ("branches, uint8", 4))),
    ],
)
def test_programs_have_the_bits_of_the_reference_and_their_proof_holds(
    name: str, fold: int, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net = cases()[name]
    trial = Workshop(with_images(host, fold), objects, tmp_path).trial(net, block=7)
    vectors = uniform_vectors(net, 50, seed=1)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), references(net, vectors))
    in_fabric = {trial.made.items[task.item].name for task in trial.made.tasks if task.layer not in (0, 1)}
    assert "network" in in_fabric
    assert trial.refuted() == {}
