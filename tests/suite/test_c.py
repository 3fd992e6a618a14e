"""Every operator on target c in every variant: bits of the specification, proofs, warnings and branches."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.analysis.proof import constants
from harness.analysis.proof.independent import file
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators import float_contraction, obligations
from harness.plan import planner
from harness.reference import SpecificationReference
from tests.support import codes, every_operator, functions, integers
from tests.support.dags import random_float_graph
from tests.support.programs.arm_instructions import with_compiler
from tests.support.programs.board_program import (
    assert_same,
    build_patched,
    parse,
    references,
    run_sanitized,
    uniform_vectors,
    with_flags,
)
from tests.support.programs.c_variants import (
    EVERY,
    LEVEL,
    OTHER_COMPILERS,
    WARNED,
    WARNINGS,
    compile_network,
    disassembled,
    of_variant,
)
from tests.support.proof.trials import Workshop

WIDTH = 83
"""Whole vectors of every processor, and a rest."""
FLOATS: Mapping[str, Callable[[], Network]] = {
    **every_operator.NETWORKS,
    "codes uint8": partial(codes.every_operator, "uint8", WIDTH),
    "codes int8": partial(codes.every_operator, "int8", WIDTH),
    "definitions": functions.every_definition,
}
NETWORKS: Mapping[str, Callable[..., Network]] = {**FLOATS, **integers.NETWORKS}
CONFIRMED = ("codes uint8", "codes int8", "images uint8", "images int8", "terms")
"""Networks of which ONNX Runtime has every bit."""
WITH_NATIVE = ("codes uint8", "codes int8", "functions", "definitions")
"""Networks that are also compiled with all instructions of this processor."""


def board_of(host: Profile, target: str, flags: str) -> Profile:
    """Return this machine with every item of a variant, and with flags for which a warning of gcc is an error."""
    native = ("-O3", "-march=native", *WARNINGS)
    return with_flags(of_variant(host, target), *(native if flags == "native" else WARNED[target]))


def vectors_of(name: str, net: Network) -> Array:
    """Return vectors of a network, with special values where it reads float32 of any size."""
    if name in integers.NETWORKS:
        return np.asarray(integers.vectors(300))
    if name in {"functions", "definitions"}:
        return functions.inputs()
    if name != "float images":
        return uniform_vectors(net, 100, seed=1)
    rng = np.random.default_rng(1)
    vectors = rng.normal(0, 3, (60, net.vector.size)).astype(np.float32)
    vectors[:20] = rng.choice(np.float32([0, -0.0, -1, 1e-39]), (20, net.vector.size))
    return vectors


def built() -> Iterator[Any]:
    """Yield name, target, flags and part: two or three variants of a network in `make test`, parts of integers."""
    for (number, name), (place, target) in itertools.product(enumerate(FLOATS), enumerate(EVERY)):
        flags = ("plain", "native") if name in WITH_NATIVE else ("plain",)
        chosen = flags[(number + place) // 2 % len(flags)] if (number + place) % 2 == 0 else ""
        for each in flags:
            yield pytest.param(name, target, each, "", marks=() if each == chosen else pytest.mark.campaign)
    for name, (place, target) in itertools.product(integers.NETWORKS, enumerate(EVERY)):
        yield pytest.param(name, target, "plain", f"{place} of {len(EVERY)}")
        yield pytest.param(name, target, "plain", "", marks=pytest.mark.campaign)


def network(name: str, part: str = "") -> Network:
    """Return a network of a name, or a part of a network of integers: "PLACE of COUNT"."""
    return NETWORKS[name](tuple(map(int, part.split(" of ")))) if part else NETWORKS[name]()


@pytest.mark.parametrize(("name", "target", "flags", "part"), list(built()))
def test_the_bits_are_those_of_the_specification(
    name: str, target: str, flags: str, part: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net = network(name, part)
    vectors = vectors_of(name, net)
    trial = Workshop(board_of(host, target, flags), objects, tmp_path).trial(net, block=7)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), SpecificationReference(net).activations(vectors))


@pytest.mark.parametrize("name", integers.NETWORKS)
def test_the_parts_of_a_network_have_all_its_layers(name: str) -> None:
    parts = [network(name, f"{place} of {len(EVERY)}") for place in range(len(EVERY))]
    layers = {layer.output for part in parts for layer in part.layers}
    assert layers == {layer.output for layer in network(name).layers}


@pytest.mark.campaign
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("seed", range(3))
def test_random_networks_have_the_bits(seed: int, target: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    net = parse(random_float_graph(np.random.default_rng(seed), 14))
    workshop = Workshop(with_flags(of_variant(host, target), "-O2"), objects, tmp_path)
    trial, vectors = workshop.trial(net, block=7), uniform_vectors(net, 200, seed=1)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), references(net, vectors))
    assert trial.refuted() == {}


@pytest.mark.parametrize("name", CONFIRMED)
def test_onnx_runtime_has_the_bits_of_the_specification(name: str) -> None:
    net = network(name)
    vectors = vectors_of(name, net)
    assert_same(references(net, vectors), SpecificationReference(net).activations(vectors))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_specification_has_the_constants_of_the_file(name: str) -> None:
    net = network(name)
    assert constants._wrong_constant(net.layers, file.nodes(net.onnx_bytes)) == ""


@pytest.mark.parametrize("name", integers.NETWORKS)
@pytest.mark.parametrize("part", ["0 of 5", pytest.param("", marks=pytest.mark.campaign)])
def test_no_operation_on_integers_is_undefined(
    name: str, part: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    plan = planner.make(network(name, part), of_variant(host, "c:inlined"), block=10)
    flags = ("-O1", "-fsanitize=undefined,float-cast-overflow")
    program = build_patched(plan, host, tmp_path, flags=flags, objects=objects)
    done = run_sanitized(program, integers.vectors(200), tmp_path)
    assert (done.returncode, done.stderr.count("runtime error")) == (0, 0), done.stderr


PROVED = {
    *(("codes int8", "c", "plain"), ("codes uint8", "c:vector", "native"), ("terms", "c", "plain")),
    *(("functions", "c", "plain"), ("functions", "c:vector", "native"), ("float images", "c:vector", "plain")),
    *(("images uint8", "c", "plain"), ("images int8", "c:vector", "plain")),
    *(("casts", "c", "plain"), ("choices", "c:generic", "plain")),
}


def proved() -> Iterator[Any]:
    """Yield name, target, flags and how many times samples are halved, fewer in `make test`."""
    for name, target, flags in itertools.product(NETWORKS, EVERY, ("plain", "native")):
        if name == "definitions" or (flags == "native" and name not in WITH_NATIVE):
            continue
        halvings = 6 if name in integers.NETWORKS else 0
        in_test = (name, target, flags) in PROVED
        if not in_test or not halvings:
            yield pytest.param(name, target, flags, halvings, marks=pytest.mark.campaign)
        if in_test:
            yield pytest.param(name, target, flags, 10 if name == "float images" else 6)


@pytest.mark.parametrize(("name", "target", "flags", "halvings"), list(proved()))
def test_the_proof_holds(
    name: str,
    target: str,
    flags: str,
    halvings: int,
    host: Profile,
    objects: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(obligations, "VALUES", obligations.VALUES >> halvings)
    monkeypatch.setattr(float_contraction, "WORK_OF_A_PROOF", float_contraction.WORK_OF_A_PROOF >> halvings)
    workshop = Workshop(board_of(host, target, flags), objects, tmp_path)
    assert workshop.trial(network(name), block=7).refuted() == {}


@pytest.mark.parametrize("name", ["codes int8", "images int8", "float images", "functions"])
@pytest.mark.parametrize(("compiler", "target"), OTHER_COMPILERS)
def test_no_other_compiler_has_a_warning(name: str, compiler: str, target: str, host: Profile, tmp_path: Path) -> None:
    board = with_compiler(host, target, compiler, (LEVEL[target],))
    compile_network(network(name), board, tmp_path, *WARNINGS)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it is about instructions of x86")
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("codes uint8", ("-O3", "-mavx2")),
        ("functions", ("-O3", "-mavx2")),
        pytest.param("functions", ("-O2",), marks=pytest.mark.campaign),
    ],
)
def test_no_branch_depends_on_a_float(
    name: str, flags: tuple[str, ...], target: str, host: Profile, tmp_path: Path
) -> None:
    """Without FMA, where rounding to odd takes the place of the instruction."""
    compiled = compile_network(network(name), with_compiler(host, target, "gcc", flags), tmp_path)
    assert "comis" not in disassembled(compiled)
