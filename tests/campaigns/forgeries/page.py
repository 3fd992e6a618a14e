"""docs/results/forgeries.md: what became of every forgery, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.installation import ROOT
from tests.campaigns import dated
from tests.campaigns.forgeries.bases import BASES
from tests.campaigns.forgeries.campaign import Outcome
from tests.campaigns.forgeries.forgeries import KINDS
from tests.support.markdown import table

PAGE = ROOT / "docs" / "results" / "forgeries.md"
INTRODUCTION = """# Which forged evidence is rejected

A forgery is a folder of evidence that claims something false. Each forgery on this page changes a valid run, decision,
profile or case, or valid bounds. The forger is competent: after the change, this program's own code writes the hashes
of dumps, vectors and readings again, the list of files, `content_sha256` and the reports, and, if it helps the forger,
verdict and reason. Only a remaining contradiction can reveal the forgery.

`harness verify` and `harness sign` check each folder, both with their defaults:

- `verify` must end with exit code 1 (the evidence is false) or 3 (not checkable). Exit code 2 means that run.json
  itself cannot be read.
- `sign` must refuse.
- A claim that is only "not checked" while `verify` ends with 0 counts as a hole.

[Check and sign evidence](../check-evidence.md) explains the claims. `python -m tests.campaigns.forgeries`
wrote this page.
"""
SIGNATURES = """Here the run is valid and the envelope is false. `verify` gets `--key`, the public key of the
laboratory. `sign` refuses an envelope of another run or of another form. If only the signatures are false, `sign`
adds the signature of the laboratory, which is valid.
"""
LIMITS = """## Forgeries that only a signature reveals

These forgeries contain no contradiction. The forger has computed the right outputs, or has changed times that cannot
be measured again, and everything that follows from them. `harness verify` accepts them, and `harness sign` would sign
them: sign only your own runs, on the machine where they were made. With `--key`, `verify` rejects them, because the
forger does not have the key of the laboratory. See [What is believed](../check-evidence.md#what-is-believed) for the
entries that are taken on trust.
"""


def page(outcomes: Sequence[Outcome], limits: Sequence[tuple[Outcome, Outcome]], where: str) -> str:
    """Return the whole page; `limits` pairs what was seen without and with the key, `where` names day and machine."""
    found = sum(outcome.rejected for outcome in outcomes)
    parts = [dated(INTRODUCTION, where), f"{found} of {len(outcomes)} forgeries were rejected.\n", "## The true runs\n"]
    parts.append(table(("run", "what it is"), BASES.items()))
    for kind, about in KINDS.items():
        own = [outcome for outcome in outcomes if outcome.forgery.kind == kind]
        parts += [f"## {kind.capitalize()}\n", f"{about}\n", *([SIGNATURES] if kind == "signature" else [])]
        parts.append(table(("what is forged", "run", "rejected by", "exit code", "sign"), map(_row, own)))
    parts += [LIMITS, table(("what is forged", "run", "verify", "verify --key"), map(_limit, limits))]
    return "\n".join(parts)


def _row(outcome: Outcome) -> Sequence[str]:
    forgery, seen = outcome.forgery, outcome.seen
    found = ", ".join(seen.claims) or ("run.json" if seen.code else "NOTHING")
    return forgery.name, forgery.base, found, str(seen.code), "signs" if outcome.signed else "refuses"


def _limit(pair: tuple[Outcome, Outcome]) -> Sequence[str]:
    forgery = pair[0].forgery
    return forgery.name, forgery.base, *(f"exit code {outcome.seen.code}" for outcome in pair)
