"""Forgeries of decisions: masked sets, other networks, and documents that do not follow from the slabs."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.applications.decide import bounded
from harness.applications.decide.job import DECISIONS, DOCUMENT, MODEL, REQUEST, SLABS, WITNESSES, verdict_of
from tests.campaigns.forgeries.bases import Bases
from tests.campaigns.forgeries.forger import Change, Document, edit, in_file
from tests.campaigns.forgeries.forgery import Using, forgeries
from tests.support.decide.forged import ChangeOfSlab, mask, mask_box, rebuild


def in_document(how: Callable[[Document], object]) -> Change:
    """Return a change of decide.json."""
    return in_file(DOCUMENT, how)


def in_slabs(change: ChangeOfSlab) -> Change:
    """Return a change of the sets of slabs, and of all that follows."""
    return lambda folder: rebuild(folder, change)


def in_one_slab(folder: Path) -> None:
    """Mask the sets of the first slab in which some region has several decisions."""
    masked: list[int] = []

    def change(job: Any, task: Any, regions: Any) -> Any:
        several = bool((np.bitwise_count(regions) > 1).any())
        if masked or not several:
            return regions
        masked.append(task.first)
        return mask(job, task, regions)

    rebuild(folder, change)


def in_one_box(folder: Path) -> None:
    """Hide all decisions but the first in one violated box."""
    sets = np.load(folder / DECISIONS)
    box = np.argwhere((np.bitwise_count(sets) > 1) & (sets & 1 > 0))[-1]
    rebuild(folder, mask_box(tuple(map(int, box))))


def slabs_of_other(bases: Bases) -> Change:
    """Return a change that takes the slabs of a decision of another network."""

    def change(folder: Path) -> None:
        shutil.rmtree(folder / SLABS)
        shutil.copytree(bases.other_decision / SLABS, folder / SLABS)
        rebuild(folder, lambda _job, _task, regions: regions)

    return change


def model_of_other(bases: Bases) -> Change:
    """Return a change that says that the decision is that of another network."""

    def change(folder: Path) -> None:
        shutil.copy(bases.other_decision / MODEL, folder / MODEL)
        sha256 = hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()
        for name in (REQUEST, DOCUMENT):
            edit(folder / name, lambda document: document["model"].update(sha256=sha256))

    return change


def one_box_alone(folder: Path) -> None:
    """Change the set of one box in decisions.npy, with its hash."""
    sets = np.load(folder / DECISIONS)
    sets[np.unravel_index(int(np.argmax(np.bitwise_count(sets))), sets.shape)] = 1
    np.save(folder / DECISIONS, sets)
    edit(
        folder / DOCUMENT, lambda document: document.update(decisions_sha256=hashlib.sha256(sets.tobytes()).hexdigest())
    )


def in_witnesses(how: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """Return a change of the witnesses, with their hash."""

    def change(folder: Path) -> None:
        with np.load(folder / WITNESSES) as stored:
            arrays = how(dict(stored))
        np.savez_compressed(folder / WITNESSES, **arrays)
        sha256 = hashlib.sha256((folder / WITNESSES).read_bytes()).hexdigest()
        edit(folder / DOCUMENT, lambda document: document.update(witnesses_sha256=sha256))

    return change


def in_sets(name: str, how: Callable[[Any, Any], Any]) -> Change:
    """Return a change of possible.npy or reached.npy, and of all that follows."""

    def change(folder: Path) -> None:
        job = bounded.opened(folder)
        sets = {key: np.load(folder / key) for key in (bounded.POSSIBLE, bounded.REACHED)}
        sets[name] = how(*sets.values())
        np.save(folder / name, sets[name])
        counts = bounded.counts_of(job.stated, *sets.values())
        hashes = {
            f"{key.partition('.')[0]}_sha256": hashlib.sha256(one.tobytes()).hexdigest() for key, one in sets.items()
        }
        follows = {"counts": counts.to_json(), "verdict": verdict_of(counts)} | hashes
        edit(folder / DOCUMENT, lambda document: document.update(follows))

    return change


def move_box(document: Document) -> None:
    """Count a violated box as safe."""
    document["counts"]["safe"] += 1
    document["counts"]["violated"] -= 1


def share_codes(document: Document) -> None:
    """Move a code vector from one slab to the next."""
    document["slabs"][0]["code_vectors"] -= 1
    document["slabs"][1]["code_vectors"] += 1


def swap_decisions(document: Document) -> None:
    """Exchange the number of boxes of two decisions."""
    by_decision = document["counts"]["by_decision"]
    one, other, *_ = by_decision
    by_decision[one], by_decision[other] = by_decision[other], by_decision[one]


FORGERIES = forgeries(
    "decision",
    {
        "all sets are masked, so that every box is safe": ("decision", in_slabs(mask)),
        "the sets of one slab are masked": ("decision", in_one_slab),
        "the sets of one violated box are masked": ("decision", in_one_box),
        "the slabs of another network": ("decision", Using(slabs_of_other)),
        "the decision is that of another network": ("decision", Using(model_of_other)),
        "the set of one box differs from the slabs": ("decision", one_box_alone),
        "a slab is removed": ("decision", lambda folder: min((folder / SLABS).iterdir()).unlink()),
        "a violated box is counted as safe": ("decision", in_document(move_box)),
        "the boxes of two decisions are exchanged": ("decision", in_document(swap_decisions)),
        "the verdict is safe": ("decision", in_document(lambda d: d.update(verdict="safe"))),
        "a slab is not in the certificate": ("decision", in_document(lambda d: d["slabs"].pop(3))),
        "a slab is twice in the certificate": ("decision", in_document(lambda d: d["slabs"].append(d["slabs"][3]))),
        "a slab has a code vector of another one": ("decision", in_document(share_codes)),
        "another kernel decided a slab": ("decision", in_document(lambda d: d["slabs"][3].update(kernel="CUDA on X"))),
        "it took half the time": ("decision", in_document(lambda d: d.update(cpu_s=d["cpu_s"] / 2 + 1))),
        "the inputs of two witnesses are exchanged": (
            "decision",
            in_witnesses(lambda arrays: arrays | {"inputs": arrays["inputs"][::-1]}),
        ),
        "a witness is removed": ("decision", in_witnesses(lambda arrays: {k: v[1:] for k, v in arrays.items()})),
        "bounds exclude each decision that no sample has": (
            "bounded_decision",
            in_sets(bounded.POSSIBLE, lambda _possible, reached: reached),
        ),
        "samples reach each decision that the bounds leave": (
            "bounded_decision",
            in_sets(bounded.REACHED, lambda possible, _reached: possible),
        ),
    },
    redone=False,
)
