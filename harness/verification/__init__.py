"""Whether a run's evidence stands: every claim of its folder looked at again, none of them believed.

claims      a claim, whether it holds, and what follows from all of them
folder      the files: complete, unmodified, nothing added
subject     the model, the plan and the vectors, made again
results     the dumps compared again, the reference computed again, the verdict that follows
measured    of a measurement: the statistics that follow from the readings
rebuilt     the bundle built again, at the revision that built it
again       all of them, in this order
"""

from harness.verification.again import Wanted, verify
from harness.verification.claims import Claim, State, stands

__all__ = ["Claim", "State", "Wanted", "stands", "verify"]
