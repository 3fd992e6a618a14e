"""Programs with layers on images in the fabric: their bits, and their proof."""

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
    "QLinearConv", "MaxPool", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearAdd", "QLinearMul", "QGemm",
    "QLinearConcat",
    "Concat",     "Flatten",
)  # fmt: skip
WINDOWS = ("conv", "largest", "means", "padded", "mean", "vector")


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


def test_a_program_has_the_bits_of_the_reference(host: Profile, objects: Path, tmp_path: Path) -> None:
    """With layers before and behind on the processor, and folded products."""
    net = every_operator("uint8", *WINDOWS)
    trial = Workshop(with_images(host, 2), objects, tmp_path).trial(net, block=7)
    vectors = uniform_vectors(net, 20, seed=1)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), references(net, vectors))
    in_fabric = {net.layers[task.layer].operator for task in trial.made.tasks if task.item == 1}
    assert in_fabric == {"QLinearConv", "MaxPool", "QLinearAveragePool", "QLinearGlobalAveragePool", "Flatten"}


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("name", "fold"), [("windows, uint8", 2), ("windows, int8", 1), ("branches, uint8", 4), ("branches, int8", 1)]
)
def test_the_proof_of_every_layer_holds(name: str, fold: int, host: Profile, objects: Path, tmp_path: Path) -> None:
    net = cases()[name]
    trial = Workshop(with_images(host, fold), objects, tmp_path).trial(net, block=7)
    vectors = uniform_vectors(net, 50, seed=1)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), references(net, vectors))
    assert trial.refuted() == {}
