"""A certificate: the document of a finished decision, with the decisions of all boxes, without its slabs."""

from __future__ import annotations

import hashlib
import io
import lzma
import math
from pathlib import Path

import numpy as np

from harness.applications.decide.entries import BOUNDS, DecisionDocument
from harness.applications.decide.job import DECISIONS, DOCUMENT, Stated, counts_of, is_by_bounds, verdict_of
from harness.applications.decide.partition import Sets
from harness.core import strict_json
from harness.core.errors import RequestError
from harness.core.safe_io import read_input

PACKED = ".decisions.xz"
"""Suffix of the decisions of a certificate NAME.json, compressed: the bytes of `decisions.npy` behind its header."""


def consistent(path: Path) -> DecisionDocument:
    """Read a certificate whose slabs cover the domain and whose counts and verdict fit; RequestError otherwise."""
    document = DecisionDocument.read(path)
    counts, partition = document.counts, document.partition
    if not 0 <= document.slab_axis < len(partition.axes):
        raise RequestError(f"{path}: it has no axis {document.slab_axis}")
    low, high = partition.axes[document.slab_axis].codes
    codes = [code for slab in document.slabs for code in range(max(slab.first, low), min(slab.last, high) + 1)]
    of_a_code = (partition.code_vectors or 0) // max(1, high - low + 1)
    sizes = [of_a_code * (slab.last - slab.first + 1) for slab in document.slabs]
    for holds, wrong in (
        (codes == [*range(low, high + 1)], "its slabs do not cover the domain once"),
        ([slab.code_vectors for slab in document.slabs] == sizes, "a slab has another number of code vectors"),
        (counts.safe + counts.violated + counts.undecided == partition.boxes, "its counts are not the boxes"),
        (verdict_of(counts) == document.verdict, "its verdict does not follow from its counts"),
    ):
        if not holds:
            raise RequestError(f"{path}: {wrong}", "copy it again from its source")
    return document


def read(decision: Path, stated: Stated) -> tuple[DecisionDocument, Sets]:
    """Return the document and the decisions of each box, both checked against model, property and domain.

    `decision` is the folder of a finished decision, or a certificate NAME.json with NAME.decisions.xz beside it.
    RequestError for a decision of something else, and for counts or hashes that are not those of the decisions.
    """
    is_folder = decision.is_dir()
    file = decision / DOCUMENT if is_folder else decision
    if is_folder and is_by_bounds(decision):
        raise RequestError(f"{decision}: a decision by {BOUNDS} may leave boxes open", "enumerate: harness decide")
    if not file.is_file():
        hint = (
            f"harness decide --resume {decision}" if is_folder else "give a folder of harness decide, or a decide.json"
        )
        raise RequestError(f"{decision}: there is no finished decision", hint)
    document = DecisionDocument.read(file) if is_folder else consistent(file)
    partition = stated.entries["partition"]
    for what, found, expected in (
        ("model", document.model.sha256, stated.network.sha256),
        ("property", sorted(document.property.sha256.values()), sorted(stated.stated.sha256.values())),
        ("domain", strict_json.text(document.partition.to_json()), strict_json.text(partition.to_json())),
    ):
        if found != expected:
            raise RequestError(
                f"{file} is the decision of another {what} than {stated.network.name} has here",
                f"decide it: harness decide --model {stated.network.name}",
            )
    sets_file = decision / DECISIONS if is_folder else decision.with_suffix(PACKED)
    decisions = _decisions(sets_file, stated.partition.shape, packed=not is_folder)
    if hashlib.sha256(decisions.tobytes()).hexdigest() != document.decisions_sha256:
        raise RequestError(f"{sets_file}: these are not the decisions of {file}", "copy the file again from its source")
    if counts_of(stated.stated, decisions) != document.counts or document.counts.undecided:
        raise RequestError(f"{file}: its counts are not those of the decisions", "check it: harness verify")
    return document, decisions


def _decisions(file: Path, shape: tuple[int, ...], *, packed: bool) -> Sets:
    try:
        content = read_input(file)
        if packed:
            sets = lzma.LZMADecompressor().decompress(content, max_length=math.prod(shape) + 1)
            decisions: Sets = np.frombuffer(sets, np.uint8).reshape(shape)
        else:
            decisions = np.load(io.BytesIO(content), allow_pickle=False)
    except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
        raise RequestError(f"cannot read {file}: {error}", "copy it again from its source") from error
    if decisions.shape != shape or decisions.dtype != np.uint8:
        raise RequestError(f"{file}: {decisions.dtype} {decisions.shape}, not a set for each of {shape} boxes")
    return decisions
