"""What a night costs beside its boards' own time.

.venv/bin/python benchmarks/laboratory.py [--boards 50] [--models 5] [--nights 30] [--entries 5] [--json]

Simulated: the real schedule, the real records on disk, commands that answer as harness's do, a clock that jumps.
Real: a night of short runs on this machine beside the same runs by hand.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import click
import machine
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the simulated laboratory of the tests

from harness.applications.nightly.campaign import resumed
from harness.applications.nightly.previous_nights import Past
from harness.applications.nightly.process_pool import Children
from harness.applications.nightly.schedule import Rules
from harness.core.outcome import Outcome
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Entry
from tests.support.nightly.simulated import TEN_MINUTES_S, Answer, Command, Nobody, Simulated, commands, well

DAY_S = 86400.0
HARNESS = (sys.executable, "-m", "harness")
RUN = {"boards": ["host"], "models": ["acas_coc"], "trace": 0}


@dataclass(frozen=True)
class SimulatedNights:
    """Of all nights together: entries, the boards' simulated time, the scheduler's real time, both in seconds."""

    boards: int
    models: int
    nights: int
    entries: int
    retries: int
    boards_s: float
    scheduler_s: float

    @property
    def overhead(self) -> float:
        """The scheduler's share of the boards' time."""
        return self.scheduler_s / self.boards_s


@dataclass(frozen=True)
class RealNight:
    """Wall time of a night of so many runs, and of the same runs one after the other by hand, in seconds.

    Each is the least of its repetitions: other load can only add.
    """

    entries: int
    night_s: float
    by_hand_s: float
    leash_s: float
    """What the leash alone adds to a command: the median over one without it."""

    @property
    def added_s(self) -> float:
        """What the night adds to all of them: its own start, one health check, the leashes."""
        return self.night_s - self.by_hand_s


def behave(command: Command) -> Answer:
    """One attempt of fifty loses its connection: which one is told by its folder's name."""
    number = int(str(command.options.get("run_folder") or "-0_").rsplit("-", 1)[1].split("_")[0])
    if command.options.get("run_folder") and number % 50 == 7:
        return Answer("inconclusive", "network", TEN_MINUTES_S / 2)
    return well(command)


def simulate(boards: int, models: int, nights: int) -> SimulatedNights:
    """Return all nights, one after the other in one folder, each reading what the former ones have kept."""
    pairs = [(f"board{board:02}", f"model{model}") for board in range(boards) for model in range(models)]
    entries = tuple(
        Entry(n, board, model, "", "run", Outcome.IDENTICAL, 3600.0) for n, (board, model) in enumerate(pairs)
    )
    boards_s, began_s, retries = 0.0, time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        for number in range(nights):
            simulated = Simulated(behave, number * DAY_S)
            night = record.create(runs / "nights" / f"{number:03}", simulated.clock_s, "lab.yaml", "ab", entries)
            rules = Rules(boards, 1, None, "", frozenset())
            made = commands(runs, night.name, Past.read(runs))
            resumed(night, rules, made, simulated, Nobody()).carry_out()
            record.end(night.folder, simulated.clock_s)
            ended = record.read(night.folder)
            if ended.surprises():
                raise click.ClickException(f"night {number} did not end as expected")
            retries += sum(result.retries for result in ended.results.values())
            boards_s += simulated.busy_s
    scheduler_s = time.perf_counter() - began_s
    return SimulatedNights(boards, models, nights, len(entries) * nights, retries, boards_s, scheduler_s)


def measure(entries: int, repetitions: int) -> RealNight:
    """Real nights after one that is not counted: the first builds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lab.yaml"
        cells = [{**RUN, "vectors": 1000 + number} for number in range(entries)]
        file.write_text(json.dumps({"matrices": cells}))
        _timed(folder, "nightly", str(file))
        nights_s, by_hand_s = [], []
        for _ in range(repetitions):
            nights_s.append(_timed(folder, "nightly", str(file)))
            hand = ("run", "--board=host", "--model=acas_coc", "--trace=0")
            by_hand_s.append(sum(_timed(folder, *hand, f"--vectors={1000 + number}") for number in range(entries)))
        return RealNight(entries, min(nights_s), min(by_hand_s), _leash_s(Path(folder)))


def _leash_s(folder: Path, repetitions: int = 30) -> float:
    """Of an empty program, with and without in turn."""
    command, with_s, without_s = (sys.executable, "-I", "-S", "-c"), [], []
    with (folder / "lock").open("w") as lock:
        children = Children(command, lock.fileno())
        for _ in range(repetitions):
            began_s = time.perf_counter()
            children.start("a", ["pass"], folder / "log", 60.0)
            children.wait()
            between_s = time.perf_counter()
            subprocess.run([*command, "pass"], check=True)
            with_s.append(between_s - began_s)
            without_s.append(time.perf_counter() - between_s)
    return median(with_s) - median(without_s)


def _timed(folder: str, *words: str) -> float:
    began_s = time.perf_counter()
    command = [*HARNESS, "--runs", f"{folder}/runs", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"harness {' '.join(words)}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return time.perf_counter() - began_s


def show(simulated: SimulatedNights, real: RealNight | None) -> Table:
    """Both, a line a figure."""
    table = Table("what", "measured")
    size = f"{simulated.boards} boards x {simulated.models} models x {simulated.nights} nights"
    table.add_row(f"simulated: {size}", f"{simulated.entries:,} entries, {simulated.retries} retries")
    table.add_row("the boards' time", f"{simulated.boards_s / 3600:,.0f} h")
    table.add_row("the scheduler's time", f"{simulated.scheduler_s:.1f} s, records on disk included")
    table.add_row("per entry", f"{1000 * simulated.scheduler_s / simulated.entries:.1f} ms")
    table.add_row("overhead", f"{100 * simulated.overhead:.5f} %")
    if real:
        table.add_row(f"real: {real.entries} runs on host", f"{real.night_s:.1f} s; by hand {real.by_hand_s:.1f} s")
        table.add_row("the night adds", f"{real.added_s:.1f} s: its start, a health check, the leashes")
        table.add_row("a leash adds", f"{1000 * real.leash_s:.0f} ms")
    return table


@click.command()
@click.option("--boards", default=50, show_default=True)
@click.option("--models", default=5, show_default=True)
@click.option("--nights", default=30, show_default=True)
@click.option("--entries", default=5, show_default=True, help="Of the real night.")
@click.option("--repetitions", default=3, show_default=True, help="Of the real night; 0: none.")
@click.option("--json", "as_json", is_flag=True)
def main(boards: int, models: int, nights: int, entries: int, repetitions: int, as_json: bool) -> None:
    """Measure both and print them with the machine and the day."""
    described = machine.describe()
    simulated = simulate(boards, models, nights)
    real = measure(entries, repetitions) if repetitions else None
    if as_json:
        found = {
            "simulated": asdict(simulated) | {"overhead": simulated.overhead},
            "real": asdict(real) | {"added_s": real.added_s} if real else None,
        }
        print(json.dumps({"machine": described, **found}, indent=1))  # noqa: T201 - standard output is the interface
        return
    Console().print(described, show(simulated, real))


if __name__ == "__main__":
    main()
