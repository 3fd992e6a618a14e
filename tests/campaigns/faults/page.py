"""docs/faults.md: what the campaign came to, as tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from harness.core.installation import ROOT
from tests.campaigns.faults.campaign import IDENTICAL, INCONCLUSIVE, KILLED, Cell
from tests.campaigns.faults.faults import FAULTS, Fault
from tests.campaigns.faults.laboratory import CHUNK, CHUNKS, PROGRAM_TIMEOUT_S
from tests.campaigns.faults.stage import LIMITS, Step

PAGE = ROOT / "docs" / "faults.md"
NEVER = "-"

INTRODUCTION = f"""# What a run does when something goes wrong

Every fault that a laboratory knows was done to a run at each of its steps, on an emulated board: a real aarch64 Linux
behind real SSH. This page is written by `python -m tests.campaigns.faults`, which tries every cell; the
test suite tries the same nine cells every time.

A run has {CHUNKS} chunks of {CHUNK} vectors here. Something happens to it when it comes to **deploy** the bundle; at
its second chunk when it comes to **execute** the program, to **collect** the dumps, to **compare** them, to **write**
the record of the chunk; or at the **end**, when it comes to write `run.json`. Faults of the link and of the board
strike in the middle of a transfer and while the program runs; those that kill the host, in the middle of a write. Then
what was broken is mended, and the run is resumed.

In every cell all of this was checked:

- the verdict is `identical`, and then the run has shown what an undisturbed one shows, or it is `inconclusive`, blames
  the right part, gives the cause and says what to do; it is never `differs`, as the board computes rightly;
- chunks that were finished stay finished, and are not done again;
- `harness run --resume` ends with `identical` and with the same `content_sha256` as an undisturbed run, in a run folder
  that has what its `run.json` lists and nothing else;
- the run tells of the first attempt, and of the part that stopped it;
- when the command has ended, and all the more when it was killed, the board is free and nothing of it runs any more,
  here or there; it leaves no files on a board that it can still reach.
"""
LEGEND = f"""In each cell: the verdict with the part to blame / finished chunks that were kept / seconds from the fault
until the command had ended and the board was free. `{IDENTICAL}`: the run went on and came to its verdict. `{KILLED}`:
the command could say nothing. `{NEVER}`: the fault has no meaning there. A board that is silent is given up after
{LIMITS.silence_s:g} s here, by default after 30 s; a program that hangs after {PROGRAM_TIMEOUT_S} s here, by default
after 300 s.
"""
LIMITATIONS = """## What this does not show

- What a board computes wrongly, or stores wrongly before it takes the hash of a dump, is a difference of the program
  for all that a run can know: it is told as `differs`.
- A program on a board that has lost its link lives until that board's SSH server notices: at once where it is told,
  else after the server's own time-out (`ClientAliveInterval`, or two hours by TCP). Until then nothing of what it
  writes can come into another attempt, which has a folder of its own and ends it if it is the same run.
- A measurement is not resumed: the board would not be as it was.
"""


def page(cells: Sequence[Cell], untried: dict[str, str], when: str) -> str:
    """The whole page; `untried` are the names of faults that could not be done, with the reason."""
    wrong = [cell for cell in cells if cell.complaints]
    parts = [INTRODUCTION, f"{when} {_totals(cells, wrong)}\n"]
    parts += [_table(("fault", *Step), _rows(cells, untried)), LEGEND]
    parts += ["## What was done, and what the user reads\n", "".join(_messages(cells))]
    if wrong:
        parts += ["## What is wrong\n", "".join(map(_complaint, wrong))]
    return "\n".join([*parts, LIMITATIONS])


def _totals(cells: Sequence[Cell], wrong: Sequence[Cell]) -> str:
    ended, resumed = Counter(cell.first.verdict for cell in cells), sum(cell.resumed for cell in cells)
    longest_s = max((cell.free_s for cell in cells if cell.resumed), default=0.0)
    return (
        f"{len(cells)} runs were disturbed: {ended[IDENTICAL]} went on to `{IDENTICAL}`, "
        f"{ended[INCONCLUSIVE]} were `{INCONCLUSIVE}`, {ended[KILLED]} `{KILLED}`. "
        f"{resumed} were resumed; each had left its board free {longest_s:.1f} s after the fault at the latest. "
        f"Something is wrong with {len(wrong)} of them."
    )


def _rows(cells: Sequence[Cell], untried: dict[str, str]) -> Iterator[Sequence[str]]:
    at = {(cell.fault, cell.step): cell for cell in cells}
    for fault in FAULTS:
        if fault.name in untried:
            yield (fault.name, *["not tried"] * len(Step))
        elif any(cell.fault == fault.name for cell in cells):
            yield (fault.name, *(_text(at.get((fault.name, step))) for step in Step))


def _text(cell: Cell | None) -> str:
    if cell is None:
        return NEVER
    wrong = "**WRONG** " if cell.complaints else ""
    if cell.first.verdict == IDENTICAL:
        return f"{wrong}{IDENTICAL}"
    part = f" ({cell.first.part})" if cell.first.part else ""
    return f"{wrong}{cell.first.verdict}{part} / {cell.first.kept} / {cell.free_s:.1f}"


def _messages(cells: Sequence[Cell]) -> Iterator[str]:
    """Of every fault the different messages that it led to."""
    for fault in FAULTS:
        own = [cell.first for cell in cells if cell.fault == fault.name]
        if own:
            yield f"**{fault.name}**: {fault.done}.{_never(fault)}\n\n"
            said = dict.fromkeys(f"{general(first.reason)}. *{general(first.hint)}*" for first in own if first.part)
            yield "".join(f"- {message}\n" for message in said) + "\n" * bool(said)


def _never(fault: Fault) -> str:
    left_out = [step for step in Step if step not in fault.steps]
    return f" Not at {', '.join(left_out)}: {fault.never}." if left_out else ""


def general(message: str) -> str:
    """The message without what is another one in every run."""
    message = re.sub(r"\w+@127\.0\.0\.1:\d+", "root@board", message)
    message = re.sub(r"/bundles/[0-9a-f]{16}", "/bundles/BUNDLE", message)
    message = re.sub(r"/runs/\d{8}-\d{6}_\w+(\.[0-9a-f]{8})?", "/runs/RUN", message)
    message = re.sub(r"\b[0-9a-f]{64}\b", "...", message)
    return re.sub(r"(?<= )/\S*(?=/runs/RUN/(target|reference|chunks))", "", message)


def _complaint(cell: Cell) -> str:
    return f"- {cell.fault}, {cell.step}: {general('; '.join(cell.complaints))[:500]}\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
