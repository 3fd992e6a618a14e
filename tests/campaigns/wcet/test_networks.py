"""Bounds of whole networks against counted instructions: ACETONE's networks in its variants, and convolutional ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import model
from harness.analysis.inspection import program
from harness.applications.wcet.execution import Executor, _Run
from harness.applications.wcet.state import STACK_BYTES, STACK_TOP
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.installation import ROOT
from harness.plan import planner
from tests.support import builders
from tests.support.programs.arm_instructions import with_compiler
from tests.support.programs.board_program import build_patched, parse
from tests.support.programs.c_variants import GNU, QEMU
from tests.support.programs.convolutions import random_convolutions
from tests.support.wcet import bounded, require_sound

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(QEMU is None, reason="qemu-aarch64 is not on this machine: apt-get install qemu-user"),
]

HIDDEN = {
    "reg50": [50] * 7,
    "reg200": [200] * 7,
    "decr128": [128, 128, 64, 32, 16],
    "decr256": [256, 256, 128, 64, 32, 16],
}
"""The hidden layers of ACETONE's networks (De Albuquerque Silva et al., ECRTS 2022, section 5)."""
WITHOUT_LOOPS = {"reg50", "decr128", "decr256"}
PAIRS = [
    (name, target, level)
    for name in HIDDEN
    for target in ("c:generic", "c:inlined", "c:unrolled")
    for level in ("-O0", "-O1")
    if target != "c:unrolled" or (name in WITHOUT_LOOPS and (name, level) != ("decr256", "-O1"))
]
"""All but reg200 without loops, and decr256 without loops at -O1, for which compilers take many minutes."""
FLOATS = ("acas_reg50", "acas_reg200", "acas_decr128", "acas_decr256")
IMAGES = ("lenet5", "cifarnet", "lenet5_int8", "ds_cnn_int8", "resnet8_int8")


@pytest.fixture(scope="module", autouse=True)
def _programs_share_what_they_can(kept_objects: None) -> None:
    """To compile takes longer than to run."""


def test_there_are_21_pairs() -> None:
    assert len(PAIRS) == 21


@pytest.mark.parametrize(("name", "target", "level"), PAIRS)
def test_the_bound_is_the_count(
    name: str, target: str, level: str, host: Profile, tmp_path: Path, objects: Path
) -> None:
    net = parse(builders.random_network(np.random.default_rng(1), [5, *HIDDEN[name], 5]))
    found = bounded(net, with_compiler(host, target, GNU, (level,)), tmp_path, objects)
    require_sound(found)
    assert [layer.decided_by_data for layer in found.bounds.layers] == [[]] * len(found.bounds.layers)
    assert {layer.layer: layer.instructions for layer in found.bounds.layers} == {
        layer.layer: found.counted[layer.function].fewest for layer in found.bounds.layers
    }


@pytest.mark.parametrize("target", ["c:generic", "c:inlined"])
@pytest.mark.parametrize("name", FLOATS)
def test_the_bound_of_float_networks_is_the_count(
    name: str, target: str, host: Profile, tmp_path: Path, objects: Path
) -> None:
    net = model.load(ROOT / "models" / f"{name}.onnx")
    found = bounded(net, with_compiler(host, target, GNU, ("-O1",)), tmp_path, objects)
    require_sound(found)
    assert found.ratio == 1


@pytest.mark.parametrize(
    ("target", "flags"),
    [("c:generic", ("-O1",)), ("c:inlined", ("-O3", "-mcpu=cortex-a53")), ("c:vector", ("-O3", "-mcpu=cortex-a53"))],
)
@pytest.mark.parametrize("name", IMAGES)
def test_the_bound_of_convolutional_networks_is_near_the_count(
    name: str, target: str, flags: tuple[str, ...], host: Profile, tmp_path: Path, objects: Path
) -> None:
    net = model.load(ROOT / "models" / f"{name}.onnx")
    found = bounded(net, with_compiler(host, target, GNU, flags), tmp_path, objects, vectors=2)
    require_sound(found)
    assert 1 <= found.ratio <= 1.05


@pytest.mark.parametrize(
    ("seed", "target", "level"),
    [(21, "c:generic", "-O2"), (22, "c:inlined", "-O3"), (23, "c:generic", "-O0"), (24, "c:vector", "-O3")],
)
def test_iterations_at_once_are_as_one_after_the_other(
    seed: int, target: str, level: str, host: Profile, tmp_path: Path, objects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = random_convolutions(np.random.default_rng(seed), 1, "uint8", "int8", 2)
    plan = planner.make(net, with_compiler(host, target, GNU, (level,)), block=1)
    built = build_patched(plan, with_compiler(host, target, GNU, (level,)), tmp_path, objects=objects)
    read = program.read(built.path)
    names = {forward.name for forward in codegen.generate(plan).forwards}
    starts = [symbol.address for symbol in read.functions if symbol.name in names]
    at_once = [_recorded(read, start) for start in starts]
    monkeypatch.setattr(_Run, "_hurry", lambda *_: 0)
    assert at_once == [_recorded(read, start) for start in starts]


def _recorded(read: program.Program, start: int) -> tuple[object, ...]:
    """Return the counts of all edges and loops, the stack, and the first and last address of each access."""
    found = Executor(read).execute(start, (1, 0)).recorded
    places: dict[tuple[int, bool], list[int]] = {}
    for each in found.accessed:
        if isinstance(each.start, int) and each.start < STACK_TOP - STACK_BYTES:
            places.setdefault((each.site, each.write), []).append(each.start)
    ends = {key: (min(starts), max(starts)) for key, starts in places.items()}
    return found.edges, found.iterations, found.lowest_stack, ends
