"""A law of extremes fitted to data: maximum likelihood, goodness of fit by parametric bootstrap, profile intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from harness.analysis.timing import likelihood
from harness.analysis.timing.hypotheses import Outcome
from harness.analysis.timing.laws import Law, Pareto, anderson_darling, reduce, stretch, stretch_slope
from harness.analysis.timing.sample import Floats, Interval

# A profile is looked at up to 6 standard errors from the estimate, then, where it does not end there, to 36 and 216.
NEAR_ERRORS, WIDER, FARTHEST_ERRORS = 6.0, 6.0, 216.0
PROFILE_POINTS = 8
PROFILE_ROUNDS = 5
CLOSE = 0.1  # of the distance to the estimate: from there on the root of the deviance is a straight line
SHAPES = np.array([-0.8, -0.5, -0.3, -0.15, 0.0, 0.15, 0.4, 0.8, 1.3])
SCALES = np.array([-0.25, 0.0, 0.4])


@dataclass(frozen=True)
class Fit:
    """A law of maximum likelihood and the ascending data that it was fitted to, ns.

    `origin` was subtracted from the data for the fit, to keep the digits of small differences between large times:
    the threshold of a Pareto law, else the smallest value.  `settled` is false if the optimiser did not converge.
    """

    law: Law
    data: Floats
    origin: float
    log_likelihood: float
    settled: bool

    @property
    def shifted(self) -> Floats:
        """The data less the origin, as one row."""
        return (self.data - self.origin)[None]


def fit(law: type[Law], data: Floats, threshold: float = 0.0) -> Fit:
    """Fit the law of maximum likelihood; data float64 (n,) in ns, above `threshold` if the law is a Pareto law."""
    ordered = np.sort(data)
    origin = threshold if law is Pareto else float(ordered[0])
    climbed = _climb(law, ordered[None] - origin, likelihood.EXACTLY)
    location, log_scale, shape = _parameters(law, climbed.free)[0].tolist()
    found = law(origin + location, math.exp(log_scale), shape)
    return Fit(found, ordered, origin, float(climbed.log_likelihood[0]), bool(climbed.settled[0]))


def by_l_moments(fitted: Fit) -> Law:
    """Return the law with the L-moments of the data: another estimate, which no single extreme dominates."""
    law = type(fitted.law)
    location, scale, shape = (float(part[0]) for part in law.by_l_moments(fitted.shifted))
    return law(fitted.origin + location, scale, shape)


def goodness(fitted: Fit, *, step_ns: float, replicates: int, seed: int) -> tuple[Outcome, Outcome]:
    """Test whether the data fit the law: Anderson-Darling's A^2, and the number of distinct values.

    Both p-values are by parametric bootstrap: samples of the fitted law, rounded to the clock's step as the data
    are, each with its own fit (Stute, Gonzáles Manteiga and Presedo Quindimil 1993).  So neither the estimated
    parameters nor a coarse clock make the test too mild or too strict.
    """
    law = type(fitted.law)
    samples = _samples(fitted, step_ns, replicates, seed)
    location, log_scale, shape = np.split(_parameters(law, _climb(law, samples).free), 3, axis=1)
    with np.errstate(all="ignore"):  # a value at the very end of a law has an infinite statistic
        simulated = anderson_darling(law, reduce((samples - location) / np.exp(log_scale), shape))
        observed = float(anderson_darling(law, fitted.law.variate(fitted.data)))
    distinct = 1 + int(np.count_nonzero(np.diff(fitted.data)))
    worse = int(np.count_nonzero(~(simulated < observed)))
    fewer = int(np.count_nonzero(1 + np.count_nonzero(np.diff(samples), axis=1) <= distinct))
    return (
        _bootstrapped("Anderson-Darling", f"the {law.name} fits", observed, worse, replicates),
        _bootstrapped("distinct values", f"the {law.name}, rounded by the clock", distinct, fewer, replicates),
    )


def _bootstrapped(test: str, hypothesis: str, statistic: float, as_extreme: int, replicates: int) -> Outcome:
    p_value = float((1 + as_extreme) / (1 + replicates))
    return Outcome(test, hypothesis, float(statistic), p_value, f"p by {replicates} bootstrap samples")


def _samples(fitted: Fit, step_ns: float, replicates: int, seed: int) -> Floats:
    """Draw ascending samples of the fitted law less the origin, in the clock's steps of the data, (replicates, n)."""
    drawn = fitted.law.draw(np.random.default_rng(seed), (replicates, fitted.data.size))
    first = fitted.data[0]
    return np.asarray(np.sort(first - fitted.origin + step_ns * np.round((drawn - first) / step_ns), axis=1))


def level_intervals(fitted: Fit, variates: Floats, confidence: float, assumes: str) -> list[Interval]:
    """Return the profile likelihood intervals (Coles 2001, 2.6.6) of the times, ns, of standard variates (levels,).

    The ends are where the best law through a level has lost half the chi-squared quantile of one degree of freedom;
    an end that 216 standard errors do not reach is infinite.
    """
    allowed = math.sqrt(float(stats.chi2.ppf(confidence, 1)))
    errors = standard_errors(fitted, variates)
    low, high = (_end(fitted, variates, errors, side, allowed) for side in (-1, 1))
    return [Interval(float(a), float(b), confidence, assumes) for a, b in zip(low, high, strict=True)]


