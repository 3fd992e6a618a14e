"""`harness verify` on real runs, and on what somebody has made of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from harness import __version__, report
from harness.build import bundle
from harness.core import installation
from harness.core.errors import ReferenceFailed, RequestError
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.execution import dumps
from harness.runs.folder import content_sha256, write_json
from harness.runs.verification import bundle as built_again
from harness.runs.verification import inputs, results
from harness.runs.verification.folder import Evidence
from harness.runs.verification.verify import AFTERWARDS
from tests.support import builders
from tests.support.cli.command import Ended, User
from tests.support.cli.history import History, git

pytestmark = pytest.mark.usefixtures("revisions_asked_once")

QUICK = ("--no-rebuild", "--reference", "none")
LAST = "02_layer_1"
REPORTS = ("report.html", "junit.xml")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path, clean_checkout: None) -> User:  # noqa: ARG001 - its effect
    return User(tmp_path_factory.mktemp("user"), cache)


@pytest.fixture(scope="module")
def model(user: User) -> Path:
    path = user.folder / "small.onnx"
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), path)
    return path


def a_run(user: User, model: Path, *options: str, **environment: str) -> Path:
    asked = ("--board", "host", "--items", "c,c", "--model", str(model), "--vectors", "300", "--chunk", "100")
    ended = user.harness("run", *asked, "--trace", "12", "--json", *options, **environment)
    return Path(ended.document["run"])


@pytest.fixture(scope="module")
def identical(user: User, model: Path) -> Path:
    return a_run(user, model)


@pytest.fixture(scope="module")
def differing(user: User, model: Path, history: History) -> Path:
    return a_run(user, model, **history.wrong)


def states(ended: Ended) -> dict[str, str]:
    return {claim["claim"]: claim["state"] for claim in ended.document["claims"]}


def text(ended: Ended, name: str) -> str:
    [found] = [claim["text"] for claim in ended.document["claims"] if claim["claim"] == name]
    return str(found)


def test_a_run_stands_and_is_reproduced(user: User, identical: Path) -> None:
    ended = user.harness("verify", str(identical), "--json")
    assert ended.code == 0, ended.out
    assert ended.document["stands"] is True
    unsigned = {"signature": "not checked"}
    assert states(ended) == dict.fromkeys(states(ended), "ok") | unsigned
    assert "files byte for byte those that ran, from the sources here" in text(ended, "bundle")
    assert text(ended, "reference").startswith("computed again over 300 vectors")


def test_the_evidence_of_a_run_that_differs_stands_too(user: User, differing: Path) -> None:
    ended = user.here("verify", str(differing), "--json", "--no-rebuild")
    assert (ended.code, ended.document["verdict"]) == (0, "differs"), ended.out
    assert states(ended)["reference"] == states(ended)["verdict"] == "ok"


@pytest.mark.campaign
def test_the_sources_of_a_revision_in_the_history_are_compared_and_built(user: User, differing: Path) -> None:
    """They are not those here: another commit of this checkout's history made the run."""
    revision = json.loads((differing / "run.json").read_text())["harness"]["revision"]
    ended = user.here("verify", str(differing), "--json", "--reference", "none")
    assert ended.code == 0, ended.out
    assert f"of revision {revision}, from the history of this checkout" in text(ended, "sources")
    assert f"byte for byte those that ran, from the sources of {revision}" in text(ended, "bundle")


def claims_now(history: History) -> Callable[[Any], object]:
    """It says that the revision of today made it, whose kernels are right."""
    revision = git(Path(history.now["GIT_DIR"]), ROOT, "rev-parse", "HEAD")[:12]
    return lambda run: run["harness"].update(revision=revision)


def test_a_run_of_other_sources_than_its_revisions_does_not_stand(
    user: User, differing: Path, history: History, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(differing, tmp_path / "copy"))
    change(copy / "run.json", claims_now(history))
    rewrite(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["sources"]) == (1, "not ok")
    assert "built from other files than those of revision" in text(ended, "sources")
    assert text(ended, "sources").endswith(": kernels/c/saturate.h")


