"""`harness reduce`: a model and a vector for a bug report about an engine."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import Duration, as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, RequestError
from harness.core.text import plural

RUN = '"python engine.py {model} {inputs} {outputs}"'


@click.command("reduce", epilog=f"Example: harness reduce --model net --vectors vectors.npy --run {RUN} --out report")
@click.option(
    "--model",
    required=True,
    shell_complete=_completion.models,
    help="Model: a name under models/ or the path of an ONNX file.",
)
@click.option("--vectors", required=True, type=click.Path(path_type=Path), help="File of vectors, one of which fails.")
@click.option(
    "--run",
    "engine",
    required=True,
    metavar="COMMAND",
    help="Command of the engine, without a shell: it reads the ONNX file {model} and the arrays {inputs} (.npz, by the "
    "names of the inputs), and writes the outputs to {outputs} (.npz, by their names).",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="New folder for the reduced model.")
@click.option("--timeout", type=Duration(), default="60s", show_default=True, help="Longest time of one run.")
@as_json
@pass_workspace
def command(
    space: Workspace, /, as_json: bool, model: str, vectors: Path, engine: str, out: Path, timeout: float
) -> int:
    """Reduce MODEL to the smallest part for which an engine is still other than specified.

    The search keeps one vector, cuts the layers behind and before the first wrong one, keeps one of its channels and
    makes inputs 0.  It writes an ONNX file, its vector, both outputs, and the commands that show the difference.

    Exit code: 0 the engine is right for all vectors, 1 a reduced model is written, 2 the request is invalid, 3 the
    engine failed.
    """
    from harness.applications.judge.reduction import report
    from harness.applications.judge.reduction.engine import CommandEngine
    from harness.applications.judge.reduction.search import Reduction, expected_runs
    from harness.reference.vector_files import from_file, require_indices

    console = Console.open(as_json=as_json)
    if out.exists():
        raise RequestError(f"{out} exists", "give a new folder: --out FOLDER")
    network = space.model(model)
    stimuli = from_file(vectors, network)
    require_indices(vectors, network, stimuli)
    runner = CommandEngine(_words(engine), timeout)
    with console.progress(f"reducing {network.name}, runs of the engine", expected_runs(network)) as bar:
        runner.advance = bar.advance
        smallest = Reduction(runner, console.note).reduce(network, stimuli.chunk(0, stimuli.count))
    if smallest is None:
        sentence = f"the engine is as specified for all {plural(stimuli.count, 'vector')}: nothing to reduce"
        console.show(Text(sentence))
        console.document({"reduced": None, "reason": sentence, "runs": runner.runs})
        return EXIT_DONE
    document = report.write(out, network, smallest, runner, engine)
    console.show(Text("\n".join(report.sentences(document))), Text(f"written: {out}"))
    console.document(document)
    return EXIT_DIFFERS


def _words(engine: str) -> list[str]:
    try:
        return shlex.split(engine)
    except ValueError as error:
        raise RequestError(f"--run {engine}: {error}", f"e.g. --run {RUN}") from error
