"""Diagnosis of differing layers: the faulty layer, and the known mistakes that explain its output.

Each mistake predicts a layer's output from the layer's actual inputs.  One that predicts every value of every vector
looked at, the differing ones among them, explains the difference.  A mistake that gives the right output for every
input of a layer explains nothing there, so that it is never named.
"""

from harness.analysis.diagnosis.difference_stats import DifferenceSummary, map_shape, portray
from harness.analysis.diagnosis.findings import Diagnosis, Hypothesis, Observation, common, merge, named
from harness.analysis.diagnosis.hypothesis_scoring import diagnose, diagnose_finish
from harness.analysis.diagnosis.layer_sample import Case, cases

__all__ = [
    "Case",
    "Diagnosis",
    "DifferenceSummary",
    "Hypothesis",
    "Observation",
    "cases",
    "common",
    "diagnose",
    "diagnose_finish",
    "map_shape",
    "merge",
    "named",
    "portray",
]
