"""`harness decide` against brute force through ONNX Runtime, and its evidence."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper

from harness.core.file_digest import file_sha256
from tests.integration.cli.test_sign import made
from tests.support.cli.command import Ended, User
from tests.support.decide.domains import Domain, random_domain, write_table

NETWORKS: list[dict[str, Any]] = [
    {"argmax": True, "float_output": True},
    {"argmax": True},
    {"activations": "int8", "zero_points": True, "per_column": True, "argmax": True, "dequantize": True},
    {"weights": "uint8", "zero_points": True, "float_output": True},
]


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    (cache / "engines").mkdir(exist_ok=True)
    return User(tmp_path, cache)


def decide(user: User, model: Path, stated: Path) -> Ended:
    return user.harness("decide", "--model", str(model), "--property", str(stated), "--json")


def folder_of(ended: Ended) -> Path:
    return Path(ended.document["run"])


def advisories(scores: npt.NDArray[np.float32], ties: str) -> int:
    """The set of the indices of the greatest score of any vector, a bit each."""
    best = scores == scores.max(axis=1, keepdims=True)
    if ties == "first":
        return int(np.bitwise_or.reduce(1 << best.argmax(axis=1)))
    return int(sum(1 << index for index in np.flatnonzero(best.any(axis=0))))


def by_brute_force(domain: Domain, ties: str = "first") -> npt.NDArray[np.uint8]:
    """The decisions of each box, from all of its code vectors in ONNX Runtime."""
    found = np.zeros(domain.shape, np.uint8)
    for box, scores in domain.scores_by_box().items():
        found[box] = advisories(scores, ties)
    return found


@pytest.mark.half_of_cases
@pytest.mark.parametrize(("seed", "network"), list(enumerate(NETWORKS)))
def test_robust_boxes_are_those_of_onnx_runtime(user: User, tmp_path: Path, seed: int, network: dict[str, Any]) -> None:
    ties = ("first", "all")[seed % 2]
    domain = random_domain(seed, **network)
    ended = decide(user, *domain.write(tmp_path, property="robust", axes=domain.axes(), network_ties=ties))
    expected = by_brute_force(domain, ties)
    np.testing.assert_array_equal(np.load(folder_of(ended) / "decisions.npy"), expected)
    violated = int((np.array([int(sets).bit_count() for sets in expected.flat]) > 1).sum())
    assert ended.document["counts"] | {"by_decision": 0} == {
        "safe": expected.size - violated,
        "violated": violated,
        "undecided": 0,
        "by_decision": 0,
    }
    assert ended.code == (1 if violated else 0)
    verified = user.harness("verify", str(folder_of(ended)), "--json")
    assert (verified.code, verified.document["stands"]) == (0, True), verified.out


def test_some_boxes_are_robust_and_some_are_not() -> None:
    """The networks above decide something."""
    counts = np.zeros(2, np.int64)
    for seed, network in enumerate(NETWORKS):
        sets = by_brute_force(random_domain(seed, **network), ("first", "all")[seed % 2])
        single = np.array([int(each).bit_count() == 1 for each in sets.flat])
        counts += [single.sum(), (~single).sum()]
    assert counts.min() > 20, counts


def allowed_by(sets: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The union of the sets at the corners of each box."""
    found = np.zeros([size - 1 for size in sets.shape], np.uint8)
    for box in np.ndindex(*found.shape):
        for corner in itertools.product((0, 1), repeat=found.ndim):
            found[box] |= sets[tuple(np.add(box, corner))]
    return found


def test_similarity_to_a_table_and_a_changed_cell(user: User, tmp_path: Path) -> None:
    domain, random = random_domain(1, argmax=True, float_output=True), np.random.default_rng(1)
    decisions = by_brute_force(domain)
    sets = np.ones([len(cuts) for cuts in domain.cuts], np.uint8)
    sets[random.random(sets.shape) < 0.1] = 2
    paths = domain.write(tmp_path, property="similar-to-table", table="table.npz")

    def violated() -> set[tuple[int, ...]]:
        write_table(tmp_path, domain, sets)
        ended = decide(user, *paths)
        assert user.harness("verify", str(folder_of(ended))).code == 0
        with np.load(folder_of(ended) / "witnesses.npz") as witnesses:
            found = witnesses["boxes"]
        np.testing.assert_array_equal(found, np.argwhere(decisions & ~allowed_by(sets)))
        return {tuple(box) for box in found}

    before = violated()
    for cell in np.ndindex(*sets.shape):
        kept, expected = sets[cell], (decisions & ~allowed_by(sets)) != 0
        sets[cell] = 7
        if (expected != ((decisions & ~allowed_by(sets)) != 0)).any():
            break
        sets[cell] = kept
    after = violated()
    assert after < before, "the changed cell allows more"
    for box in before - after:
        assert all(index <= at <= index + 1 for index, at in zip(box, cell, strict=True)), "boxes at the cell only"


