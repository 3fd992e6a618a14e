"""Where a stranger's bytes come in: each takes some, and may refuse them, but nothing else."""

from __future__ import annotations

import io
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import numpy as np

from harness import model as networks
from harness.applications.decide import job as decision
from harness.applications.decide import property as properties_of
from harness.boards import profile
from harness.build import codegen
from harness.cli.main import cli
from harness.core.errors import HarnessError
from harness.core.installation import ROOT
from harness.plan import planner
from harness.reference import Reference, stimuli, vector_files
from tests.campaigns.security import mutations
from tests.campaigns.security.mutations import Mutate, Random, pick
from tests.support import builders
from tests.support.importer import graphs


@dataclass(frozen=True)
class Door:
    """A way in: what honest inputs look like, how they are spoilt, who reads them.

    `read` returns what is said to the terminal; it raises HarnessError or click's own errors for what is refused.
    """

    honest: Callable[[], list[bytes]]
    spoil: tuple[Mutate, ...]
    read: Callable[[bytes, Path], str]


@cache
def models() -> list[bytes]:
    """The ACAS networks, and small ones with every operator."""
    rng = np.random.default_rng(3)
    small = [
        builders.random_network(rng, (3, 4, 2)),
        builders.random_network(rng, (4, 6, 3), weights="uint8", activations="uint8", per_column=True),
    ]
    shipped = [path.read_bytes() for path in sorted((ROOT / "models").glob("*.onnx"))]
    return [model.SerializeToString() for model in small] * 8 + shipped


@cache
def importable() -> list[bytes]:
    """Networks of other tools: floats with Gemm and Relu."""
    rng = np.random.default_rng(4)
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (("w", (3, 4)), ("v", (4, 2)))}
    biases = {name: rng.normal(size=size).astype(np.float32) for name, size in (("b", 4), ("c", 2))}
    nodes = [graphs.node("Gemm", "x w b", "h"), graphs.node("Relu", "h", "r"), graphs.node("Gemm", "r v c", "y")]
    return [graphs.model(nodes, weights | biases, shape=("n", 3))] * 6 + models()[:4]


def network(content: bytes, folder: Path) -> str:
    """The loader, and what is built on what it accepts: the plan, the generated code, the reference, a command."""
    path = folder / "model.onnx"
    path.write_bytes(content)
    found = networks.load(path)
    plan = planner.make(found, profile.load(ROOT / "boards.yaml", {}).board("host"))
    codegen.generate(plan)
    vectors = stimuli.stimuli(found, 3, 1) if found.vector.size < 1000 else None
    if vectors:
        Reference(found, 1).activations(vectors.chunk(0, 3))
    return command("models", "show", str(path))


def imported(content: bytes, folder: Path) -> str:
    """`harness models import`."""
    (folder / "other.onnx").write_bytes(content)
    return command("models", "import", str(folder / "other.onnx"), "-o", str(folder / "new.onnx"), "--force")


def boards(content: bytes, folder: Path) -> str:
    """The laboratory file, and the plan of every board that it then has."""
    path = folder / "boards.yaml"
    path.write_bytes(content)
    for board in profile.load(path, {}).profiles.values():
        planner.make(networks.parse(models()[0], "m"), board)
    return ""


def nightly(content: bytes, folder: Path) -> str:
    """`harness nightly --dry-run`."""
    (folder / "nightly.yaml").write_bytes(content)
    return command("nightly", str(folder / "nightly.yaml"), "--dry-run", runs=folder / "runs")


def plan_text(content: bytes, folder: Path) -> str:
    """`harness plan --load`, of a folder whose plan.yaml is the stranger's."""
    shutil.copytree(_plan_folder(), folder / "plan", dirs_exist_ok=True)
    (folder / "plan" / "plan.yaml").write_bytes(content)
    return command("plan", "--load", str(folder / "plan"))


def item_text(content: bytes, folder: Path) -> str:
    """The same, of which an item's description is the stranger's."""
    shutil.copytree(_plan_folder(), folder / "plan", dirs_exist_ok=True)
    (folder / "plan" / "network.nnef").write_bytes(content)
    return command("plan", "--load", str(folder / "plan"))


