"""Verification of a run's evidence: every claim of its folder is checked again.

`verify` in verify.py yields the claims in their order.  To add a check, add a function that returns its finding, or
raises ContradictionError or UncheckedError, to one of the modules below, and a line to `verify`.

claims      a claim, whether it holds, and what follows from all of them
folder      the files: complete, unmodified, nothing added
fields      the entries of run.json: the claim that checks each, and unchecked entries
inputs      the request, the model, the plan and the vectors, made again
board       the identity of the board: all parts of the run name the same one
results     the dumps compared again, the reference computed again, the verdict that follows
proved      of a proof: what there is to ask, and the right answers
measured    of a measurement: its outputs, and the statistics that follow from the readings
sources     the sources of the bundle, and the name that follows from them
bundle      the bundle and the reports built again at the revision that made them
revisions   programs that run with the sources of the revision that made the run
signature   the signature of the run
verify      all of them, in their order
"""

from harness.runs.verification.claims import Claim, ClaimState, is_valid
from harness.runs.verification.verify import VerificationScope, verify

__all__ = ["Claim", "ClaimState", "VerificationScope", "is_valid", "verify"]
