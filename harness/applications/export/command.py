"""`harness export`: the code of a network as a library for an application."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli._group import Command
from harness.cli._options import as_json, pass_workspace, planned
from harness.core.console import Console
from harness.core.errors import EXIT_DONE
from harness.core.table import Table
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.applications.export.document import ExportDocument
    from harness.runs.programs import Subject

FORM_NAMES = ("library", "sources", "cmake", "zephyr", "esp-idf", "arduino")


@click.command(
    "export", cls=Command, epilog="Example: harness export --board cortex-m4 --model acas_coc acas --form cmake"
)
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@planned
@click.option("--run", metavar="RUN", help="Export the program of this run, in place of board, model and plan.")
@click.option(
    "--form", type=click.Choice(FORM_NAMES), default="library", show_default=True, help="Build system of the export."
)
@click.option("--name", help="Prefix of files, functions and macros; default: from the name of the model.")
@click.option(
    "--vectors",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Vectors of the self-test; fewer if their inputs take over 256 KiB.",
)
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    out: Path,
    run: str | None,
    form: str,
    name: str | None,
    vectors: int,
    model: str | None,
    **choices: Any,
) -> int:
    """Write the code of a model as a C library to the new folder OUT: proved object, sources, self-test, manifest.

    Without --run and --block the library computes one vector at a time, as harness run and prove do with --block 1.

    Exit code: 0 written, 2 the request is invalid, 3 the compiler or the reference failed.
    """
    from harness.applications.export import folder, library
    from harness.runs import programs

    console = Console.open(as_json=as_json)
    if (run is None) == (model is None) or (run is None and not choices["board"]):
        raise click.UsageError("give --board and --model, or --run RUN")
    folder.require_free(out)
    if run is None and not Path(str(model)).is_dir():
        choices["block"] = choices["block"] or 1
    of = programs.subject(space, programs.run_of(space, run) if run else str(model), choices)
    library.require_exportable(of)
    evidence = folder.evidence_of(of.run)
    console.note(f"building {of.plan.network.name} for board {of.board.name}")
    program, built = programs.build(of, space.cache, "an export cannot take the code of")
    console.note("computing the vectors of the self-test")
    exported = library.described(name, of, program, built, vectors)
    comparing = _comparing(of, str(model), choices)
    manifest = folder.write(exported, form, out, comparing, evidence)
    console.document(manifest.to_json())
    console.show(*_summary(manifest, out, comparing))
    return EXIT_DONE


def _comparing(of: Subject, model: str, choices: Mapping[str, Any]) -> str:
    """Return the command that compares the exported object on its board; a proof needs a 64-bit processor."""
    verb = "run" if of.board.bare_metal else "prove"
    if Path(model).is_dir():
        return f"harness run --plan {shlex.quote(model)}"
    words = ["harness", verb, "--model", model]
    for name, value in choices.items():
        if value is not None:
            words += [f"--{name}", ",".join(value) if isinstance(value, tuple) else str(value)]
    return shlex.join(words)


def _summary(manifest: ExportDocument, out: Path, comparing: str) -> list[Table | Text]:
    from harness.runs.programs import board_text

    table = Table("file", "SHA-256")
    for path, sha256 in manifest.files.items():
        table.add_row(path, sha256[:16])
    memory = manifest.memory
    numbers = (
        f"{memory.code:,} bytes of code, {memory.constants:,} of constants, {memory.ram:,} of variables and buffers"
    )
    lines = [f"{manifest.name}: {numbers}; self-test of {plural(manifest.vectors, 'vector')}"]
    if manifest.evidence is not None:
        evidence = manifest.evidence
        where = board_text(evidence.board_kind)
        lines.append(f"run {evidence.run}: {evidence.verdict}, {plural(evidence.vectors, 'vector')}, {where}")
    else:
        lines.append(f"no run is named; to compare this object on the board: {comparing}")
    lines.append(f"written: {out}; its README.md says how to build it")
    return [table, *(Text(line) for line in lines)]
