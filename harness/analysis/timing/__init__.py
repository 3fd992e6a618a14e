"""Statistics of execution times: pure functions of a series of integer nanoseconds, frozen values as answers.

summarise  location, spread, quantiles and maximum, with intervals
describe   warm-up, drift, periodic outliers, dependence, the clock's step
analyse    the pWCET by extreme value theory, or why it does not apply
compare    whether two series differ
histogram, empirical_tail  input of charts
"""

from harness.analysis.timing.comparison import FEWEST_BASES, Comparison, Shift, Verdict, compare
from harness.analysis.timing.extremes import Extremes, NotApplicable, Point, Pwcet, Rules, analyse
from harness.analysis.timing.hypotheses import Outcome
from harness.analysis.timing.sample import Interval, NotGiven, Times, as_times, p_text
from harness.analysis.timing.series import Drift, Outliers, Series, WarmUp, describe
from harness.analysis.timing.summary import (
    Exceedance,
    Histogram,
    Quantile,
    Summary,
    empirical_tail,
    histogram,
    summarise,
)

__all__ = [
    "FEWEST_BASES",
    "Comparison",
    "Drift",
    "Exceedance",
    "Extremes",
    "Histogram",
    "Interval",
    "NotApplicable",
    "NotGiven",
    "Outcome",
    "Outliers",
    "Point",
    "Pwcet",
    "Quantile",
    "Rules",
    "Series",
    "Shift",
    "Summary",
    "Times",
    "Verdict",
    "WarmUp",
    "analyse",
    "as_times",
    "compare",
    "describe",
    "empirical_tail",
    "histogram",
    "p_text",
    "summarise",
]
