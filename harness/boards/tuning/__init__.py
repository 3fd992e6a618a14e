"""The system state of a board during a measurement: settings, snapshots and background load."""

from harness.boards.tuning.commands import Notify, known_state
from harness.boards.tuning.desired_settings import Setting
from harness.boards.tuning.facts import facts
from harness.boards.tuning.interval import Differences, differences
from harness.boards.tuning.load import Load, LoadName, loaded
from harness.boards.tuning.settings import drifted, failure_notes, measuring_state
from harness.boards.tuning.snapshot import Snapshot, take
from harness.boards.tuning.throttling import throttled, unseen

__all__ = [
    "Differences",
    "Load",
    "LoadName",
    "Notify",
    "Setting",
    "Snapshot",
    "differences",
    "drifted",
    "facts",
    "failure_notes",
    "known_state",
    "loaded",
    "measuring_state",
    "take",
    "throttled",
    "unseen",
]
