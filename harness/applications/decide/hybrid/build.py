"""The hybrid architecture of a decided network, from its description and the decision.

    architecture: hybrid
    model: acas_coc.onnx
    property: acas_coc.property.yaml        the one that was decided
    safety_net:
      table: acas_coc.table.npz             covers the domain of the property
      interpolation: nearest                the advisory at the nearest point of the table
    freshness: {name: age, unit: s, limit: 1.0}      optional: one more input, fresh from 0 to the limit

Paths are relative to the file of the description.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import model
from harness.applications.decide import certificate
from harness.applications.decide import property as properties
from harness.applications.decide.entries import DecisionDocument
from harness.applications.decide.hybrid.network import Architecture, Freshness, with_architecture
from harness.applications.decide.job import Stated, read_stated
from harness.applications.decide.partition import Axis, Partition
from harness.core import strict_yaml
from harness.core.errors import RequestError
from harness.core.safe_io import read_input_text
from harness.model.network import Network

ABOUT = "docs/hybrid-architecture.md describes the form"


class _Entries(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _SafetyNet(_Entries):
    table: str
    interpolation: Literal["nearest"]


class _Freshness(_Entries):
    name: Annotated[str, Field(min_length=1)]
    unit: str
    limit: Annotated[float, Field(gt=0, le=1e30)]


class Description(_Entries):
    """The description; paths are relative to its file."""

    architecture: Literal["hybrid"]
    model: str
    property: str
    safety_net: _SafetyNet
    freshness: _Freshness | None = None


@dataclass(frozen=True, eq=False)
class Hybrid:
    """The network with its architecture as the bytes of an ONNX file, and the decision that it is made from.

    `safe_share` is the share of the domain's volume, in physical units, in safe boxes.
    """

    onnx_bytes: bytes
    source: Network
    document: DecisionDocument
    safe_share: float


def build(path: Path, decision: Path) -> Hybrid:
    """Return the hybrid network of a description.

    `decision` is the folder of a finished decision, or a certificate with its packed decisions beside it.
    RequestError if the decision is not finished, or is that of another model, property or domain, and if the table of
    the safety net does not cover the domain.
    """
    description = read(path)
    network = model.load(path.parent / description.model)
    stated = read_stated(path.parent, network, path.parent / description.property)
    document, decisions = certificate.read(decision, stated)
    _require_ties(stated, network)
    table_file = path.parent / description.safety_net.table
    axes, points = properties.table(table_file, stated.network.names)
    _require_covered(stated.partition.axes, axes, table_file)
    unsafe = stated.stated.forbidden(decisions) != 0
    freshness = description.freshness
    limit = np.float32(freshness.limit) if freshness else np.float32(0)
    architecture = Architecture(
        cuts=[_normalised(stated.partition, number, axis.cuts) for number, axis in enumerate(stated.partition.axes)],
        wraps=[axis.wraps for axis in stated.partition.axes],
        unsafe=unsafe,
        thresholds=[
            _normalised(stated.partition, number, [(low + high) / 2 for low, high in itertools.pairwise(axis.cuts)])
            for number, axis in enumerate(axes)
        ],
        advisories=points,
        freshness=Freshness(freshness.name, freshness.unit, limit) if freshness else None,
    )
    provenance = {
        "model_sha256": network.sha256,
        "property_sha256": document.property.sha256,
        "decisions_sha256": document.decisions_sha256,
        "table_sha256": hashlib.sha256(table_file.read_bytes()).hexdigest(),
        "description": path.read_text(encoding="utf-8"),
    }
    made = with_architecture(network, architecture, {"architecture": json.dumps(provenance, sort_keys=True)})
    share = _share(~unsafe, stated.partition.axes)
    return Hybrid(made.SerializeToString(deterministic=True), network, document, share)


def read(path: Path) -> Description:
    """Read a description; RequestError names the file, the entry and the valid choices."""
    try:
        text = read_input_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"cannot read {path}: {error}", ABOUT) from error
    try:
        return Description.model_validate(strict_yaml.load(text, path))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"])) or "the file"
        raise RequestError(f"{path}: {where}: {strict_yaml.in_its_words(wrong)}", ABOUT) from error


def _require_ties(stated: Stated, network: Network) -> None:
    choice, ties = stated.network.choice, stated.stated.rule.ties
    own = "last" if choice is not None and choice.last else "first"
    if ties not in ("all", own):
        raise RequestError(
            f"the property takes the {ties} of equal scores, {network.layers[-1].operator} of the model the {own}",
            "decide with network_ties: all, or that of the model",
        )


def _require_covered(domain: Sequence[Axis], table: Sequence[Axis], file: Path) -> None:
    if [(axis.name, axis.unit) for axis in domain] != [(axis.name, axis.unit) for axis in table]:
        raise RequestError(
            f"{file} has the axes {', '.join(axis.name for axis in table)}, the property "
            f"{', '.join(axis.name for axis in domain)}",
            "give the table of the same inputs, in the same units and order",
        )
    for axis, of_table in zip(domain, table, strict=True):
        if of_table.cuts[0] > axis.cuts[0] or of_table.cuts[-1] < axis.cuts[-1]:
            low, high = (float(of_table.cuts[end]) for end in (0, -1))
            raise RequestError(
                f"{file} covers {axis.name} from {low:.9g} to {high:.9g} {axis.unit}, the domain is "
                f"{float(axis.cuts[0]):.9g} to {float(axis.cuts[-1]):.9g}",
                "give a table that covers the domain",
            )


def _normalised(partition: Partition, number: int, values: Sequence[Fraction]) -> npt.NDArray[np.float32]:
    return np.array([partition.normalise(number, value) for value in values], np.float32)


def _share(safe: npt.NDArray[np.bool_], axes: Sequence[Axis]) -> float:
    """Return the share of the volume of the domain in safe boxes."""
    share: npt.NDArray[np.float64] = safe.astype(np.float64)
    for axis in reversed(axes):
        cuts = np.array([float(cut) for cut in axis.cuts])
        share = share @ (np.diff(cuts) / (cuts[-1] - cuts[0]))
    return float(share)
