"""The two laws of extremes: the generalized extreme value law of block maxima, the generalized Pareto law of excesses.

Both are one map of a standard variate r, Gumbel's for maxima and the exponential for excesses (Coles 2001, 3.1, 4.2):

    x = location + scale * (exp(shape * r) - 1) / shape
    r = log(1 + shape * z) / shape,  z = (x - location) / scale

with r = z for shape 0.  A shape below 0 has an end, location - scale / shape; above 0 the tail is heavy.
SciPy's genextreme has the opposite sign, c = -shape; its genpareto has c = shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from harness.analysis.timing.sample import Floats

NEARLY_ZERO = 1e-6  # nearer to 0 than this the shape's formulas lose more digits than their first terms


def stretch(variate: Floats, shape: Floats | float) -> Floats:
    """Return (exp(shape r) - 1) / shape."""
    safe = np.where(np.abs(shape) < NEARLY_ZERO, 1.0, shape)
    near = variate * (1 + shape * variate / 2)
    return np.where(np.abs(shape) < NEARLY_ZERO, near, np.expm1(safe * variate) / safe)


def stretch_slope(variate: Floats, shape: Floats | float) -> Floats:
    """Return the derivative of `stretch` by the shape."""
    safe = np.where(np.abs(shape) < NEARLY_ZERO, 1.0, shape)
    far = (variate * np.exp(safe * variate) - np.expm1(safe * variate) / safe) / safe
    return np.where(np.abs(shape) < NEARLY_ZERO, variate**2 / 2 + shape * variate**3 / 3, far)


def reduce(z: Floats, shape: Floats | float) -> Floats:
    """Return log(1 + shape z) / shape, the inverse of `stretch`; beyond the end of the law NaN."""
    safe = np.where(np.abs(shape) < NEARLY_ZERO, 1.0, shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.abs(shape) < NEARLY_ZERO, z * (1 - shape * z / 2), np.log1p(safe * z) / safe)


@dataclass(frozen=True)
class Law(ABC):
    """A law of extremes, in ns; `shape` is Coles' xi."""

    location: float
    scale: float
    shape: float

    name: ClassVar[str]
    free_count: ClassVar[int]  # parameters that are estimated

    @property
    def end(self) -> float:
        """The time that the law never exceeds, ns; infinity for a shape of 0 or above."""
        return self.location - self.scale / self.shape if self.shape < 0 else math.inf

    def variate(self, times: Floats) -> Floats:
        """Return the standard variate r of these times, NaN beyond the law's end."""
        return reduce((times - self.location) / self.scale, self.shape)

    def time(self, variate: Floats) -> Floats:
        """Return the time, ns, of a standard variate."""
        return np.asarray(self.location + self.scale * stretch(variate, self.shape), np.float64)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Return random extremes of this law."""
        return self.time(self._draw(rng, shape))

    @staticmethod
    @abstractmethod
    def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw standard variates."""

    @staticmethod
    @abstractmethod
    def by_l_moments(ordered: Floats) -> tuple[Floats, Floats, Floats]:
        """Return location, scale and shape from the L-moments of each ascending row."""

    @staticmethod
    @abstractmethod
    def without_shape(ordered: Floats) -> tuple[Floats, Floats]:
        """Return location and scale of the law of shape 0, by the moments of each ascending row."""

    @staticmethod
    @abstractmethod
    def excess(variate: Floats) -> Floats:
        """Return the term that the variate adds to -log density besides (1 + shape) r."""

    @staticmethod
    @abstractmethod
    def log_tails(variate: Floats) -> tuple[Floats, Floats]:
        """Return log P(at most r) and log P(more than r)."""


@dataclass(frozen=True)
class ExtremeValue(Law):
    """The generalized extreme value law, of the maxima of blocks: P(at most x) = exp(-exp(-r))."""

    name: ClassVar[str] = "generalized extreme value law"
    free_count: ClassVar[int] = 3

    @staticmethod
    def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return np.asarray(rng.gumbel(size=shape), np.float64)

    @staticmethod
    def excess(variate: Floats) -> Floats:
        """Return exp(-r)."""
        return np.exp(-variate)

    @staticmethod
    def log_tails(variate: Floats) -> tuple[Floats, Floats]:
        """Return -exp(-r), and log(1 - exp(-exp(-r)))."""
        below = -np.exp(-variate)
        return below, np.log(-np.expm1(below))

    @staticmethod
    def by_l_moments(ordered: Floats) -> tuple[Floats, Floats, Floats]:
        """Return location, scale and shape of each row (Hosking, Wallis and Wood 1985), the shape within 0.0009."""
        mean, spread, skewness = l_moments(ordered)
        c = 2 / (3 + skewness) - math.log(2) / math.log(3)
        k = 7.8590 * c + 2.9554 * c**2
        k = np.where(np.abs(k) < NEARLY_ZERO, NEARLY_ZERO, k)
        gamma = special.gamma(1 + k)
        scale = spread * k / ((1 - 2.0**-k) * gamma)
        return mean - scale * (1 - gamma) / k, scale, -k

    @staticmethod
    def without_shape(ordered: Floats) -> tuple[Floats, Floats]:
        """Return location and scale of Gumbel's law, by the first two moments of each row."""
        scale = ordered.std(axis=1) * np.sqrt(6) / np.pi
        return ordered.mean(axis=1) - np.euler_gamma * scale, scale


@dataclass(frozen=True)
class Pareto(Law):
    """The generalized Pareto law of the excess over a threshold (its location): P(more than x) = exp(-r)."""

    name: ClassVar[str] = "generalized Pareto law"
    free_count: ClassVar[int] = 2

    @staticmethod
    def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return np.asarray(rng.standard_exponential(shape), np.float64)

    @staticmethod
    def excess(variate: Floats) -> Floats:
        """Return zeros."""
        return np.zeros_like(variate)

    @staticmethod
    def log_tails(variate: Floats) -> tuple[Floats, Floats]:
        """Return the logarithm of 1 - exp(-r), and -r."""
        return np.log(-np.expm1(-variate)), -variate

    @staticmethod
    def by_l_moments(ordered: Floats) -> tuple[Floats, Floats, Floats]:
        """Return location (0), scale and shape of each row of excesses over a threshold (Hosking and Wallis 1987)."""
        mean, spread, _ = l_moments(ordered)
        k = mean / spread - 2
        return np.zeros_like(mean), (1 + k) * mean, -k

    @staticmethod
    def without_shape(ordered: Floats) -> tuple[Floats, Floats]:
        """Return location (0) and scale of the exponential law, by the mean of each row."""
        scale = ordered.mean(axis=1)
        return np.zeros_like(scale), scale


def l_moments(ordered: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the first two sample L-moments and t3 of each row, from ascending float64 (..., n) (Hosking 1990)."""
    n = ordered.shape[-1]
    ranks = np.arange(n)
    first = ordered.mean(axis=-1)
    second = (ordered @ ranks) / (n * (n - 1))
    third = (ordered @ (ranks * (ranks - 1.0))) / (n * (n - 1.0) * (n - 2.0))
    spread = 2 * second - first
    return first, spread, (6 * third - 6 * second + first) / spread


def anderson_darling(law: type[Law], variates: Floats) -> Floats:
    """Return Anderson and Darling's A^2 (1954) of each row of standard variates, ascending (..., n)."""
    n = variates.shape[-1]
    below, above = law.log_tails(variates)
    weights = (2 * np.arange(n) + 1) / n
    return np.asarray(-n - (below + above[..., ::-1]) @ weights, np.float64)
