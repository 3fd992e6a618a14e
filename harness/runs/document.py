"""The document of a run, the content of `run.json`, from all finished chunks, the proof and the traces."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness import __version__, targets
from harness.analysis.proof_document import ProofDocument
from harness.boards.identity import EMULATED, HARDWARE, THIS_MACHINE, VIRTUAL
from harness.boards.profile import Profile
from harness.boards.tuning.identify import this_boot_id
from harness.build.bundle import BuildInputs
from harness.core.errors import InfrastructureError
from harness.core.file_digest import file_sha256
from harness.core.installation import revision
from harness.core.outcome import Outcome
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.counters import LayerCoverage
from harness.operators.exact.onnx_functions import RUNTIME_DOMAINS
from harness.plan import plan_check
from harness.plan.conformance import ConformanceEntry
from harness.plan.plan import Plan
from harness.reference import engines
from harness.runs import description, entries, verdict
from harness.runs import folder as run_folder
from harness.runs.entries import SCHEMA, Provenance, RunDocument
from harness.runs.job import ACCEPT_BOUND, Job, Request, command_line
from harness.runs.verdict import Observations, changed_vectors


def conclude(
    job: Job,
    environment: dict[str, str],
    setup: list[dict[str, Any]],
    failing: entries.FailingEntry | None,
    covered: Sequence[LayerCoverage],
    conformance: ConformanceEntry | None,
    accuracy: entries.AccuracyEntry | None,
) -> RunDocument:
    """Return the whole run; BoardError if any activation was not compared.

    `failing` is the smallest failing case, `covered` the coverage of every layer, `conformance` the result of the
    traces, `accuracy` that of the labels.
    """
    provenance, records, proof = origin(job, environment, setup), list(job.folder.chunks()), job.folder.read_proof()
    observations = Observations(
        records,
        covered,
        None if proof is None else ProofDocument.from_json(proof),
        conformance,
        changed_vectors(job.folder.path, job.network, records),
    )
    results = verdict.results(job.plan, where_of(job), job.stimuli.count, observations)
    content = dict(results)
    if not results.network_outputs:  # every layer is exact
        del content["network_outputs"]
    judged: dict[str, Any] = {} if accuracy is None else {"accuracy": accuracy}
    return RunDocument(
        **dict(provenance),
        chunk=job.chunk,
        fetch=job.fetch,
        **accepted(job.request.accept, results.verdict),
        **content,
        failing=failing,
        **judged,
        vectors_per_s=round(job.stimuli.count / provenance.wall_s, 1),
    )


def accepted(accept: str | None, outcome: str) -> dict[str, Any]:
    """Return the entry for a verdict that a request accepts, as one with which the run is good; else no entry."""
    return {"accepted": outcome} if accept == ACCEPT_BOUND and Outcome(outcome) is Outcome.WITHIN_BOUND else {}


AGREEMENT = {
    False: "ONNX Runtime and the exact specification agreed on every byte",
    True: "ONNX Runtime computed each layer on the specified inputs: layers with one value agreed on every byte, float "
    "sums and functions lay within their bound (layers, reference_ratio), and the whole model within the bounds of the "
    "errors of all layers (whole_network)",
}
"""The agreement of ONNX Runtime and the specification, by whether the network has layers with a tolerance."""


def agreement(network: Network, versions: Mapping[str, str]) -> str:
    """Return on what the engines of the reference agreed."""
    bounded = any(layer.errors.has_tolerance for layer in network.layers)
    parts = [AGREEMENT[bounded]]
    names = [name for name in versions if name not in engines.ALWAYS]
    if names:
        where = "under the same conditions" if bounded else "on every byte"
        parts.append(f"{', '.join(names)} on its standard form agreed with both {where}")
    functions = sorted({layer.operator for layer in network.layers if _is_function(layer)})
    if functions:
        parts.append(
            f"ONNX Runtime executed the functions that the file defines for {', '.join(functions)}: it confirms their "
            "arithmetic, not their meaning"
        )
    return "; ".join(parts)


def _is_function(layer: Layer) -> bool:
    """Return whether ONNX Runtime does not know the operator of a layer."""
    return not any((domain, layer.operator) in type(layer).ONNX for domain in RUNTIME_DOMAINS)


def origin(job: Job, environment: dict[str, str], setup: list[dict[str, Any]]) -> Provenance:
    """Return the request, the place and the versions of the run so far."""
    finished, host, bundle = run_folder.now(), job.reference.host, job.bundle
    return Provenance(
        schema=SCHEMA,
        harness=entries.HarnessEntry(version=__version__, revision=revision()),
        started=f"{job.started:%Y-%m-%dT%H:%M:%SZ}",
        finished=f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        wall_s=round((finished - job.started).total_seconds(), 3),
        attempts=[entries.AttemptEntry.from_json(attempt) for attempt in job.folder.attempts()],
        command=command_line(),
        board=entries.BoardEntry(
            **job.identity.document(),
            soc=job.profile.soc,
            environment=environment,
            setup=[entries.SetupEntry(**command) for command in setup],
        ),
        model=description.model_entry(job.network),
        plan=description.plan_entry(job.plan, where_of(job)),
        assessment=plan_check.document(job.assessment),
        bundle=entries.BundleEntry(
            sha256=bundle.sha256,
            compiler=bundle.compiler,
            flags=bundle.flags,
            reused=bundle.reused,
            files=bundle.files,
            inputs=BuildInputs(**bundle.inputs),
        ),
        reference=entries.ReferenceEntry(
            onnxruntime=host.onnxruntime,
            isa=host.instruction_set,
            agreement=agreement(job.network, job.reference.versions),
            engines=[entries.EngineEntry(name=name, version=text) for name, text in job.reference.versions.items()],
        ),
        host=entries.HostEntry(
            platform=platform.platform(), python=platform.python_version(), numpy=np.__version__, boot_id=this_boot_id()
        ),
        stimuli=entries.StimuliEntry(
            count=job.stimuli.count,
            seed=job.request.seed,
            source=job.stimuli.origin,
            classes=job.stimuli.describe(),
            sha256=file_sha256(job.folder.stimuli),
        ),
        graph=description.graph(job.network),
        launches=description.launches(job.plan),
        memory=description.memory_entry(job.program),
    )


def summary(document: RunDocument, folder: str) -> dict[str, Any]:
    """Return the part of the document that `--json` prints."""
    kept = (
        "verdict",
        "reason",
        "effect",
        "layers",
        "coverage",
        "diagnosis",
        "diagnoses",
        "failing",
        "proof",
        "conformance",
        "wall_s",
    )
    content = document.to_json()
    stream = {"stream": content["model"]["stream"]} if "stream" in content["model"] else {}
    optional = [key for key in ("whole_network", "network_outputs", "accepted", "accuracy") if key in content]
    return (
        {key: content[key] for key in (*kept, *optional)}
        | stream
        | {
            "engines": content["reference"]["engines"],
            "board": document.board.name,
            "board_kind": document.board.kind,
            "model": document.model.name,
            "vectors": document.stimuli.count,
            "run": folder,
        }
    )


def inconclusive(request: Request, error: InfrastructureError) -> dict[str, Any]:
    """Return the JSON output after a failure of a required component."""
    folder = error.run
    return {
        "verdict": "inconclusive",
        "reason": f"{error.part}: {error.message}",
        "part": error.part,
        "hint": error.hint,
        "layers": [],
        "board": request.board,
        "model": request.model,
        "vectors": 0,
        "differs_so_far": folder is not None and run_folder.differs_so_far(folder),
        "run": str(folder) if folder else None,
    } | error.details


def kind(board: Profile) -> str:
    """Return the kind of board expected from the profile; the actual kind is that of `BoardIdentity`."""
    return EMULATED if board.emulated else THIS_MACHINE if board.local else HARDWARE


def where(plan: Plan, board: Profile, board_kind: str) -> tuple[str, ...]:
    """Return where every item really ran, on a board of this kind."""
    places = (targets.find(item.target).environment(board) for item in plan.items)
    no_hardware = {EMULATED: "emulated-cpu", VIRTUAL: VIRTUAL}
    return tuple(no_hardware.get(board_kind, place) if place == targets.HARDWARE else place for place in places)


def where_of(job: Job) -> tuple[str, ...]:
    """Return where every item of a job really ran; ValueError before its board was reached."""
    return where(job.plan, job.profile, job.identity.kind)
