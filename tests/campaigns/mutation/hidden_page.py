"""docs/results/mutation-hidden.md: which of the hidden wrong programs were found before, and what finds each now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.installation import ROOT
from tests.campaigns import dated
from tests.campaigns.mutation.hidden import VECTORS, Excluded, Kind, Outcome, Wrong
from tests.support.markdown import table

PAGE = ROOT / "docs" / "results" / "mutation-hidden.md"
BEFORE = "aa3a160"
"""The revision at which the programs were tried first."""
UNNOTICED, FOUND = "**unnoticed**", "found"

INTRODUCTION = f"""# Wrong programs that no vector of a run shows

The [mutants](mutation.md) compute wrong results in every run. The programs on this page compute right results for
almost all inputs: they are wrong only in some state, in some mode, on some thread, at some address or for some
combination of inputs. Each was built in place of the right program and tested with the command [`harness
prove`](../prove-a-model.md) with {VECTORS:,} vectors and `--floats thresholds`, with every check of the command. The
queries to the reference were left out, because their answers do not depend on the program.

- *before*: revision {BEFORE}, where the proof had no checks of the program's structure, of state, of concurrency and
  of the floating-point environment.
- *found*: the command does not end with `identical`.
- *excluded*: the program is not found; the proof states the assumption that the program violates.

The last column has the check that found the program: `run` (an activation of the run differs), the steps of the
argument with a claim that does not hold, `trace`, or `refused` (the command ends with an error before a verdict).

`python -m tests.campaigns.mutation --hidden` wrote this page; the programs are in
`tests/campaigns/mutation/hidden_programs.txt`.
"""


def page(tried: Mapping[str, Outcome], programs: Sequence[Wrong], where: str) -> str:
    """Return the whole page; `tried` has the outcome of each program by its name, `where` names compiler and day."""
    parts = [dated(INTRODUCTION, where), _totals(tried, programs)]
    for kind in Kind:
        own = [wrong for wrong in programs if wrong.kind is kind]
        rows = [(wrong.name, _on(wrong), FOUND if wrong.before else UNNOTICED, _now(wrong, tried)) for wrong in own]
        title = kind.value[0].upper() + kind.value[1:]
        parts += [f"## {title}\n", table(("program", "on", "before", "now"), rows)]
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
    return table(("class", "programs", "found before", "found now", "excluded", "unnoticed"), rows)


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
