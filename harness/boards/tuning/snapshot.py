"""Snapshot of a board's kernel counters and sensors, read in one round trip while nothing is timed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.boards.session import Board
from harness.boards.tuning.files import Files, first_line, number, read
from harness.core.errors import BoardError

SYSTEM = PurePosixPath("/")

CPU = "sys/devices/system/cpu"
RASPBERRY = "sys/devices/platform/soc/soc:firmware/get_throttled"
PATTERNS = (
    *(f"proc/{name}" for name in ("uptime", "stat", "loadavg", "vmstat", "meminfo", "interrupts", "schedstat")),
    *(f"{CPU}/cpu*/cpufreq/{name}" for name in ("cpuinfo_cur_freq", "scaling_cur_freq", "scaling_max_freq")),
    *(f"{CPU}/cpu*/cpufreq/stats/{name}" for name in ("total_trans", "time_in_state")),
    f"{CPU}/cpu*/thermal_throttle/*_throttle_count",
    *(f"sys/class/thermal/thermal_zone*/{name}" for name in ("type", "temp")),
    *(f"sys/class/thermal/cooling_device*/{name}" for name in ("type", "cur_state")),
    *(f"sys/class/hwmon/hwmon*/{name}" for name in ("name", "temp*_input", "temp*_label", "oc*_event_cnt")),
    *(f"sys/class/devfreq/*/{name}" for name in ("cur_freq", "max_freq")),
    RASPBERRY,
)

# A fan that turns, a screen that dims and a charger that waits cool without slowing anything that computes.
_HARMLESS = re.compile(r"fan|lcd|backlight|display|charger|battery|wifi|modem", re.IGNORECASE)

Counts = Mapping[int, int]
"""Counts by core."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a board at one moment; unknown values are None or missing in the mappings.

    `time_s` counts from 1970 by the board's clock, `uptime_s` from its start.  Frequencies are by core, `limit_khz`
    what its policy permits; `state_ticks` is the time that it has spent in each frequency (by kHz), in 1/100 s.
    `throttle_events` only grow; `cooling` is how far a device is slowed down now, 0 not at all.  `interrupts` are by
    name and core, `switches` (context switches) and `faults` (page faults) of the whole system, `core_switches` by
    core.  `busy_ticks` and `stolen_ticks` (by the machine that a virtual one runs on) are in 1/100 s.
    """

    time_s: float | None
    uptime_s: float
    frequency_khz: Counts
    limit_khz: Counts
    frequency_changes: Counts
    state_ticks: Mapping[int, Counts]
    device_hz: Mapping[str, int]
    device_limit_hz: Mapping[str, int]
    temperature_c: Mapping[str, float]
    throttle_events: Mapping[str, int]
    cooling: Mapping[str, int]
    interrupts: Mapping[str, Counts]
    switches: int | None
    core_switches: Counts
    faults: int | None
    major_faults: int | None
    busy_ticks: Counts
    stolen_ticks: Counts
    load: tuple[float, ...]
    running: int | None
    memory_free_kib: int | None


def take(session: Board, *, system: PurePosixPath = SYSTEM) -> Snapshot:
    """Return the state of the board now; BoardError if it does not show its /proc.

    `system` is where its /proc and /sys are.
    """
    files = read(session, system, PATTERNS)
    uptime = _floats(first_line(files, "proc/uptime"))
    if not uptime:
        raise BoardError(
            f"the board does not show its state: there is no {system / 'proc/uptime'}",
            "it needs /proc, and grep and head on the PATH of the user",
        )
    return snapshot_of(files, uptime[0])


def snapshot_of(files: Files, uptime_s: float) -> Snapshot:
    """Parse the files of `PATTERNS`."""
    stat, boot_s = _table(files, "proc/stat"), None
    boot_s = _first(stat.get("btime"))
    vmstat, memory = _table(files, "proc/vmstat"), _table(files, "proc/meminfo")
    times = {int(name[3:]): row for name, row in stat.items() if re.fullmatch(r"cpu\d{1,4}", name)}
    return Snapshot(
        time_s=None if boot_s is None else boot_s + uptime_s,
        uptime_s=uptime_s,
        frequency_khz=_by_core(files, "cpufreq/scaling_cur_freq") | _by_core(files, "cpufreq/cpuinfo_cur_freq"),
        limit_khz=_by_core(files, "cpufreq/scaling_max_freq"),
        frequency_changes=_by_core(files, "cpufreq/stats/total_trans"),
        state_ticks=_time_in_state(files),
        device_hz=_named(files, r"sys/class/devfreq/([^/]+)/cur_freq"),
        device_limit_hz=_named(files, r"sys/class/devfreq/([^/]+)/max_freq"),
        temperature_c=_temperatures(files),
        throttle_events=_throttle_events(files),
        cooling=_cooling(files),
        interrupts=_interrupts(files.get("proc/interrupts", ())),
        switches=_first(stat.get("ctxt")),
        core_switches=_core_switches(_table(files, "proc/schedstat")),
        faults=_first(vmstat.get("pgfault")),
        major_faults=_first(vmstat.get("pgmajfault")),
        busy_ticks={core: sum(row[:3]) + sum(row[5:7]) for core, row in times.items()},
        stolen_ticks={core: row[7] for core, row in times.items() if len(row) > 7},
        load=tuple(_floats(first_line(files, "proc/loadavg"))[:3]),
        running=_first(stat.get("procs_running")),
        memory_free_kib=_first(memory.get("MemAvailable:")),
    )


def _table(files: Files, path: str) -> dict[str, tuple[int, ...]]:
    """Return a file of lines `name number...`, as far as the words after a name are numbers."""
    rows: dict[str, tuple[int, ...]] = {}
    for line in files.get(path, ()):
        name, *words = line.split() or [""]
        rows[name] = _numbers(words)
    return rows


def _numbers(words: list[str]) -> tuple[int, ...]:
    values: list[int] = []
    for word in words:
        value = number(word)
        if value is None:
            break
        values.append(value)
    return tuple(values)


def _first(values: tuple[int, ...] | None) -> int | None:
    return values[0] if values else None


def _floats(line: str | None) -> list[float]:
    words = (line or "").split()
    return [float(word) for word in words if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", word, re.ASCII)]


def _named(files: Files, pattern: str) -> dict[str, int]:
    """Return the numbers in the files whose paths match, by the group of the pattern."""
    found = ((re.fullmatch(pattern, path), number(lines[0])) for path, lines in files.items())
    return {match[1]: value for match, value in found if match and value is not None}


def _by_core(files: Files, name: str) -> dict[int, int]:
    return {int(core): value for core, value in _named(files, rf"{CPU}/cpu(\d{{1,4}})/{name}").items()}


def _time_in_state(files: Files) -> dict[int, dict[int, int]]:
    """Return the ticks in each frequency by core; each line has two numbers."""
    found: dict[int, dict[int, int]] = {}
    for path, lines in files.items():
        match = re.fullmatch(rf"{CPU}/cpu(\d{{1,4}})/cpufreq/stats/time_in_state", path)
        if match:
            rows = [_numbers(line.split()) for line in lines]
            found[int(match[1])] = {row[0]: row[1] for row in rows if len(row) == 2}
    return found


def _temperatures(files: Files) -> dict[str, float]:
    """Return degrees Celsius by sensor: thermal zones by their type, hwmon by chip and label."""
    zones = _named(files, r"(sys/class/thermal/thermal_zone[^/]+)/temp")
    sensors = _named(files, r"(sys/class/hwmon/hwmon[^/]+/temp[^/]+)_input")
    named = [(first_line(files, f"{zone}/type") or zone, value) for zone, value in zones.items()]
    named += [(_sensor(files, path), value) for path, value in sensors.items()]
    return {name: value / 1000 for name, value in _distinct(named).items()}


def _sensor(files: Files, path: str) -> str:
    folder, _, channel = path.rpartition("/")
    chip = first_line(files, f"{folder}/name") or folder.rpartition("/")[2]
    return f"{chip} {first_line(files, f'{path}_label') or channel}"


def _distinct(named: list[tuple[str, int]]) -> dict[str, int]:
    """Return the values by name; a repeated name gets a number."""
    found: dict[str, int] = {}
    for name, value in named:
        same = sum(1 for known in found if known == name or known.startswith(f"{name} #"))
        found[f"{name} #{same + 1}" if same else name] = value
    return found


def _throttle_events(files: Files) -> dict[str, int]:
    """Return counters of throttling: x86, Jetson's over-current events, Raspberry Pi's bits."""
    found = _named(files, rf"{CPU}/(cpu\d+/thermal_throttle/[a-z]+_throttle_count)")
    found |= _named(files, r"sys/class/hwmon/(hwmon[^/]+/oc\d+_event_cnt)")
    bits = _throttled_bits(files)
    return found if bits is None else found | {"get_throttled": bits >> 16}  # the upper half: since the board's start


def _throttled_bits(files: Files) -> int | None:
    bits = first_line(files, RASPBERRY)
    return int(bits, 16) if bits and re.fullmatch(r"(0x)?[0-9a-f]{1,8}", bits) else None


def _cooling(files: Files) -> dict[str, int]:
    """Return the state of each cooling device that slows down a processor."""
    states = _named(files, r"(sys/class/thermal/cooling_device[^/]+)/cur_state")
    named = [(first_line(files, f"{device}/type") or device, state) for device, state in states.items()]
    bits = _throttled_bits(files)
    named += [] if bits is None else [("get_throttled", bits & 0xFFFF)]
    return _distinct([(name, state) for name, state in named if not _HARMLESS.search(name)])


def _interrupts(lines: tuple[str, ...]) -> dict[str, Counts]:
    """Return counts by name and core.  The header names the active cores; lines of one number have no core."""
    heads = lines[0].split() if lines else []
    columns = [int(head[3:]) for head in heads if re.fullmatch(r"CPU\d{1,4}", head)]
    found: dict[str, Counts] = {}
    for line in lines[1:]:
        label, _, rest = line.partition(":")
        words = rest.split()
        counts = _numbers(words[: len(columns)])
        if columns and len(counts) == len(columns):
            name = " ".join([label.strip(), *words[len(columns) :]])
            found[name] = dict(zip(columns, counts, strict=True))
    return found


def _core_switches(rows: Mapping[str, tuple[int, ...]]) -> dict[int, int]:
    """Return the context switches of a core: the last of nine fields of schedstat, version 15 or later."""
    return {int(name[3:]): row[8] for name, row in rows.items() if re.fullmatch(r"cpu\d{1,4}", name) and len(row) > 8}
