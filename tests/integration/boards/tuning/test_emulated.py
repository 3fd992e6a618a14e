"""The state of a real aarch64 Linux over real SSH: what its kernel tells, sets and refuses, with busybox's tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.boards import workspace
from harness.boards.connect import EMULATED_WORK, Connection, reach
from harness.boards.keys import GUEST_KEYS, host_fingerprint
from harness.boards.profile import Emulator, Profile
from harness.boards.tuning import differences, facts, failure_notes, loaded, measuring_state, take, throttled, unseen
from harness.boards.tuning.restore_journal import NAME
from harness.core.errors import BoardError
from tests.support.tuning.system import EVERYTHING, board

EMULATOR = Emulator(cpu="cortex-a53", cores=2, memory_mib=512, disk_mib=16)
REALTIME = "/proc/sys/kernel/sched_rt_runtime_us"


@pytest.fixture(scope="module")
def profile() -> Profile:
    """What is only for root's rights is not asked for: one is root there, and there is no sudo."""
    timing = EVERYTHING.model_copy(update={"as_root": ("sudo", "-n")})
    return board(timing, name="statebench", local=False, emulator=EMULATOR, cores=2)


@pytest.fixture(scope="module")
def cache() -> Path:
    return workspace.cache_folder()


@pytest.fixture(scope="module")
def connection(profile: Profile, cache: Path) -> Iterator[Connection]:
    with reach(profile, cache, print) as connection:
        yield connection


def answer(connection: Connection, *argv: str) -> str:
    return connection.board.run(argv, 20).stdout.decode().strip()


def test_the_board_tells_what_it_is(connection: Connection) -> None:
    found = facts(connection.board, cores=(0,))
    assert answer(connection, "uname", "-r") in found["kernel"]
    assert found["boot_id"] == answer(connection, "cat", "/proc/sys/kernel/random/boot_id")
    assert (found["processors"], found["cores_online"], found["clock_source"]) == ("2", "0-1", "arch_sys_counter")
    assert found["processor"] == "implementer 0x41, part 0xd03, variant 0x0, revision 4"  # a Cortex-A53
    assert found["virtual_machine"] == found["board"] == "linux,dummy-virt"
    assert found["items_on_isolated_cores"] == "no: 0"


def test_the_board_states_its_mark(connection: Connection, cache: Path) -> None:
    found = connection.identity
    assert (found.kind, found.machine_id) == ("emulated", "harness.name=statebench")
    assert found.host_key == host_fingerprint(cache / GUEST_KEYS)


def test_the_board_counts_what_happens_on_each_core(connection: Connection) -> None:
    before = take(connection.board)
    connection.board.run(["taskset", "2", "sh", "-c", "for n in 1 2 3 4 5; do sleep 0.05; done"], 20)
    found = differences(before, take(connection.board))
    assert found.seconds >= 0.25
    assert found.interrupts[1] > 0
    assert any("arch_timer" in name for name in found.named_interrupts)
    assert found.core_switches[1] >= 10
    assert (found.switches or 0) >= found.core_switches[1]
    assert (found.faults or 0) > 0


def test_what_an_emulated_board_does_not_show_is_unknown(connection: Connection) -> None:
    snapshots = [take(connection.board)]
    assert throttled(snapshots) == ()
    assert len(unseen(snapshots)) == 3


def test_what_its_kernel_takes_is_set_and_restored_and_what_it_refuses_is_said(
    connection: Connection, profile: Profile, cache: Path
) -> None:
    before, notes = _state(connection), list[str]()
    with measuring_state(profile, connection.board, cache, notes.append, work=connection.work, cores={1}) as found:
        assert answer(connection, "cat", REALTIME) == "-1"
        assert "virtio" in _moved(connection)
        assert f"{REALTIME[1:]}\t950000" in answer(connection, "cat", str(EMULATED_WORK / NAME))
        missing = {each.name for each in found if each.reason == "the board has no such file"}
        assert missing == {"idle_states", "turbo", "governor", "frequency_khz"}
        # The timer's interrupt belongs to each core: nobody can move it.
        assert [line for line in failure_notes(found) if "I/O error" in line and line.startswith("interrupts_away")]
    assert _state(connection) == before
    assert notes == []
    assert connection.board.run(["ls", str(EMULATED_WORK / NAME)], 20).status != 0


def _state(connection: Connection) -> str:
    return answer(connection, "sh", "-c", f"cat {REALTIME}; grep . /proc/irq/*/smp_affinity_list")


def _moved(connection: Connection) -> str:
    """The names of the interrupts that only core 0 gets."""
    return answer(connection, "sh", "-c", "for i in $(grep -lx 0 /proc/irq/*/smp_affinity_list); do ls ${i%/*}; done")


def test_a_board_without_stress_ng_is_not_loaded(connection: Connection, profile: Profile) -> None:
    with (
        pytest.raises(BoardError, match="the board has no stress-ng"),
        loaded("memory", profile, connection.board, print, work=EMULATED_WORK),
    ):
        pytest.fail("the block is not reached")
