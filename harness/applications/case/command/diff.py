"""`harness case diff`: the changes between two cases."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from harness.applications.case.command.check import found
from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE
from harness.core.table import Table


@click.command("diff", epilog="Example: harness case diff 20261126-150205_case_xavier_acas_coc last")
@click.argument("before", metavar="CASE", type=click.Path(path_type=Path), shell_complete=_completion.runs)
@click.argument("after", metavar="CASE", type=click.Path(path_type=Path), shell_complete=_completion.runs)
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, before: Path, after: Path) -> int:
    """Show the changes between two cases: model, evidence, argument, states of goals.

    CASE is a folder, a name under runs/, or `last`.

    Exit code: 0 no change, 1 they differ, 2 the request is invalid.
    """
    from harness.applications.case.difference import changes
    from harness.applications.case.entries import DOCUMENT, CaseDocument

    console = Console.open(as_json=as_json)
    folders = [found(path, space) for path in (before, after)]
    different = changes(*(CaseDocument.read(folder / DOCUMENT) for folder in folders))
    table = Table("change", *(folder.name for folder in folders), box=None, padding=(0, 2, 0, 0))
    for change in different:
        table.add_row(*change)
    console.show(*((table,) if different else (Text("no change"),)))
    console.document({"before": str(folders[0]), "after": str(folders[1]), "changes": [c._asdict() for c in different]})
    return EXIT_DIFFERS if different else EXIT_DONE
