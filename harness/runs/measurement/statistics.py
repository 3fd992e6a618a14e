"""Results of measured executions as JSON types: statistics of times, equality of counts, comparison of runs.

Pure functions of readings; harness.analysis.timing has the statistics.  Nothing is averaged before a maximum is taken,
no execution is dropped but the warm-up that was asked for, and what a sample cannot give is a sentence, not a number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis import timing
from harness.analysis.timing import NotApplicable, NotGiven, Pwcet, Series, Verdict
from harness.core.text import plural
from harness.runs.measurement.parts import MeasuredPart

TIMELINE_POINTS = 400
MOST_DISTURBED = 0.01  # of the readings of a part; a counter that is disturbed more often is not exact
BODY = 0.99  # share of the fastest executions, so that one slow execution does not put all others into one bin

Readings = npt.NDArray[np.uint64] | npt.NDArray[np.int64]


def times(part: MeasuredPart, readings: Readings) -> dict[str, Any]:
    """Return the statistics of one part's execution times, ns (n,), in the order of measurement.

    A detected warm-up after the omitted one is excluded from the extremes, which state this.
    """
    described = timing.describe(readings)
    steady = readings[described.warm_up.executions :] if isinstance(described, Series) else readings
    return dataclasses.asdict(part) | {
        "summary": plain(timing.summarise(readings)),
        "series": plain(described),
        "pwcet": plain(timing.analyse(steady)),
        "pwcet_without": int(readings.size - steady.size),
        "histogram": plain(timing.histogram(readings)),
        "body": plain(timing.histogram(readings[readings <= np.quantile(readings, BODY, method="inverted_cdf")])),
        "tail": tail(readings),
        "timeline": timeline(readings),
    }


def counts(part: MeasuredPart, readings: Readings, overhead: int | None, vectors: int) -> dict[str, Any]:
    """Return statistics of the counts of one part, (n,): equal in all executions, or the extremes.

    The cost of two readings is subtracted once per task if it is constant.  Execution i has vector i % `vectors`; a
    count is `repeatable` if each vector always had the same count.  Disturbances of a counter only increase it: if few
    readings are `disturbed`, all results except `most` use each vector's least count, and these counts are repeatable
    unless disturbances may explain the differences between vectors.
    """
    taken_off = (overhead or 0) * part.tasks
    every = readings.astype(np.int64) - taken_off
    least = least_of_each(every, vectors)
    disturbed = int((every.reshape(-1, vectors) > least).sum())
    trusted = disturbed <= MOST_DISTURBED * every.size
    counted = least if trusted else every
    values, shares = np.unique(counted, return_counts=True)
    most_often = int(values[shares.argmax()])
    differing = int((least != most_often).sum())
    return dataclasses.asdict(part) | {
        "executions": int(every.size),
        "taken_off": taken_off,
        "min": int(values[0]),
        "max": int(values[-1]),
        "distinct": int(values.size),
        "most_often": most_often,
        "first_min": int(counted.argmin()),
        "first_max": int(counted.argmax()),
        "repeatable": trusted and (not disturbed or differing > disturbed),
        "disturbed": disturbed,
        "most": int(every.max()),
    }


def least_of_each(readings: Readings, vectors: int) -> Readings:
    """Return the least reading of every vector, (vectors,) or (vectors, parts), from (n,) or (n, parts)."""
    least: Readings = readings.reshape(-1, vectors, *readings.shape[1:]).min(axis=0)
    return least


def tail(readings: Readings) -> list[list[float]]:
    """Return times, and the share of executions that took as long or longer."""
    return [[point.time_ns, point.share] for point in timing.empirical_tail(readings)]


def timeline(readings: Readings) -> list[list[int]]:
    """Return first execution, minimum, median and maximum of at most TIMELINE_POINTS stretches of the series."""
    starts = np.unique(np.linspace(0, readings.size, TIMELINE_POINTS, endpoint=False).astype(np.int64))
    stretches = zip(starts, np.split(readings, starts[1:]), strict=True)
    return [
        [int(start), int(part.min()), int(np.quantile(part, 0.5, method="lower")), int(part.max())]
        for start, part in stretches
    ]


def against(
    names: Sequence[str], base: Readings, new: Readings, history: Sequence[Readings], *, counted: bool
) -> dict[str, Any]:
    """Compare the parts, columns of (n, parts) readings, with the base; earlier series give the noise.

    `regressed` if any part is slower beyond its gate; a counted event more is a regression.  `too_noisy` names the
    parts whose base is too noisy to decide whether they became slower.
    """
    columns = [
        _compare_counts(base[:, i], new[:, i])
        if counted
        else _compare_times(base[:, i], new[:, i], [one[:, i] for one in history])
        for i in range(len(names))
    ]
    parts = [{"name": name} | column for name, column in zip(names, columns, strict=True)]
    slower = of_verdict(parts, Verdict.SLOWER)
    return {"parts": parts, "regressed": bool(slower), "slower": slower, "too_noisy": too_noisy(parts)}


def levels(medians: npt.NDArray[np.float64], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return the deviation of the medians (runs, parts) between the groups that have two or more members.

    `groups` has for runs, boots and days that of each run.
    """
    found = []
    for between, names in groups.items():
        rows = [medians[[index for index, name in enumerate(names) if name == own]].mean(axis=0) for own in {*names}]
        if len(rows) > 1:
            deviation = float((np.std(rows, axis=0, ddof=1) / np.maximum(np.mean(rows, axis=0), 1.0)).max())
            found.append({"between": between, "count": len(rows), "deviation": deviation})
    return found


