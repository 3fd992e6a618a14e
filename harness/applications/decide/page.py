"""HTML page of a decision: its counts, its certificate, and a map of all boxes that it contains itself."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import model
from harness.applications.decide.bounded import REACHED
from harness.applications.decide.bounded import opened as opened_by_bounds
from harness.applications.decide.code_network import CODES
from harness.applications.decide.entries import BoundsDocument, DecisionDocument
from harness.applications.decide.job import DECISIONS, DOCUMENT, MODEL, WITNESSES, Job, Stated, is_by_bounds, opened
from harness.applications.decide.partition import AnySets, Sets
from harness.applications.decide.property import OUTPUT, ROBUST, TABLE, values_of
from harness.core.errors import RequestError
from harness.report.page import Check, environment, label_cells, python, script, sha256sum

PACKAGE = "harness.applications.decide"
FIRST_WITNESSES = 20
"""Witnesses that the page lists; the map has all of them."""
MOST_AXES_OF_A_ROW = 16
"""Witnesses of a domain with more axes are not listed."""

MEANINGS = {
    ROBUST: "A box is safe if the network has one decision in it",
    TABLE: "A box is safe if each decision of the network in it is a decision of the table at a corner of the box",
    OUTPUT: "A box is safe if no output in it is in the half-spaces of the VNN-LIB file",
}

STUDY_BOXES = 7_356_800
STUDY = {
    "acas_coc": (73, 0, 27),
    "acas_wl": (56, 0, 44),
    "acas_sl": (73, 3, 23),
    "acas_wr": (66, 4, 30),
    "acas_sr": (74, 4, 22),
}
"""Percentage of safe, unsafe and unknown boxes by previous advisory: table II of the ACAS-Xu study (PyRAT)."""

# With `python3 -c`, in the folder of a decision.
_PRINT_WITNESSES = """\
import numpy
found = numpy.load("witnesses.npz")
for box, codes, values in zip(*(found[name] for name in ("boxes", "codes", "inputs"))):
    print(box, codes, values)
"""


def page(folder: Path) -> str:
    """Return the page of the finished decision in a folder; RequestError if there is none, or it is damaged."""
    if not (folder / DOCUMENT).is_file():
        raise RequestError(f"{folder}: no finished decision", f"continue it: harness decide --resume {folder}")
    if is_by_bounds(folder):
        return html_of_bounds(opened_by_bounds(folder), BoundsDocument.read(folder / DOCUMENT))
    return html(opened(folder), DecisionDocument.read(folder / DOCUMENT))


def html(job: Job, document: DecisionDocument) -> str:
    """Return the page of a finished decision; RequestError if its files are not those of the document."""
    stated = job.stated
    sets: Sets = np.load(job.path / DECISIONS, allow_pickle=False)
    _require(job.path / DECISIONS, sets.tobytes(), document.decisions_sha256)
    _require(job.path / WITNESSES, (job.path / WITNESSES).read_bytes(), document.witnesses_sha256)
    boxes, codes, values = _witnesses(job)
    forbidden = stated.forbidden(sets)
    by_decision = {name: int(np.count_nonzero(forbidden & (1 << bit))) for bit, name in enumerate(stated.names)}
    return _rendered(
        job,
        document,
        enumerated=True,
        violated_by=by_decision if stated.allowed is not None else {},
        panels=_panels(stated.kind),
        study=STUDY.get(document.model.name) if _as_in_the_study(document) else None,
        study_boxes=STUDY_BOXES,
        kernels=sorted({slab.kernel for slab in document.slabs}),
        machines=sorted({slab.machine for slab in document.slabs}),
        slab_axis=document.partition.axes[document.slab_axis].name,
        witnesses=_first(job, [_names(job, forbidden[tuple(box)]) for box in boxes[:FIRST_WITNESSES]]),
        witness_count=len(boxes),
        polar=[(axis.name, axis.unit) for axis in stated.axes[:2]] == [("rho", "ft"), ("theta", "rad")],
        map=json.dumps(map_data(job, sets, boxes, codes, values), separators=(",", ":")),
        script=script("tables.js", "map.js", package=PACKAGE),
    )


def html_of_bounds(job: Stated, document: BoundsDocument) -> str:
    """Return the page of a finished decision by bounds; RequestError if its files are not those of the document."""
    reached: AnySets = np.load(job.path / REACHED, allow_pickle=False)
    _require(job.path / REACHED, reached.tobytes(), document.reached_sha256)
    _require(job.path / WITNESSES, (job.path / WITNESSES).read_bytes(), document.witnesses_sha256)
    boxes = _witnesses(job)[0]
    shown = boxes[:FIRST_WITNESSES] if boxes.shape[1] <= MOST_AXES_OF_A_ROW else boxes[:0]
    numbers = job.partition.numbers(shown)
    return _rendered(
        job,
        document,
        enumerated=False,
        violated_by={},
        witnesses=_first(job, [_names(job, int(reached[number])) for number in numbers]),
        witness_count=len(boxes),
        script=script("tables.js"),
    )


def _rendered(job: Stated, document: DecisionDocument | BoundsDocument, **more: Any) -> str:
    page = environment(PACKAGE).get_template("decision.html.jinja")
    common = {
        "run": document,
        "schema": document.schema_number,
        "document_name": DOCUMENT,
        "meaning": MEANINGS[job.stated.kind],
        "checks": _checks(document),
    }
    return label_cells(page.render(**common, **more))


def _witnesses(job: Stated) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Return intervals, codes and physical values, (n, axes) each."""
    with np.load(job.path / WITNESSES, allow_pickle=False) as found:
        return found["boxes"], found["codes"], _physical(job, found["inputs"])