def test_a_kernel_that_was_changed_under_a_clean_revision_does_not_stand(
    user: User, model: Path, history: History, tmp_path: Path
) -> None:
    """A user whose git does not see the change: the run says that a clean revision made it."""
    blind, copy = tmp_path / "blind.git", Path(history.wrong["GIT_WORK_TREE"])
    shutil.copytree(history.now["GIT_DIR"], blind)
    git(blind, copy, "update-index", "--assume-unchanged", "kernels/c/saturate.h")
    wrong = history.wrong | {"GIT_DIR": str(blind)}
    run = a_run(User(tmp_path, user.cache), model, **wrong)
    assert not json.loads((run / "run.json").read_text())["harness"]["revision"].endswith("-dirty")
    ended = user.here("verify", str(run), "--json", *QUICK)
    assert (ended.code, text(ended, "sources").rpartition(": ")[2]) == (1, "kernels/c/saturate.h")


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        (None, "made outside a checkout: no revision has its sources"),
        ("0123456789ab-dirty", "with changed files: no revision has its sources, so it cannot be verified"),
        ("0123456789ab", "get it with git fetch, check it out with git checkout 0123456789ab, and verify there"),
        ("main", "names no revision: 'main'"),
    ],
)
def test_sources_that_are_not_here_leave_a_run_unchecked(
    user: User, identical: Path, tmp_path: Path, revision: str | None, words: str
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    change(copy / "run.json", lambda run: run["harness"].update(revision=revision))
    rewrite(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, ended.document["stands"], states(ended)["sources"]) == (3, None, "not checked")
    assert words in text(ended, "sources")


def test_an_installation_outside_a_checkout_is_compared_with_one_of_its_version(
    user: User, identical: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    change(copy / "run.json", lambda run: run["harness"].update(revision=None))
    rewrite(copy)
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(installation, "ROOT", tmp_path)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["sources"]) == (0, "ok"), ended.out
    assert f"those of harness {__version__} as it is installed here" in text(ended, "sources")
    change(copy / "run.json", lambda run: run["bundle"]["files"].update({SOURCE: "0" * 64}))
    rewrite(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["sources"]) == (1, "not ok")
    change(copy / "run.json", lambda run: run["harness"].update(version="0.0.9"))
    rewrite(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["sources"]) == (3, "not checked")


def test_a_checkout_with_a_change_or_a_new_kernel_is_called_so(history: History, tmp_path: Path) -> None:
    def told() -> str:
        program = "from harness.core.installation import revision; print(revision())"
        command = [sys.executable, "-c", program]
        environment = os.environ | history.wrong | {"GIT_WORK_TREE": str(tmp_path / "copy")}
        environment["PYTHONPATH"] = str(tmp_path / "copy")
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    shutil.copytree(history.wrong["PYTHONPATH"], tmp_path / "copy")
    clean = told()
    (tmp_path / "copy" / "kernels" / "c" / "more.c").write_text("int more;\n")
    assert told() == f"{clean}-dirty", "a file that git does not know would be part of a bundle"
    (tmp_path / "copy" / "kernels" / "c" / "more.c").unlink()
    assert told() == clean
    with (tmp_path / "copy" / "kernels" / "c" / "qgemm.h").open("a") as kernel:
        kernel.write("/* */\n")
    assert told() == f"{clean}-dirty"


SOURCE = "kernels/c/qgemm.h"


def in_bundle(how: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda run: how(run["bundle"])


FORGED_BUNDLES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "source": (in_bundle(lambda b: b["files"].update({SOURCE: "0" * 64})), f": {SOURCE}"),
    "generated": (in_bundle(lambda b: b["files"].update({"network.c": "0" * 64})), ": network.c"),
    "removed": (in_bundle(lambda b: b["files"].pop(SOURCE)), f": {SOURCE}"),
    "added": (in_bundle(lambda b: b["files"].update({"kernels/c/more.c": "0" * 64})), "give: kernels/c/more.c"),
    "library": (in_bundle(lambda b: b["files"].update({"stand-in/libm.so.6": "0" * 64})), "give: stand-in/libm"),
    "no program": (in_bundle(lambda b: b["files"].pop("inference")), "give: inference"),
    "flag": (in_bundle(lambda b: b["flags"].insert(0, "-O2")), "where the profile gives"),
    "bad flag": (in_bundle(lambda b: b["flags"].insert(0, "-Drintf=roundf")), "flags ['-Drintf=roundf',"),
    "last flag": (in_bundle(lambda b: b["flags"].append("-O2")), "where the profile gives"),
    "word": (in_bundle(lambda b: b["inputs"]["command"].append("-static")), "where the profile gives ['gcc']"),
    "bad word": (in_bundle(lambda b: b["inputs"]["command"].append("@file")), "command ['gcc', '@file'] where"),
    "compiler": (in_bundle(lambda b: b.update(compiler="gcc 99")), "its sources, compiler, flags and inputs give"),
    "tool": (in_bundle(lambda b: b["inputs"]["tools"].update(ld="0" * 64)), "its sources, compiler, flags"),
    "headers": (in_bundle(lambda b: b["inputs"]["headers"].update(c="0" * 64)), "its sources, compiler, flags"),
    "definition": (in_bundle(lambda b: b["inputs"]["definitions"].append("rintf=roundf")), "definitions ["),
    "method": (in_bundle(lambda b: b["inputs"].update(method="0" * 64)), "other versions of harness/build/bundle.py"),
    "kernel compiler": (in_bundle(lambda b: b["inputs"]["kernel_compilers"].append("x")), "its sources, compiler"),
    "no inputs": (in_bundle(lambda b: b.pop("inputs")), "written by an older version"),
    "name": (lambda run: run["bundle"].update(sha256="0" * 64), "its sources, compiler, flags and inputs give"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("how", FORGED_BUNDLES)
def test_a_forged_source_flag_word_or_hash_is_found_without_building(
    user: User, identical: Path, tmp_path: Path, how: str
) -> None:
    forge, words = FORGED_BUNDLES[how]
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    change(copy / "run.json", forge)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    unchecked = words in {"damaged", "written by an older version"}
    assert (ended.code, states(ended)["sources"]) == ((3, "not checked") if unchecked else (1, "not ok")), ended.out
    assert words in text(ended, "sources")


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (lambda kept: kept["toolchain"].update(flags=["-O3"]), "where the profile gives ['-O3', '-std"),
        (lambda kept: kept["toolchain"].update(compiler="gcc @file"), "where the profile gives ['gcc', '@file']"),
        (lambda kept: kept.update(time_source="CLOCK_MONOTONIC"), "definitions ['TIME_SOURCE=CLOCK_MONOTONIC_RAW']"),
    ],
)
def test_a_forged_profile_is_found_without_building(
    user: User, identical: Path, tmp_path: Path, forge: Callable[[Any], object], words: str
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    change(copy / "request.json", lambda asked: forge(asked["profile"]))
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["sources"]) == (1, "not ok"), ended.out
    assert words in text(ended, "sources")


def test_a_flag_that_no_profile_may_give_does_not_stand(user: User, identical: Path, tmp_path: Path) -> None:
    """Profile, flags and name agree: a harness that refuses nothing has built it so."""

    def weaker(run: dict[str, Any]) -> None:
        built = run["bundle"]
        built["flags"].insert(0, "-Drintf=roundf")
        sources = {path: sha256 for path, sha256 in built["files"].items() if path != "inference"}
        built["sha256"] = bundle.name_of(sources, built["compiler"], built["flags"], built["inputs"])
        change(copy / "request.json", lambda asked: asked.update(bundle=built["sha256"]))

    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    change(copy / "run.json", weaker)
    change(copy / "request.json", lambda asked: asked["profile"]["toolchain"]["flags"].insert(0, "-Drintf=roundf"))
    rewrite(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["sources"]) == (1, "not ok"), ended.out
    assert "toolchain flag '-Drintf=roundf' is not allowed" in text(ended, "sources")


def test_another_compiler_is_told_and_the_sources_are_checked_all_the_same(
    user: User, identical: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))

    def elsewhere(run: dict[str, Any]) -> None:
        """As another machine, whose linker is another, would write it."""
        built = run["bundle"]
        built.update(compiler=f"{built['compiler'].partition(' [')[0]} [0123456789ab]")
        built["inputs"]["tools"].update(ld="0" * 64)
        sources = {path: sha256 for path, sha256 in built["files"].items() if path != "inference"}
        built["sha256"] = bundle.name_of(sources, built["compiler"], built["flags"], built["inputs"])
        change(copy / "request.json", lambda asked: asked.update(bundle=built["sha256"]))

    change(copy / "run.json", elsewhere)
    rewrite(copy)
    ended = user.here("verify", str(copy), "--json", "--reference", "none")
    assert (ended.code, states(ended)["sources"], states(ended)["bundle"]) == (0, "ok", "not checked"), ended.out
    assert "[0123456789ab], here is gcc" in text(ended, "bundle")
    assert text(ended, "bundle").endswith("; others are ld")


