"""What a run came to: all finished chunks as one document, the content of `run.json`."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from harness import __version__, evidence, targets
from harness.compare import NOTHING, Comparison
from harness.diagnosis import Diagnosis
from harness.errors import BoardError, InfrastructureError
from harness.jobs import Job, Request, command_line
from harness.network import Network
from harness.plan import Plan
from harness.profile import Profile
from harness.workspace import ROOT


def conclude(job: Job, environment: dict[str, str], setup: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole run as JSON types; BoardError if any activation was not compared."""
    records = list(job.folder.chunks())
    totals = _totals(job, [record.layers for record in records])
    differing = [layer.name for layer, total in zip(job.network.layers, totals, strict=True) if total.differing]
    finished = evidence.now()
    wall_s = (finished - job.started).total_seconds()
    return {
        "schema": 1,
        "harness": {"version": __version__, "revision": _revision()},
        "started": f"{job.started:%Y-%m-%dT%H:%M:%SZ}",
        "finished": f"{finished:%Y-%m-%dT%H:%M:%SZ}",
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
        "chunk": job.request.chunk,
        "fetch": job.request.fetch,
        "layers": [_layer(job, index, total) for index, total in enumerate(totals)],
        "verdict": "differs" if differing else "identical",
        "reason": _reason(job.stimuli.count, differing, totals),
        "diagnosis": _diagnosis(job.network, [record.diagnosis for record in records if record.diagnosis]),
        "wall_s": round(wall_s, 3),
        "vectors_per_s": round(job.stimuli.count / wall_s, 1),
    }


def summary(document: dict[str, Any], folder: str) -> dict[str, Any]:
    """The part of the document that `--json` prints."""
    kept = ("verdict", "reason", "layers", "diagnosis", "wall_s")
    return {key: document[key] for key in kept} | {
        "board": document["board"]["name"],
        "board_kind": document["board"]["kind"],
        "model": document["model"]["name"],
        "vectors": document["stimuli"]["count"],
        "run": folder,
    }


def inconclusive(request: Request, error: InfrastructureError, folder: str | None) -> dict[str, Any]:
    """What `--json` prints when a part that the result depends on failed."""
    return {
        "verdict": "inconclusive",
        "reason": f"{error.part}: {error.message}",
        "hint": error.hint,
        "layers": [],
        "board": request.board,
        "model": request.model,
        "vectors": 0,
        "run": folder,
    }


def kind(board: Profile) -> str:
    """Whether a run reaches `emulated`, `hardware` or `this machine`."""
    return "emulated" if board.emulated else "this machine" if board.local else "hardware"


def plan_document(made: Plan, board: Profile) -> dict[str, Any]:
    """The plan as JSON types."""
    layers = made.network.layers
    items = [
        {
            "name": item.name,
            "target": item.target,
            "core": item.core,
            "ran_on": targets.find(item.target).ran_on(board),
            "layers": [layer.name for layer, owner in zip(layers, made.owner, strict=True) if owner == index],
        }
        for index, item in enumerate(made.items)
    ]
    barriers = [{"name": b.name, "items": [made.items[i].name for i in b.items]} for b in made.barriers]
    return {"board": made.board, "model": made.network.name, "block": made.block, "items": items, "barriers": barriers}


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


def _layer(job: Job, index: int, total: Comparison) -> dict[str, Any]:
    layer, item = job.network.layers[index], job.plan.items[job.plan.owner[index]]
    read = [other.name for other in job.network.layers if other.output in layer.sources]
    return {
        "index": index,
        "name": layer.name,
        "operator": layer.operator,
        "reads": read,
        "item": item.name,
        "target": item.target,
        "ran_on": targets.find(item.target).ran_on(job.profile),
        "compared": total.compared,
        "differing": total.differing,
        "first_difference": dataclasses.asdict(total.first) if total.first else None,
    }


def _reason(vectors: int, differing: Sequence[str], totals: Sequence[Comparison]) -> str:
    compared = sum(total.compared for total in totals)
    scope = f"{compared:,} activations of {len(totals)} layers over {vectors:,} vectors"
    if not differing:
        return f"all {scope} are bit for bit those of the reference"
    return f"{sum(total.differing for total in totals):,} of {scope} differ, first in layer {differing[0]}"


def _diagnosis(network: Network, found: Sequence[Diagnosis]) -> dict[str, Any] | None:
    if not found:
        return None
    diagnosis = reduce(Diagnosis.__add__, found)
    ranked = [dataclasses.asdict(h) | {"of": diagnosis.differing} for h in diagnosis.ranked[:5]]
    return {"layer": network.layers[diagnosis.layer].name, "text": diagnosis.text, "hypotheses": ranked}


def _revision() -> str | None:
    """The checkout's commit, with a mark if files differ from it; None outside a checkout."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
