"""A long run that is killed again and again: what it costs to go on, and whether the evidence is the same.

.venv/bin/python benchmarks/resume.py [--board xavier] [--vectors 10000000] [--kills 3] [--undisturbed] [--json]

`harness run` is killed by SIGKILL when it has finished its share of the chunks, and resumed.  --undisturbed makes the
same run once more without that, and compares the hash of what both have shown.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import machine
from rich.console import Console
from rich.table import Table

HARNESS = (sys.executable, "-m", "harness")
CHUNKS = 100
POLL_S = 0.05


@dataclass(frozen=True)
class Stretch:
    """One attempt: how long it took, its peak memory, how many chunks were finished at its end."""

    wall_s: float
    peak_mib: float
    chunks: int


def attempt(arguments: Sequence[str], folder: Path, enough: int) -> Stretch:
    """Start or resume the run; kill it when `enough` chunks are finished."""
    begin_s = time.perf_counter()
    process = subprocess.Popen([*HARNESS, "run", *arguments, "--json"], stdout=subprocess.DEVNULL)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if finished(folder) >= enough:
            process.send_signal(signal.SIGKILL)
        time.sleep(POLL_S)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if status and not killed:
        raise click.ClickException(f"wait status {status}: see {folder / 'log.txt'}")
    return Stretch(time.perf_counter() - begin_s, usage.ru_maxrss / 1024, finished(folder))


def finished(folder: Path) -> int:
    """How many chunks are."""
    return len(list((folder / "chunks").glob("*.json")))


def carry_out(arguments: Sequence[str], folder: Path, kills: int, chunks: int) -> tuple[list[Stretch], dict[str, Any]]:
    """Return the run, killed `kills` times at equal distances; all its attempts, and its `run.json`."""
    never = chunks + 1
    limits = [*(max(1, chunks * (kill + 1) // (kills + 1)) for kill in range(kills)), never]
    first, again = [*arguments, "--run-folder", str(folder)], ["--resume", str(folder)]
    stretches = [attempt(again if turn else first, folder, limit) for turn, limit in enumerate(limits)]
    return stretches, json.loads((folder / "run.json").read_text())


def main_document(arguments: Sequence[str], kills: int, vectors: int, *, undisturbed: bool) -> dict[str, Any]:
    """Everything, in a folder that is thrown away."""
    chunk = max(1, -(-vectors // CHUNKS))
    words = [*arguments, "--vectors", str(vectors), "--chunk", str(chunk), "--fetch", "mismatch"]
    chunks = -(-vectors // chunk)
    with tempfile.TemporaryDirectory() as scratch:
        stretches, run = carry_out(words, Path(scratch) / "killed", kills, chunks)
        whole = carry_out(words, Path(scratch) / "undisturbed", 0, chunks) if undisturbed else None
    return {
        "machine": machine.describe(),
        "board": run["board"]["name"],
        "vectors": run["stimuli"]["count"],
        "verdict": run["verdict"],
        "attempts": [asdict(stretch) for stretch in stretches],
        "undisturbed": asdict(whole[0][0]) if whole else None,
        "content_sha256": run["content_sha256"],
        "same_evidence": whole[1]["content_sha256"] == run["content_sha256"] if whole else None,
    }


@click.command()
@click.option("--board", default="xavier", show_default=True)
@click.option("--items", default="c:vector,c:vector", show_default=True)
@click.option("--vectors", type=click.IntRange(1), default=10_000_000, show_default=True)
@click.option("--kills", type=click.IntRange(0, 20), default=3, show_default=True)
@click.option("--undisturbed", is_flag=True, help="Also make the run without kills, and compare.")
@click.option("--json", "as_json", is_flag=True)
def main(board: str, items: str, vectors: int, kills: int, undisturbed: bool, as_json: bool) -> None:
    """Kill and resume a run, print what each attempt took."""
    arguments = ["--board", board, "--model", "acas_coc", "--items", items]
    document = main_document(arguments, kills, vectors, undisturbed=undisturbed)
    if as_json:
        print(json.dumps(document, indent=1))  # noqa: T201 - standard output is the interface
        return
    table = Table("attempt", "seconds", "peak MiB", "chunks finished", title=f"{vectors:,} vectors on {board}")
    rows = [*document["attempts"], *([document["undisturbed"]] if undisturbed else [])]
    for number, row in enumerate(rows, 1):
        name = "undisturbed" if undisturbed and number == len(rows) else str(number)
        table.add_row(name, f"{row['wall_s']:.0f}", f"{row['peak_mib']:.0f}", str(row["chunks"]))
    same = {True: ", the same evidence as undisturbed", False: ", OTHER EVIDENCE than undisturbed", None: ""}
    Console().print(table, f"{document['verdict']}{same[document['same_evidence']]}", document["machine"], sep="\n")


if __name__ == "__main__":
    main()
