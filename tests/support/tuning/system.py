"""A board whose /proc and /sys are in a temporary folder of this machine, and boards that are made to fail."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from harness.boards.local import LocalBoard
from harness.boards.profile import ItemProfile, Profile, Timing, Toolchain
from harness.boards.session import Completed

CPU = "sys/devices/system/cpu"
BOOT = "11111111-2222-3333-4444-555555555555"

INTERRUPTS = """\
           CPU0       CPU1       CPU2       CPU3
 24:         10          0          0          0  GICv3  33 Level     eth0
 25:          0          7          0          0  GICv3  34 Level     mmc0
IPI0:         5          6          7          8  Rescheduling interrupts
ERR:          0
"""


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def read(root: Path, path: str) -> str:
    return (root / path).read_text().strip()


def fake(root: Path, cores: int = 4) -> Path:
    """A board with everything that a profile can set, as a real kernel shows it."""
    files = {
        "proc/sys/kernel/random/boot_id": f"{BOOT}\n",
        "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
        "proc/interrupts": INTERRUPTS,
        "proc/irq/24/smp_affinity_list": "0-3\n",
        "proc/irq/25/smp_affinity_list": "2-3\n",
        "proc/irq/26/smp_affinity_list": "0-3\n",  # nobody handles it
        f"{CPU}/cpufreq/boost": "1\n",
    }
    for core in range(cores):
        files |= {
            f"{CPU}/cpu{core}/cpufreq/scaling_governor": "schedutil\n",
            f"{CPU}/cpu{core}/cpufreq/scaling_available_governors": "performance schedutil\n",
            f"{CPU}/cpu{core}/cpufreq/scaling_available_frequencies": "1200000 2000000\n",
            f"{CPU}/cpu{core}/cpufreq/scaling_min_freq": "400000\n",
            f"{CPU}/cpu{core}/cpufreq/scaling_max_freq": "2000000\n",
            f"{CPU}/cpu{core}/cpuidle/state0/disable": "0\n",
            f"{CPU}/cpu{core}/cpuidle/state1/disable": "0\n",
        }
    write(root, files)
    return root


def contents(root: Path) -> dict[str, str]:
    """All files of a fake system, to see that it is as before."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def board(timing: Timing, **changes: Any) -> Profile:
    """This machine as a board of four cores with items on the first two."""
    entry = {
        "name": "fake",
        "soc": "a folder",
        "cores": 4,
        "local": True,
        "toolchain": Toolchain(compiler="gcc"),
        "items": {
            "prepost": ItemProfile(target="c", core=0, operators=("Add",)),
            "network": ItemProfile(target="c", core=1, operators=("QGemm",)),
        },
        "timing": timing,
    }
    return Profile.model_validate(entry | changes)


EVERYTHING = Timing(
    governor="performance",
    frequency_khz=1_200_000,
    turbo=False,
    idle_states=False,
    interrupts_away=True,
    realtime_throttling=False,
)


class Recording(LocalBoard):
    """This machine, with what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        self.asked.append(argv)
        return super().run(argv, timeout_s)


class WithoutRights(LocalBoard):
    """This machine as one sees it who may not write what is read-only, also where these tests are root's."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []
        return super().run([*drop, *argv], timeout_s)


def on_board(path: Path) -> PurePosixPath:
    return PurePosixPath(path)