@cache
def _plan_folder() -> Path:
    folder = Path(tempfile.mkdtemp()) / "plan"
    (folder.parent / "small.onnx").write_bytes(models()[0])
    command("plan", "--board", "host", "--model", str(folder.parent / "small.onnx"), "-o", str(folder))
    return folder


def vectors(content: bytes, folder: Path) -> str:
    """--vectors FILE."""
    (folder / "vectors.npy").write_bytes(content)
    file_vectors = vector_files.from_file(folder / "vectors.npy", networks.parse(models()[0], "m"))
    file_vectors.chunk(0, min(file_vectors.count, 10))
    return ""


def run_document(content: bytes, folder: Path) -> str:
    """`harness verify` of a run whose run.json is the stranger's."""
    return _verified(content, folder, "run.json")


def chunk_document(content: bytes, folder: Path) -> str:
    """The same, of which a chunk's record is the stranger's."""
    return _verified(content, folder, "chunks/00001.json")


def _verified(content: bytes, folder: Path, name: str) -> str:
    shutil.copytree(_run_folder(), folder / "run", dirs_exist_ok=True)
    (folder / "run" / name).write_bytes(content)
    return command("verify", str(folder / "run"), "--no-rebuild", "--reference", "all" if "chunk" in name else "none")


@cache
def _run_folder() -> Path:
    folder = Path(tempfile.mkdtemp()) / "run"
    (folder.parent / "small.onnx").write_bytes(models()[0])
    asked = ("--vectors", "60", "--chunk", "20", "--trace", "6", "--run-folder", str(folder))
    command("run", "--board", "host", "--items", "c,c", "--model", str(folder.parent / "small.onnx"), *asked)
    return folder


PROPERTY = """\
property: robust
axes:
  - {name: x0, unit: ft, cuts: [0, 0.5, 1e0]}
  - {name: x1, from: -pi, to: pi/2, intervals: 4, wraps: true}
"""
TERMS = """\
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (<= X_0 0.5))
(assert (>= X_0 -0.5))
(assert (= X_1 0.25))
(assert (or (and (<= Y_0 -1.5) (>= Y_1 Y_0)) (>= Y_1 2e-1)))
"""


@cache
def decided() -> networks.Network:
    """A network of two inputs and two scores."""
    rng = np.random.default_rng(5)
    return networks.parse(builders.random_network(rng, (2, 4, 2), argmax=True).SerializeToString(), "m")


def properties() -> list[bytes]:
    return [text.encode() for text in (PROPERTY, "property: output-in\nvnnlib: p.vnnlib\n", TABLE)]


TABLE = "property: similar-to-table\ntable: t.npz\ntable_ties: first\n"


def tables() -> list[bytes]:
    """A table of three and two cuts."""
    file = io.BytesIO()
    arrays = {"cuts_0": np.array([0.0, 0.5, 1.0]), "cuts_1": np.array([0.0, 1.0])}
    names = np.array(["output 0", "output 1"])
    texts = {"axes": np.array(["x0", "x1"]), "units": np.array(["", ""]), "wraps": np.zeros(2, np.bool_)}
    np.savez(file, advisories=np.ones((3, 2), np.uint8), names=names, **texts, **arrays)  # type: ignore[arg-type]
    return [file.getvalue()]


def stated(name: str) -> Callable[[bytes, Path], str]:
    """Return a reader of a property, of which the file of this name is the stranger's."""

    def read(content: bytes, folder: Path) -> str:
        (folder / "p.vnnlib").write_text(TERMS)
        (folder / "t.npz").write_bytes(tables()[0])
        (folder / "p.yaml").write_text(TABLE if name == "t.npz" else "property: output-in\nvnnlib: p.vnnlib\n")
        (folder / name).write_bytes(content)
        found = decision.read_stated(folder, decided(), folder / "p.yaml", properties_of.MOST_OF_BOUNDS)
        return f"{found.partition.boxes}"

    return read


def decision_document(content: bytes, folder: Path) -> str:
    """`harness verify` of a decision whose decide.json is the stranger's."""
    shutil.copytree(_decision_folder(), folder / "decision", dirs_exist_ok=True)
    (folder / "decision" / "decide.json").write_bytes(content)
    return command("verify", str(folder / "decision"))


