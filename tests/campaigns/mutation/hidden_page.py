"""docs/mutation-hidden.md: which of the hidden wrong programs were found before, and what finds each now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.installation import ROOT
from tests.campaigns.mutation.hidden import VECTORS, Excluded, Kind, Outcome, Wrong

PAGE = ROOT / "docs" / "mutation-hidden.md"
BEFORE = "aa3a160"
"""The revision at which the programs were tried first."""
UNNOTICED, FOUND = "**unnoticed**", "found"

INTRODUCTION = f"""# Wrong programs that no vector of a run shows

The [mutants](mutation.md) compute something else whenever they run. The programs here compute the right result for
almost everything that is asked of them: they are wrong only in some state, in some mode, on some thread, at some
address or for some combination of inputs. Each was built in place of the right program and tried by the command
[`harness prove`](prove-a-model.md) with {VECTORS:,} vectors and `--floats thresholds`, with every check of the command.
The questions to the reference were left out, as their answers do not depend on the program.

*Before* is revision {BEFORE}, where the proof had no checks of the program's structure, of state, of concurrency and of
the floating-point environment. A program is *found* if the command does not end with `identical`. The last column says
what found it: `run` (an activation of the run differs), the steps of the argument of which a claim does not hold,
`trace`, or `refused` (the command ends with an error before a verdict). *Excluded* programs are not found; the proof
states the assumption that they do not meet.

This page is written by `python -m tests.campaigns.mutation --hidden`; the programs are in
`tests/campaigns/mutation/hidden_programs.txt`.
"""


def page(tried: Mapping[str, Outcome], programs: Sequence[Wrong], where: str) -> str:
    """Return the whole page; `tried` has the outcome of each program by its name, `where` names compiler and day."""
    parts = [INTRODUCTION, where + "\n", _totals(tried, programs)]
    for kind in Kind:
        own = [wrong for wrong in programs if wrong.kind is kind]
        rows = [(wrong.name, _on(wrong), FOUND if wrong.before else UNNOTICED, _now(wrong, tried)) for wrong in own]
        title = kind.value[0].upper() + kind.value[1:]
        parts += [f"## {title}\n", _table(("program", "on", "before", "now"), rows)]
    return "\n".join(parts)


def _totals(tried: Mapping[str, Outcome], programs: Sequence[Wrong]) -> str:
    rows = []
    for kind in [*Kind, None]:
        own = [wrong for wrong in programs if kind in {wrong.kind, None}]
        excluded = [wrong for wrong in own if isinstance(wrong.found, Excluded)]
        found = sum(not tried[wrong.name].unnoticed for wrong in own)
        missed = sum(tried[wrong.name].unnoticed for wrong in own if wrong not in excluded)
        counts = (len(own), sum(wrong.before for wrong in own), found, len(excluded), missed)
        rows.append((kind.value if kind else "all", *map(str, counts)))
    return _table(("class", "programs", "found before", "found now", "excluded", "unnoticed"), rows)


def _on(wrong: Wrong) -> str:
    """Return the board, and the options of the command."""
    return f"{wrong.board}, `{' '.join(wrong.options)}`"


def _now(wrong: Wrong, tried: Mapping[str, Outcome]) -> str:
    outcome = tried[wrong.name]
    if not outcome.unnoticed:
        return ", ".join(outcome.found)
    if isinstance(wrong.found, Excluded):
        return f"excluded: {next((text for text in outcome.assumptions if wrong.found.text in text), UNNOTICED)}"
    return UNNOTICED


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
