"""Constants above 64 KiB are files that the assembler includes: their bytes, symbols and results."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.inspection import program as elf
from harness.analysis.proof import Side, constants
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.plan import planner
from harness.targets.contraction import signed_weights
from harness.targets.generated import TEXT_LIMIT
from tests.support import builders
from tests.support.programs.board_program import assert_same, parse, references, uniform_vectors, with_flags
from tests.support.programs.c_variants import BY_NAME, ZIG, Implementation, of_variant
from tests.support.proof.trials import Workshop

FILE = "constants/layer_0_weights.bin"
BYTES = 600 * 512
COMPILERS = {
    "gcc": Implementation("gcc", ("-O3", "-march=native"), ()),
    "gcc, not position-independent": Implementation("gcc", ("-O2", "-no-pie", "-fno-pie"), ()),
    "clang": Implementation("clang", ("-O3",), (), "python-zig cc"),
    "gcc for Arm": BY_NAME["NEON"],
    "clang for Arm": BY_NAME["NEON by clang"],
    "clang for Arm, hardly optimised": Implementation("clang", ("-O1", "-mcpu=cortex_a72"), (), ZIG),
}
LIKE_OTHERS = {"clang", "clang for Arm, hardly optimised"}


@pytest.fixture(scope="module")
def net() -> Network:
    return parse(builders.random_network(np.random.default_rng(1), (600, 512, 3), zero_points=True, per_column=True))


@pytest.mark.parametrize(
    ("compiler", "target"),
    [
        # Most compilers have one of the targets in `make test`, and all have both in `make campaigns`.
        pytest.param(
            compiler, target, marks=[pytest.mark.campaign] if number % 2 == column or compiler in LIKE_OTHERS else []
        )
        for number, compiler in enumerate(COMPILERS)
        for column, target in enumerate(("c:vector", "c"))
    ],
)
def test_the_program_computes_with_them(
    compiler: str, target: str, net: Network, host: Profile, objects: Path, tmp_path: Path
) -> None:
    implementation = COMPILERS[compiler]
    implementation.require()
    program = implementation.program(net, host, tmp_path / "bundle", objects, target=target)
    vectors = uniform_vectors(net, 40, seed=2)
    assert_same(program.activations(vectors, tmp_path), references(net, vectors))
    found = elf.read(program.path)
    [symbol] = [each for each in found.objects if each.name == "layer_0_weights"]
    assert (symbol.size, symbol.file, symbol.address % 64) == (BYTES, "network.c", 0)
    section = found.section_at(symbol.address)
    assert section is not None
    assert not section.writable


@pytest.mark.parametrize("target", ["c", "c:generic", "c:inlined"])
def test_the_file_has_the_bytes_of_the_model_and_the_text_their_hash(net: Network, host: Profile, target: str) -> None:
    generated = codegen.generate(planner.make(net, of_variant(host, target)))
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    assert set(generated.files) == {"network.c", FILE}
    assert generated.files[FILE] == signed_weights(layer)[0].T.tobytes()
    assert len(generated.files[FILE]) == BYTES > TEXT_LIMIT
    assert hashlib.sha256(generated.files[FILE]).hexdigest() in generated.source
    assert len(generated.source) < 100_000
    assert "layer_1_weights[3][512] = {" in generated.source


@pytest.mark.campaign
def test_a_core_gets_them_and_gives_them_back(net: Network, host: Profile, objects: Path, tmp_path: Path) -> None:
    """They are in the data section: when a proof asks, the program overwrites them with what the core has."""
    board = of_variant(host, "tiovx:c7x")
    board = board.model_copy(update={"items": host.items | {"network": board.items["network"]}})
    trial = Workshop(board, objects, tmp_path).trial(net)
    generated = codegen.generate(trial.made)
    assert set(generated.files) >= {"constants/layer_0_weights.bin", "constants/layer_0_thresholds.bin"}
    vectors = uniform_vectors(net, 40, seed=2)
    assert_same(trial.program.activations(vectors, tmp_path), references(net, vectors))
    asked = constants.questions(trial.network, trial.parts, generated.tasks, trial.probe)
    claim = next(question for question in asked if question.side is Side.BOARD).ask()
    assert claim.holds, claim.counterexample
    assert claim.question.cases > BYTES


def test_the_proof_reads_every_bit_of_them(net: Network, host: Profile, objects: Path, tmp_path: Path) -> None:
    trial = Workshop(host, objects, tmp_path).trial(net)
    asked = constants.questions(trial.network, trial.parts, codegen.generate(trial.made).tasks, trial.probe)
    claim = next(question for question in asked if question.side is Side.BOARD).ask()
    assert claim.holds, claim.counterexample
    assert claim.question.cases > BYTES


@pytest.fixture(scope="module")
def wrong(net: Network) -> Network:
    """The network with one other bit in its last weight."""
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    weights = layer.weights.copy()
    weights[599, 511] ^= 1
    return dataclasses.replace(
        net, layers=(net.layers[0], dataclasses.replace(layer, weights=weights), *net.layers[2:])
    )


def test_one_wrong_bit_of_them_is_found(
    net: Network, wrong: Network, host: Profile, objects: Path, tmp_path: Path
) -> None:
    trial = Workshop(host, objects, tmp_path).trial(net, change=lambda each: wrong.layers[net.layers.index(each)])
    asked = constants.questions(net, trial.parts, codegen.generate(trial.made).tasks, trial.probe)
    claim = next(question for question in asked if question.side is Side.BOARD).ask()
    assert claim.counterexample.startswith("table layer_0_weights[511][599] holds")


def test_a_bundle_has_the_file_and_its_name_depends_on_it(
    net: Network, wrong: Network, host: Profile, tmp_path: Path
) -> None:
    board = with_flags(host, "-O0")
    built, other = (
        bundle.build(codegen.generate(planner.make(each, board, block=4)), board, tmp_path) for each in (net, wrong)
    )
    assert (built.folder / FILE).stat().st_size == BYTES
    assert built.files[FILE] == hashlib.sha256((built.folder / FILE).read_bytes()).hexdigest() != other.files[FILE]
    assert built.sha256 != other.sha256
