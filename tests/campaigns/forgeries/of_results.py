"""Forgeries of the verdict: it, a number or a dump is not what the run has shown."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from harness.runs.verification.folder import RUN
from tests.campaigns.forgeries.forger import (
    Change,
    Document,
    all_of,
    change_dumps,
    conclude,
    copy_dumps,
    edit,
    hide_difference,
    in_chunks,
    in_file,
    in_request,
    in_run,
    remove_failing,
)
from tests.campaigns.forgeries.forgery import files_of, forgeries, right_revision


def remove_dumps(folder: Path) -> None:
    """Remove all dumps."""
    for path in (*folder.glob("reference/*/*.npy"), *folder.glob("target/*/*.npy")):
        path.unlink()


def equal_hashes(side: str, other: str) -> Change:
    """Return a change of dumps that are not kept: the hashes of one side become those of the other."""
    change = in_chunks(lambda record: record.update({f"{side}_sha256": record[f"{other}_sha256"]}))
    return all_of(change, remove_dumps, hide_difference)


def remove_layer(folder: Path) -> None:
    """Remove the last layer from run.json, from the chunks, and its dumps."""
    in_chunks(lambda record: [record[key].pop() for key in ("layers", "reference_sha256", "target_sha256")])(folder)
    for path in (*folder.glob("reference/*/02_*"), *folder.glob("target/*/02_*")):
        path.unlink()
    edit(folder / RUN, lambda run: run["layers"].pop())


def copy_chunk(source: str, target: str, **changes: int) -> Change:
    """Return a change that puts a chunk, with its dumps and its board, in the place of another."""

    def change(folder: Path) -> None:
        for kind in ("reference", "target"):
            shutil.copytree(folder / kind / source, folder / kind / target, dirs_exist_ok=True)
        for kind in ("chunks", "boards"):
            if (folder / kind).exists():
                shutil.copy(folder / kind / f"{source}.json", folder / kind / f"{target}.json")
        edit(folder / "chunks" / f"{target}.json", lambda record: record.update(changes))

    return change


def remove_chunk(folder: Path) -> None:
    """Remove the second chunk, with its dumps and its board."""
    for kind in ("reference", "target"):
        shutil.rmtree(folder / kind / "00001")
    for kind in ("chunks", "boards"):
        (folder / kind / "00001.json").unlink(missing_ok=True)


def more_vectors(run: Document) -> None:
    """Say that there were more vectors, and were computed faster."""
    run["stimuli"]["count"] = 100_000
    run["vectors_per_s"] = round(100_000 / run["wall_s"], 1)


def other_cause(record: Document) -> None:
    """Let the chunks blame something else."""
    for found in record["diagnoses"]:
        for hypothesis in found["hypotheses"]:
            hypothesis["cause"] = "the board's clock is wrong"


def in_layer(**changes: Any) -> Change:
    """Return a change of what run.json says of the second layer."""
    return in_run(lambda run: run["layers"][1].update(changes))


def in_chunk(how: Any) -> Change:
    """Return a change of the second chunk's record."""
    return in_file("chunks/00001.json", how)


more_codes = in_run(lambda run: run["layers"][0]["coverage"]["codes"].update(met=1024))
unfetched = all_of(in_run(lambda run: run.update(fetch="mismatch")), in_request(fetch="mismatch"))

FORGERIES = forgeries(
    "verdict",
    {
        "`identical` over dumps that differ": ("wrong", hide_difference),
        "`identical`: the board's dumps become the reference's; the revision is a right one": (
            "wrong",
            right_revision(copy_dumps("reference", "target"), hide_difference),
        ),
        "`identical`: the reference's dumps become the board's": (
            "wrong",
            all_of(copy_dumps("target", "reference"), hide_difference),
        ),
        "`identical` without dumps: the reference's hashes become the board's": (
            "unfetched",
            equal_hashes("reference", "target"),
        ),
        "`identical` without dumps: the board's hashes become the reference's; the revision is a right one": (
            "unfetched",
            right_revision(equal_hashes("target", "reference")),
        ),
        "the dumps that differ are left out": ("wrong", all_of(remove_dumps, unfetched)),
        "reference and board agree on a wrong activation": ("run", change_dumps),
        "the verdict in run.json alone": ("wrong", in_run(lambda run: run.update(verdict="identical"))),
        "another reason": ("run", in_run(lambda run: run.update(reason="all is right"))),
        "a layer is left out": ("run", remove_layer),
        "more activations of a layer": ("run", in_layer(compared=10**6)),
        "more activations of a chunk": (
            "run",
            all_of(in_chunk(lambda record: record["layers"][1].update(compared=60_000)), in_layer(compared=61_200)),
        ),
        "a chunk is removed": ("run", remove_chunk),
        "a chunk is there twice": ("run", copy_chunk("00002", "00003", index=3)),
        "a chunk in the place of another": ("run", copy_chunk("00002", "00001", index=1, start=100, stop=200)),
        "a chunk overlaps another": ("run", in_chunk(lambda record: record.update(start=50))),
        "more vectors": ("run", in_run(more_vectors)),
        "no failing case": ("wrong", remove_failing),
        "the failing case expects what came out": (
            "wrong",
            in_run(lambda run: run["failing"].update(expected=run["failing"]["actual"])),
        ),
        "another cause": ("wrong", all_of(in_chunks(other_cause), conclude)),
        "the vectors met more codes": ("run", all_of(more_codes, conclude)),
        "more executions were traced": ("run", in_run(lambda run: run["conformance"].update(executions=10**6))),
        "the traces of another plan": ("run", files_of("stand_in", "traces")),
        "an empty trace": ("run", lambda folder: (folder / "traces" / "undisturbed.jsonl").write_text("")),
    },
)
