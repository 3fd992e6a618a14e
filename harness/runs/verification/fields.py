"""Every entry of run.json, and by which claim it is checked; what is in no claim is the run's word alone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.runs.document import SCHEMA
from harness.runs.measurement.parts import MeasuredPart
from harness.runs.verification.claims import UncheckedError, listed
from harness.runs.verification.folder import RUN, Evidence
from harness.targets.bundle import PROGRAM

BELIEVED = "believed"


def _below(entry: str, claim: str, names: str) -> dict[str, str]:
    """The entries of these names, all there are below `entry` beside those of other claims."""
    return {f"{entry}.{name}": claim for name in names.split()}


# By the path of an entry; what ends with a dot stands for all that is below.
COMMON = {
    "schema": "fields",
    "kind": "request",
    "harness.version": BELIEVED,
    "harness.revision": "sources",
    "started": "request",
    "finished": "request",
    "wall_s": "request",
    "attempts.": "request",
    "command.": BELIEVED,
    **_below("board", "board", "name soc kind address host_key machine_id boot_id"),
    "board.environment.": BELIEVED,
    "board.setup.": BELIEVED,
    "model.": "model",
    "plan.": "plan",
    "assessment.wall_s": BELIEVED,
    "assessment.": "plan",
    "bundle.sha256": "request",
    "bundle.compiler": "sources",
    "bundle.flags.": "sources",
    "bundle.files.": "sources",
    f"bundle.files.{PROGRAM}": "bundle",
    "bundle.inputs.": "sources",
    "bundle.reused": BELIEVED,
    "reference.": BELIEVED,
    "host.": BELIEVED,
    "host.boot_id": "board",
    **_below("stimuli", "vectors", "count seed source classes. sha256"),
    "files.": "files",
    "content_sha256": "content",
    "verdict": "verdict",
    "reason": "verdict",
}
RUNS = {
    "chunk": "request",
    "fetch": "request",
    "vectors_per_s": "request",
    "layers.": "verdict",
    "coverage.": "verdict",
    "proof": "proof",
    "proof.wall_s": BELIEVED,
    "proof.claims": "proof",
    "proof.claims.counterexample": BELIEVED,
    "proof.claims.time_s": BELIEVED,
    **_below("proof", "proof", "schema holds assumptions. fp_environment. board."),
    "proof.claims.observed": BELIEVED,
    **_below("proof.claims", "proof", "step shows answered_by layer statement method cases complete holds"),
    "proof.claims.answers_sha256": "answers",
    "conformance.": "verdict",
    "deployed.": "verdict",
    "diagnosis.": "verdict",
    "diagnoses.": "verdict",
    "pictures.": "verdict",
    "failing": "failing",
    "failing.actual": BELIEVED,
    "failing.note": BELIEVED,
    "failing.replay": BELIEVED,
    **_below("failing", "failing", "vector unit expected layer inputs. of_inputs file"),
}
MEASUREMENTS = {
    "measured.warmup": BELIEVED,
    "measured.options.": BELIEVED,
    "measured.fifo": BELIEVED,
    "measured.fifo_refused": BELIEVED,
    "measured.memory_locked": BELIEVED,
    "measured.dma_latency_held": BELIEVED,
    **_below("measured", "measured", "scope interval quantity unit block samples segment segments duration_s pause_s"),
    **_below("measured", "measured", "cycle_ns memory_lock_asked dma_latency_asked not_met_because"),
    **_below("outputs", "outputs", "compared differing first. own sha256."),
    "clock.": BELIEVED,
    "state.": BELIEVED,
    "load.": BELIEVED,
    **{f"parts.{field.name}": "measured" for field in dataclasses.fields(MeasuredPart)},
    "parts.": "numbers",
    "devices.": BELIEVED,
    "readings.": "numbers",
    "against.": "against",
}


def known(evidence: Evidence) -> str:
    """All entries are those of this version; UncheckedError for others, which nobody has looked at."""
    run, table = evidence.run, table_of(evidence)
    if run.get("schema") != SCHEMA:
        raise UncheckedError(
            f"{RUN} is of schema {run.get('schema')!r}, this version knows {SCHEMA}: verify it with the version that "
            "wrote it, which run.json names as harness.revision"
        )
    if unknown := unknown_entries(run, table):
        raise UncheckedError(f"{RUN} has entries that this version does not know: {listed(unknown)}")
    believed = sorted(path.rstrip(".") for path, name in table.items() if name == BELIEVED)
    return f"{RUN} has no others than known; its word alone are {', '.join(believed)}"


def unknown_entries(document: Mapping[str, Any], table: Mapping[str, str]) -> set[str]:
    """Return the entries of a document that the table does not have."""
    return {path for path in paths(document) if claim_of(path, table) is None}


def table_of(evidence: Evidence) -> Mapping[str, str]:
    """What checks the entries of a run's or of a measurement's document."""
    return COMMON | (MEASUREMENTS if evidence.measured else RUNS)


def claim_of(path: str, table: Mapping[str, str]) -> str | None:
    """What checks the entry: the most exact that the table says of it."""
    found = table.get(path)
    while path and found is None:
        found, path = table.get(f"{path}."), path.rpartition(".")[0]
    return found


def paths(value: Any, at: str = "") -> Iterator[str]:
    """The paths of all entries; those of a list have none of their own."""
    if isinstance(value, Mapping) and value:
        for key, entry in value.items():
            name = re.sub(r"[.\s]", "_", str(key))
            yield from paths(entry, f"{at}.{name}" if at else name)
    elif isinstance(value, list) and value:
        for entry in value:
            yield from paths(entry, at)
    else:
        yield at