def test_a_run_is_found_by_its_name_and_shown_line_by_line(user: User, identical: Path) -> None:
    ended = user.here("verify", identical.name, "--no-rebuild", "--reference", "chunk")
    assert ended.code == 0
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["files", "ok"] in [line[:2] for line in lines]
    assert "computed again over 100 vectors" in ended.out
    assert ended.out.rstrip().endswith("the evidence is valid; its verdict is: identical, on this machine")


def test_dumps_that_were_not_fetched_are_told_by_their_hashes(user: User, model: Path, tmp_path: Path) -> None:
    run = a_run(user, model, "--fetch", "mismatch")
    assert user.here("verify", str(run), "--json", *QUICK).code == 0
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    change(copy / "chunks" / "00001.json", lambda chunk: chunk["target_sha256"].__setitem__(1, "0" * 64))
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, text(ended, "dumps")) == (1, "chunk 1: the dumps of layer 1 are not here")


def change(path: Path, how: Callable[[Any], object]) -> None:
    """Somebody edits a JSON file."""
    document = json.loads(path.read_text())
    how(document)
    write_json(path, document)


def rehash(folder: Path) -> None:
    """Somebody who knows how writes run.json's hashes anew."""
    names = (p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file())
    files = {name: file_sha256(folder / name) for name in names if name != "run.json"}
    change(folder / "run.json", lambda run: run.update(files=files, content_sha256=content_sha256(files)))


