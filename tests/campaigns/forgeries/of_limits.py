"""Forgeries that contradict nothing: only the laboratory's signature is against them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from harness.build import bundle
from harness.runs.measurement.document import judge
from harness.runs.verification import measured
from harness.runs.verification.folder import RUN
from tests.campaigns.forgeries.forger import REQUEST, Document, all_of, copy_dumps, edit, hide_difference, in_run
from tests.campaigns.forgeries.forgery import forgeries
from tests.campaigns.forgeries.of_boards import hardware_everywhere, other_name
from tests.campaigns.forgeries.of_measurements import measured as measured_as


def halve_times(folder: Path) -> None:
    """Halve every reading, and compute the statistics again."""
    readings = np.load(folder / "readings.npy") // 2
    np.save(folder / "readings.npy", readings)

    def restate(run: Document) -> None:
        run["parts"] = [measured._part(part, run, readings[:, i]) for i, part in enumerate(run["parts"])]
        run["parts"] = json.loads(json.dumps(run["parts"]))
        run["verdict"], run["reason"] = judge(run)

    edit(folder / RUN, restate)


def other_compiler(folder: Path) -> None:
    """Name another build of the compiler, and the bundle after it."""

    def change(run: Document) -> None:
        built = run["bundle"]
        built["compiler"] = f"{built['compiler'].partition(' [')[0]} [0123456789ab]"
        sources = {path: sha256 for path, sha256 in built["files"].items() if path != bundle.PROGRAM}
        built["sha256"] = bundle.name_of(sources, built["compiler"], built["flags"], built["inputs"])
        edit(folder / REQUEST, lambda kept: kept.update(bundle=built["sha256"]))

    edit(folder / RUN, change)


def no_virtual_machine(run: Document) -> None:
    """Remove what the board said of a virtual machine."""
    if "virtual_machine" not in run["board"]["environment"]:
        raise AssertionError("this machine does not say that it is a virtual machine")
    del run["board"]["environment"]["virtual_machine"]


LIMITS = forgeries(
    "limit",
    {
        "an emulated board is called hardware, in every entry that tells what it is": ("emulated", hardware_everywhere),
        "the board has another name, in every entry that names it": ("run", other_name),
        "the right outputs of a program that is wrong, as its sources say": (
            "wrong",
            all_of(copy_dumps("reference", "target"), hide_difference),
        ),
        "another build of the compiler, with the name of the bundle that follows": ("run", other_compiler),
        "times of a virtual machine are MET, and the board says that it is none": (
            "measurement",
            all_of(measured_as(not_met_because=""), in_run(no_virtual_machine)),
        ),
        "half the times, with the statistics that follow": ("measurement", halve_times),
    },
)
