"""One inference on one thread of one core: the generated C beside the peers, block by block in turn.

    .venv/bin/python benchmarks/run_peers.py [--shape 5-50x6-5 | --network NAME] [--targets c:vector,c] [--json]

All contenders compute the same network on the same vectors, each in a process of its own.  Those that compute the
model must agree with its specification in every bit before they are timed, the others must come near the float
network.  Calls are timed one by one.  What is not installed or fails is a row that says why.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import machine
import numpy as np
from inference import parse_shape
from peers import bounds, case, competitors, drawing, report, schedule
from peers.competitors import Peer, Workshop
from peers.convolutional import NETWORKS
from peers.report import Findings
from rich.console import Console

from harness.boards import profile
from harness.core.errors import HarnessError, RequestError
from harness.core.installation import ROOT
from harness.model.onnx_runtime.hostcheck import instruction_set
from harness.targets import toolchain

ROUNDS, BLOCK = 40, 512
PRODUCTS = 100_000_000  # of a block at most, unless --block says otherwise
PAGE_WIDTH = 170  # of the table in a file
COMMAND = ".venv/bin/python benchmarks/run_peers.py"


def parse_pairs(_context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Return the values of NAME=VALUE options by name."""
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r}: expected NAME=VALUE")
    pairs = dict(value.split("=", 1) for value in values)
    unknown = set(pairs) - set(competitors.PYTHONS)
    if parameter.name == "pythons" and unknown:
        choices = ", ".join(competitors.PYTHONS)
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: valid choices: {choices}")
    return pairs


def chosen(peers: Sequence[Peer], words: Sequence[str]) -> list[Peer]:
    """Those whose names begin with one of the words, all where there are none; RequestError where a word fits none."""
    for word in words:
        if not any(peer.name.startswith(word) for peer in peers):
            names = "; ".join(peer.name for peer in peers)
            raise RequestError(f"no contender is called {word!r}", f"they are: {names}")
    return [peer for peer in peers if peer.name.startswith(tuple(words) or "")]


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--shape", default="5-50x6-5", show_default=True, help="Layer widths.")
@click.option("--network", type=click.Choice([*NETWORKS, *case.FLOATS]), help="A network instead of a shape.")
@click.option("--targets", "target_names", default="c:vector,c", show_default=True, help="Ours, comma-separated.")
@click.option("--only", multiple=True, help="Contenders whose names begin so; may be repeated.")
@click.option("--core", default=max(os.sched_getaffinity(0)), show_default=True, help="The core to run on.")
@click.option("--rounds", default=ROUNDS, show_default=True, type=click.IntRange(1), help="Of a block of each.")
@click.option("--block", type=click.IntRange(1, 1 << 20), help=f"Calls in a turn; {BLOCK}, fewer of a large network.")
@click.option("--python", "pythons", multiple=True, metavar="PEER=PATH", callback=parse_pairs,
              help=f"The Python that has a peer's packages: {', '.join(competitors.PYTHONS)}.")  # fmt: skip
@click.option("--worker", "own", multiple=True, metavar="NAME=COMMAND", callback=parse_pairs,
              help="A contender of your own, by the protocol of benchmarks/README.md.")  # fmt: skip
@click.option("--picture", type=click.Path(path_type=Path), help="Write the picture to this SVG file.")
@click.option("--markdown", "as_markdown", is_flag=True, help="The table for a page on standard output.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(
    shape: str,
    network: str | None,
    target_names: str,
    only: Sequence[str],
    core: int,
    rounds: int,
    block: int | None,
    pythons: Mapping[str, str],
    own: Mapping[str, str],
    picture: Path | None,
    *,
    as_markdown: bool,
    as_json: bool,
) -> None:
    """Measure and print; exit code 1 where one of ours could not be measured."""
    where = machine.describe() | {"instructions": instruction_set()}  # before this adds load of its own
    try:
        commands = {name: shlex.split(command) for name, command in own.items()}
        with tempfile.TemporaryDirectory() as folder:
            shop = workshop(shape, network, Path(folder), pythons)
            peers = chosen(competitors.roster(target_names.split(","), commands, shop.case.form), only)
            least = bounds.measure(shop, core)
            calls = block or int(np.clip(PRODUCTS // shop.case.multiply_adds, 1, BLOCK))
            rows = schedule.compare(peers, shop, core, rounds, calls)
        subject = f"--network {network}" if network else f"--shape {shape}"
        command = f"{COMMAND} {subject} --targets {target_names}"
        work = (shop.case.multiply_adds, shop.case.weight_bytes)
        findings = Findings(network or shape, command, rows, least, where, *work)
        show(findings, as_json=as_json, as_markdown=as_markdown)
        if picture:
            picture.write_text(drawing.draw(findings).svg())
    except HarnessError as error:
        raise click.ClickException(f"{error.message}\nhint: {error.hint}") from error
    sys.exit(any(row.is_ours and row.failure for row in rows))


def workshop(shape: str, network: str | None, folder: Path, pythons: Mapping[str, str]) -> Workshop:
    """Return the network of `shape`, or that of this name, and what its contenders are built with."""
    host = profile.load(ROOT / "boards.yaml").board("host")
    if network:
        made = (case.make_float if network in case.FLOATS else case.make_convolutional)(network, folder)
    else:
        made = case.make(parse_shape(None, None, shape), folder)
    return Workshop(made, host, toolchain.find(host), {peer: Path(path) for peer, path in pythons.items()})


def show(findings: Findings, *, as_json: bool, as_markdown: bool) -> None:
    """In the form that was asked for."""
    if as_json:
        click.echo(json.dumps(report.document(findings), indent=1))
    elif as_markdown:
        click.echo(report.markdown(findings), nl=False)
    else:
        Console(width=None if sys.stdout.isatty() else PAGE_WIDTH).print(report.table(findings))
        click.echo(report.caption(findings))


if __name__ == "__main__":
    main()
