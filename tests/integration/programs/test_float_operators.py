"""Float operators on target c in every variant: bits as the reference has them, and what a proof shows of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from harness.boards.profile import Profile
from harness.model.network import Network
from tests.support.builders import make_model
from tests.support.dags import random_float_graph
from tests.support.examples import first_of_each
from tests.support.programs.board_program import Patch, assert_same, parse, references, uniform_vectors, with_flags
from tests.support.programs.c_variants import EVERY, of_variant
from tests.support.proof.trials import Workshop


def every_operator() -> Network:
    """A network with all float operators, that joins four inputs of one Concat."""
    constants = {
        "row": np.array([1.5, -0.25, 1e-3, -7.0], np.float32),
        "low": np.float32(-0.5),
        "high": np.float32(0.75),
        "least": np.float32(-4),
        "most": np.float32(4),
        "shape": np.array([-1, 2, 2]),
    }
    nodes = [
        helper.make_node("Clip", ["x", "least", "most"], ["bounded"], name="bounded"),
        helper.make_node("Sub", ["row", "bounded"], ["from_row"], name="from_row"),
        helper.make_node("Sub", ["bounded", "row"], ["less_row"], name="less_row"),
        helper.make_node("Sub", ["from_row", "less_row"], ["difference"], name="difference"),
        helper.make_node("Mul", ["bounded", "row"], ["scaled"], name="scaled"),
        helper.make_node("Mul", ["scaled", "less_row"], ["product"], name="product"),
        helper.make_node("Clip", ["product", "low", "high"], ["clipped"], name="clipped"),
        helper.make_node("Relu", ["difference"], ["rectified"], name="rectified"),
        helper.make_node("LeakyRelu", ["difference"], ["leaky"], name="leaky", alpha=0.3),
        helper.make_node("Concat", ["clipped", "rectified", "bounded", "leaky"], ["joined"], name="joined", axis=1),
        helper.make_node("Reshape", ["clipped", "shape"], ["square"], name="square"),
        helper.make_node("Flatten", ["square"], ["flat"], name="flat"),
        helper.make_node("ArgMax", ["joined"], ["index"], name="index", axis=1),
    ]
    outputs = {"flat": ("float32", 4), "index": ("int64", 1)}
    return parse(make_model(nodes, constants, outputs, width=4, metadata=None))


NETS = {"every operator": every_operator()} | {
    f"random {seed}": parse(random_float_graph(np.random.default_rng(seed), 14)) for seed in range(3)
}
IN_TEST = {*(("every operator", target) for target in EVERY), ("random 0", EVERY[0])}


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("net", "target"),
    [
        pytest.param(
            net, target, id=f"{name}, {target}", marks=[] if (name, target) in IN_TEST else pytest.mark.campaign
        )
        for name, net in NETS.items()
        for target in EVERY
    ],
)
def test_every_variant_has_the_bits_of_the_reference(
    net: Network, target: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    workshop = Workshop(with_flags(of_variant(host, target), "-O2"), objects, tmp_path)
    trial = workshop.trial(net, block=7)
    vectors = uniform_vectors(net, 200, seed=1)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), references(net, vectors))


# The others are proved in the campaigns.
PROVED = {("every operator", "c"), ("every operator", "c:vector")}


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("net", "target"),
    [
        pytest.param(
            net, target, id=f"{name}, {target}", marks=[] if (name, target) in PROVED else pytest.mark.campaign
        )
        for name, net in NETS.items()
        for target in EVERY
    ],
)
def test_the_proof_holds(net: Network, target: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    workshop = Workshop(with_flags(of_variant(host, target), "-O2"), objects, tmp_path)
    assert workshop.trial(net, block=7).refuted() == {}


WRONG = {
    "Relu by fmax": (
        "network.c",
        "(in[n] < limit_0) ? limit_0 : in[n]",
        "(in[n] > limit_0) ? in[n] : limit_0",
        "rectified",
    ),
    "LeakyRelu with another bound": ("network.c", "(x) - 0x80000001u <", "(x) - 0xc0000001u <", "leaky"),
    "LeakyRelu by the next alpha": ("network.c", "alpha * x;", "alpha * 1.0000001f * x;", "leaky"),
    "Clip to a wrong bound": ("network.c", "(x < low) ? low", "(x < low) ? low * 1.0000001f", "clipped"),
    "Mul in double precision": ("network.c", "= A * B;", "= (float)((double)A * B * (1 + 0x1p-40));", "scaled"),
    "Sub with the terms exchanged": ("network.c", "= A - B;", "= B - A;", "from_row"),
    "Concat out of order": ("network.c", "out[i1 + 4] = in_1[i1]", "out[i1 + 8] = in_1[i1]", "joined"),
    "Reshape that forgets a value": ("network.c", "out[i0] = in[i0];", "out[i0] = in[i0 & 2];", "square"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_operator_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    file, old, new, layer = WRONG[wrong]
    path = file if file == "network.c" else f"kernels/c/{file}"
    workshop = Workshop(with_flags(host, "-O2"), objects, tmp_path)
    trial = workshop.trial(NETS["every operator"], [Patch(path, old, new)])
    assert trial.refuted(layer)
