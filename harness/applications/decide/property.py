"""Properties of a network over its operational design domain, read from a YAML file.

    property: similar-to-table        the network's advisory is one of the table's advisories at the corners of the box
    table: coc.npz                    axes, cuts and advisories; relative to this file
    network_ties: first               of equal scores: first, last or all; default: the rule of the model's ArgMax
    table_ties: all                   of equal scores in the table: all are allowed (default), or the first

    property: robust                  the network has one advisory in each box
    axes:
      - {name: rho, unit: ft, cuts: [0, 500, 1000]}
      - {name: theta, unit: rad, from: -pi, to: pi, intervals: 40, wraps: true}

    property: output-in               no output is in the half-spaces of the VNN-LIB file
    vnnlib: property_3.vnnlib         its bounds of the inputs are the box, unless `axes` are stated

An advisory is the index of the greatest score (the least, if the model ends with ArgMin).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from harness.applications.decide import vnnlib
from harness.applications.decide.code_network import CodeNetwork
from harness.applications.decide.partition import Axis, Sets
from harness.core import strict_yaml
from harness.core.arrays import UNREADABLE
from harness.core.document import first_error
from harness.core.errors import RequestError
from harness.core.safe_io import read_file

Ties: TypeAlias = Literal["first", "last", "all"]
ROBUST, TABLE, OUTPUT = "robust", "similar-to-table", "output-in"
MOST_DECISIONS, MOST_OF_BOUNDS = 8, vnnlib.MOST_ALTERNATIVES + 1
"""The decisions for which the engine has room, and those for which sets of 64 bits have."""
S = TypeVar("S", bound=np.unsignedinteger[Any])


@dataclass(frozen=True)
class Rule:
    """The decisions of a vector of scores: the index of the extreme score, or comparisons of scores.

    Without `half_spaces` it is the index of the greatest (or least) score; of equal ones the first, the last or all.
    With them, decision d occurs if all comparisons of half-space d hold, and the last one if no half-space has it.
    """

    greatest: bool = True
    ties: Ties = "first"
    half_spaces: tuple[tuple[vnnlib.Comparison, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class Property:
    """A property: the boxes, the decisions, and which of these each box allows.

    `allowed` has a set for each box, or for all; None if any single decision is allowed.  `names` are those of the
    decisions.  `sha256` has the hash of each file that states it, by its path from the folder of the property file.
    """

    kind: str
    axes: tuple[Axis, ...]
    physical: bool
    rule: Rule
    names: tuple[str, ...]
    allowed: npt.NDArray[np.unsignedinteger[Any]] | None
    text: str
    sha256: dict[str, str]

    def forbidden(self, decisions: npt.NDArray[S]) -> npt.NDArray[S]:
        """Return, for the decisions of each box, those of which one violates the property; 0 where it holds."""
        if self.allowed is None:
            return np.where(np.bitwise_count(decisions) > 1, decisions, decisions.dtype.type(0))
        excluded = ~self.allowed.astype(decisions.dtype, copy=False)
        found: npt.NDArray[S] = np.bitwise_and(decisions, excluded, dtype=decisions.dtype)
        return found


class _AxisText(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    unit: str = ""
    cuts: list[float | str] | None = None
    start: float | str | None = Field(default=None, alias="from")
    stop: float | str | None = Field(default=None, alias="to")
    intervals: Annotated[int, Field(ge=1, le=65535)] | None = None
    wraps: bool = False

    def axis(self) -> Axis:
        """Return the axis; RequestError unless it has cuts, or two ends and a number of intervals."""
        match (self.cuts, self.start, self.stop, self.intervals):
            case (list(stated), None, None, None):
                cuts = tuple(_number(self.name, cut) for cut in stated)
            case (None, float() | str() as start, float() | str() as stop, int(intervals)):
                low, high = _number(self.name, start), _number(self.name, stop)
                cuts = tuple(low + (high - low) * j / intervals for j in range(intervals + 1))
            case _:
                raise RequestError(f"axis {self.name}: state `cuts`, or `from`, `to` and `intervals`")
        return Axis(self.name, self.unit, cuts, self.wraps)


class _Text(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Table(_Text):
    property: Literal["similar-to-table"]
    table: str
    network_ties: Ties | None = None
    table_ties: Literal["first", "all"] = "all"


class _Robust(_Text):
    property: Literal["robust"]
    axes: list[_AxisText]
    network_ties: Ties | None = None


class _Output(_Text):
    property: Literal["output-in"]
    vnnlib: str
    axes: list[_AxisText] | None = None


_ANY: TypeAdapter[_Table | _Robust | _Output] = TypeAdapter(
    Annotated[_Table | _Robust | _Output, Field(discriminator="property")]
)


def type_of_sets(decisions: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the type of sets of so many decisions."""
    return np.dtype(np.uint8 if decisions <= MOST_DECISIONS else np.uint64)


