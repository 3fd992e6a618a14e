"""The state of a board while it works: set, restored, observed, and disturbed on purpose."""

from harness.board_state.commands import Notify, known_state
from harness.board_state.facts import facts
from harness.board_state.interval import Differences, differences
from harness.board_state.load import Load, LoadName, loaded
from harness.board_state.settings import drifted, measuring_state, told
from harness.board_state.snapshot import Snapshot, take
from harness.board_state.throttling import throttled, unseen
from harness.board_state.wishes import Setting

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
    "known_state",
    "loaded",
    "measuring_state",
    "take",
    "throttled",
    "told",
    "unseen",
]
