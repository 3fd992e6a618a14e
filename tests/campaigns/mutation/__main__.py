"""`python -m tests.campaigns.mutation`: the whole campaign, on two processors; docs/results/mutation.md is its result.

`python -m tests.campaigns.mutation --targets vitis --output vitis.md`: some columns of it, on a page of their own.

`python -m tests.campaigns.mutation --hidden`: the programs of hidden_programs.txt; docs/results/mutation-hidden.md
is its result. With `--only PATTERN` those whose class and name contain a match of the pattern, on the screen alone.
"""

from __future__ import annotations

import argparse
import platform
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from functools import cache
from itertools import product
from pathlib import Path

from harness.boards import profile
from harness.boards.profile import Profile
from harness.core.console import Console
from harness.core.installation import ROOT
from harness.targets import toolchain
from tests.campaigns import today
from tests.campaigns.mutation import hidden_page
from tests.campaigns.mutation.campaign import Workshop, attempt
from tests.campaigns.mutation.faults import FAULTS
from tests.campaigns.mutation.hidden import Outcome, prove
from tests.campaigns.mutation.hidden_programs import PROGRAMS
from tests.campaigns.mutation.mutants import INPUT, MUTANTS, ROUNDING, TARGETS
from tests.campaigns.mutation.networks import NETWORKS, Subject, networks_of
from tests.campaigns.mutation.page import PAGE, Cell, page

PROCESSES = 2
FIRST = next(iter(NETWORKS))


def main() -> None:
    """Try everything that was asked for, write the page."""
    asked = _asked()
    console = Console.open(as_json=False)
    if asked.hidden:
        _try_hidden(asked.only, asked.output, console)
        return
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(PROCESSES) as pool:
        cells = _try_all(pool, Path(scratch), asked.targets, console)
        faults = {fault.name: fault.run(subject(FIRST), board(), _new(Path(scratch))) for fault in FAULTS}
    asked.output.write_text(page(cells, faults, _where(board())), encoding="utf-8")
    console.note(f"written: {asked.output}")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.mutation", description="Detection of wrong programs?"
    )
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS), help="some columns alone")
    parser.add_argument("--hidden", action="store_true", help="wrong programs that no vector of a run shows")
    parser.add_argument("--only", metavar="PATTERN", help="of these some, shown on the screen")
    parser.add_argument("--output", type=Path, help=f"where the page goes ({PAGE} or {hidden_page.PAGE})")
    asked = parser.parse_args()
    asked.output = asked.output or (hidden_page.PAGE if asked.hidden else PAGE)
    if asked.output == PAGE and asked.targets != list(TARGETS):
        parser.error(f"{PAGE} is of all targets: name another --output")
    return asked


def _try_all(pool: Executor, scratch: Path, targets: Sequence[str], console: Console) -> list[Cell]:
    todo = [
        (target, index, network)
        for target in targets
        for index, network in product(range(len(MUTANTS)), networks_of(target))
    ]
    with console.progress("mutants on networks", len(todo)) as bar:
        running = [pool.submit(try_one, scratch, *each) for each in todo]
        for _ in as_completed(running):
            bar.advance(1)
    return [done.result() for done in running]


def try_one(scratch: Path, target: str, index: int, network: str) -> Cell:
    """One mutant of a target on a network, in a process of the pool."""
    mutant, shop, tried = MUTANTS[index], workshop(scratch, target), subject(network)
    if mutant.senseless(target):
        return Cell(target, mutant.name, network, None)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        suspect = shop.build(mutant, tried, Path(folder) / "bundle")
        if suspect.identity == right_program(scratch, target, network):
            return Cell(target, mutant.name, network, None)
        of_input = target == "c" and mutant in (*ROUNDING, *INPUT)
        outcome = attempt(suspect, tried, shop.plan(tried), mutant.causes, Path(folder), all_floats=of_input)
    return Cell(target, mutant.name, network, outcome)


def _try_hidden(pattern: str | None, output: Path, console: Console) -> None:
    chosen = [each for each in PROGRAMS if re.search(pattern or "", f"{each.kind.value}: {each.name}")]
    outcomes = {}
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(PROCESSES) as pool:
        running = {pool.submit(try_hidden, Path(scratch), PROGRAMS.index(each)): each for each in chosen}
        for done in as_completed(running):
            wrong, outcome = running[done], done.result()
            outcomes[wrong.name] = outcome
            mark = "as expected" if outcome.meets(wrong.found) else f"NOT AS EXPECTED ({wrong.found})"
            console.note(f"{wrong.kind.value}: {wrong.name}: {', '.join(outcome.found) or 'unnoticed'}, {mark}")
    if not pattern:
        output.write_text(hidden_page.page(outcomes, PROGRAMS, _where(board())), encoding="utf-8")
        console.note(f"written: {output}")


def try_hidden(scratch: Path, index: int) -> Outcome:
    """Try one of the hidden programs, in a process of the pool."""
    objects = scratch / "objects"
    objects.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        return prove(PROGRAMS[index], Path(folder), objects)


def _new(scratch: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=scratch))


@cache
def board() -> Profile:
    """This machine."""
    return profile.load(ROOT / "boards.yaml", {}).board("host")


@cache
def subject(network: str) -> Subject:
    """The network with its reference, made once a process."""
    return NETWORKS[network].subject()


@cache
def workshop(scratch: Path, target: str) -> Workshop:
    """The one of this process."""
    return Workshop(board(), target, _new(scratch))


@cache
def right_program(scratch: Path, target: str, network: str) -> str:
    """Which program is the one without a mutant."""
    return workshop(scratch, target).build(None, subject(network), _new(scratch) / "bundle").identity


def _where(here: Profile) -> str:
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    compiler = toolchain.find(here).identity.partition(" [")[0]
    flags = " ".join(here.toolchain.flags)
    processor = model[1] if model else platform.machine()
    return f"{today()}, {compiler} `{flags}`, {processor}."


if __name__ == "__main__":
    main()