def rewrite(folder: Path) -> None:
    """Somebody who has the harness writes the reports and run.json's hashes anew: the folder agrees with itself."""
    run = json.loads((folder / "run.json").read_text())
    said = {key: value for key, value in run.items() if key not in AFTERWARDS}
    (folder / "report.html").write_text(report.html(said))
    (folder / "junit.xml").write_text(report.junit(said))
    rehash(folder)


def dump(folder: Path, kind: str, chunk: int = 0) -> Path:
    [path] = (folder / kind / f"{chunk:05}").glob(f"{LAST}.npy")
    return path


def edit_dump(folder: Path, kind: str) -> None:
    path = dump(folder, kind)
    values = np.load(path)
    values[2, 1] ^= 1
    dumps.write(path, values)


def edit_both_dumps_and_their_hashes(folder: Path) -> None:
    """All that is in the folder agrees, and yet it is not what the network computes."""
    for kind in ("reference", "target"):
        edit_dump(folder, kind)
        sha256 = file_sha256(dump(folder, kind))
        change(
            folder / "chunks/00000.json",
            lambda chunk, kind=kind, new=sha256: chunk[f"{kind}_sha256"].__setitem__(2, new),
        )


def swap_dumps(folder: Path) -> None:
    first, second = dump(folder, "target", 0), dump(folder, "target", 1)
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])


def edit_run(how: Callable[[Any], object]) -> Callable[[Path], None]:
    return lambda folder: change(folder / "run.json", how)


