"""Finished decisions of acas_coc with planted decisions of boxes, without the engine."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.applications.decide import code_network, slabs
from harness.applications.decide.entries import DecisionDocument, SlabEntry
from harness.applications.decide.job import (
    DECISIONS,
    DOCUMENT,
    MODEL,
    PROPERTY,
    REQUEST,
    VIOLATED,
    WITNESSES,
    Job,
    counts_of,
)
from harness.applications.decide.partition import Sets, partition
from harness.applications.decide.property import read
from harness.core.document import write_json
from harness.core.installation import ROOT
from harness.model import load
from harness.model.network import Network

COC, WL, WR, SL, SR = (1 << index for index in range(5))
ROBUST = """\
property: robust
axes:
  - {name: rho, unit: ft, cuts: [0, 500, 1000, 20000]}
  - {name: theta, unit: rad, from: -pi, to: pi, intervals: 4, wraps: true}
  - {name: psi, unit: rad, from: -pi, to: pi, intervals: 2, wraps: true}
  - {name: v_own, unit: ft/s, cuts: [100, 200, 250]}
  - {name: v_int, unit: ft/s, cuts: [0, 100, 200]}
"""
TABLE = "property: similar-to-table\ntable: table.npz\n"
OUTPUT = ROBUST.replace("robust", "output-in\nvnnlib: far.vnnlib")
VNNLIB = "".join(f"(declare-const X_{index} Real)\n(declare-const Y_{index} Real)\n" for index in range(5))
VNNLIB += "(assert (<= Y_0 Y_1))\n"


@functools.cache
def network() -> Network:
    return load(ROOT / "models" / "acas_coc.onnx")


def table(path: Path, advisories: Sets) -> None:
    """Write a table with these advisories at its points: five dimensions, rho to 1000 ft a step."""
    count = advisories.shape
    cuts = [1000.0 * np.arange(count[0]), *(np.linspace(-np.pi, np.pi, each) for each in count[1:3])]
    cuts += [100 + 10.0 * np.arange(count[3]), 10.0 * np.arange(count[4])]
    np.savez_compressed(
        path,
        allow_pickle=False,
        advisories=advisories,
        names=np.array(["COC", "WL", "WR", "SL", "SR"]),
        axes=np.array(["rho", "theta", "psi", "v_own", "v_int"]),
        units=np.array(["ft", "rad", "rad", "ft/s", "ft/s"]),
        wraps=np.array([False, True, True, False, False]),
        **{f"cuts_{index}": each for index, each in enumerate(cuts)},
    )


def decided(
    path: Path, text: str, planted: Mapping[tuple[int, ...], int], advisories: Sets | None = None, others: int = COC
) -> tuple[Job, DecisionDocument, Sets]:
    """Write a decision of a property: the planted decisions of some boxes, and those of all other boxes.

    A witness has the last code of each interval.
    """
    (path / PROPERTY).mkdir(parents=True)
    (path / PROPERTY / "property.yaml").write_text(text)
    (path / PROPERTY / "far.vnnlib").write_text(VNNLIB)
    if advisories is not None:
        table(path / PROPERTY / "table.npz", advisories)
    (path / MODEL).write_bytes(network().onnx_bytes)
    codes = code_network.named(code_network.of(network()), "acas_coc")
    stated = read(path / PROPERTY / "property.yaml", codes)
    boxes = partition(stated.axes, codes, network().normalisation)
    axis = slabs.slab_axis(boxes)
    job = Job(path, codes, stated, boxes, axis, 8)
    sets = np.full(boxes.shape, others, np.uint8)
    for box, decisions in planted.items():
        sets[box] = decisions
    violated = np.argwhere(stated.forbidden(sets))
    last = np.stack([each.last[violated[:, index]] for index, each in enumerate(boxes.codes)], 1).astype(np.uint8)
    np.save(path / DECISIONS, sets)
    inputs = boxes.inputs(violated, last, codes)
    np.savez_compressed(path / WITNESSES, boxes=violated.astype(np.uint16), codes=last, inputs=inputs)
    write_json(path / REQUEST, job.request)
    document = DecisionDocument(
        **dict(job.request),
        harness={"version": "1.0", "revision": None},
        verdict=VIOLATED if len(violated) else "safe",
        counts=counts_of(stated, sets),
        slabs=[
            SlabEntry(
                first=task.first,
                last=task.last,
                code_vectors=task.code_vectors,
                decisions_sha256=hashlib.sha256(bytes([task.first])).hexdigest(),
                time_s=1.5,
                kernel="avx512-vnni",
                engine_sha256="ab" * 32,
                machine="desk",
            )
            for task in job.tasks
        ],
        decisions_sha256=hashlib.sha256(sets.tobytes()).hexdigest(),
        witnesses_sha256=hashlib.sha256((path / WITNESSES).read_bytes()).hexdigest(),
        began="2026-11-26T06:00:00+00:00",
        wall_s=20.0,
        cpu_s=30.0,
        code_vectors_per_s=90_000_000,
    )
    write_json(path / DOCUMENT, document)
    return job, document, sets
