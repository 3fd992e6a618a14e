"""`harness trace --elf`: the comparison as a document, a table and a page."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from harness import __version__
from harness.applications.trace.contained_document import SCHEMA, ContainedDocument
from harness.applications.trace.flown import Flown, object_sha256
from harness.applications.trace.image import Image
from harness.boards.workspace import Workspace
from harness.build import codegen
from harness.build.bundle import PROGRAM, Bundle
from harness.core.console import Console
from harness.core.installation import revision
from harness.core.table import Table
from harness.core.text import plural
from harness.report.page import environment, label_cells, script
from harness.runs import programs
from harness.runs.folder import now
from harness.targets import toolchain

PACKAGE = "harness.applications.trace"
LIBGCC = "libgcc.a"
"""The library of GCC for what a processor lacks; the program of a bundle is linked with it."""
MOST_DIFFERENCES = 20
"""Differences that are shown; --json has all of them."""


@dataclass(frozen=True)
class Application:
    """An application to compare: its file, the libraries that may provide functions, and whether to keep evidence."""

    elf: Path
    libraries: Sequence[Path]
    keep: bool


def compare(
    space: Workspace, name: str, application: Application, choices: dict[str, Any], console: Console
) -> ContainedDocument:
    """Compare an application with the program of a model, plan or run, and show the result; return the document."""
    if not Path(name).is_dir():
        choices["block"] = choices["block"] or 1  # as an export
    of = programs.subject(space, name, choices)
    console.note(f"building {of.plan.network.name} for board {of.board.name}")
    program, built = programs.build(of, space.cache, "a trace cannot find the machine code of")
    libraries = list(application.libraries)
    if LIBGCC in built.inputs["tools"]:
        libraries.append(toolchain.library(of.board, LIBGCC))
    document = compared(program, built, of.run, application.elf, libraries)
    if application.keep:
        from harness.applications.trace import evidence

        folder, document = evidence.write(document, of.plan, built, application.elf, libraries, space.runs)
        console.note(f"written: {folder}")
    console.document(document.to_json())
    console.show(*shown(document))
    return document


def compared(
    program: codegen.Program, bundle: Bundle, folder: Path | None, elf: Path, libraries: Sequence[Path]
) -> ContainedDocument:
    """Compare an application with the bundle of a run in `folder`, or of no run.

    RequestError if the application cannot be read, or has no symbols.
    """
    application = Image(elf)
    comparison = Flown(application, bundle, libraries)
    run = programs.result_of(folder) if folder else None
    return ContainedDocument(
        schema=SCHEMA,
        harness={"version": __version__, "revision": revision()},
        began=f"{now():%Y-%m-%dT%H:%M:%SZ}",
        application=elf.name,
        application_sha256=hashlib.sha256(application.content).hexdigest(),
        machine=application.machine.removeprefix("EM_"),
        run=folder.resolve().name if folder else None,
        run_verdict=run.verdict if run else None,
        run_board=run.board if run else None,
        proof_holds=run.proof_holds if run else None,
        model=program.plan.network.name,
        model_sha256=program.plan.network.sha256,
        board=program.plan.board,
        bundle=bundle.sha256,
        compiler=bundle.compiler,
        program_sha256=bundle.files[PROGRAM],
        object_sha256=object_sha256(bundle),
        verdict="differs" if comparison.differences else "contained",
        entry=comparison.entry,
        other_networks=comparison.other_networks,
        compared_bytes=comparison.compared_bytes,
        places=list(comparison.places()),
        called=comparison.called,
        differences=comparison.difference_entries(),
        assumptions=comparison.assumptions(),
        files={},
    )


def shown(document: ContainedDocument) -> Iterator[Table | Text]:
    """Yield the tables and lines of a document."""
    table = Table("object", "section", "addresses", "bytes", title=f"{document.model} in {document.application}")
    for place in document.places:
        addresses = f"{place.address:#x}-{place.address + place.size:#x}"
        table.add_row(place.object, place.section, addresses, f"{place.size:,}")
    yield table
    for called in document.called:
        where = f" at {called.address:#x}" if called.address is not None else ""
        veneers = f", by {plural(len(called.veneers), 'veneer')}" if called.veneers else ""
        yield Text(f"calls {called.name}{where}, from {called.provided_by}{veneers}")
    if document.differences:
        differences = Table("symbol", "kind", "address", "difference")
        for one in document.differences[:MOST_DIFFERENCES]:
            address = f"{one.address:#x}" if one.address is not None else "-"
            differences.add_row(Text(one.symbol), one.kind, address, Text(one.reason))
        yield differences
        if len(document.differences) > MOST_DIFFERENCES:
            yield Text(f"and {len(document.differences) - MOST_DIFFERENCES:,} more: see --json")
    if document.other_networks:
        yield Text(f"other networks in the application, which are not compared: {', '.join(document.other_networks)}")
    yield Text(_conclusion(document))


def _conclusion(document: ContainedDocument) -> str:
    if document.differences:
        symbols = len({difference.symbol for difference in document.differences})
        return f"differs: {plural(len(document.differences), 'difference')} at {plural(symbols, 'symbol')}"
    run = "no finished run is named"
    if document.run_verdict and document.run_board:
        run = f"the run's verdict is {document.run_verdict}, {programs.board_text(document.run_board)}"
    return (
        f"contained: all {document.compared_bytes:,} bytes are those of bundle {document.bundle[:16]}, relocated; {run}"
    )


def html(document: ContainedDocument) -> str:
    """Return the page of a document."""
    page = environment(PACKAGE).get_template("contained.html.jinja")
    return label_cells(
        page.render(
            run=document,
            schema=document.schema_number,
            document_name="harness trace --elf --json",
            conclusion=_conclusion(document),
            script=script("tables.js", package=PACKAGE),
        )
    )
