"""`harness profile`: the times of every node of a network on a board, or its instructions on an emulated one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._group import Command
from harness.cli._options import as_json, pass_workspace, planned, recorded, samples, seed, warmup
from harness.core.console import Console
from harness.core.errors import InfrastructureError, RequestError


@click.command("profile", cls=Command, epilog="Example: harness profile --board host --model resnet8_int8")
@planned
@samples
@warmup
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    shell_complete=_completion.runs,
    metavar="RUN",
    help="Earlier profile, or measurement with --scope layer, to compare every node with: a folder or a name under "
    "runs/.",
)
@click.option(
    "--speedscope",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the profile for speedscope.app to this file, for example profile.speedscope.json.",
)
@seed
@recorded
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, against: Path | None, speedscope: Path | None, **options: Any) -> int:
    """Profile a model on a board: real, user and system time of every node, totals per operator, peak memory.

    On an emulated board it counts instructions, because times there are not those of the board. Exit code: 0 measured,
    1 wrong outputs, varying counts or slower than --against, 2 the request is invalid, 3 inconclusive.
    """
    from harness.applications.profile import document as profile
    from harness.applications.profile import terminal as shown
    from harness.cli.measure import build_request
    from harness.core import strict_json
    from harness.core.outcome import Outcome
    from harness.pipeline.measure import execute
    from harness.runs import document as run_document

    console = Console.open(as_json=as_json)
    if speedscope and not speedscope.absolute().parent.is_dir():
        raise RequestError(f"--speedscope {speedscope}: there is no folder {speedscope.parent}", "make it")
    earlier = (against,) if against else ()
    fixed: dict[str, Any] = {"duration_s": None, "scope": "layer", "count": None, "load": "idle"}
    request = build_request(space, extension=profile.write, against=earlier, **fixed, **options)
    try:
        run, folder = execute(request, space, console)
    except InfrastructureError as failure:
        console.document(run_document.inconclusive(request.request, failure))
        console.failure(failure)
        return failure.exit_code
    found = profile.ProfileDocument.read(folder / profile.DOCUMENT)
    if speedscope:
        write_whole(speedscope, strict_json.text(profile.speedscope(found)).encode())
    shown.show(found, run, folder, console)
    console.document(found.to_json() | {"verdict": run.verdict, "reason": run.reason, "run": str(folder)})
    return Outcome(run.verdict).exit_code
