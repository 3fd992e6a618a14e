"""Maximum likelihood for the laws of extremes, many problems at a time.

A problem is a row: of data (a bootstrap's samples) or of a constraint (a profile's levels).  Rows climb together:
first by Berndt, Hall, Hall and Hausman's steps (1974), the outer product of the scores standing for the Hessian,
which brings most to rest; the others by Newton's.  A step is halved until it climbs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.analysis.timing.laws import ExtremeValue, Law, reduce, stretch, stretch_slope
from harness.analysis.timing.sample import Floats

Rows: TypeAlias = npt.NDArray[np.intp]
# Free parameters of each row (rows, free) to location, log scale, shape (rows, 3), and to the derivatives of these by
# the free ones (rows, 3, free).
Placement: TypeAlias = Callable[[Floats], tuple[Floats, Floats]]

STEPS = 80
ROUGH_STEPS = 10
DIFFERENCE = 1e-4  # of a standard error, for the Hessian
HALVINGS = 16
# A row has settled when a step gains less than this of the log likelihood, of which an interval spans about 2.
SETTLED = 1e-7
EXACTLY = 1e-11
LOWEST_SHAPE = -0.99  # below -1 the likelihood has no maximum


@dataclass(frozen=True)
class Climb:
    """Optimiser result per row: free parameters, log likelihood, converged."""

    free: Floats
    log_likelihood: Floats
    settled: npt.NDArray[np.bool_]


def log_likelihood(law: type[Law], data: Floats, parameters: Floats) -> Floats:
    """Return the log likelihood of each row of `data` (rows or 1, n); -inf where the law ends before the data."""
    location, log_scale, shape = (parameters[:, [column]] for column in range(3))
    with np.errstate(all="ignore"):
        variate = reduce((data - location) / np.exp(log_scale), shape)
        terms = log_scale + (1 + shape) * variate + law.excess(variate)
        total = -terms.sum(axis=1)
    return np.where(np.isfinite(total) & (shape[:, 0] > LOWEST_SHAPE), total, -np.inf)


def scores(law: type[Law], data: Floats, parameters: Floats) -> Floats:
    """Return the derivatives of every observation's log density by location, log scale and shape, (rows, n, 3)."""
    location, log_scale, shape = (parameters[:, [column]] for column in range(3))
    scale = np.exp(log_scale)
    z = (data - location) / scale
    variate = reduce(z, shape)
    slope = law.excess(variate) - (1 + shape)  # of the log density by r
    by_z = slope / (1 + shape * z)
    safe = np.where(np.abs(shape) < 1e-5, 1.0, shape)
    bend = np.where(np.abs(shape) < 1e-5, -(z**2) / 2 + 2 * shape * z**3 / 3, (z / (1 + shape * z) - variate) / safe)
    return np.stack([-by_z / scale, -1 - by_z * z, slope * bend - variate], axis=-1)


def climb(law: type[Law], data: Floats, start: Floats, place: Placement, settled: float = SETTLED) -> Climb:
    """Return the maxima of the likelihood of each row over its free parameters, from `start` (rows, free).

    `data` is (rows, n), or (1, n) where all rows share it.  Every row of `start` must have a likelihood.
    """
    free = start.copy()
    best = log_likelihood(law, data, place(start)[0])
    moving = np.ones(len(free), bool)
    for taken in range(STEPS):
        rows = np.flatnonzero(moving)
        if not rows.size:
            break
        slope, information = _slope(law, data, free, rows, place)
        if taken >= ROUGH_STEPS:
            information = _newton(law, data, free, rows, place, slope, information)
        step = np.asarray(np.linalg.solve(_regular(information), slope[..., None])[..., 0], np.float64)
        moving[rows] = _advance(law, data, free, best, rows, step, place) > settled
    return Climb(free, best, ~moving)


def _slope(law: type[Law], data: Floats, free: Floats, rows: Rows, place: Placement) -> tuple[Floats, Floats]:
    """Return the gradient of some rows by their free parameters, and the outer product of the scores."""
    parameters, ways = _place_rows(place, free, rows)
    seen = scores(law, _rows(data, rows), parameters) @ ways
    return seen.sum(axis=1), np.swapaxes(seen, 1, 2) @ seen