@cache
def _decision_folder() -> Path:
    folder = Path(tempfile.mkdtemp())
    (folder / "m.onnx").write_bytes(decided().onnx_bytes)
    (folder / "p.yaml").write_text(PROPERTY)
    command("decide", "--model", str(folder / "m.onnx"), "--property", str(folder / "p.yaml"), runs=folder / "runs")
    return next((folder / "runs").iterdir())


def some_vectors() -> list[bytes]:
    file = io.BytesIO()
    np.save(file, np.zeros((20, 3), np.float32))
    return [file.getvalue()]


def command(*arguments: str, runs: Path | None = None) -> str:
    """A command in this process, and all that it says."""
    where = ("--boards", str(ROOT / "boards.yaml"), *(("--runs", str(runs)) if runs else ()))
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        cli.main([*where, *arguments], standalone_mode=False)
    return out.getvalue()


def texts(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [(ROOT / name).read_bytes() for name in names if (ROOT / name).exists()]


def broken(content: bytes, folder: Path) -> str:
    """What the campaign must notice: a bug, a crash, much memory, an order to the terminal, a file left behind."""
    how = content[0] % 8
    if how == 1:
        raise KeyError(how)
    if how == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == 3:
        return str(len(bytearray(8 << 30)))
    if how == 4:
        (folder / "pwned").touch()
    return "\x1b[2J" if how == 5 else ""


DOORS: dict[str, Door] = {
    "model": Door(models, (mutations.of_model, mutations.of_model, mutations.of_bytes), network),
    "import": Door(importable, (mutations.of_model, mutations.of_model, mutations.of_bytes), imported),
    "boards.yaml": Door(texts("boards.yaml"), (mutations.of_yaml, mutations.of_yaml, mutations.of_bytes), boards),
    "nightly.yaml": Door(texts("nightly.yaml"), (mutations.of_yaml, mutations.of_bytes), nightly),
    "plan.yaml": Door(
        lambda: [(_plan_folder() / "plan.yaml").read_bytes()], (mutations.of_yaml, mutations.of_bytes), plan_text
    ),
    "item.nnef": Door(lambda: [(_plan_folder() / "network.nnef").read_bytes()], (mutations.of_bytes,), item_text),
    "run.json": Door(lambda: [(_run_folder() / "run.json").read_bytes()], (mutations.of_json,), run_document),
    "chunk.json": Door(
        lambda: [(_run_folder() / "chunks" / "00001.json").read_bytes()],
        (mutations.of_json, mutations.of_json, mutations.of_bytes),
        chunk_document,
    ),
    "property.yaml": Door(properties, (mutations.of_yaml, mutations.of_bytes), stated("p.yaml")),
    "property.vnnlib": Door(
        lambda: [TERMS.encode()], (mutations.of_terms, mutations.of_terms, mutations.of_bytes), stated("p.vnnlib")
    ),
    "table.npz": Door(tables, (mutations.of_bytes,), stated("t.npz")),
    "decide.json": Door(
        lambda: [(_decision_folder() / "decide.json").read_bytes()], (mutations.of_json,), decision_document
    ),
    "vectors.npy": Door(some_vectors, (mutations.of_bytes,), vectors),
}


BROKEN = {"broken": Door(lambda: [b"\0"], (lambda _, rng: rng.bytes(1),), broken)}


def spoilt(door: Door, rng: Random) -> bytes:
    """One hostile input."""
    return bytes(pick(rng, door.spoil)(pick(rng, door.honest()), rng))


def enter(door: Door, content: bytes, folder: Path) -> str:
    """How it ends: `accepted` or `refused`; any other exception is a hole."""
    try:
        said = door.read(content, folder)
    except HarnessError as error:
        said, ending = f"{error.message} {error.hint}", "refused"
    except click.ClickException as error:
        said, ending = error.format_message(), "refused"
    else:
        ending = "accepted"
        if any(character < " " and character not in "\n\t" for character in said):
            raise AssertionError("a control character reached the terminal")
    return ending
