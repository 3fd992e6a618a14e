"""Verification of a run's evidence: every claim of its folder is checked again.

claims      a claim, whether it holds, and what follows from all of them
folder      the files: complete, unmodified, nothing added
fields      the entries of run.json: by which claim each is checked, and which are believed
subject     the model, the plan and the vectors, made again
results     the dumps compared again, the reference computed again, the verdict that follows
proved      of a proof: what there is to ask, and the right answers
measured    of a measurement: its outputs, and the statistics that follow from the readings
sources     the sources of the bundle, and the name that follows from them
rebuilt     the bundle and the reports made again, at the revision that made them
revisions   programs that run with the sources of the revision that made the run
again       all of them, in this order
"""

from harness.runs.verification.claims import Claim, ClaimState, stands
from harness.runs.verification.verify import Wanted, verify

__all__ = ["Claim", "ClaimState", "Wanted", "stands", "verify"]
