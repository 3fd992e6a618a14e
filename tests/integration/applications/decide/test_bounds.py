"""`harness decide --bounds` against brute force and enumeration, its evidence, and refusals of large domains."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import yaml
from onnx import numpy_helper

from tests.support.builders import random_network
from tests.support.cli.command import Ended, User
from tests.support.decide.domains import Domain, random_domain

WIDE, CLASSES = 784, 10


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    (cache / "engines").mkdir(exist_ok=True)
    return User(tmp_path, cache)


def bound(user: User, model: Path, stated: Path) -> Ended:
    return user.harness("decide", "--bounds", "--model", str(model), "--property", str(stated), "--json")


def sets_of(ended: Ended) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    folder = Path(ended.document["run"])
    return np.load(folder / "possible.npy").astype(np.uint64), np.load(folder / "reached.npy").astype(np.uint64)


def by_brute_force(domain: Domain) -> npt.NDArray[np.uint64]:
    """The indices of the first greatest scores of each box in ONNX Runtime, (boxes,)."""
    found = [np.bitwise_or.reduce(1 << each.argmax(axis=1)) for each in domain.scores_by_box().values()]
    return np.array(found, np.uint64)


@pytest.mark.half_of_cases
@pytest.mark.parametrize(("wraps", "outputs"), [(False, 3), (True, 3), (False, 10)])
def test_every_box_is_decided_soundly(user: User, tmp_path: Path, wraps: bool, outputs: int) -> None:
    domain = random_domain(1, argmax=True, float_output=True, outputs=outputs)
    axes = domain.axes()
    axes[1]["wraps"] = wraps
    paths = domain.write(tmp_path, property="robust", axes=axes)
    ended = bound(user, *paths)
    possible, reached = sets_of(ended)
    if wraps:
        complete = user.harness("decide", "--model", str(paths[0]), "--property", str(paths[1]), "--json")
        truth = np.load(Path(complete.document["run"]) / "decisions.npy").reshape(-1).astype(np.uint64)
    else:
        truth = by_brute_force(domain)
    assert not (truth & ~possible).any()
    assert not (reached & ~truth).any()
    counts = ended.document["counts"]
    single, found = np.bitwise_count(possible) == 1, np.bitwise_count(reached) > 1
    assert (counts["safe"], counts["violated"]) == (single.sum(), found.sum())
    assert counts["undecided"] == truth.size - single.sum() - found.sum()
    assert min(single.sum(), found.sum()) > 10
    assert ended.code == 1
    assert ended.document["method"] == "bounds"
    verified = user.harness("verify", ended.document["run"], "--json")
    assert (verified.code, verified.document["stands"]) == (0, True), verified.out
    page = Path(ended.document["run"]) / "report.html"
    text = page.read_text()
    assert f"{counts['violated']:,} of {truth.size:,} boxes are violated" in text
    assert "map-data" not in text
    page.unlink()
    assert user.harness("report", ended.document["run"]).code == 0
    assert page.read_text() == text


def test_exit_codes(user: User, tmp_path: Path) -> None:
    """Boxes of a single decision: 0; a box that bounds leave open without a sample that violates it: 3."""
    domain = random_domain(1, argmax=True, float_output=True)
    truth = by_brute_force(domain)
    ended = bound(user, *domain.write(tmp_path, property="robust", axes=domain.axes()))
    possible, reached = sets_of(ended)

    def decided(box: int) -> Ended:
        place = np.unravel_index(box, domain.shape)
        axes = [
            {"name": f"x{axis}", "cuts": [float(cut) for cut in cuts[index : index + 2]]}
            for axis, (cuts, index) in enumerate(zip(domain.cuts, place, strict=True))
        ]
        return bound(user, *domain.write(tmp_path, property="robust", axes=axes))

    safe = decided(int(np.flatnonzero(np.bitwise_count(possible) == 1)[0]))
    assert (safe.code, safe.document["verdict"]) == (0, "safe")
    open_boxes = np.flatnonzero((np.bitwise_count(possible) > 1) & (np.bitwise_count(truth) == 1))
    left = decided(int(open_boxes[0]))
    assert (left.code, left.document["verdict"], left.document["counts"]["undecided"]) == (3, "undecided", 1)
    wrong = decided(int(np.flatnonzero(np.bitwise_count(reached) > 1)[0]))
    assert (wrong.code, wrong.document["verdict"]) == (1, "violated")


def test_int8_codes_are_compared_with_constants(user: User, tmp_path: Path) -> None:
    domain = random_domain(5, activations="int8", zero_points=True)
    scores = domain.scores_by_box()
    limit = int(np.quantile(np.concatenate(list(scores.values()))[:, 2], 0.8))
    declared = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "X_2", "Y_0", "Y_1", "Y_2"))
    (tmp_path / "unsafe.vnnlib").write_text(f"{declared}(assert (>= Y_2 {limit}))\n")
    paths = domain.write(tmp_path, property="output-in", vnnlib="unsafe.vnnlib", axes=domain.axes())
    truth = np.array(
        [(each[:, 2] >= limit).any() | (each[:, 2] < limit).any() << 1 for each in scores.values()], np.uint64
    )
    complete = user.harness("decide", "--model", str(paths[0]), "--property", str(paths[1]), "--json")
    np.testing.assert_array_equal(np.load(Path(complete.document["run"]) / "decisions.npy").reshape(-1), truth)
    possible, reached = sets_of(bound(user, *paths))
    assert not (truth & ~possible).any()
    assert not (reached & ~truth).any()
    assert 0 < np.count_nonzero(truth & 1) < truth.size


def wide_network(tmp_path: Path) -> tuple[onnx.ModelProto, npt.NDArray[np.float32], int, float]:
    """A network of an image, an image, its class, and the scale of the inputs."""
    proto = random_network(np.random.default_rng(4), (WIDE, 32, 16, CLASSES), float_output=True)
    onnx.save(proto, tmp_path / "wide.onnx")
    constants = {each.name: numpy_helper.to_array(each) for each in proto.graph.initializer}
    image = np.random.default_rng(0).uniform(0, 255 * constants["x_scale"], WIDE).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    scores = session.run([proto.graph.output[0].name], {"x": image[None]})[0]
    return proto, image, int(scores.argmax()), float(constants["x_scale"])


def write_robustness(
    folder: Path, image: npt.NDArray[np.float32], label: int, radius: float, classes: int = CLASSES
) -> Path:
    """State that no input within `radius` of an image has another one of the first `classes` classes."""
    lines = [f"(declare-const X_{index} Real)" for index in range(WIDE)]
    lines += [f"(declare-const Y_{index} Real)" for index in range(CLASSES)]
    for index, value in enumerate(image):
        lines.append(f"(assert (>= X_{index} {value - radius:.9f}))\n(assert (<= X_{index} {value + radius:.9f}))")
    others = " ".join(f"(and (>= Y_{index} Y_{label}))" for index in range(classes) if index != label)
    (folder / "robust.vnnlib").write_text("\n".join([*lines, f"(assert (or {others}))"]))
    (folder / "wide.yaml").write_text(yaml.safe_dump({"property": "output-in", "vnnlib": "robust.vnnlib"}))
    return folder / "wide.yaml"


def test_an_image_with_784_inputs(user: User, tmp_path: Path) -> None:
    _, image, label, scale = wide_network(tmp_path)
    path = tmp_path / "wide.onnx"
    for classes, message in ((CLASSES, "9 alternatives"), (3, "784 inputs")):
        stated = write_robustness(tmp_path, image, label, scale / 10, classes)
        refused = user.harness("decide", "--model", str(path), "--property", str(stated))
        assert (refused.code, message in refused.err, "--bounds" in refused.err) == (2, True, True), refused.err
    assert not list((tmp_path / "runs").glob("*"))
    near = bound(user, path, write_robustness(tmp_path, image, label, scale / 10))
    assert (near.code, near.document["verdict"]) == (0, "safe"), near.out
    far = bound(user, path, write_robustness(tmp_path, image, label, scale * 40))
    assert (far.code, far.document["verdict"]) == (1, "violated"), far.out
    for ended in (near, far):
        verified = user.harness("verify", ended.document["run"], "--json")
        assert (verified.code, verified.document["stands"]) == (0, True), verified.out
    with np.load(Path(far.document["run"]) / "witnesses.npz") as witnesses:
        [witness] = witnesses["inputs"]
    assert (np.abs(witness - image) <= scale * 40 + 1e-5).all()
    session = onnxruntime.InferenceSession(path)
    scores = session.run(None, {"x": witness[None]})[0][0]
    assert max(score for index, score in enumerate(scores) if index != label) >= scores[label]


def test_changed_evidence_is_found(user: User, tmp_path: Path) -> None:
    domain = random_domain(1, argmax=True, float_output=True)
    ended = bound(user, *domain.write(tmp_path, property="robust", axes=domain.axes()))
    whole = Path(ended.document["run"])

    def claims_of(change: Any) -> set[str]:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        document = json.loads((copy / "decide.json").read_text())
        change(copy, document)
        (copy / "decide.json").write_text(json.dumps(document))
        verified = user.harness("verify", str(copy), "--json")
        assert verified.code == 1, verified.out
        return {claim["claim"] for claim in verified.document["claims"] if claim["state"] == "not ok"}

    def hashed(array: npt.NDArray[np.uint8]) -> str:
        return hashlib.sha256(array.tobytes()).hexdigest()

    def possible(folder: Path, document: dict[str, Any]) -> None:
        """Exclude a decision that the bounds leave, in every box."""
        reached = np.load(folder / "reached.npy")
        np.save(folder / "possible.npy", reached)
        document["possible_sha256"] = hashed(reached)

    def counts(_: Path, document: dict[str, Any]) -> None:
        document["counts"]["undecided"] -= 1
        document["counts"]["safe"] += 1

    def witness(folder: Path, _: dict[str, Any]) -> None:
        with np.load(folder / "witnesses.npz") as stored:
            arrays = dict(stored)
        arrays["inputs"] = arrays["inputs"][::-1]
        np.savez(folder / "witnesses.npz", **arrays)

    def sets(folder: Path, _: dict[str, Any]) -> None:
        found = np.load(folder / "reached.npy")
        np.save(folder / "reached.npy", found ^ 1)

    assert {"counts", "bounds"} <= claims_of(possible)
    assert claims_of(counts) == {"counts", "reports"}
    assert {"witnesses", "violations", "ONNX Runtime"} <= claims_of(witness)
    assert claims_of(sets) == {"files", "sets", "reports"}


def test_a_domain_that_is_too_large_is_refused_without_a_folder(user: User, tmp_path: Path) -> None:
    proto = random_network(np.random.default_rng(0), (8, 9, 3), float_output=True)
    axes = [{"name": f"x{index}", "cuts": [-10, 0, 10]} for index in range(8)]
    domain = Domain(proto, tuple(np.array([-10.0, 0, 10]) for _ in range(8)))
    paths = domain.write(tmp_path, property="robust", axes=axes)
    refused = user.harness("decide", "--model", str(paths[0]), "--property", str(paths[1]))
    shown = refused.err.replace("\n", " ")
    assert (refused.code, "hours of one core" in shown, "--bounds" in shown) == (2, True, True), refused.err
    assert "code vectors" in shown
    assert not list((tmp_path / "runs").glob("*"))
    decided = bound(user, *paths)
    assert decided.document["partition"]["code_vectors"] is None
    assert sum(decided.document["counts"][key] for key in ("safe", "violated", "undecided")) == 256


def test_bounds_are_not_resumed(user: User, tmp_path: Path) -> None:
    domain = random_domain(1, argmax=True, float_output=True)
    ended = bound(user, *domain.write(tmp_path, property="robust", axes=domain.axes()))
    (Path(ended.document["run"]) / "decide.json").unlink()
    resumed = user.harness("decide", "--resume", ended.document["run"])
    assert (resumed.code, "is not resumed" in resumed.err) == (2, True), resumed.err
    verified = user.harness("verify", ended.document["run"])
    assert (verified.code, "is not resumed" in verified.err) == (2, True), verified.err