def test_files_of_a_property_lie_beside_it(user: User, tmp_path: Path) -> None:
    domain = random_domain(1, argmax=True, float_output=True)
    (tmp_path / "tables").mkdir()
    write_table(tmp_path / "tables", domain, np.ones([len(cuts) for cuts in domain.cuts], np.uint8))
    ended = decide(user, *domain.write(tmp_path, property="similar-to-table", table="tables/table.npz"))
    assert (folder_of(ended) / "property" / "tables" / "table.npz").is_file()
    assert user.harness("verify", str(folder_of(ended))).code == 0
    key = tmp_path / "key.pub"
    key.write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0 lab\n")
    signed = user.harness("verify", str(folder_of(ended)), "--key", str(key))
    assert (signed.code, "there is no decide.dsse.json" in signed.out) == (1, True), signed.out
    known = {*(tmp_path / "runs").iterdir()}
    (tmp_path / "below").mkdir()
    outside = decide(user, *domain.write(tmp_path / "below", property="similar-to-table", table="../tables/table.npz"))
    assert (outside.code, "outside the folder of the property" in outside.err) == (2, True), outside.err
    assert {*(tmp_path / "runs").iterdir()} == known


def test_a_changed_weight_changes_the_boxes_that_brute_force_predicts(user: User, tmp_path: Path) -> None:
    domain = random_domain(3, argmax=True, float_output=True)
    changed = onnx.ModelProto()
    changed.CopyFrom(domain.model)
    weight = next(each for each in changed.graph.initializer if each.name == "layer_1_weights")
    values = numpy_helper.to_array(weight).copy()
    before = by_brute_force(domain)
    for place in np.ndindex(*values.shape):
        attempt = values.copy()
        attempt[place] += -1 if attempt[place] > 0 else 1
        weight.CopyFrom(numpy_helper.from_array(attempt, weight.name))
        other = Domain(changed, domain.cuts)
        after = by_brute_force(other)
        if (before != after).any():
            break
    ended = decide(user, *other.write(tmp_path, property="robust", axes=domain.axes()))
    np.testing.assert_array_equal(np.load(folder_of(ended) / "decisions.npy"), after)
    assert (before != after).sum() > 0


def test_half_spaces_of_a_vnnlib_file(user: User, tmp_path: Path) -> None:
    domain = random_domain(5, float_output=True)
    scores = np.concatenate(list(domain.scores_by_box().values()))
    limit = round(float(np.quantile(scores[:, 2], 0.9)), 4)  # no score: a score is compared with the decimal number
    text = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "X_2", "Y_0", "Y_1", "Y_2"))
    text += f"; a comment (\n(assert (or (and (>= Y_0 Y_1) (> Y_0 Y_2)) (and (<= {limit!r} Y_2))))\n"
    (tmp_path / "unsafe.vnnlib").write_text(text)
    ended = decide(user, *domain.write(tmp_path, property="output-in", vnnlib="unsafe.vnnlib", axes=domain.axes()))
    expected = np.zeros(domain.shape, np.uint8)
    for box, values in domain.scores_by_box().items():
        first = (values[:, 0] >= values[:, 1]) & (values[:, 0] > values[:, 2])
        second = values[:, 2].astype(np.float64) >= limit
        expected[box] = int(first.any()) | int(second.any()) << 1 | int((~first & ~second).any()) << 2
    np.testing.assert_array_equal(np.load(folder_of(ended) / "decisions.npy"), expected)
    assert 0 < ended.document["counts"]["violated"] < expected.size
    assert user.harness("verify", str(folder_of(ended))).code == 0


def test_equal_angles_count_at_both_ends(user: User, tmp_path: Path) -> None:
    domain = random_domain(2, argmax=True, float_output=True)
    axes = domain.axes()
    axes[1]["wraps"] = True
    ended = decide(user, *domain.write(tmp_path, property="robust", axes=axes))
    expected = by_brute_force(domain)
    first, last = (domain.codes_of_interval(1, interval) for interval in (0, domain.shape[1] - 1))
    for i, k in np.ndindex(domain.shape[0], domain.shape[2]):
        others = (domain.codes_of_interval(0, i), domain.codes_of_interval(2, k))
        for interval, code in ((0, last[-1]), (domain.shape[1] - 1, first[0])):
            grid = np.stack(np.meshgrid(others[0], [code], others[1], indexing="ij"), axis=-1).reshape(-1, 3)
            expected[i, interval, k] |= advisories(domain.scores(grid), "first")
    np.testing.assert_array_equal(np.load(folder_of(ended) / "decisions.npy"), expected)
    assert (expected != by_brute_force(domain)).any(), "the wrapped codes add decisions"
    assert user.harness("verify", str(folder_of(ended))).code == 0