def edit_text(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        before = (folder / name).read_text()
        assert old in before
        (folder / name).write_text(before.replace(old, new, 1))

    return edit


def drop_chunk(folder: Path) -> None:
    (folder / "chunks" / "00001.json").unlink()


def other_vectors(folder: Path) -> None:
    path = folder / "stimuli.npy"
    vectors = np.load(path)
    vectors[123, 0] += 0.25
    dumps.write(path, vectors)
    change(folder / "run.json", lambda run: run["stimuli"].update(sha256=file_sha256(path)))


def other_model(folder: Path) -> None:
    shutil.copy(ROOT / "models" / "acas_coc.onnx", folder / "model.onnx")


@dataclass(frozen=True)
class Tampered:
    """What somebody did, which claim falls, and words that name it."""

    how: Callable[[Path], object]
    claim: str
    words: str
    rehashed: bool = False


def edit_chunk(folder: Path) -> None:
    change(folder / "chunks/00001.json", lambda chunk: chunk["layers"][0].update(compared=4))


def edit_request(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "request.json", lambda asked: asked["request"].update(changes))


def leave_dumps_out(folder: Path) -> None:
    """As if only those that differ had been wanted."""
    for kind in ("reference", "target"):
        shutil.rmtree(folder / kind)
    change(folder / "run.json", lambda run: run.update(fetch="mismatch"))


def edit_tables(folder: Path) -> None:
    next((folder / "plan" / "parameters").glob("*bias*")).write_bytes(b"")


def in_run(claim: str, words: str, **changes: Any) -> Tampered:
    return Tampered(edit_run(lambda run: run.update(changes)), claim, words)


def in_part(claim: str, words: str, part: Callable[[Any], dict[str, Any]], **changes: Any) -> Tampered:
    return Tampered(edit_run(lambda run: part(run).update(changes)), claim, words)


def copy_dumps(kind: str, chunk: str, name: str = "") -> Callable[[Path], None]:
    """Of a chunk, or of a layer, that no record tells of."""

    def copy(folder: Path) -> None:
        if name:
            shutil.copy(dump(folder, kind, 1), folder / kind / chunk / name)
        else:
            shutil.copytree(folder / kind / "00001", folder / kind / chunk)

    return copy


def keep_no_traces(folder: Path) -> None:
    edit_request(trace=0)(folder)
    edit_run(lambda run: run.update(conformance=None))(folder)


def trace_other_vectors(folder: Path) -> None:
    path = folder / "traces/vectors.npy"
    np.save(path, np.load(path)[::-1].copy())


def to_come(run: dict[str, Any]) -> None:
    run.update(started="2236-01-01T00:00:00Z", finished="2236-01-01T00:00:04Z", wall_s=4)
    run["attempts"][-1]["began"] = "2236-01-01T00:00:01Z"


def run_to_come(folder: Path) -> None:
    edit_run(to_come)(folder)
    edit_run(lambda run: run.update(vectors_per_s=75.0))(folder)
    began, board = (folder / "attempts.jsonl").read_text().splitlines()
    assert began.startswith('{"began": ')
    (folder / "attempts.jsonl").write_text(f'{{"began": "2236-01-01T00:00:01Z"}}\n{board}\n')


def rename_chunk(folder: Path) -> None:
    """Python reads these digits, too."""
    (folder / "chunks/00001.json").rename(folder / "chunks/\u0660\u0660\u0660\u0660\u0661.json")


OUTSIDE = {"../../../etc/passwd": "0"}
TAMPERED = {
    "file added": Tampered(lambda f: (f / "target/00000/x.npy").touch(), "files", "added: target/00000/x.npy"),
    "file added, rehashed": Tampered(
        lambda f: (f / "certificate.txt").touch(), "files", "added, and listed: certificate.txt", rehashed=True
    ),
    "link added": Tampered(
        lambda f: (f / "chunks/x").symlink_to("/etc"), "files", "chunks/x, which is not a regular file"
    ),
    "pipe added": Tampered(lambda f: os.mkfifo(f / "chunks/x"), "files", "chunks/x, which is not a regular file"),
    "file removed": Tampered(lambda f: (f / "log.txt").unlink(), "files", "missing: log.txt"),
    "dump changed": Tampered(lambda f: edit_dump(f, "target"), "files", f"changed: target/00000/{LAST}.npy"),
    "dumps swapped": Tampered(swap_dumps, "files", f"changed: target/00000/{LAST}.npy, target/00001/{LAST}.npy"),
    "dumps swapped, rehashed": Tampered(swap_dumps, "dumps", "SHA-256", rehashed=True),
    "dump changed, rehashed": Tampered(lambda f: edit_dump(f, "target"), "dumps", "SHA-256", rehashed=True),
    "path out of it": in_part("files", "missing: ../../../etc/passwd", lambda run: run["files"], **OUTSIDE),
    "content hash": in_run("content", "says 000000", content_sha256="0" * 64),
    "verdict": in_run("verdict", 'verdict is "differs", recomputed as "identical"', verdict="differs"),
    "reason": in_run("verdict", "reason is", reason="all is well"),
    "a number": in_part("verdict", "layers[1].compared is 9", lambda run: run["layers"][1], compared=9),
    "where it ran": in_part("verdict", "layers[1].ran_on", lambda run: run["layers"][1], ran_on="moon"),
    "conformance": in_part("verdict", "conformance.events", lambda run: run["conformance"], events=1),
    "traced vectors": in_part("verdict", "conformance.vectors is 1", lambda run: run["conformance"], vectors=1),
    "other vectors traced": Tampered(trace_other_vectors, "verdict", "the first vectors of the run", rehashed=True),
    "target": in_part("plan", "items[0].target", lambda run: run["plan"]["items"][0], target="cuda:fused"),
    "kind of board": in_part("board", "kind is emulated, and machine_id is", lambda run: run["board"], kind="emulated"),
    "soundness": in_part("plan", "sound", lambda run: run["assessment"], sound=False),
    "model's box": in_part("model", "input.box_low is", lambda run: run["model"]["input"], box_low=3),
    "another model": Tampered(other_model, "model", "the plan's is", rehashed=True),
    "name of board": in_part("request", "board is", lambda run: run["board"], name="xavier"),
    "where, in the kernel's words": in_part(
        "board",
        "command line has harness.name=x",
        lambda run: run["board"]["environment"],
        command_line="harness.name=x",
    ),
    "attempts": in_run("request", "attempts[0]", attempts=[]),
    "asked bundle": Tampered(
        lambda f: change(f / "request.json", lambda asked: asked.update(bundle="0")), "request", "bundle", rehashed=True
    ),
    "asked board": Tampered(edit_request(board="xavier"), "request", "board is", rehashed=True),
    "dumps left out": Tampered(leave_dumps_out, "request", "fetch is", rehashed=True),
    "vectors' origin": Tampered(edit_request(vectors="mine.npy"), "vectors", "source", rehashed=True),
    "seed": in_part("vectors", "[0] is 2, recomputed as 1", lambda run: run["stimuli"], seed=2),
    "vectors": Tampered(other_vectors, "vectors", "vector 123 of stimuli.npy is another", rehashed=True),
    "chunk dropped": Tampered(drop_chunk, "chunks", "chunk 2 has vectors 200 to 300", rehashed=True),
    "chunk's count": Tampered(edit_chunk, "chunks", "chunk 1, compared, says [0] is 4", rehashed=True),
    "report": Tampered(edit_text("report.html", "identical", "superb"), "reports", "report.html: not", rehashed=True),
    "junit": Tampered(edit_text("junit.xml", '"0"', '"1"'), "reports", "junit.xml: not what", rehashed=True),
    "trace": Tampered(lambda f: (f / "traces/undisturbed.jsonl").write_text(""), "verdict", "", rehashed=True),
    "dumps of another chunk": Tampered(copy_dumps("target", "00007"), "chunks", "00007/00_", rehashed=True),
    "dumps of another layer": Tampered(
        copy_dumps("reference", "00001", "07_x.npy"), "chunks", "no layer: 00001/07_x.npy", rehashed=True
    ),
    "chunk by another name": Tampered(rename_chunk, "chunks", "chunks/ has unknown files", rehashed=True),
    "a failing case": Tampered(lambda f: (f / "failing.npy").touch(), "failing", "nothing differs", rehashed=True),
    "no traces": Tampered(keep_no_traces, "verdict", "files of no trace that was asked for", rehashed=True),
    "too many traces": Tampered(edit_request(trace=10**12), "verdict", "more than the traces can have", rehashed=True),
    "too many vectors": Tampered(
        edit_request(vectors="9" * 15), "vectors", "the model gives 999,999,999,999,999", rehashed=True
    ),
    "a request of nothing": Tampered(
        lambda f: (f / "request.json").write_text("{}"), "plan", "request, plan, model or vectors", rehashed=True
    ),
    "a run to come": Tampered(run_to_come, "request", "which is in the future", rehashed=True),
    "how long": in_run("request", "says 3600 s from", wall_s=3600),
    "where, on a processor": in_part("plan", "items[0].ran_on", lambda r: r["plan"]["items"][0], ran_on="x"),
    "another kind of board": in_part("board", "valid kinds: hardware", lambda run: run["board"], kind="silicon"),
    "plan's text": Tampered(edit_text("plan/plan.yaml", "barrier", "flag"), "plan", "sync is", rehashed=True),
    "plan's tables": Tampered(edit_tables, "plan", "bias", rehashed=True),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_what_was_tampered_with_is_found_and_named(user: User, identical: Path, tmp_path: Path, how: str) -> None:
    tampered = TAMPERED[how]
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    tampered.how(copy)
    if tampered.rehashed:
        rehash(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, ended.document["stands"]) == (1, False)
    assert states(ended)[tampered.claim] == "not ok"
    assert tampered.words in text(ended, tampered.claim)


def test_a_difference_that_was_hidden_is_found(user: User, differing: Path, tmp_path: Path) -> None:
    """Chunks, hashes and verdict are made to say identical; the dumps still differ."""

    def hide(chunk: dict[str, Any]) -> None:
        chunk.update(diagnoses=[], portraits=[])
        for layer in chunk["layers"]:
            layer.update(differing=0, own=0, first=None)

    copy = Path(shutil.copytree(differing, tmp_path / "copy"))
    for path in (copy / "chunks").iterdir():
        change(path, hide)
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert ended.code == 1
    assert text(ended, "dumps") == (
        "chunk 0, layer 0, says differing is 0, recomputed as " + text(ended, "dumps").rpartition(" ")[2]
    )
    assert int(text(ended, "dumps").rpartition(" ")[2]) > 0


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (edit_both_dumps_and_their_hashes, "chunk 0, reference_sha256 says [2] is"),
        (
            edit_run(lambda run: run["layers"][0]["coverage"]["codes"].update(met=1)),
            "layers[0].coverage.codes.met is 1, recomputed as",
        ),
    ],
)
def test_what_only_the_reference_shows_is_found_by_computing_it_again(
    user: User, identical: Path, tmp_path: Path, tamper: Callable[[Path], None], words: str
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    tamper(copy)
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", "--no-rebuild")
    assert ended.code == 1
    assert any(words in claim["text"] for claim in ended.document["claims"] if claim["state"] == "not ok"), ended.out
    unseen = user.here("verify", str(copy), "--json", *QUICK)
    assert states(unseen)["dumps"] == "ok"


def test_an_edited_bundle_is_found_when_it_is_built_again(user: User, identical: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    change(copy / "run.json", lambda run: run["bundle"]["files"].update(inference="0" * 64))
    ended = user.here("verify", str(copy), "--json", "--reference", "none")
    assert ended.code == 1
    assert text(ended, "bundle") == "built again from the same sources, other bytes are in: inference"


def test_attempts_that_are_out_of_order_are_not_believed(user: User, identical: Path, tmp_path: Path) -> None:
    copy, later = Path(shutil.copytree(identical, tmp_path / "copy")), "2236-01-01T00:00:00Z"
    lines = (copy / "attempts.jsonl").read_text()
    began = json.loads(lines.splitlines()[0])["began"]
    stopped = json.dumps({"stopped": began, "part": "user", "reason": "interrupted"})
    (copy / "attempts.jsonl").write_text(f"{lines.replace(began, later, 1)}{stopped}\n{lines}")
    before = {"began": later, "part": "user", "reason": "interrupted"}
    change(copy / "run.json", lambda run: run["attempts"].insert(0, run["attempts"][0] | before))
    rewrite(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["request"]) == (3, "not checked"), ended.out
    assert f"attempts began {later}, {began}, out of order" in text(ended, "request")


@pytest.mark.parametrize("name", ["chunks/00001.json", "request.json", "proof.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    user: User, identical: Path, tmp_path: Path, name: str
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    (copy / name).unlink(missing_ok=True)
    os.mkfifo(copy / name)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, text(ended, "content")) == (
        1,
        f"no other file is opened: added: {name}, which is not a regular file",
    )


def test_a_run_json_that_is_no_file_or_says_a_thing_twice_is_refused(
    user: User, identical: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    written = (copy / "run.json").read_text()
    (copy / "run.json").write_text(written.replace("{", '{"verdict": "differs",', 1))
    with pytest.raises(RequestError, match="'verdict' is repeated"):
        user.here("verify", str(copy), *QUICK)
    (copy / "run.json").unlink()
    os.mkfifo(copy / "run.json")
    with pytest.raises(RequestError, match="is not a file of at most 64 MiB"):
        user.here("verify", str(copy), *QUICK)


def test_an_unfinished_run_cannot_be_checked(user: User, identical: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    (copy / "run.json").unlink()
    ended = user.here("verify", str(copy), "--json")
    assert (ended.code, ended.document["stands"]) == (3, None)
    assert f"harness run --resume {copy}" in text(ended, "finished")
    change(copy / "request.json", lambda asked: asked.update(kind="measure"))
    assert "measure again" in text(user.here("verify", str(copy), "--json"), "finished")


@pytest.mark.parametrize("content", ["{", "[1]", '{"a":' * 100_000])
def test_what_is_no_run_is_refused(user: User, tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    ended = user.harness("verify", str(tmp_path))
    assert (ended.code, str(tmp_path) in ended.err) == (2, True)


def test_a_report_of_another_version_is_written_again_by_that(
    user: User, identical: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another version words otherwise is compared with what that version's own sources write."""
    written = {name: (identical / name).read_text().replace("bit for bit", "bitwise") for name in REPORTS}
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    for name, content in written.items():
        (copy / name).write_text(content)
    change(copy / "run.json", lambda run: run["harness"].update(revision="0123456789ab"))
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["reports"]) == (3, "not checked")
    assert "0123456789ab, which is not in the history" in text(ended, "reports")
    for content, state in ((written, "ok"), (written | {"junit.xml": "<x/>"}, "not ok")):
        monkeypatch.setattr(built_again, "reports", lambda *_, content=content: content)
        ended = user.here("verify", str(copy), "--json", *QUICK)
        assert states(ended)["reports"] == state, text(ended, "reports")


def test_a_plan_that_another_version_describes_otherwise_is_described_by_that(
    user: User, identical: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    (copy / "plan" / "net.dot").write_text("digraph {}")
    rehash(copy)
    assert text(user.here("verify", str(copy), "--json", *QUICK), "description").endswith("lacks it: net.dot")
    change(copy / "run.json", lambda run: run["harness"].update(revision="0123456789ab"))
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, states(ended)["description"]) == (3, "not checked")
    assert "0123456789ab, which is not in the history" in text(ended, "description")


def test_the_past_of_this_checkout_describes_its_own_plans(identical: Path, tmp_path: Path) -> None:
    evidence = Evidence(identical, json.loads((identical / "run.json").read_text()))
    written = built_again.description(evidence, tmp_path)
    assert {path.name for path in written.iterdir()} == {path.name for path in (identical / "plan").iterdir()}
    assert inputs.description(evidence, written).endswith("files in plan/ are those that the plan gives")


def test_the_past_of_this_checkout_writes_its_own_reports(identical: Path, tmp_path: Path) -> None:
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        pytest.skip("no checkout")
    run = json.loads((identical / "run.json").read_text())
    found = built_again.reports(Evidence(identical, run | {"harness": {"revision": head.stdout.strip()}}), tmp_path)
    assert found.keys() == set(REPORTS)
    assert all("bit for bit" in content for content in found.values())


def test_a_reference_that_fails_here_leaves_a_run_unchecked(
    user: User, identical: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ReferenceFailed("its kernels are wrong")

    monkeypatch.setattr(results, "recompute", fail)
    ended = user.here("verify", str(identical), "--json", "--no-rebuild")
    assert (ended.code, ended.document["stands"], text(ended, "reference")) == (3, None, "its kernels are wrong")
    assert user.here("verify", str(identical), "--json", *QUICK).code == 0


@pytest.mark.parametrize("lost", ["proof", "plan", "files", "attempts"])
def test_what_lacks_an_entry_does_not_stand(user: User, identical: Path, tmp_path: Path, lost: str) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    (copy / "attempts.jsonl").write_text("")
    change(copy / "run.json", lambda run: run.pop(lost))
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert ended.code in {1, 3}
    assert ended.document["stands"] is not True


def test_the_document_of_another_version_is_not_checked_rather_than_wrong(
    user: User, identical: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(identical, tmp_path / "copy"))
    change(copy / "run.json", lambda run: run.pop("layers"))
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert ended.code == 3
    assert text(ended, "verdict") == "damaged, or written by another version of harness: KeyError: 'layers'"
