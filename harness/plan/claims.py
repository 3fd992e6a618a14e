"""The equality with the specification that the targets of a plan promise for its tasks."""

from __future__ import annotations

import functools

from harness import targets
from harness.core.errors import RequestError
from harness.plan.plan import Plan
from harness.targets.base import Claim


@functools.lru_cache(maxsize=4)
def claims(plan: Plan) -> tuple[Claim, ...]:
    """Return the claim of each task's target for the part of the layer that the task computes.

    RequestError if a claim is BOUNDED and the layer has no tolerance.
    """
    found = []
    for task in plan.tasks:
        name, part = plan.items[task.item].target, plan.part(task)
        claim = Claim(targets.find(name).claim(part))
        if claim is Claim.BOUNDED and not part.errors.has_tolerance:
            raise RequestError(
                f"target {name} claims a bound for layer {part.name} ({part.operator}), which has one right value",
                "the target must return Claim.EXACT for it, or refuse it; --items chooses another target",
            )
        found.append(claim)
    return tuple(found)


def bounded(plan: Plan) -> tuple[str, ...]:
    """Return the names of the layers of which a task is only claimed to be within a bound."""
    of_tasks = zip(plan.tasks, claims(plan), strict=True)
    return tuple(
        dict.fromkeys(plan.network.layers[task.layer].name for task, claim in of_tasks if claim is Claim.BOUNDED)
    )