def test_an_unfinished_decision_continues(user: User, tmp_path: Path) -> None:
    domain = random_domain(1, argmax=True, float_output=True)
    ended = decide(user, *domain.write(tmp_path, property="robust", axes=domain.axes()))
    folder, document = folder_of(ended), ended.document
    kept, lost, *_ = sorted((folder / "slabs").iterdir())
    stored = kept.stat().st_mtime_ns
    (folder / "decide.json").unlink()
    lost.unlink()
    (folder / "decisions.npy").unlink()
    resumed = user.harness("decide", "--resume", str(folder), "--json")
    varying = ("began", "wall_s", "cpu_s", "code_vectors_per_s", "slabs", "files")
    assert [{k: v for k, v in each.items() if k not in varying} for each in (resumed.document, document)].count(
        {k: v for k, v in document.items() if k not in varying}
    ) == 2
    hashes = [[slab["decisions_sha256"] for slab in each["slabs"]] for each in (resumed.document, document)]
    assert hashes[0] == hashes[1]
    assert kept.stat().st_mtime_ns == stored, "a finished slab is not decided again"
    again = user.harness("decide", "--resume", str(folder))
    assert (again.code, "finished" in again.err) == (2, True)


def link(folder: Path) -> None:
    (folder / "model.onnx").rename(folder.parent / "model")
    (folder / "model.onnx").symlink_to(folder.parent / "model")


def page(folder: Path) -> None:
    content = json.loads((folder / "decide.json").read_text())
    (folder / "report.html").write_text((folder / "report.html").read_text().replace("</body>", "safe</body>"))
    content["files"]["report.html"] = file_sha256(folder / "report.html")
    (folder / "decide.json").write_text(json.dumps(content))


def earlier(folder: Path) -> None:
    content = json.loads((folder / "decide.json").read_text())
    (folder / "decide.json").write_text(json.dumps(content | {"began": "2020-01-01T00:00:00+00:00"}))


def test_a_signed_decision_has_no_other_files_or_pages(user: User, tmp_path: Path) -> None:
    domain = random_domain(1, argmax=True, float_output=True)
    folder = folder_of(decide(user, *domain.write(tmp_path, property="robust", axes=domain.axes())))
    keys = [made(tmp_path / name) for name in ("lab", "other")]
    assert "decide.dsse.json: signed by SHA256:" in user.here("sign", str(folder), "--key", str(keys[0])).err
    assert [user.here("verify", str(folder), "--key", f"{key}.pub").code for key in keys] == [0, 1]
    changes: list[tuple[Callable[[Path], object], str]] = [
        (lambda folder: (folder / "more").mkdir(), "files"),
        (lambda folder: (folder / "property" / "more.txt").touch(), "files"),
        (link, "files"),
        (page, "reports"),
        (earlier, "times"),
    ]
    for change, rejected in changes:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        change(copy)
        verified = user.here("verify", str(copy), "--json")
        wrong = {claim["claim"] for claim in verified.document["claims"] if claim["state"] == "not ok"}
        assert (verified.code, rejected in wrong) == (1, True), (rejected, wrong)