def limits(groups: Mapping[str, Sequence[str]], new: Mapping[str, str]) -> list[str]:
    """Return which noise the gate does not contain: between runs, or between boots or days of the bases and `new`."""
    bases = len(groups["runs"])
    if bases < timing.FEWEST_BASES:
        why = f"the gate contains no noise between runs, because it has {plural(bases, 'base')}"
        how = f"name at least {timing.FEWEST_BASES} measurements with --against"
        return [f"{why}: a shift of a few per cent may have no cause; {how}"]
    return [
        f"the gate contains no noise between {between}, because all bases are of one, and this measurement is not"
        for between, names in groups.items()
        if set(names) == {names[0]} != {new.get(between, names[0])}
    ]


def of_verdict(parts: Sequence[Mapping[str, Any]], verdict: Verdict) -> list[str]:
    """Return the names of the compared parts with this verdict."""
    return [part["name"] for part in parts if part.get("verdict") == verdict.value]


def too_noisy(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the compared parts that a noisy base leaves inconclusive."""
    unsure = of_verdict(parts, Verdict.INCONCLUSIVE)
    return [part["name"] for part in parts if part["name"] in unsure and any(map(_is_noisy, part["shifts"]))]


def _is_noisy(shift: Mapping[str, Any]) -> bool:
    """Return whether the shift is inconclusive because of its gate; earlier versions did not record it."""
    return bool(shift.get("too_noisy"))


def _compare_times(base: Readings, new: Readings, history: Sequence[Readings]) -> dict[str, Any]:
    """Return the comparison, and the base's tail for a picture of both."""
    found: dict[str, Any] = plain(timing.compare(base, new, history=history))
    return found | {"base_tail": tail(base)}


def _compare_counts(base: Readings, new: Readings) -> dict[str, Any]:
    """Compare the largest counts: exact counts need no statistics."""
    before, after = int(base.max()), int(new.max())
    verdict = Verdict.SLOWER if after > before else Verdict.FASTER if after < before else Verdict.UNCHANGED
    return {"verdict": verdict.value, "reasons": [f"at most {after:,}, before {before:,}"], "shifts": []}


def plain(value: Any) -> Any:
    """Convert frozen values and numpy scalars to JSON types; infinities and NaN become null.

    A number that is not given is {"not_given": why}, a pWCET that does not apply {"not_applicable": [why, ...]}.
    """
    if isinstance(value, NotGiven):
        return {"not_given": value.reason, "needs": value.needs}
    if isinstance(value, NotApplicable):
        return {"not_applicable": list(value.reasons), "tests": plain(value.tests)}
    if dataclasses.is_dataclass(value):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return fields | _derived(value)
    return _plain_container(value)


def _plain_container(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic):
        return _plain_container(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _derived(value: Any) -> dict[str, Any]:
    """Return values that a reader of the JSON would have to compute again."""
    if isinstance(value, Pwcet):
        return {"law_name": value.law.name, "end_ns": plain(value.law.end)}
    if isinstance(value, timing.Point):
        return {"words": value.words}
    if isinstance(value, timing.Shift):
        return {"too_noisy": value.too_noisy}
    return {}