def _first(job: Stated, names: list[str]) -> list[tuple[Any, ...]]:
    """Return what the page lists of each witness, with the names of its decisions."""
    return list(zip(names, *(rows[: len(names)] for rows in _witnesses(job)), strict=True))


def map_data(
    job: Job, sets: Sets, boxes: npt.NDArray[np.uint16], codes: npt.NDArray[np.uint8], inputs: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """Return the data of the map as JSON types; an array is the base64 text of its bytes, zlib-compressed.

    `boxes`, `codes` and `inputs` (n, axes) are those of the witnesses, in the order of the violated boxes.  `sets` and
    `allowed` have a byte for each box, in C order; `allowed` is a number if all boxes allow the same, None if any
    single decision is allowed.  The codes are stored axis by axis, less the first code of their interval modulo 256.
    The value of a witness on an axis follows from interval and code: `values` has it by interval * 256 + code.
    """
    violated, allowed = job.stated.forbidden(sets) != 0, job.stated.allowed
    plane = math.prod(sets.shape[:2])
    of_slice = violated.reshape(plane, -1)
    most = int(of_slice.sum(axis=0).argmax())  # the slice with the most violated boxes, with which the map starts
    start = np.unravel_index(int(of_slice[:, most].argmax()) * of_slice.shape[1] + most, sets.shape)
    axes, values, offsets = values_of(job.stated.axes), [], np.empty_like(codes)
    for axis, interval_codes in enumerate(job.partition.codes):
        interval = boxes[:, axis].astype(np.int64)
        axes[axis]["first"] = interval_codes.first.tolist()
        offsets[:, axis] = codes[:, axis] - interval_codes.first[interval]
        keys, rows = np.unique(interval * CODES + codes[:, axis], return_index=True)
        values.append({str(key): float(inputs[row, axis]) for key, row in zip(keys, rows, strict=True)})
    return {
        "axes": axes,
        "decisions": job.stated.names,
        "sets": _packed(sets),
        "allowed": allowed if allowed is None else _packed(allowed) if allowed.ndim else int(allowed),
        "codes": _packed(offsets.T),
        "values": values,
        "start": [int(index) for index in start],
    }


def _require(path: Path, content: bytes, sha256: str) -> None:
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RequestError(f"{path} is not the file of the decision", "check it: harness verify has the details")


def _packed(array: Sets) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()


def _physical(job: Stated, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return network inputs in the units of the axes, in seven digits of the largest cut."""
    normalisation = model.load(job.path / MODEL).normalisation if job.stated.physical else None
    values = inputs.astype(np.float64)
    if normalisation is not None:
        values = values * normalisation.range + normalisation.mean
    for index, axis in enumerate(job.stated.axes):
        largest = max(abs(float(cut)) for cut in axis.cuts) or 1.0  # an input that is fixed at 0
        values[:, index] = values[:, index].round(6 - math.floor(math.log10(largest))) + 0.0  # no -0.0
    return values


def _names(job: Stated, decisions: int) -> str:
    return " or ".join(name for index, name in enumerate(job.stated.names) if decisions >> index & 1)


def _panels(kind: str) -> list[tuple[str, str]]:
    """Return key and title of the panels of the map."""
    table = [("allowed", "Allowed: the decisions of the table")] if kind == TABLE else []
    return [("network", "Decisions of the network"), *table, ("violated", "Violated boxes")]


def _as_in_the_study(document: DecisionDocument) -> bool:
    return document.property.kind == TABLE and document.partition.boxes == STUDY_BOXES


def _checks(document: DecisionDocument | BoundsDocument) -> list[Check]:
    """Return the commands that check the decision, in its folder."""
    files = [("model.onnx", document.model.sha256), (WITNESSES, document.witnesses_sha256)]
    files += [(f"property/{name}", sha256) for name, sha256 in document.property.sha256.items()]
    return [
        Check("Decide random slabs and boxes again, with other engines and with ONNX Runtime.", "harness verify ."),
        Check("The model, the property and the witnesses are those of this page.", sha256sum(*files)),
        Check("Print all witnesses: numbers of the box, codes, and input of the network.", python(_PRINT_WITNESSES)),
    ]
