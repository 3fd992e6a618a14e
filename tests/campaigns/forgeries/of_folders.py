"""Forgeries of folders of decisions, bounds, profiles and cases, of bounded programs, and of unread bytes."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from harness import targets
from harness.applications.wcet import document as wcet
from harness.applications.wcet import job
from harness.build import bundle, codegen
from harness.core.file_digest import file_sha256, folder_sha256
from harness.core.installation import BOARDS_FILE, ROOT
from harness.core.strict_json import text
from harness.plan import folder as plan_folder
from harness.runs.folder import write_json
from tests.campaigns.forgeries.bases import Bases
from tests.campaigns.forgeries.forger import CASE, Change, Document, all_of, edit, in_document, in_text, redo, rehash
from tests.campaigns.forgeries.forgery import Using, forgeries
from tests.campaigns.forgeries.of_documents import certify, times

PAGES = {"decision": "report.html", "bounded_decision": "report.html", "bounds": "report.html", "case": "index.html"}
WORDS = {"decision": "decision", "bounded_decision": "decision by bounds", "bounds": "bounds", "case": "case"}


def link(name: str) -> Change:
    """Return a change that puts a link in the place of a file."""

    def change(folder: Path) -> None:
        target = folder.parent / f"{folder.name}.moved"
        shutil.move(folder / name, target)
        (folder / name).symlink_to(target)

    return change


def add_folder(folder: Path) -> None:
    """Add an empty folder."""
    (folder / "approved").mkdir()


def append(name: str, content: bytes = b"approved") -> Change:
    """Return a change that appends bytes to a file."""

    def change(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.write(content)

    return change


def add_member(folder: Path) -> None:
    """Add an array to the witnesses, and state their hash again."""
    with zipfile.ZipFile(folder / "witnesses.npz", "a") as archive:
        archive.writestr("approved.npy", archive.read("codes.npy"))
    hash_witnesses(folder)


def hash_witnesses(folder: Path) -> None:
    """State the hash of the witnesses again."""
    in_document(lambda document: document.update(witnesses_sha256=file_sha256(folder / "witnesses.npz")))(folder)


def earlier(days: float) -> Change:
    """Return a change after which evidence was begun before the commit of its revision."""

    def change(document: Document) -> None:
        [key] = document.keys() & {"began", "built"}
        began = datetime.fromisoformat(document[key]) - timedelta(days=days)
        document[key] = f"{began:%Y-%m-%dT%H:%M:%SZ}" if document[key].endswith("Z") else began.isoformat()

    return in_document(change)


def build_otherwise(folder: Path) -> None:
    """Bound a program of other flags, under the name of the bundle."""
    profile = targets.load_boards(ROOT / BOARDS_FILE).board("kv260")
    tools = profile.toolchain.model_copy(update={"flags": ("-O1", *profile.toolchain.flags[1:])})
    program = codegen.generate(plan_folder.read(folder / wcet.PLAN))
    other = bundle.build(program, profile.model_copy(update={"toolchain": tools}), folder.parent / ".built")
    request = job.Request(program, other, profile, None)
    bounds, made = job.bound(request, folder.parent / ".bounds", {}, lambda _: None)
    for name in (f"{wcet.BUNDLE}/{bundle.PROGRAM}", wcet.FFX, wcet.AIS):
        shutil.copy(made / name, folder / name)
    kept = ("program_sha256", "layers", "items", "instructions", "machine")
    new = {key: json.loads(text(bounds.to_json()))[key] for key in kept}
    edit(folder / wcet.DOCUMENT, lambda document: document.update(new))
    sha256 = new["program_sha256"]
    edit(folder / wcet.BUNDLE / bundle.MANIFEST, lambda manifest: manifest["files"].update({bundle.PROGRAM: sha256}))


def name_compiler(folder: Path) -> None:
    """Name another build of the compiler, and the bundle after it."""
    path = folder / wcet.BUNDLE / bundle.MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["compiler"] = f"{manifest['compiler'].partition(' [')[0]} [0123456789ab]"
    sources = {name: sha256 for name, sha256 in manifest["files"].items() if name != bundle.PROGRAM}
    manifest["bundle"] = bundle.name_of(sources, manifest["compiler"], manifest["flags"], manifest["inputs"])
    write_json(path, manifest)
    stated = {"compiler": manifest["compiler"], "bundle": manifest["bundle"]}
    edit(folder / wcet.DOCUMENT, lambda document: document.update(stated))


def in_bounds_of_case(change: Change) -> Using:
    """Return a change of the bounds of a case, which is bound to them again."""

    def make(bases: Bases) -> Change:
        def rebind(folder: Path) -> None:
            leaf = folder.parent / bases.bounds.name
            leaf.unlink()
            shutil.copytree(bases.bounds, leaf)
            change(leaf)
            redo(leaf)
            files = folder_sha256(leaf)
            of_leaf = {"files": files, "sha256": files[wcet.DOCUMENT]}
            edit(folder / CASE, lambda case: case["leaves"][leaf.name].update(of_leaf))

        return rebind

    return Using(make)


def fewer_instructions(document: Document) -> None:
    """State fewer instructions of a layer, and the sums that follow."""
    for entry in (document, document["layers"][0], document["items"][0]):
        entry["instructions"] -= 1


def added(base: str) -> Mapping[str, tuple[str, Change]]:
    """Return the forgeries that add something to a folder of `base`, whose lists are made again."""
    return {
        f"{WORDS[base]}: a file is added, and listed": (base, certify),
        f"{WORDS[base]}: an empty folder is added": (base, add_folder),
        f"{WORDS[base]}: a link in the place of a file": (base, link(PAGES[base])),
    }


PICTURE = all_of(in_text("argument.svg", "undeveloped", "supported"), in_text("argument.svg", "version ", "version 9"))
LISTED = {name: row for base in PAGES for name, row in added(base).items()}
RAW = {
    **{f"{WORDS[base]}: a file is added": (base, certify) for base in PAGES},
    **{
        f"{WORDS[base]}: the page says another thing": (
            base,
            all_of(in_text(page, "</body>", "approved</body>"), rehash),
        )
        for base, page in PAGES.items()
    },
    "case: another picture, of another version of Graphviz": ("case", all_of(PICTURE, rehash)),
}
FORGERIES = [
    *forgeries("folder", {name: row for name, row in LISTED.items() if "link" not in name}),
    *forgeries("folder", {name: row for name, row in LISTED.items() if "link" in name} | RAW, redone=False),
    *forgeries("folder", {"profile: a file is added, and listed": ("profile", certify)}),
    *forgeries("folder", {"profile: an empty folder is added": ("profile", add_folder)}),
    *forgeries("folder", {"run: an empty folder is added": ("run", add_folder)}),
    *forgeries(
        "folder", {"run: a file is added to boards, and listed": ("run", lambda folder: certify(folder / "boards"))}
    ),
    *forgeries(
        "program",
        {
            "a program of other flags under the name of the bundle": ("bounds", build_otherwise),
            "the same, by another compiler": ("bounds", all_of(build_otherwise, name_compiler)),
            "a case with bounds of a program of other flags": ("case", in_bounds_of_case(build_otherwise)),
            "fewer instructions of a layer": ("bounds", in_document(fewer_instructions)),
        },
    ),
    *forgeries(
        "padding",
        {
            "bytes after the vectors": ("run", append("stimuli.npy")),
            "bytes after the traced vectors": ("run", append("traces/vectors.npy")),
            "bytes after the processor times": ("profile", append("cpu.npy")),
            "bytes after the readings": ("measurement", append("readings.npy")),
            "bytes after the decisions": ("decision", append("decisions.npy")),
            "bytes after the witnesses": ("decision", all_of(append("witnesses.npz"), hash_witnesses)),
            "an array beside the witnesses": ("decision", add_member),
            "bytes after the possible sets": ("bounded_decision", append("possible.npy")),
            "an empty line among the attempts": ("run", append("attempts.jsonl", b"\n")),
            "a line among the attempts that is no event": ("run", append("attempts.jsonl", b"approved\n")),
            "an attempt with spaces": ("run", in_text("attempts.jsonl", '{"board"', '{ "board"')),
        },
    ),
    *forgeries(
        "times",
        {
            "a run before the commit of its revision": (
                "run",
                times("2026-01-01T00:00:00Z", "2026-01-01T00:00:04Z", 4.0),
            ),
            "a decision before the commit of its revision": ("decision", earlier(400)),
            "bounds before the commit of their revision": ("bounds", earlier(0.5)),
            "a case before the commit of its revision": ("case", earlier(400)),
        },
    ),
]
