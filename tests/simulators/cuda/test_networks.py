"""Random networks on the target's kernels: simulated on this machine, and the compiler's output interpreted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.model.network import Network
from harness.plan import planner
from tests.integration.programs.test_operators import COMPILED, half_way_vectors, models
from tests.simulators.cuda import interpreted
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import builders, dags
from tests.support.examples import ALL
from tests.support.programs.board_program import (
    BoardProgram,
    assert_same,
    build_patched,
    parse,
    references,
    uniform_vectors,
)

TARGETS = ["cuda:layerwise", "cuda:fused"]


@st.composite
def wide_models(draw: st.DrawFn) -> onnx.ModelProto:
    """Chains of up to 256 columns."""
    return builders.random_network(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        draw(st.lists(st.integers(1, 256), min_size=2, max_size=3)),
        weights=draw(st.sampled_from(["int8", "uint8"])),
        per_column=draw(st.booleans()),
        power_of_two=draw(st.booleans()),
        float_output=draw(st.booleans()),
        zero_points=draw(st.booleans()),
    )


@pytest.mark.campaign
@pytest.mark.parametrize("target", TARGETS)
@settings(COMPILED, max_examples=15)
@given(model=models() | wide_models(), carried=st.sampled_from([1, 4, 16, 128]), seed=st.integers(0, 2**32 - 1))
def test_the_compilers_output_computes_random_networks(
    model: onnx.ModelProto, carried: int, seed: int, target: str, host: Profile
) -> None:
    net = parse(model)
    vectors = half_way_vectors(net, 37, seed)
    code = interpreted.device_code(net, host, target)
    found = interpreted.activations(net, code, interpreted.compiled(code), vectors, carried)
    assert_same(found, references(net, vectors))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in (1, 2, 3))])
def test_the_compilers_output_computes_networks_that_branch_and_join(target: str, seed: int, host: Profile) -> None:
    net = parse(dags.random_dag(np.random.default_rng(seed), 9))
    vectors = uniform_vectors(net, 37, seed)
    code = interpreted.device_code(net, host, target)
    assert_same(interpreted.activations(net, code, interpreted.compiled(code), vectors), references(net, vectors))


def simulated(net: Network, board: Profile, targets: list[str], folder: Path, **choices: object) -> BoardProgram:
    plan = planner.make(net, board, targets, **choices)  # type: ignore[arg-type]
    return build_patched(plan, board, folder / "bundle", flags=FLAGS)


@pytest.mark.parametrize("target", TARGETS)
@settings(COMPILED, max_examples=5 if ALL else 2)
@given(model=models() | wide_models(), block=st.sampled_from([1, 16, 64, 1000]), seed=st.integers(0, 2**32 - 1))
def test_the_simulation_computes_random_networks(
    model: onnx.ModelProto, block: int, seed: int, target: str, host: Profile, tmp_path: Path
) -> None:
    net = parse(model)
    vectors = half_way_vectors(net, 203, seed)
    program = simulated(net, host, [target, target], tmp_path, block=block)
    assert_same(program.activations(vectors, tmp_path / "out"), references(net, vectors))
