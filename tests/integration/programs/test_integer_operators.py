"""Operators on integers on target c in every variant: the bits of the specification, proofs, wrong operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import Profile
from harness.operators import obligations
from harness.plan import planner
from harness.reference.specification import SpecificationReference
from tests.support import integers
from tests.support.programs.board_program import assert_same, build_patched, run_sanitized, with_flags
from tests.support.programs.c_variants import EVERY, of_variant
from tests.support.proof.trials import Workshop

NETWORKS = integers.NETWORKS
IN_TEST = {("casts", "c"), ("choices", "c:generic")}
CASES = [
    pytest.param(name, target, marks=() if (name, target) in IN_TEST else pytest.mark.campaign)
    for name in NETWORKS
    for target in EVERY
]
PARTS = [(target, (place, len(EVERY))) for place, target in enumerate(EVERY)]
"""Each variant has another part of a network in `make test`, and the whole network in `make campaigns`."""
WHOLES = [pytest.param(target, integers.WHOLE, marks=pytest.mark.campaign) for target in EVERY]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("target", "part"), [*PARTS, *WHOLES])
def test_every_variant_has_the_bits_of_the_specification(
    name: str, target: str, part: integers.Part, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net, vectors = NETWORKS[name](part), integers.vectors(300)
    trial = Workshop(with_flags(of_variant(host, target), "-O1"), objects, tmp_path).trial(net, block=7)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), SpecificationReference(net).activations(vectors))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("part", [(0, 5), pytest.param(integers.WHOLE, marks=pytest.mark.campaign)])
def test_no_operation_is_undefined(
    name: str, part: integers.Part, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net = NETWORKS[name](part)
    made = planner.make(net, of_variant(host, "c:inlined"), block=10)
    flags = ("-O1", "-fsanitize=undefined,float-cast-overflow")
    program = build_patched(made, host, tmp_path, flags=flags, objects=objects)
    done = run_sanitized(program, integers.vectors(200), tmp_path)
    assert (done.returncode, done.stderr.count("runtime error")) == (0, 0), done.stderr


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 times fewer than in a proof."""
    monkeypatch.setattr(obligations, "VALUES", obligations.VALUES >> 6)


@pytest.mark.parametrize(("name", "target"), CASES)
@pytest.mark.usefixtures("few_samples")
def test_the_proof_holds(name: str, target: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    workshop = Workshop(with_flags(of_variant(host, target), "-O2"), objects, tmp_path)
    assert workshop.trial(NETWORKS[name](), block=7).refuted() == {}