def read(path: Path, network: CodeNetwork, most: int = MOST_DECISIONS) -> Property:
    """Read a property of at most `most` decisions; RequestError names the file, the entry and the valid choices."""
    try:
        text = _bytes(path).decode()
        stated = _ANY.validate_python(strict_yaml.load(text, path))
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{path}: it is not in UTF-8: {error}", "see docs/decide-a-property.md for the form"
        ) from error
    except ValidationError as error:
        raise RequestError(
            f"{path}: {first_error(error, path.name)}",
            f"property: {ROBUST}, {TABLE} or {OUTPUT}; see docs/decide-a-property.md",
        ) from error
    sha256 = {path.name: _sha256(path)}
    if isinstance(stated, _Output):
        return _output_in(path, stated, network, text, sha256, most)
    if network.outputs > most:
        raise RequestError(
            f"model {network.name!r} has {network.outputs} scores",
            f"there is room for {most} decisions, with --bounds for {MOST_OF_BOUNDS}",
        )
    choice = network.choice
    ties: Ties = "last" if choice is not None and choice.last else "first"
    rule = Rule(choice is None or choice.largest, stated.network_ties or ties)
    if isinstance(stated, _Robust):
        axes = tuple(each.axis() for each in stated.axes)
        return Property(ROBUST, axes, True, rule, network.names, None, text, sha256)
    file = _beside(path, stated.table)
    axes, best = table(file, network.names)
    if stated.table_ties == "first":
        best &= -best.astype(np.int16).astype(np.uint8)
    return Property(TABLE, axes, True, rule, network.names, corners(best), text, sha256 | {stated.table: _sha256(file)})


def table(path: Path, decisions: Sequence[str]) -> tuple[tuple[Axis, ...], Sets]:
    """Return axes and points of a table: .npz with `axes`, `units`, `wraps`, `cuts_0` ... and `advisories`.

    `advisories` is uint8, one number of cuts a dimension: the set of the best advisories at each point, a bit each.
    """
    hint = "write it with `python -m models.acas advisories`; docs/decide-a-property.md states its arrays"
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names, units, wraps = (arrays[key] for key in ("axes", "units", "wraps"))
            cuts = [arrays[f"cuts_{index}"].astype(np.float64) for index in range(len(names))]
            best, outputs = arrays["advisories"], [str(name) for name in arrays["names"]]
        vectors = len(names) == len(units) == len(wraps) and all(cut.ndim == 1 for cut in cuts)
    except UNREADABLE as error:
        raise RequestError(f"cannot read the table {path}: {error}", hint) from error
    shape = tuple(cut.size for cut in cuts)
    if best.dtype != np.uint8 or best.shape != shape or not vectors:
        raise RequestError(f"{path}: advisories are {best.dtype} {best.shape}, the cuts give uint8 {shape}", hint)
    if outputs != [*decisions]:
        raise RequestError(
            f"{path}: the table has the advisories {', '.join(outputs)}, the model has {', '.join(decisions)}",
            "use the table of this network",
        )
    if not best.all() or (best >> len(outputs)).any():
        raise RequestError(f"{path}: a point has no advisory, or one beyond {len(outputs)}", hint)
    if not all(np.isfinite(cut).all() for cut in cuts):
        raise RequestError(f"{path}: a cut is not finite", hint)
    axes = tuple(
        Axis(str(name), str(unit), tuple(map(Fraction, map(float, each))), bool(wrap))
        for name, unit, wrap, each in zip(names, units, wraps, cuts, strict=True)
    )
    return axes, best


