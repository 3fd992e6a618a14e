"""Forgeries of a measurement: a time, a statistic or an output is not what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.runs.folder import WRONG_OUTPUTS, WRONG_OUTPUTS_DUMP
from harness.runs.verification.folder import RUN
from tests.campaigns.forgeries.forger import Change, Document, change_vector, edit, in_run
from tests.campaigns.forgeries.forgery import files_of, forgeries


def halve_readings(folder: Path) -> None:
    """Halve every reading."""
    readings = np.load(folder / "readings.npy")
    np.save(folder / "readings.npy", readings // 2)


def measured(**changes: Any) -> Change:
    """Return a change of what was measured."""
    return in_run(lambda run: run["measured"].update(changes))


def outputs(**changes: Any) -> Change:
    """Return a change of what is said of the outputs."""
    return in_run(lambda run: run["outputs"].update(changes))


def summary(**changes: Any) -> Change:
    """Return a change of the statistics of the first part."""
    return in_run(lambda run: run["parts"][0]["summary"].update(changes))


def hide_wrong_outputs(folder: Path) -> None:
    """Remove the wrong outputs, and say that none was."""
    for name in (WRONG_OUTPUTS, WRONG_OUTPUTS_DUMP):
        (folder / name).unlink()
    edit(folder / RUN, lambda run: run["outputs"].update(differing=0, first=None))
    edit(folder / RUN, lambda run: run.update(verdict="measured", reason="small: median 1 ns"))


def double_numbers(run: Document) -> None:
    """Double every number of the comparison's first part, the gate among them."""
    part = run["against"]["parts"][0]
    for key, value in part.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            part[key] = value * 2


def other_verdict(run: Document) -> None:
    """Say `slower` of what was not, or the reverse."""
    part = run["against"]["parts"][0]
    part["verdict"] = "unchanged" if part.get("verdict") == "slower" else "slower"


def other_regression(run: Document) -> None:
    """Add a regression, or remove it."""
    run["against"].update(regressed=not run["against"]["regressed"])


FORGERIES = forgeries(
    "measurement",
    {
        "half the readings' times": ("measurement", halve_readings),
        "the readings of another measurement": ("measurement", files_of("compared", "readings.npy")),
        "a lower maximum": ("measurement", summary(max_ns=1)),
        "a lower median": ("measurement", summary(median_ns=1.0)),
        "more executions": ("measurement", measured(samples=10**6)),
        "more processes": ("measurement", measured(segments=20)),
        "times of a virtual machine are MET": ("measurement", measured(not_met_because="")),
        "another unit": ("measurement", measured(unit="cycles")),
        "another interval": ("measurement", measured(interval="of the kernel alone")),
        "other outputs": ("measurement", outputs(sha256={"0" * 64: 1})),
        "outputs of no process": ("measurement", outputs(sha256={})),
        "wrong outputs are hidden": ("incorrect", hide_wrong_outputs),
        "fewer wrong outputs": ("incorrect", outputs(differing=1)),
        "a vector": ("measurement", change_vector),
        "slower is called unchanged, or the reverse": ("compared", in_run(other_verdict)),
        "the comparison's numbers": ("compared", in_run(double_numbers)),
        "a regression is removed, or added": ("compared", in_run(other_regression)),
    },
)
