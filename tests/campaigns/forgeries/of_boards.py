"""Forgeries of the board: it is not the one that ran, or not of the kind that is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.runs.verification.folder import RUN
from tests.campaigns.forgeries.forger import (
    Change,
    Document,
    all_of,
    conclude,
    edit,
    in_attempts,
    in_file,
    in_request,
    in_run,
    in_text,
)
from tests.campaigns.forgeries.forgery import entry_of, files_of, forgeries

GPU = {"device of item network": "Xavier, sm_72, driver for CUDA 11.4, cubin for sm_72"}
REAL = {"kind": "hardware", "address": "nvidia@10.0.0.7:22", "machine_id": "5" * 32, "host_key": f"SHA256:{'A' * 43}"}
OTHER = {"kind": "emulated", "machine_id": "harness.name=host", "address": "root@127.0.0.1:2222"}
OTHER |= {"host_key": f"SHA256:{'B' * 43}", "boot_id": "66666666-2222-3333-4444-555555555555"}


def board(**changes: Any) -> Change:
    """Return a change of the board in run.json alone."""
    return in_run(lambda run: run["board"].update(changes))


def identities(value: Any) -> Iterator[Document]:
    """Return every entry of a document that identifies a board."""
    if isinstance(value, dict) and "machine_id" in value:
        yield value
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for entry in entries:
        yield from identities(entry)


def everywhere(**changes: Any) -> Change:
    """Return a change of every entry that identifies the board: in documents, notes and attempts."""

    def update(document: object) -> None:
        for found in identities(document):
            found.update(changes)

    def change(folder: Path) -> None:
        for path in (*folder.glob("*.json"), *folder.glob("boards/*.json")):
            edit(path, update)
        in_attempts(update)(folder)

    return change


def ran_on(where: str, *items: str) -> Change:
    """Return a change of where these items ran; layers and reason follow."""

    def change(run: Document) -> None:
        for entry in run["plan"]["items"]:
            if entry["name"] in items:
                entry["ran_on"] = where

    return all_of(in_run(change), conclude)


def environment(**changes: str) -> Change:
    """Return a change of what the board said of itself."""
    return in_run(lambda run: run["board"]["environment"].update(changes))


def without_mark(run: Document) -> None:
    """Remove what the kernel of an emulated board says of itself."""
    words = run["board"]["environment"]["command_line"].split()
    run["board"]["environment"]["command_line"] = " ".join(w for w in words if not w.startswith("harness."))


def without_stand_ins(run: Document) -> None:
    """Remove what was built for a simulation from the bundle's files."""
    files = run["bundle"]["files"]
    for name in [name for name in files if "simulated" in name or name.startswith("stand-in/")]:
        del files[name]


def resumed(folder: Path) -> None:
    """Say that an earlier attempt computed the first chunk, on another board."""

    def before(lines: list[Document]) -> None:
        copies = json.loads(json.dumps(lines))
        for found in identities(copies):
            found.update(OTHER)
        lines[:0] = [*copies, {"stopped": lines[0]["began"], "part": "user", "reason": "interrupted"}]

    def attempt(run: Document) -> None:
        first = json.loads(json.dumps(run["attempts"][0])) | {"part": "user", "reason": "interrupted"}
        for found in identities(first):
            found.update(OTHER)
        run["attempts"].insert(0, first)

    in_attempts(before)(folder)
    edit(folder / RUN, attempt)
    edit(folder / "boards" / "00000.json", lambda noted: noted.update(OTHER))


def profile(**changes: Any) -> Change:
    """Return a change of the profile that was kept with the request."""
    return in_file("request.json", lambda kept: kept["profile"].update(changes))


as_hardware = all_of(board(kind="hardware"), ran_on("hardware", "prepost", "network"))
real_gpu = all_of(ran_on("hardware", "network"), environment(**GPU))
hardware_everywhere = all_of(everywhere(**REAL), as_hardware, in_run(without_mark), profile(reached_by="address"))
other_name = all_of(
    *(everywhere(name="xavier"), board(name="xavier"), in_request(board="xavier"), profile(name="xavier")),
    *(
        in_text("plan/plan.yaml", "board: host", "board: xavier"),
        in_run(lambda run: run["plan"].update(board="xavier")),
    ),
)

FORGERIES = forgeries(
    "board",
    {
        "an emulated board is called hardware": ("emulated", board(kind="hardware")),
        "an emulated board is called hardware, and its processors": ("emulated", as_hardware),
        "the same, without the mark in the kernel's command line": (
            "emulated",
            all_of(as_hardware, in_run(without_mark)),
        ),
        "the same, with an address and a machine-id": (
            "emulated",
            all_of(everywhere(**REAL), as_hardware, in_run(without_mark)),
        ),
        "a simulated GPU is called hardware": ("stand_in", ran_on("hardware", "network")),
        "a simulated GPU is called hardware, and the device a real one": ("stand_in", real_gpu),
        "the same, without the simulation's files in the bundle": (
            "stand_in",
            all_of(real_gpu, in_run(without_stand_ins)),
        ),
        "the same, and the profile has no stand-ins": (
            "stand_in",
            all_of(real_gpu, in_run(without_stand_ins), profile(stand_ins=False)),
        ),
        "this machine is called hardware": ("run", board(kind="hardware")),
        "this machine is called hardware, with an address": ("run", board(**REAL)),
        "the same in every part of the run": ("run", everywhere(**REAL)),
        "the same everywhere, and the profile says that it has an address": (
            "run",
            all_of(everywhere(**REAL), profile(reached_by="address", local=False)),
        ),
        "another system on chip": ("run", board(soc="NVIDIA Xavier")),
        "another name of the board": ("run", all_of(everywhere(name="xavier"), board(name="xavier"))),
        "a kind of board that there is not": ("run", all_of(everywhere(kind="silicon"), board(kind="silicon"))),
        "an item of a processor ran on a simulation": ("run", ran_on("host-simulation of CUDA", "network")),
        "a chunk was computed by an emulated board": ("run", files_of("emulated", "boards/00001.json")),
        "the traces were observed on an emulated board": ("run", files_of("emulated", "boards/traces.json")),
        "the proof is of an emulated board": ("proof", in_file("proof.json", lambda d: d["board"].update(OTHER))),
        "begun on an emulated board, resumed on another": ("run", resumed),
        "an emulated run describes this machine": ("emulated", entry_of("run", "board", "environment")),
        "an emulated run has the board of a run on this machine": ("emulated", entry_of("run", "board")),
    },
)
