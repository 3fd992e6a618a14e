"""What a run came to: all finished chunks as one document, the content of `run.json`."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from harness import __version__, assessment, coverage, evidence, targets
from harness.compare import NOTHING, Comparison, Difference
from harness.coverage import LayerCoverage
from harness.diagnosis import Diagnosis, Hypothesis, Portrait, map_shape, merge
from harness.errors import BoardError, InfrastructureError
from harness.jobs import Job, Request, command_line
from harness.network import Network
from harness.plan import Item, Plan
from harness.profile import Profile
from harness.proof import Side
from harness.workspace import ROOT


def conclude(
    job: Job,
    environment: dict[str, str],
    setup: list[dict[str, Any]],
    failing: dict[str, Any] | None,
    covered: Sequence[LayerCoverage],
    observed: dict[str, Any] | None,
) -> dict[str, Any]:
    """The whole run as JSON types; BoardError if any activation was not compared.

    `failing` is the smallest failing case, `covered` what the vectors met of every layer, `observed` what traces have
    shown (see harness.conformance.document).
    """
    records = list(job.folder.chunks())
    totals = _totals(job, [record.layers for record in records])
    differing = [layer.name for layer, total in zip(job.network.layers, totals, strict=True) if total.differing]
    diagnoses = [_diagnosis(job.network, found) for found in merge(d for record in records for d in record.diagnoses)]
    proof = job.folder.read_proof()
    provenance = origin(job, environment, setup)
    wall_s = provenance["wall_s"]
    return provenance | {
        "chunk": job.request.chunk,
        "fetch": job.request.fetch,
        "layers": [_layer(job, index, total, covered[index]) for index, total in enumerate(totals)],
        "coverage": {"text": coverage.describe(job.network, covered)} | _counts(coverage.total(covered)),
        "proof": proof,
        "conformance": observed,
        "verdict": "identical" if not differing and _holds(proof) and _conforms(observed) else "differs",
        "reason": "; ".join([*_proved(proof), _reason(job.stimuli.count, differing, totals), *_strayed(observed)]),
        "diagnosis": diagnoses[0] if diagnoses else None,
        "diagnoses": diagnoses,
        "failing": failing,
        "pictures": [_picture(job, portrait) for portrait in merge(p for record in records for p in record.portraits)],
        "vectors_per_s": round(job.stimuli.count / wall_s, 1),
    }


def origin(job: Job, environment: dict[str, str], setup: list[dict[str, Any]]) -> dict[str, Any]:
    """What was done where, with what, until now, as JSON types: the part that all documents of runs share."""
    finished = evidence.now()
    return {
        "schema": 1,
        "harness": {"version": __version__, "revision": _revision()},
        "started": f"{job.started:%Y-%m-%dT%H:%M:%SZ}",
        "finished": f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        "wall_s": round((finished - job.started).total_seconds(), 3),
        "attempts": job.folder.attempts(),
        "command": command_line(),
        "board": {
            "name": job.profile.name,
            "soc": job.profile.soc,
            "kind": kind(job.profile),
            "environment": environment,
            "setup": setup,
        },
        "model": _model(job.network),
        "plan": plan_document(job.plan, job.profile),
        "assessment": assessment.document(job.assessment),
        "bundle": {
            "sha256": job.bundle.sha256,
            "compiler": job.bundle.compiler,
            "flags": list(job.bundle.flags),
            "reused": job.bundle.reused,
        },
        "reference": {
            "onnxruntime": job.reference.host.onnxruntime,
            "isa": job.reference.host.instruction_set,
            "agreement": "ONNX Runtime and the integer specification agreed on every byte",
        },
        "host": {"platform": platform.platform(), "python": platform.python_version(), "numpy": np.__version__},
        "stimuli": {
            "count": job.stimuli.count,
            "seed": job.request.seed,
            "source": job.stimuli.origin,
            "classes": job.stimuli.describe(),
            "sha256": evidence.file_sha256(job.folder.stimuli),
        },
    }


def summary(document: dict[str, Any], folder: str) -> dict[str, Any]:
    """The part of the document that `--json` prints."""
    kept = (
        "verdict",
        "reason",
        "layers",
        "coverage",
        "diagnosis",
        "diagnoses",
        "failing",
        "proof",
        "conformance",
        "wall_s",
    )
    return {key: document[key] for key in kept} | {
        "board": document["board"]["name"],
        "board_kind": document["board"]["kind"],
        "model": document["model"]["name"],
        "vectors": document["stimuli"]["count"],
        "run": folder,
    }


def inconclusive(request: Request, error: InfrastructureError, folder: Path | None) -> dict[str, Any]:
    """What `--json` prints when a part that the result depends on failed; `folder` is the run's, if there is one."""
    return {
        "verdict": "inconclusive",
        "reason": f"{error.part}: {error.message}",
        "part": error.part,
        "hint": error.hint,
        "layers": [],
        "board": request.board,
        "model": request.model,
        "vectors": 0,
        "differs_so_far": folder is not None and evidence.differs_so_far(folder),
        "run": str(folder) if folder else None,
    }