def _newton(
    law: type[Law], data: Floats, free: Floats, rows: Rows, place: Placement, slope: Floats, rough: Floats
) -> Floats:
    """Return minus the Hessian of each row, by differences of the gradient; `rough` where that leads to no maximum."""
    found = np.empty_like(rough)
    for column in range(free.shape[1]):
        width = DIFFERENCE / np.sqrt(rough[:, column, column] + 1e-300)
        aside = free.copy()
        aside[rows, column] += width
        with np.errstate(all="ignore"):  # aside of a law there may be none: then the rough one is taken
            found[:, :, column] = (slope - _slope(law, data, aside, rows, place)[0]) / width[:, None]
    found = (found + np.swapaxes(found, 1, 2)) / 2
    sound: npt.NDArray[np.bool_] = np.isfinite(found.sum(axis=(1, 2)))
    sound[sound] = np.linalg.eigvalsh(found[sound])[:, 0] > 0
    return np.where(sound[:, None, None], found, rough)


def _place_rows(place: Placement, free: Floats, rows: Rows) -> tuple[Floats, Floats]:
    """Return the placement of some rows: a placement knows its rows by their number."""
    parameters, ways = place(free)
    return parameters[rows], ways[rows]


def _rows(data: Floats, rows: Rows) -> Floats:
    return data if len(data) == 1 else data[rows]


def _regular(information: Floats) -> Floats:
    """Return the information with a little of its diagonal added, so that a flat direction does not stop the rest."""
    diagonal = np.einsum("rii->ri", information)
    largest: Floats = diagonal.max(axis=1)[:, None, None] + 1e-300
    return information + 1e-12 * np.eye(information.shape[1]) * largest


def _advance(
    law: type[Law], data: Floats, free: Floats, best: Floats, rows: Rows, step: Floats, place: Placement
) -> Floats:
    """Move each row along its step, halved until it climbs; return each row's gain.  Changes `free` and `best`."""
    gained = np.zeros(len(rows))
    open_ = np.arange(len(rows))
    for halving in range(HALVINGS):
        trial = free.copy()
        trial[rows[open_]] += step[open_] * 0.5**halving
        with np.errstate(all="ignore"):
            parameters, _ = _place_rows(place, trial, rows[open_])
        found = log_likelihood(law, _rows(data, rows[open_]), parameters)
        better = found > best[rows[open_]]
        moved = rows[open_[better]]
        gained[open_[better]] = found[better] - best[moved]
        free[moved], best[moved] = trial[moved], found[better]
        open_ = open_[~better]
        if not open_.size:
            break
    return gained


def free_law(law: type[Law]) -> Placement:
    """Return all parameters free: location, log scale, shape; of a Pareto law, whose location is 0, the last two."""
    columns = law.free_count

    def place(free: Floats) -> tuple[Floats, Floats]:
        fixed = np.zeros((len(free), 3 - columns))
        ways = np.broadcast_to(np.eye(3)[:, 3 - columns :], (len(free), 3, columns))
        return np.hstack([fixed, free]), ways

    return place


def through(law: type[Law], level: Floats, variate: Floats) -> Placement:
    """Place laws whose time of `variate` (rows,) is `level` (rows,): one free parameter fewer.

    Free are log scale and shape (the location follows), of a Pareto law the shape (the scale follows).
    """

    def of_maxima(free: Floats) -> tuple[Floats, Floats]:
        log_scale, shape = free.T
        scale, reach = np.exp(log_scale), stretch(variate, shape)
        ways = np.zeros((len(free), 3, 2))
        ways[:, 0, 0], ways[:, 0, 1] = -scale * reach, -scale * stretch_slope(variate, shape)
        ways[:, 1, 0] = ways[:, 2, 1] = 1
        return np.stack([level - scale * reach, log_scale, shape], axis=1), ways

    def of_excesses(free: Floats) -> tuple[Floats, Floats]:
        shape = free[:, 0]
        reach = stretch(variate, shape)
        ways = np.zeros((len(free), 3, 1))
        ways[:, 1, 0], ways[:, 2, 0] = -stretch_slope(variate, shape) / reach, 1
        with np.errstate(invalid="ignore", divide="ignore"):  # a level below the threshold has no law: no number
            log_scale = np.log(level / reach)
        return np.stack([np.zeros(len(free)), log_scale, shape], axis=1), ways

    return of_maxima if law is ExtremeValue else of_excesses


def moment_start(law: type[Law], ordered: Floats) -> Floats:
    """Return starting values for each row of ascending data (rows, n): L-moments, or shape 0 if they do not fit."""
    with np.errstate(all="ignore"):
        location, scale, shape = law.by_l_moments(ordered)
        by_l_moments = np.stack([location, np.log(scale), np.clip(shape, -0.45, 0.9)], axis=1)
    location, scale = law.without_shape(ordered)
    without_shape = np.stack([location, np.log(scale), np.zeros_like(scale)], axis=1)
    fits = np.isfinite(log_likelihood(law, ordered, by_l_moments))
    return np.where(fits[:, None], by_l_moments, without_shape)[:, 3 - law.free_count :]
