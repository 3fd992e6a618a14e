"""The entries of run.json that this version knows, with the claim that checks each: those of its models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.document import BELIEVED, claims
from harness.runs.entries import SCHEMA, MeasurementDocument, Provenance, RunDocument
from harness.runs.verification.claims import UncheckedError, listed
from harness.runs.verification.folder import RUN, Evidence

__all__ = ["BELIEVED", "COMMON", "MEASUREMENTS", "RUNS", "claim_of", "known", "paths", "table_of", "unknown_entries"]

# By the path of an entry; a path that ends with a dot covers all below it.
COMMON = claims(Provenance)
RUNS = {path: claim for path, claim in claims(RunDocument).items() if path not in COMMON}
MEASUREMENTS = {path: claim for path, claim in claims(MeasurementDocument).items() if path not in COMMON}


def known(evidence: Evidence) -> str:
    """All entries are those of this version; UncheckedError for unknown entries, which no claim checks."""
    run, table = evidence.run, table_of(evidence)
    if run.get("schema") != SCHEMA:
        raise UncheckedError(
            f"{RUN} is of schema {run.get('schema')!r}, this version knows {SCHEMA}: verify it with the version that "
            "wrote it, which run.json names as harness.revision"
        )
    if unknown := unknown_entries(run, table):
        raise UncheckedError(f"{RUN} has entries that this version does not know: {listed(unknown)}")
    believed = sorted(path.rstrip(".") for path, name in table.items() if name == BELIEVED)
    return f"{RUN} has only known entries; taken on trust: {', '.join(believed)}"


def unknown_entries(document: Mapping[str, Any], table: Mapping[str, str]) -> set[str]:
    """Return the entries of a document that the table does not have."""
    return {path for path in paths(document) if claim_of(path, table) is None}


def table_of(evidence: Evidence) -> Mapping[str, str]:
    """Return the claims that check the entries of a run's or of a measurement's document."""
    return COMMON | (MEASUREMENTS if evidence.measured else RUNS)


def claim_of(path: str, table: Mapping[str, str]) -> str | None:
    """Return the claim that checks the entry: that of the longest path in the table."""
    found = table.get(path)
    while path and found is None:
        found, path = table.get(f"{path}."), path.rpartition(".")[0]
    return found


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Yield the paths of all entries; elements of a list share its path."""
    if isinstance(value, Mapping) and value:
        for key, entry in value.items():
            name = re.sub(r"[.\s]", "_", str(key))
            yield from paths(entry, f"{at}.{name}" if at else name)
    elif isinstance(value, list) and value:
        for entry in value:
            yield from paths(entry, at)
    else:
        yield at
