"""docs/results/faults.md: what the campaign came to, as tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.core.installation import ROOT
from tests.campaigns import dated
from tests.campaigns.faults.campaign import IDENTICAL, INCONCLUSIVE, KILLED, Cell
from tests.campaigns.faults.faults import FAULTS, Fault
from tests.campaigns.faults.laboratory import CHUNK, CHUNKS, PROGRAM_TIMEOUT_S
from tests.campaigns.faults.stage import LIMITS, Step
from tests.support.markdown import table

PAGE = ROOT / "docs" / "results" / "faults.md"
NEVER = "-"

INTRODUCTION = f"""# What a run does when something fails

This page shows the result of each fault at each step of a run, on an emulated board: a real aarch64 Linux over real
SSH. `python -m tests.campaigns.faults` tried every cell and wrote this page. `make test` tries the same three cells
every time.

A run has {CHUNKS} chunks of {CHUNK} vectors here. The fault happens at one of these steps:

- **deploy**: the run starts to deploy the bundle.
- **execute**, **collect**, **compare**, **write**: the run starts to execute the program, to collect the dumps, to
  compare them or to write the record, for its second chunk.
- **end**: the run starts to write `run.json`.

Faults of the link and of the board happen in the middle of a transfer or while the program runs. Faults that kill the
host happen in the middle of a write. Then the fault is removed, and the run is resumed.

Each cell was checked for all of these conditions:

- The verdict is `identical`, and the run has the results of an undisturbed one. Or it is `inconclusive`, names the
  right part and the cause, and says what to do. It is never `differs`, because the board computes correctly.
- Finished chunks stay finished and are not repeated.
- `harness run --resume` ends with `identical` and with the `content_sha256` of an undisturbed run, in a run folder
  that has exactly the files that `run.json` lists.
- The run records the first attempt, and the part that stopped it.
- When the command has ended, or was killed, the board is free. No process of the run is left on the host or the
  board, and no files on a board that the host can still reach.
"""
LEGEND = f"""Each cell has: the verdict with the part that failed / finished chunks that were kept / seconds from
the fault until the command had ended and the board was free.

- `{IDENTICAL}`: the run continued and reached its verdict.
- `{KILLED}`: the command was killed and could print nothing.
- `{NEVER}`: the fault is impossible at this step.

The time limit for a silent board is {LIMITS.silence_s:g} s here and 30 s by default. The limit for a program is
{PROGRAM_TIMEOUT_S} s here and 300 s by default.
"""
LIMITATIONS = """## What this does not show

- If a board computes wrong values, or stores wrong values before it hashes a dump, a run cannot distinguish this from
  an error of the program. The verdict is `differs`.
- A program on a board that has lost its link runs until the SSH server of that board notices: at once if the server
  is told, otherwise after its own timeout (`ClientAliveInterval`, or two hours by TCP). Until then its output cannot
  enter another attempt: each attempt has its own folder, and an attempt of the same run ends the program.
- A measurement is not resumed, because the board would not be in the same state.
"""


def page(cells: Sequence[Cell], untried: dict[str, str], when: str) -> str:
    """The whole page; `untried` are the names of faults that could not be done, with the reason."""
    wrong = [cell for cell in cells if cell.complaints]
    parts = [dated(INTRODUCTION, when), f"{_totals(cells, wrong)}\n"]
    parts += [table(("fault", *Step), _rows(cells, untried)), LEGEND]
    parts += ["## Faults and messages\n", "".join(_messages(cells))]
    if wrong:
        parts += ["## Failed conditions\n", "".join(map(_complaint, wrong))]
    return "\n".join([*parts, LIMITATIONS])


def _totals(cells: Sequence[Cell], wrong: Sequence[Cell]) -> str:
    ended, resumed = Counter(cell.first.verdict for cell in cells), sum(cell.resumed for cell in cells)
    longest_s = max((cell.free_s for cell in cells if cell.resumed), default=0.0)
    return (
        f"{len(cells)} runs were disturbed: {ended[IDENTICAL]} continued to `{IDENTICAL}`, "
        f"{ended[INCONCLUSIVE]} were `{INCONCLUSIVE}`, {ended[KILLED]} `{KILLED}`. "
        f"{resumed} were resumed; the board of each was free at most {longest_s:.1f} s after the fault. "
        f"{len(wrong)} runs failed a condition."
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
