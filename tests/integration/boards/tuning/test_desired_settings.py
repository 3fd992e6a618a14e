from __future__ import annotations

from pathlib import Path

from harness.boards.local import LocalBoard
from harness.boards.profile import Timing
from harness.boards.tuning import desired_settings
from harness.boards.tuning.desired_settings import Setting
from harness.boards.tuning.files import read
from tests.support.tuning.system import CPU, EVERYTHING, on_board, write


def wanted(root: Path, timing: Timing, *cores: int) -> list[Setting]:
    return list(desired_settings.wishes(timing, read(LocalBoard(), on_board(root), desired_settings.PATTERNS), cores))


def test_an_empty_profile_wants_nothing(root: Path) -> None:
    assert wanted(root, Timing(), 0, 1) == []


def test_all_cores_are_set(root: Path) -> None:
    assert wanted(root, Timing(governor="performance")) == [
        Setting("governor", f"{CPU}/cpu{core}/cpufreq/scaling_governor", "performance", "schedutil")
        for core in range(4)
    ]


def test_the_shallowest_idle_state_stays(root: Path) -> None:
    found = wanted(root, Timing(idle_states=False))
    assert [(each.path, each.wanted) for each in found] == [
        (f"{CPU}/cpu{core}/cpuidle/state1/disable", "1") for core in range(4)
    ]
    assert {each.wanted for each in wanted(root, Timing(idle_states=True))} == {"0"}


def test_the_bound_that_makes_room_comes_first(root: Path) -> None:
    lower = [each.path.rpartition("/")[2] for each in wanted(root, Timing(frequency_khz=1_200_000))]
    assert lower == ["scaling_min_freq", "scaling_max_freq"] * 4
    higher = [each.path.rpartition("/")[2] for each in wanted(root, Timing(frequency_khz=2_400_000))]
    assert higher == ["scaling_max_freq", "scaling_min_freq"] * 4


def test_turbo_is_intels_switch_or_the_common_one(root: Path) -> None:
    assert wanted(root, Timing(turbo=False)) == [Setting("turbo", f"{CPU}/cpufreq/boost", "0", "1")]
    write(root, {f"{CPU}/intel_pstate/no_turbo": "0\n"})
    assert wanted(root, Timing(turbo=False)) == [Setting("turbo", f"{CPU}/intel_pstate/no_turbo", "1", "0")]
    assert [each.wanted for each in wanted(root, Timing(turbo=True))] == ["0"]


def test_interrupts_leave_the_items_cores(root: Path) -> None:
    away = Timing(interrupts_away=True)
    affinity = "proc/irq/24/smp_affinity_list"
    assert wanted(root, away, 0, 1) == [Setting("interrupts_away", affinity, "2,3", "0-3")]
    assert wanted(root, away, 2, 3) == [
        Setting("interrupts_away", affinity, "0,1", "0-3"),
        Setting("interrupts_away", "proc/irq/25/smp_affinity_list", "0,1", "2-3"),
    ]
    assert wanted(root, away) == []


def test_interrupts_have_nowhere_to_go_where_every_core_has_an_item(root: Path) -> None:
    found = wanted(root, Timing(interrupts_away=True), 0, 1, 2, 3)
    assert {each.reason for each in found} == {"every core has an item"}


def test_real_time_throttling_is_switched_off_and_on(root: Path) -> None:
    assert [each.wanted for each in wanted(root, Timing(realtime_throttling=False))] == ["-1"]
    assert [each.wanted for each in wanted(root, Timing(realtime_throttling=True))] == ["950000"]


def test_what_the_board_has_not_is_said(tmp_path: Path) -> None:
    found = wanted(tmp_path, EVERYTHING, 0)
    assert {each.name for each in found} == {
        "realtime_throttling", "idle_states", "turbo", "governor", "frequency_khz",
    }  # fmt: skip
    assert {each.reason for each in found} == {"the board has no such file"}
    assert {each.before for each in found} == {None}


def test_a_refused_governor_is_answered_with_the_choices(root: Path) -> None:
    files = read(LocalBoard(), on_board(root), desired_settings.PATTERNS)
    refused = Setting("governor", f"{CPU}/cpu0/cpufreq/scaling_governor", "fast", "schedutil", "schedutil", "refused")
    assert desired_settings.explained(refused, files).reason == "refused; it offers performance schedutil"


def test_sets_of_cores_are_the_same_however_they_are_written() -> None:
    assert desired_settings.same("proc/irq/1/smp_affinity_list", "0,1,2", "0-2")
    assert not desired_settings.same("proc/irq/1/smp_affinity_list", "0,1", "0-2")
    assert not desired_settings.same("scaling_governor", "0,1,2", "0-2")
