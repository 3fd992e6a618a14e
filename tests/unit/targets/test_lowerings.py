"""Lowerings are found by the names of files and by entry points; which item computes a layer follows from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import operators, targets
from harness.boards.profile import ItemProfile, Profile
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.move import Move
from harness.operators.qlinear_concat import QLinearConcat
from harness.plan import planner
from harness.targets import base
from tests.support import builders
from tests.support.programs.board_program import parse

AGAIN = """
from harness.operators.add import Add
from harness.targets.c.pointwise import FunctionLowering

class Again(FunctionLowering):
    operator = Add

class Other:
    operator = Add
"""


@pytest.fixture(scope="module")
def net() -> Network:
    return parse(builders.random_network(np.random.default_rng(5), (3, 4, 2), residual=2))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the metadata of a package that can be imported."""
    (tmp_path / "again_c.py").write_text(AGAIN)
    information = tmp_path / "again-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: again\nVersion: 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    return information


@pytest.mark.parametrize("name", targets.names())
def test_the_lowerings_of_a_target_are_in_the_files_of_their_operators_or_families(name: str) -> None:
    target = targets.find(name)
    for operator, lowering in target.lowerings.items():
        files = {base.__module__.rpartition(".")[2] for base in operator.__mro__ if issubclass(base, Layer)}
        files |= {"move"} if operator is QLinearConcat else set()  # it moves codes that it looks up
        files |= {"pointwise"}  # of all definitions of values at one place
        assert type(lowering).__module__ in {f"harness.targets.{target.name}.{file}" for file in files}
        assert isinstance(lowering, target.lowering)


def test_a_lowering_of_a_family_computes_each_of_its_operators_once() -> None:
    moves = {operator for operator in operators.by_onnx_name().values() if issubclass(operator, Move)}
    assert len(moves) >= 6
    assert len({targets.find("c").lowerings[move] for move in moves}) == 1


def test_the_processor_computes_every_operator() -> None:
    of_harness = {each for each in operators.by_onnx_name().values() if each.__module__.startswith("harness.")}
    known = (operator for operator in targets.find("c").lowerings if operator.ONNX)
    computed = {operator for operator in known if operator.__module__.startswith("harness.")}
    assert computed == of_harness


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("c:add = again_c:Again", "target c: Add has two lowerings, in harness.targets.c.pointwise and again_c"),
        ("c:add = again_c:Other", "lowering c:add: again_c:Other is not a subclass of harness.targets.c.code.C"),
        ("c:add = again_c:Nothing", "lowering c:add cannot be loaded: again_c:Nothing: AttributeError"),
    ],
)
@pytest.mark.parametrize("package", ["importlib.metadata", "importlib_metadata"])
def test_a_wrong_lowering_of_a_third_party_is_named(installed: Path, entry: str, message: str, package: str) -> None:
    """A package such as dask imports importlib_metadata, which then finds the entry points, for the whole process."""
    pytest.importorskip(package)
    (installed / "entry_points.txt").write_text(f"[{base.LOWERINGS}]\n{entry}\n")
    with pytest.raises(RequestError) as caught:
        targets.find("c").lowerings  # noqa: B018 - they are loaded when they are used
    assert caught.value.message.startswith(message)
    assert Add not in targets.find("vitis").lowerings


def items_of(net: Network, board: Profile, *names: str) -> dict[str, str]:
    made = planner.make(net, board, names)
    return {net.layers[task.layer].operator: made.items[task.item].name for task in made.tasks}


def test_an_item_without_a_list_computes_what_its_target_supports(net: Network, host: Profile) -> None:
    items = {name: ItemProfile(target="c") for name in ("first", "second")}
    board = host.model_copy(update={"items": items})
    assert set(items_of(net, board, "c", "c").values()) == {"first"}
    expected = {"QGemm": "first", "QuantizeLinear": "second", "Add": "second"}
    assert items_of(net, board, "vitis", "c") == expected
    listed = {"first": ItemProfile(target="c", operators=("Add",)), "second": ItemProfile(target="c")}
    board = host.model_copy(update={"items": listed})
    assert items_of(net, board, "c", "c") == {"QGemm": "second", "QuantizeLinear": "second", "Add": "first"}


def test_a_layer_that_no_item_lists_or_supports_is_refused(net: Network, host: Profile) -> None:
    board = host.model_copy(update={"items": {"only": ItemProfile(target="c", operators=("QGemm",))}})
    with pytest.raises(RequestError, match="no item computes QuantizeLinear"):
        planner.make(net, board)
    board = host.model_copy(update={"items": {"only": ItemProfile(target="vitis")}})
    made = planner.make(net, board)
    assert {made.items[task.item].name for task in made.tasks} == {"only"}  # its target says why it cannot
