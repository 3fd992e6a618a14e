"""`harness models hybrid`: from a decision to a network that a board computes, and decisions that do not fit."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from harness import model
from harness.applications.decide.hybrid.build import _require_ties, build
from harness.applications.decide.job import read_stated
from harness.core.errors import RequestError
from harness.model.graph import parse
from harness.operators.cell_union import CellUnion
from tests.support.cli.command import User
from tests.support.decide.hybrids import DESCRIPTION, write


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[User, Path]:
    """The folder of a description, with the finished decision in its folder `decision`."""
    folder = tmp_path_factory.mktemp("hybrid")
    (cache / "engines").mkdir(exist_ok=True)
    description = write(folder)
    user = User(folder, cache)
    ended = user.harness("decide", "--model", str(folder / "net.onnx"), "--json")
    assert ended.code == 1, ended.err
    Path(ended.document["run"]).rename(folder / "decision")
    return user, description


def test_the_hybrid_network_has_the_decision_and_runs(decided: tuple[User, Path]) -> None:
    user, description = decided
    folder = description.parent
    arguments = (str(description), str(folder / "hybrid.onnx"), "--decision", str(folder / "decision"))
    made = user.harness("models", "hybrid", *arguments, "--json")
    assert made.code == 0, made.err
    sets = np.load(folder / "decision" / "decisions.npy")
    assert sum(made.document["boxes"].values()) == sets.size
    network = model.load(Path(made.document["file"]))
    [box, _] = [layer for layer in network.layers if isinstance(layer, CellUnion)]
    table = np.load(folder / "table.npz")["advisories"]
    points = np.stack(np.meshgrid(*(np.arange(2, 2 * size + 1, 2) for size in sets.shape), indexing="ij"), axis=-1)
    found = box.prepare()(np.pad(points.reshape(-1, 3), ((0, 0), (0, 1))).astype(np.uint8)).reshape(sets.shape)
    allowed = np.zeros(sets.shape, np.uint8)
    for corner in np.ndindex(2, 2, 2):
        allowed |= table[tuple(slice(at, at + size) for at, size in zip(corner, sets.shape, strict=True))]
    np.testing.assert_array_equal(found, np.where(sets & ~allowed, 4, 0))
    assert 0 < made.document["safe_share_of_volume"] < 1
    choices = ("--board", "host", "--vectors", "500", "--trace", "0")
    ran = user.harness("run", "--model", made.document["file"], *choices, "--json")
    assert (ran.code, ran.document["verdict"]) == (0, "identical"), ran.err


def test_a_certificate_with_packed_decisions_gives_the_same_bytes(decided: tuple[User, Path], tmp_path: Path) -> None:
    _, description = decided
    folder = description.parent / "decision"
    shutil.copyfile(folder / "decide.json", tmp_path / "net.json")
    sets = np.load(folder / "decisions.npy")
    (tmp_path / "net.decisions.xz").write_bytes(lzma.compress(sets.tobytes()))
    assert build(description, tmp_path / "net.json").onnx_bytes == build(description, folder).onnx_bytes
    sets.flat[7] ^= 1
    (tmp_path / "net.decisions.xz").write_bytes(lzma.compress(sets.tobytes()))
    with pytest.raises(RequestError, match="these are not the decisions of"):
        build(description, tmp_path / "net.json")


def other_model(folder: Path) -> None:
    changed = onnx.load(folder / "net.onnx")
    changed.doc_string = "another one"
    onnx.save(changed, folder / "net.onnx")


def other_property(folder: Path) -> None:
    path = folder / "net.property.yaml"
    path.write_text(path.read_text() + "table_ties: first\n")


def unfinished(folder: Path) -> None:
    (folder / "decision" / "decide.json").unlink()


def other_decisions(folder: Path) -> None:
    path = folder / "decision" / "decisions.npy"
    sets = np.load(path)
    sets.flat[0] ^= 1
    np.save(path, sets)


def fewer_decisions(folder: Path) -> None:
    path = folder / "decision" / "decisions.npy"
    np.save(path, np.load(path)[:-1])


def smaller_table(folder: Path) -> None:
    with np.load(folder / "table.npz") as found:
        arrays = dict(found)
    arrays["cuts_1"], arrays["advisories"] = arrays["cuts_1"][:-1], arrays["advisories"][:, :-1]
    np.savez(folder / "smaller.npz", allow_pickle=False, **arrays)
    describe(folder, safety_net={"table": "smaller.npz", "interpolation": "nearest"})


def describe(folder: Path, **changes: object) -> None:
    (folder / "net.architecture.yaml").write_text(yaml.safe_dump(DESCRIPTION | changes))


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "model": (other_model, "is the decision of another model than net has here"),
    "property": (other_property, "is the decision of another property than net has here"),
    "unfinished": (unfinished, "there is no finished decision"),
    "decisions": (other_decisions, "these are not the decisions of"),
    "number of decisions": (fewer_decisions, "not a set for each of"),
    "table": (smaller_table, "smaller.npz covers x1 from"),
    "interpolation": (
        lambda folder: describe(folder, safety_net={"table": "table.npz", "interpolation": "linear"}),
        "safety_net.interpolation: Input should be 'nearest'",
    ),
    "limit": (
        lambda folder: describe(folder, freshness={"name": "age", "unit": "s", "limit": 0}),
        "freshness.limit: Input should be greater than 0",
    ),
    "architecture": (lambda folder: describe(folder, architecture="triplex"), "architecture: Input should be 'hybrid'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str, decided: tuple[User, Path], tmp_path: Path) -> None:
    change, message = WRONG[case]
    folder = tmp_path / "lab"
    shutil.copytree(decided[1].parent, folder, ignore=shutil.ignore_patterns("runs"))
    change(folder)
    description, decision = folder / "net.architecture.yaml", folder / "decision"
    if case == "table":  # one of them by the command, for the exit code
        output = str(tmp_path / "hybrid.onnx")
        ended = decided[0].harness("models", "hybrid", str(description), output, "--decision", str(decision))
        assert ended.code == 2
        assert message in ended.err
        assert not (tmp_path / "hybrid.onnx").exists()
        return
    with pytest.raises(RequestError) as caught:
        build(description, decision)
    assert message in caught.value.message


def test_another_rule_for_equal_scores_than_the_models_is_refused(tmp_path: Path) -> None:
    description = write(tmp_path)
    network, stated = model.load(tmp_path / "net.onnx"), tmp_path / "net.property.yaml"
    for ties, refused in (("all", False), ("first", False), ("last", True)):
        stated.write_text(f"property: similar-to-table\ntable: table.npz\nnetwork_ties: {ties}\n")
        found = read_stated(description.parent, network, stated)
        if refused:
            with pytest.raises(RequestError, match="the property takes the last of equal scores, ArgMax of the model"):
                _require_ties(found, network)
        else:
            _require_ties(found, network)


def test_a_function_that_is_not_the_operators_is_refused(decided: tuple[User, Path]) -> None:
    description = decided[1]
    found = build(description, description.parent / "decision")
    changed = onnx.load_model_from_string(found.onnx_bytes)
    [function] = [each for each in changed.functions if each.name == "HybridSelect"]
    function.node[-1].input[0] = "network"
    with pytest.raises(RequestError, match=r"the function harness\.HybridSelect is not that of the operator"):
        parse(changed.SerializeToString(), "wrong")
    changed.functions.remove(function)
    with pytest.raises(RequestError, match=r"there is no function harness\.HybridSelect of 4 inputs"):
        parse(changed.SerializeToString(), "wrong")