def corners(points: Sets) -> Sets:
    """Return the union of the sets at the corners of each box, for the sets at all points of a grid."""
    for axis in range(points.ndim):
        below, above = (np.take(points, range(side, points.shape[axis] - 1 + side), axis) for side in (0, 1))
        points = below | above
    return points


def _output_in(
    path: Path, stated: _Output, network: CodeNetwork, text: str, sha256: dict[str, str], most: int
) -> Property:
    file = _beside(path, stated.vnnlib)
    found = vnnlib.read(file, network.inputs, network.outputs)
    sha256 = sha256 | {stated.vnnlib: _sha256(file)}
    if (alternatives := len(found.half_spaces)) >= most:
        raise RequestError(
            f"{file}: {alternatives} alternatives", f"at most {most - 1}, with --bounds {MOST_OF_BOUNDS - 1}"
        )
    if stated.axes is not None:
        if any(bound is not None for ends in found.bounds for bound in ends):
            raise RequestError(f"{file}: it bounds inputs, and {path} states axes", "state one of them")
        axes = tuple(each.axis() for each in stated.axes)
    else:
        axes = tuple(_bounded(file, f"X_{index}", ends) for index, ends in enumerate(found.bounds))
    names = tuple(f"alternative {index + 1}" for index in range(alternatives))
    allowed = type_of_sets(alternatives + 1).type(1 << alternatives)
    rule = Rule(half_spaces=found.half_spaces)
    return Property(OUTPUT, axes, stated.axes is not None, rule, (*names, "none"), np.array(allowed), text, sha256)


def _bounded(path: Path, name: str, ends: Sequence[Fraction | None]) -> Axis:
    low, high = ends
    if low is None or high is None:
        raise RequestError(f"{path}: {name} has no {'lower' if low is None else 'upper'} bound", "bound every input")
    return Axis(name, "", (low, high))


def _number(name: str, value: float | str) -> Fraction:
    """Return a number or a multiple of pi, such as 0.5, "-pi" or "pi/4", as a rational number; pi is the float64."""
    text = str(value).replace(" ", "")
    factor, pi, divisor = text.partition("pi")
    try:
        if not pi:
            return vnnlib.number(text)
        sign = {"": 1, "-": -1, "+": 1}
        multiple = (sign.get(factor) or vnnlib.number(factor.rstrip("*"))) * Fraction(math.pi)
        quotient = multiple / vnnlib.number(divisor.removeprefix("/")) if divisor else multiple
        float(quotient)
    except (ValueError, ArithmeticError) as error:
        raise RequestError(
            f"axis {name}: {str(value)[: vnnlib.SHOWN]!r} is no finite number", "for example 250, 0.5, -pi or pi/4"
        ) from error
    return quotient


def _beside(path: Path, stated: str) -> Path:
    """Return the file that a property states; RequestError unless it is in the property's folder or below."""
    if Path(stated).is_absolute() or ".." in Path(stated).parts:
        raise RequestError(
            f"{path}: {stated!r} is outside the folder of the property",
            "put it beside the property: a decision copies both",
        )
    return path.parent / stated


def _bytes(path: Path) -> bytes:
    try:
        return read_file(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"cannot read {path}: {reason}", "name a property file") from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(_bytes(path)).hexdigest()


def values_of(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """Return the axes as JSON types; cuts are the nearest float64."""
    return [
        {"name": axis.name, "unit": axis.unit, "wraps": axis.wraps, "cuts": [float(cut) for cut in axis.cuts]}
        for axis in axes
    ]
