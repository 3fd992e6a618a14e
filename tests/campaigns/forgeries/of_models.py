"""Forgeries of what was run: model, plan or vectors are not those that ran."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from harness.core.file_digest import file_sha256
from harness.execution import dumps
from harness.model import load
from harness.runs.description import model_entry
from tests.campaigns.forgeries.bases import Bases
from tests.campaigns.forgeries.forger import Change, all_of, change_vector, in_request, in_run, in_text
from tests.campaigns.forgeries.forgery import Using, forgeries


def other_model(bases: Bases) -> Change:
    """Return a change that puts another model in place, and what run.json says of it."""
    said = model_entry(load(bases.other_model)).to_json() | {"name": "small"}
    put = in_run(lambda run: run.update(model=said))
    return all_of(lambda folder: shutil.copy(bases.other_model, folder / "model.onnx"), put)


def other_model_and_plan(bases: Bases) -> Change:
    """Return a change that puts another model also into the plan."""

    def change(folder: Path) -> None:
        before = file_sha256(folder / "model.onnx")
        other_model(bases)(folder)
        shutil.copy(bases.other_model, folder / "plan" / "model.onnx")
        in_text("plan/plan.yaml", before, file_sha256(bases.other_model))(folder)

    return change


def one_vector(folder: Path) -> None:
    """Put the first vector in the place of all; the dumps follow it."""
    vectors = np.load(folder / "stimuli.npy")
    dumps.write(folder / "stimuli.npy", np.repeat(vectors[:1], len(vectors), axis=0))
    for path in (*folder.glob("reference/*/*.npy"), *folder.glob("target/*/*.npy")):
        first = np.load(path.parents[1] / "00000" / path.name)
        dumps.write(path, np.repeat(first[:1], len(first), axis=0))


def change_weight(folder: Path) -> None:
    """Change a weight in the tables of the plan."""
    path = next((folder / "plan" / "parameters").glob("*weights.dat"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def in_plan(old: str, new: str) -> Change:
    """Return a change of the plan's text."""
    return in_text("plan/plan.yaml", old, new)


other_seed = all_of(in_request(seed=2), in_run(lambda run: run["stimuli"].update(seed=2, source="seed 2")))
author = in_run(lambda run: run["model"]["metadata"].update(author="me"))
box = in_run(lambda run: run["model"]["input"]["box_low"].__setitem__(0, -9.0))

FORGERIES = forgeries(
    "model",
    {
        "another model": ("run", Using(other_model)),
        "another model, in the plan too": ("run", Using(other_model_and_plan)),
        "another input box": ("run", box),
        "other words in the model": ("run", author),
        "the plan's hand-overs": ("run", in_plan("sync: barrier", "sync: flag")),
        "the plan's target": ("run", in_plan("target: c", "target: cuda:fused")),
        "the plan's block": ("run", in_plan("block: 1000", "block: 50")),
        "a weight of the plan": ("run", change_weight),
        "the plan's net": ("run", lambda folder: (folder / "plan" / "net.pnml").write_text("<pnml/>")),
        "the picture of the plan's net": ("run", lambda folder: (folder / "plan" / "net.dot").write_text("digraph {}")),
        "a check of the plan is removed": ("run", in_run(lambda run: run["assessment"]["checks"].pop())),
        "a vector": ("run", change_vector),
        "one vector in the place of all": ("run", one_vector),
        "another seed": ("run", other_seed),
        "other classes of vectors": ("run", in_run(lambda run: run["stimuli"]["classes"].update(hard=300))),
    },
)
