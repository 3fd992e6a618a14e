"""Times of other tools for a network: documents that `benchmarks/run_peers.py --network NAME --json` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import RequestError
from harness.core.safe_io import read_document

MAKE = "make it: .venv/bin/python benchmarks/run_peers.py --network NAME --json > NAME.json"


@dataclass(frozen=True)
class Peer:
    """A tool with the least time of a call; without one, `failure` says why."""

    name: str
    origin: str
    minimum_ns: int | None
    calls: int | None
    failure: str


def read(paths: Sequence[Path]) -> dict[str, list[Peer]]:
    """Return the peers by the name of the network; RequestError if a file is no such document."""
    rows_by_shape: dict[str, list[Peer]] = {}
    for path in paths:
        try:
            document = read_document(path)
            rows = [_peer(row, document) for row in document["results"]]
            rows_by_shape.setdefault(str(document["shape"]), []).extend(rows)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RequestError(f"{path}: no document of run_peers.py: {error}", MAKE) from error
    return rows_by_shape


def _peer(row: Mapping[str, Any], document: Mapping[str, Any]) -> Peer:
    machine, times = document["machine"], row["times"]
    where = f"{machine['processor']}, load {machine['load']} before, {machine['date']}"
    origin = f"{row['version']}; {where}; {document['command']}"
    if times is None:
        return Peer(row["name"], origin, None, None, row["failure"])
    name = f"{row['name']} (beside the peers)" if row["is_ours"] else row["name"]
    return Peer(name, origin, int(times["minimum_ns"]), int(times["calls"]), "")