def _end(fitted: Fit, variates: Floats, errors: Floats, side: int, allowed: float) -> Floats:
    """Find where the root of each level's deviance passes `allowed` on this side, by successive refinement."""
    estimate, rows = fitted.law.time(variates), np.arange(errors.size)
    near, far = np.zeros_like(errors), np.full_like(errors, NEAR_ERRORS)
    at_near, at_far = np.zeros_like(errors), np.full_like(errors, math.inf)
    for _ in range(PROFILE_ROUNDS):
        grid = near[:, None] + (far - near)[:, None] * np.linspace(0, 1, PROFILE_POINTS)
        roots = _roots(fitted, variates, (estimate + side * errors * grid[:, 1:].T).T)
        roots = np.concatenate([at_near[:, None], roots], axis=1)
        beyond = roots >= allowed
        ended = beyond.any(axis=1)
        first = np.where(ended, beyond.argmax(axis=1), PROFILE_POINTS - 1)
        inside = np.where(ended, first - 1, first)
        near, at_near, at_far = grid[rows, inside], roots[rows, inside], roots[rows, first]
        far = np.where(ended, grid[rows, first], np.minimum(far * WIDER, FARTHEST_ERRORS))
        if (ended & (far - near < CLOSE * far)).all():
            break
    with np.errstate(all="ignore"):  # a search that did not end is infinite, for any last two roots
        part = np.where(np.isfinite(at_far), (allowed - at_near) / (at_far - at_near), 0.5)
        reach = np.where(at_far >= allowed, near + part * (far - near), math.inf)
    return np.asarray(estimate + side * reach * errors)


def _roots(fitted: Fit, variates: Floats, levels: Floats) -> Floats:
    """Return the root of the deviance of the best law through each level, (levels, points); infinite without a law."""
    law, data = type(fitted.law), fitted.shifted
    flat, repeated = (levels - fitted.origin).ravel(), np.repeat(variates, levels.shape[1])
    start, best = _profile_start(fitted, flat, repeated)
    possible = np.isfinite(best)
    place = likelihood.through(law, flat[possible], repeated[possible])
    best[possible] = likelihood.climb(law, data, start[possible], place).log_likelihood
    return np.sqrt(np.maximum(2 * (fitted.log_likelihood - best), 0)).reshape(levels.shape)


def _profile_start(fitted: Fit, levels: Floats, variates: Floats) -> tuple[Floats, Floats]:
    """Return the likeliest of a fan of shapes and scales for each level, and its log likelihood."""
    fan, law = _fan(fitted), type(fitted.law)
    tried = np.repeat(fan, levels.size, axis=0)
    place = likelihood.through(law, np.tile(levels, len(fan)), np.tile(variates, len(fan)))
    found = likelihood.log_likelihood(law, fitted.shifted, place(tried)[0]).reshape(len(fan), levels.size)
    best = found.argmax(axis=0)
    return fan[best], found[best, np.arange(levels.size)]


def _fan(fitted: Fit) -> Floats:
    """Return free parameters of a law through a level, (candidates, free): shapes, and scales where they are free."""
    shapes = np.append(SHAPES, fitted.law.shape)
    if type(fitted.law) is Pareto:
        return np.asarray(shapes[:, None])
    scales = math.log(fitted.law.scale) + SCALES
    return np.stack(np.meshgrid(scales, shapes), axis=-1).reshape(-1, 2)


def standard_errors(fitted: Fit, variates: Floats) -> Floats:
    """Return standard errors, ns, of the times of these variates (delta method): the scale of the profile's search."""
    law = fitted.law
    fixed = 3 - law.free_count
    parameters = np.array([[law.location - fitted.origin, math.log(law.scale), law.shape]])
    seen = likelihood.scores(type(law), fitted.shifted, parameters)[0][:, fixed:]
    shape = law.shape
    slopes = [np.ones_like(variates), law.scale * stretch(variates, shape), law.scale * stretch_slope(variates, shape)]
    ways = np.stack(slopes, axis=1)[:, fixed:]
    variances: Floats = np.einsum("li,ij,lj->l", ways, np.linalg.pinv(seen.T @ seen), ways)
    return np.sqrt(variances)


def _climb(law: type[Law], ordered: Floats, settled: float = likelihood.SETTLED) -> likelihood.Climb:
    """Return the laws of maximum likelihood of ascending data less their origin, (rows, n)."""
    start = likelihood.moment_start(law, ordered)
    return likelihood.climb(law, ordered, start, likelihood.free_law(law), settled)


def _parameters(law: type[Law], free: Floats) -> Floats:
    """Return location, log scale and shape of each row, the location of a Pareto law 0."""
    return np.hstack([np.zeros((len(free), 3 - law.free_count)), free])