def kind(board: Profile) -> str:
    """Whether a run reaches `emulated`, `hardware` or `this machine`."""
    return "emulated" if board.emulated else "this machine" if board.local else "hardware"


def plan_document(made: Plan, board: Profile) -> dict[str, Any]:
    """The plan as JSON types."""
    items = [
        {
            "name": item.name,
            "target": item.target,
            "core": item.core,
            "ran_on": targets.find(item.target).ran_on(board),
            "tasks": [task.name for task in made.tasks if task.item == index],
        }
        for index, item in enumerate(made.items)
    ]
    tasks = [
        {
            "name": task.name,
            "layer": made.network.layers[task.layer].name,
            "item": made.items[task.item].name,
            "columns": [task.start, task.stop],
            "stage": task.stage,
            "buffers": task.buffers,
        }
        for task in made.tasks
    ]
    return {
        "board": made.board,
        "model": made.network.name,
        "block": made.block,
        "sync": made.sync,
        "depth": made.depth,
        "items": items,
        "tasks": tasks,
        "hand_overs": [{"name": h.name, "items": [made.items[i].name for i in h.items]} for h in made.hand_overs],
    }


def _holds(proof: dict[str, Any] | None) -> bool:
    return proof is None or bool(proof["holds"])


def _conforms(observed: dict[str, Any] | None) -> bool:
    return observed is None or bool(observed["conforms"])


def _strayed(observed: dict[str, Any] | None) -> list[str]:
    """What the traces speak against, if they do."""
    if observed is None or observed["conforms"]:
        return []
    count = sum(condition["violations"] for condition in observed["conditions"])
    where = f"traces of {observed['executions']:,} executions"
    return [f"{count:,} steps in {where} were not in order, first {observed['violations'][0]}"]


def _totals(job: Job, chunks: Sequence[tuple[Comparison, ...]]) -> list[Comparison]:
    """Each layer's result over all chunks; an activation that was not compared is no result."""
    totals = [reduce(Comparison.__add__, column, NOTHING) for column in zip(*chunks, strict=True)]
    for layer, total in zip(job.network.layers, totals, strict=True):
        expected = job.stimuli.count * layer.width
        if total.compared != expected:
            raise BoardError(f"layer {layer.name}: {total.compared} activations were compared, not {expected}")
    return totals


def _model(network: Network) -> dict[str, Any]:
    """The model, its input box in physical units where it says how to come back to them."""
    normalisation, box = network.normalisation, network.box.astype(np.float64)
    if normalisation:
        box = box * normalisation.range + normalisation.mean
    return {
        "name": network.name,
        "sha256": network.sha256,
        "input": {
            "names": list(normalisation.names) if normalisation else [],
            "units": list(normalisation.units) if normalisation else [],
            "box_low": box[0].tolist(),
            "box_high": box[1].tolist(),
        },
        "metadata": network.metadata,
    }


def _layer(job: Job, index: int, total: Comparison, covered: LayerCoverage) -> dict[str, Any]:
    layer, items = job.network.layers[index], _items_of(job, index)
    read = [other.name for other in job.network.layers if other.output in layer.sources]
    return {
        "index": index,
        "name": layer.name,
        "operator": layer.operator,
        "reads": read,
        "items": [item.name for item in items],
        "item": _each(item.name for item in items),
        "target": _each(item.target for item in items),
        "ran_on": _each(targets.find(item.target).ran_on(job.profile) for item in items),
        "compared": total.compared,
        "differing": total.differing,
        "own": total.own,
        "first_difference": dataclasses.asdict(total.first) | _part(job, index, total.first) if total.first else None,
        "coverage": _counts(covered),
    }