def test_changed_evidence_is_found(user: User, tmp_path: Path) -> None:
    domain = random_domain(1, argmax=True, float_output=True)
    ended = decide(user, *domain.write(tmp_path, property="robust", axes=domain.axes()))
    whole = folder_of(ended)

    def claims_of(change: Any) -> set[str]:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        change(copy)
        verified = user.harness("verify", str(copy), "--json")
        assert verified.code == 1, verified.out
        return {claim["claim"] for claim in verified.document["claims"] if claim["state"] == "not ok"}

    def decisions(folder: Path) -> None:
        sets = np.load(folder / "decisions.npy")
        sets[0, 0, 0] ^= 6
        np.save(folder / "decisions.npy", sets)

    def slab(folder: Path) -> None:
        path = min((folder / "slabs").iterdir())
        with np.load(path) as stored:
            regions, facts = stored["regions"].copy(), stored["facts"]
        regions[0] ^= 1
        np.savez(path, regions=regions, facts=facts)

    def witness(folder: Path) -> None:
        with np.load(folder / "witnesses.npz") as stored:
            arrays = dict(stored)
        arrays["inputs"] = arrays["inputs"][::-1]
        np.savez(folder / "witnesses.npz", **arrays)

    def document(folder: Path) -> None:
        content = json.loads((folder / "decide.json").read_text())
        content["counts"]["safe"] += 1
        content["verdict"] = "safe" if content["verdict"] == "violated" else "violated"
        content["slabs"][0]["code_vectors"] += 1
        (folder / "decide.json").write_text(json.dumps(content))

    assert {"decisions"} <= claims_of(decisions)
    assert {"slabs", "decisions"} <= claims_of(slab)
    assert {"witnesses", "violations"} <= claims_of(witness)
    assert {"counts", "slabs", "verdict"} <= claims_of(document)
    (whole / "witnesses.npz").write_bytes(b"PK")
    unreadable = user.harness("verify", str(whole))
    assert (unreadable.code, "witnesses.npz" in unreadable.out) == (1, True), unreadable.out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axes": [{"name": "x0", "cuts": [0, 1]}]}, "the property has the axes x0"),
        ({"axes": [{"name": f"x{i}", "cuts": [0, 1, 1]} for i in range(3)]}, "cuts 1 and 1 do not increase"),
        ({"axes": [{"name": f"x{i}", "cuts": [0, ".inf"]} for i in range(3)]}, "is no finite number"),
        ({"axes": [{"name": f"x{i}", "from": 0, "to": 1} for i in range(3)]}, "state `cuts`, or `from`"),
        ({"axes": [{"name": f"x{i}", "cuts": [0, "1e999999999"]} for i in range(3)]}, "'1e999999999' is no finite"),
        ({"axes": [{"name": f"x{i}", "cuts": [0, "1e308*pi"]} for i in range(3)]}, "is no finite number"),
        ({"axes": [{"name": f"x{i}", "from": 0, "to": 1, "intervals": 9999} for i in range(3)]}, "has 1e+12 boxes"),
        ({"property": "robast"}, "robust, similar-to-table or output-in"),
        ({"property": "similar-to-table", "table": "none.npz"}, "cannot read the table"),
        ({"property": "output-in", "vnnlib": "none.vnnlib"}, "cannot read"),
    ],
)
def test_a_wrong_property_is_refused_without_a_folder(
    user: User, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    domain = random_domain(0, argmax=True)
    stated = {"property": "robust", "axes": domain.axes()} | change
    if stated["property"] != "robust":
        stated.pop("axes")
    ended = decide(user, *domain.write(tmp_path, **stated))
    assert (ended.code, message in ended.err) == (2, True), ended.err
    assert not list((tmp_path / "runs").glob("*"))


def test_a_repeated_key_of_a_property_is_refused(user: User, tmp_path: Path) -> None:
    model, stated = random_domain(0, argmax=True).write(tmp_path, property="robust", axes=[])
    stated.write_text(f"property: output-in\nvnnlib: a.vnnlib\n{stated.read_text()}")
    ended = decide(user, model, stated)
    assert (ended.code, "property.yaml:4: not valid YAML: the key property is repeated" in ended.err) == (2, True)


def test_an_input_may_be_fixed(user: User, tmp_path: Path) -> None:
    domain = random_domain(5, float_output=True)
    fixed = Domain(domain.model, (domain.cuts[0][[2, 2]], *domain.cuts[1:]))
    ended = decide(user, *fixed.write(tmp_path, property="robust", axes=fixed.axes()))
    np.testing.assert_array_equal(np.load(folder_of(ended) / "decisions.npy"), by_brute_force(fixed))
    assert user.harness("verify", str(folder_of(ended))).code == 0
    text = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "X_2", "Y_0", "Y_1", "Y_2"))
    for index, value in enumerate((0.0, *(float(cuts[1]) for cuts in domain.cuts[1:]))):
        text += f"(assert (= X_{index} {value!r}))\n"
    (tmp_path / "point.vnnlib").write_text(f"{text}(assert (or (>= Y_0 Y_1) (> Y_1 Y_0)))")
    ended = decide(user, *fixed.write(tmp_path, property="output-in", vnnlib="point.vnnlib"))
    assert (ended.code, ended.document["partition"]["code_vectors"]) == (1, 1), ended.err
    assert user.harness("verify", str(folder_of(ended))).code == 0


def test_a_table_of_another_network_is_refused(user: User, tmp_path: Path) -> None:
    domain = random_domain(0, argmax=True)
    paths = domain.write(tmp_path, property="similar-to-table", table="table.npz")
    shape = [len(cuts) for cuts in domain.cuts]
    for sets, message in (
        (np.ones([size - 1 for size in shape], np.uint8), "the cuts give uint8"),
        (np.zeros(shape, np.uint8), "a point has no advisory"),
        (np.full(shape, 8, np.uint8), "beyond 3"),
    ):
        write_table(tmp_path, domain, sets)
        ended = decide(user, *paths)
        assert (ended.code, message in ended.err) == (2, True), ended.err


def test_a_float_network_is_refused_with_its_layer(user: User, tmp_path: Path) -> None:
    stated = random_domain(0).write(tmp_path, property="robust", axes=[])[1]
    ended = user.harness("decide", "--model", "acas_reg50", "--property", str(stated))
    assert (ended.code, "does not quantise the input" in ended.err) == (2, True), ended.err
