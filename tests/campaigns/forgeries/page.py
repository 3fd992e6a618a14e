"""docs/forgeries.md: what became of every forgery, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.core.installation import ROOT
from tests.campaigns.forgeries.bases import BASES
from tests.campaigns.forgeries.campaign import Outcome
from tests.campaigns.forgeries.forgeries import KINDS

PAGE = ROOT / "docs" / "forgeries.md"
INTRODUCTION = """# Which forged evidence is rejected

A forgery is a run folder that claims something false. Each one below starts from a true run, which stands before it is
changed. The forger is competent: after his change he makes the hashes of dumps, vectors and readings again, the list of
files, `content_sha256` and the reports, and where it helps him also verdict and reason, all by this program's own code.
Only a contradiction that is left can betray him.

Each folder is given to `harness verify` and to `harness sign`, both with their defaults. `verify` has to end with exit
code 1 (it does not stand) or 3 (it could not be checked); 2 says that run.json itself cannot be read. `sign` has to
refuse. A claim that is only "not checked" while `verify` ends with 0 counts as a hole.
[Check a run's evidence](check-evidence.md) explains the claims. This page is written by
`python -m tests.campaigns.forgeries`.
"""
SIGNATURES = """Here the run is true and the envelope is not. `verify` is asked with `--key`, the public key of the
laboratory. `sign` refuses an envelope of another run or of another form; where only the signatures are false it adds
that of the laboratory, which is true.
"""
LIMITS = """## What only a signature is against

These forgeries contradict nothing. The forger has computed the right outputs, or times that nobody can measure again,
and everything that follows from them. `harness verify` lets them stand, and `harness sign` would sign them: sign your
own runs only, where they were made. With `--key`, `verify` rejects them, as the forger has not the laboratory's key.
See [What is believed](check-evidence.md#what-is-believed) for the entries that are a run's word alone.
"""


def page(outcomes: Sequence[Outcome], limits: Sequence[tuple[Outcome, Outcome]], where: str) -> str:
    """Return the whole page; `limits` pairs what was seen without and with the key, `where` names day and machine."""
    found = sum(outcome.rejected for outcome in outcomes)
    parts = [INTRODUCTION, f"{where} {found} of {len(outcomes)} forgeries were rejected.\n", "## The true runs\n"]
    parts.append(_table(("run", "what it is"), BASES.items()))
    for kind, about in KINDS.items():
        own = [outcome for outcome in outcomes if outcome.forgery.kind == kind]
        parts += [f"## {kind.capitalize()}\n", f"{about}\n", *([SIGNATURES] if kind == "signature" else [])]
        parts.append(_table(("what is forged", "run", "rejected by", "exit code", "sign"), map(_row, own)))
    parts += [LIMITS, _table(("what is forged", "run", "verify", "verify --key"), map(_limit, limits))]
    return "\n".join(parts)


def _row(outcome: Outcome) -> Sequence[str]:
    forgery, seen = outcome.forgery, outcome.seen
    found = ", ".join(seen.claims) or ("run.json" if seen.code else "NOTHING")
    return forgery.name, forgery.base, found, str(seen.code), "signs" if outcome.signed else "refuses"


def _limit(pair: tuple[Outcome, Outcome]) -> Sequence[str]:
    forgery = pair[0].forgery
    return forgery.name, forgery.base, *(f"exit code {outcome.seen.code}" for outcome in pair)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