def _items_of(job: Job, layer: int) -> list[Item]:
    """The items that compute a layer, by their columns."""
    return [job.plan.items[task.item] for task in job.plan.tasks_of(layer)]


def _part(job: Job, layer: int, difference: Difference) -> dict[str, str]:
    """Of a layer that several items compute, whose column it is."""
    tasks = job.plan.tasks_of(layer)
    if len(tasks) == 1:
        return {}
    task = next(task for task in tasks if task.start <= difference.unit < task.stop)
    return {"part": f"{task.name} of {job.plan.items[task.item].name}"}


def _each(texts: Iterable[str]) -> str:
    """Every different text once."""
    return " + ".join(dict.fromkeys(texts))


def _counts(covered: LayerCoverage) -> dict[str, Any]:
    return {quantity.value: dataclasses.asdict(met) for quantity, met in covered.items()}


def _reason(vectors: int, differing: Sequence[str], totals: Sequence[Comparison]) -> str:
    compared = sum(total.compared for total in totals)
    scope = f"{compared:,} activations of {len(totals)} layers over {vectors:,} vectors"
    if not differing:
        return f"all {scope} are bit for bit those of the reference"
    return f"{sum(total.differing for total in totals):,} of {scope} differ, first in layer {differing[0]}"


def _proved(proof: dict[str, Any] | None) -> list[str]:
    """What a proof adds to the reason, in one clause."""
    if proof is None:
        return []
    claims = proof["claims"]
    failed = [claim for claim in claims if not claim["holds"]]
    if failed:
        where = f", layer {failed[0]['layer']}" if failed[0]["layer"] else ""
        return [f"the proof fails{where}: {failed[0]['counterexample']}"]
    board = [claim for claim in claims if claim["answered_by"] == Side.BOARD.value]
    cases = sum(claim["cases"] for claim in board if claim["complete"])
    sampled = [claim["layer"] for claim in claims if claim["layer"] and not claim["complete"]]
    scope = f"for every input, but for samples of layer {', '.join(sampled)}" if sampled else "for every input"
    return [f"shown {scope}, by {cases:,} cases on the board, under {len(proof['assumptions'])} stated assumptions"]


def _diagnosis(network: Network, found: Diagnosis) -> dict[str, Any]:
    """The sentence, and the hypotheses: all that explain everything, and the nearest."""
    shown = found.ranked[: max(len(found.complete), 5)]
    return {
        "layer": network.layers[found.layer].name,
        "text": found.text,
        "differing": found.total,
        "looked_at": found.differing,
        "hypotheses": [_hypothesis(hypothesis, found) for hypothesis in shown],
    }


def _hypothesis(hypothesis: Hypothesis, found: Diagnosis) -> dict[str, Any]:
    return {
        "cause": hypothesis.cause,
        "right": hypothesis.right,
        "explains_all": hypothesis in found.complete,
        "explained": hypothesis.explained,
        "of": found.differing,
        "contradicted": hypothesis.contradicted,
        "example": dataclasses.asdict(hypothesis.example) if hypothesis.example else None,
    }


def _picture(job: Job, portrait: Portrait) -> dict[str, Any]:
    """A layer's portrait; the map as one line of counts a row, which is shorter than lists of numbers."""
    layer = job.network.layers[portrait.layer]
    columns, rows = map_shape(job.stimuli.count, layer.width)
    empty = (0,) * rows
    lines = zip(*(portrait.cells.get(column, empty) for column in range(columns)), strict=True)
    return {
        "layer": layer.name,
        "vectors": job.stimuli.count,
        "units": layer.width,
        "map": [" ".join(map(str, line)) for line in lines],
        "steps": list(portrait.steps),
        "tie_distances": list(portrait.tie_distances),
    }


def _revision() -> str | None:
    """The checkout's commit, with a mark if files differ from it; None outside a checkout."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
