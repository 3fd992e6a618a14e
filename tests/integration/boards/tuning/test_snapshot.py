"""A snapshot of a fake system with known numbers, of odd ones, and of this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.boards.local import LocalBoard
from harness.boards.tuning import take
from harness.core.errors import BoardError
from tests.support.tuning.snapshots import NOTHING
from tests.support.tuning.system import CPU, Recording, on_board, write

XAVIER = {
    "proc/uptime": "100.50 380.00\n",
    "proc/stat": (
        "cpu  10 0 20 30 0 0 0 0 0 0\n"
        "cpu0 100 10 50 900 7 2 3 4 0 0\n"
        "cpu1 1 0 0 999 0 0 0 0 0 0\n"
        "intr 123 1 2 3\nctxt 4567\nbtime 1700000000\nprocesses 99\nprocs_running 3\n"
    ),
    "proc/loadavg": "0.50 0.25 0.10 2/345 6789\n",
    "proc/vmstat": "nr_free_pages 5\npgfault 1000\npgmajfault 7\n",
    "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable:  6000000 kB\n",
    "proc/schedstat": "version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 11 12 13\ndomain0 ff 1 2\ncpu1 0 0 0 0 0 0 1 2 3\n",
    "proc/interrupts": (
        "           CPU0       CPU1\n"
        " 24:         10          0  GICv3  33 Level     eth0\n"
        "IPI0:         5          6  Rescheduling interrupts\n"
        "ERR:          0\n"
    ),
    f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "2265600\n",
    f"{CPU}/cpu0/cpufreq/cpuinfo_cur_freq": "2264000\n",
    f"{CPU}/cpu1/cpufreq/scaling_cur_freq": "1190400\n",
    f"{CPU}/cpu0/cpufreq/scaling_max_freq": "2265600\n",
    f"{CPU}/cpu0/cpufreq/stats/total_trans": "12\n",
    f"{CPU}/cpu0/cpufreq/stats/time_in_state": "1190400 50\n2265600 9000\n",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "2\n",
    "sys/class/thermal/thermal_zone0/type": "CPU-therm\n",
    "sys/class/thermal/thermal_zone0/temp": "41500\n",
    "sys/class/thermal/thermal_zone1/type": "CPU-therm\n",
    "sys/class/thermal/thermal_zone1/temp": "-5000\n",
    "sys/class/thermal/cooling_device0/type": "cpu-throttle-alert\n",
    "sys/class/thermal/cooling_device0/cur_state": "1\n",
    "sys/class/thermal/cooling_device1/type": "pwm-fan\n",
    "sys/class/thermal/cooling_device1/cur_state": "3\n",
    "sys/class/hwmon/hwmon0/name": "coretemp\n",
    "sys/class/hwmon/hwmon0/temp1_input": "50000\n",
    "sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
    "sys/class/hwmon/hwmon0/temp2_input": "48000\n",
    "sys/class/hwmon/hwmon1/oc1_event_cnt": "4\n",
    "sys/class/devfreq/0000:01:00.0/cur_freq": "1377000000\n",
    "sys/class/devfreq/0000:01:00.0/max_freq": "1377000000\n",
    "sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n",
}


@pytest.fixture
def xavier(tmp_path: Path) -> Path:
    write(tmp_path, XAVIER)
    return tmp_path


def test_every_number_finds_its_place_in_one_round_trip(xavier: Path) -> None:
    board = Recording()
    found = take(board, system=on_board(xavier))
    assert len(board.asked) == 1
    assert (found.time_s, found.uptime_s) == (1700000100.5, 100.5)
    assert found.frequency_khz == {0: 2264000, 1: 1190400}  # as measured, where that can be read
    assert found.limit_khz == {0: 2265600}
    assert found.frequency_changes == {0: 12}
    assert found.state_ticks == {0: {1190400: 50, 2265600: 9000}}
    assert found.device_hz == found.device_limit_hz == {"0000:01:00.0": 1377000000}
    assert found.temperature_c == {
        "CPU-therm": 41.5, "CPU-therm #2": -5.0, "coretemp Package id 0": 50.0, "coretemp temp2": 48.0,
    }  # fmt: skip
    assert found.throttle_events == {
        "cpu0/thermal_throttle/core_throttle_count": 2, "hwmon1/oc1_event_cnt": 4, "get_throttled": 5,
    }  # fmt: skip
    assert found.cooling == {"cpu-throttle-alert": 1, "get_throttled": 5}  # a fan that turns slows nothing down
    assert found.interrupts == {
        "24 GICv3 33 Level eth0": {0: 10, 1: 0}, "IPI0 Rescheduling interrupts": {0: 5, 1: 6},
    }  # fmt: skip
    assert (found.switches, found.core_switches) == (4567, {0: 13, 1: 3})
    assert (found.faults, found.major_faults) == (1000, 7)
    assert found.busy_ticks == {0: 165, 1: 1}
    assert found.stolen_ticks == {0: 4, 1: 0}
    assert (found.load, found.running, found.memory_free_kib) == ((0.5, 0.25, 0.1), 3, 6000000)


def test_what_the_board_does_not_tell_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"proc/uptime": "0.00 0.00\n"})
    assert take(LocalBoard(), system=on_board(tmp_path)) == NOTHING


@pytest.mark.parametrize(
    "files",
    [
        {"proc/interrupts": "nonsense\n 1: 2 3\n"},
        {"proc/interrupts": "\n\n:::\n"},
        {"proc/interrupts": " CPU0 CPU1\n 24: x y z\n 25: 1\n"},
        {"proc/stat": "cpu0\ncpux 1 2\ncpu99999 1\nctxt\nbtime soon\n"},
        {"proc/schedstat": "cpu0 1 2 3\n"},
        {"proc/stat": "ctxt many 5\n", "proc/vmstat": "pgfault few 6\n"},
        {"proc/loadavg": "nan inf -1 1e9\n", "proc/vmstat": "\n", "proc/meminfo": "MemAvailable: all\n"},
        {"sys/class/thermal/thermal_zone0/temp": "hot\n", "sys/class/hwmon/hwmon0/temp1_input": "4" * 30},
        {f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "<unknown>\n", f"{CPU}/cpu0/cpufreq/stats/time_in_state": "1\n2 x\n"},
        {"sys/devices/platform/soc/soc:firmware/get_throttled": "many\n"},
    ],
)
def test_nonsense_of_a_board_is_no_number(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, {"proc/uptime": "0.00 0.00\n"} | files)
    found = take(LocalBoard(), system=on_board(tmp_path))
    assert (found.switches, found.time_s, found.interrupts, found.core_switches) == (None, None, {}, {})
    assert (found.load, found.faults, found.memory_free_kib, found.temperature_c) == ((), None, None, {})
    assert (found.frequency_khz, found.throttle_events) == ({}, {})


def test_a_board_without_proc_is_told(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=f"there is no {tmp_path}/proc/uptime"):
        take(LocalBoard(), system=on_board(tmp_path))


def test_this_machine_counts_what_happens_on_it() -> None:
    before = take(LocalBoard())
    until_s = time.process_time() + 0.3
    while time.process_time() < until_s:
        time.sleep(0.001)  # as many switches as possible beside
        sum(range(200_000))
    after = take(LocalBoard())
    assert set(after.busy_ticks) == set(range(os.cpu_count() or 0))
    assert sum(after.busy_ticks.values()) - sum(before.busy_ticks.values()) >= 20
    assert (after.switches or 0) - (before.switches or 0) >= 10
    assert abs((after.time_s or 0) - time.time()) < 60
