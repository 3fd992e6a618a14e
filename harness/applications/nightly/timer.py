"""The systemd units that start a night every day and resume it after a reboot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path

from harness.core.errors import RequestError

PASSED_ON = ("PATH", "XDG_CACHE_HOME", "TARGET_FS", "TIOVX_SDK", "VITIS", "PLATFORM", "XRT")
"""Environment variables of the service, in addition to those that start with HARNESS_."""
NOT_PASSED_ON = ("HARNESS_BOARDS", "HARNESS_LAB", "HARNESS_RUNS")
"""Environment variables that become options of the command line."""
STOP_S = 120
"""Time in seconds that interrupted commands have to restore their boards."""


def units(file: Path, at: str, command: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the text of every unit by its name; `command` is the absolute one, to which FILE and options are appended.

    RequestError if `at` is not a time of day, or if a path has characters that a unit cannot contain.
    """
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", at):
        raise RequestError(f"--install {at}: not a time of day", "write it as 02:00")
    name = unit_name(file)
    whole = [*command, "nightly", str(file)]
    return {
        f"{name}.service": _service(f"harness nightly {file.name}", f"{name}-resume.service", whole, environment),
        f"{name}-resume.service": _resuming(
            _service(f"harness nightly {file.name}, after a reboot", "", [*whole, "--resume"], environment)
        ),
        f"{name}.timer": _timer(f"harness nightly {file.name}, every day", at),
    }


def unit_name(file: Path) -> str:
    """Return the name that all units of a file share."""
    stem = re.sub(r"[^A-Za-z0-9_-]", "_", file.stem)
    return f"harness-{stem}"


def is_of(file: Path, unit: str) -> bool:
    """Return whether the text is a unit of this file; a timer names only the service."""
    return "[Service]" not in unit or f' "nightly" {_quoted(str(file))}' in unit


def skipped(at: str, today: date) -> date | None:
    """Return the first day of a year on which the clock of this machine skips that time; None if there is none.

    systemd does not start the timer on such a day.
    """
    days = (datetime.combine(today + timedelta(count), time.fromisoformat(at)) for count in range(366))
    return next((day.date() for day in days if datetime.fromtimestamp(day.timestamp()) != day), None)  # noqa: DTZ006


def _service(title: str, after: str, command: Sequence[str], environment: Mapping[str, str]) -> str:
    order = [f"After={after}"] if after else []
    passed = [f"Environment={_quoted(f'{key}={value}')}" for key, value in _passed_on(environment)]
    lines = [
        "[Unit]",
        f"Description={_plain(title)}",
        *order,
        "",
        "[Service]",
        "Type=oneshot",
        *passed,
        # The colon stops systemd from expanding dollar signs.
        f"ExecStart=:{' '.join(map(_quoted, command))}",
        "KillMode=mixed",
        f"TimeoutStopSec={STOP_S}",
        "",
    ]
    return "\n".join(lines)


def _resuming(service: str) -> str:
    return service + "\n[Install]\nWantedBy=default.target\n"


def _timer(title: str, at: str) -> str:
    lines = ["[Unit]", f"Description={_plain(title)}", "", "[Timer]", f"OnCalendar=*-*-* {at}:00", "Persistent=true"]
    return "\n".join([*lines, "", "[Install]", "WantedBy=timers.target", ""])


def _passed_on(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (key, value)
        for key, value in sorted(environment.items())
        if key in PASSED_ON or (key.startswith("HARNESS_") and key not in NOT_PASSED_ON)
    ]


def _quoted(word: str) -> str:
    """Quote a word of a unit; double or escape characters that systemd expands."""
    return '"' + _plain(word).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(text: str) -> str:
    if not text.isprintable():
        raise RequestError(f"{text!r}: a unit of systemd cannot contain control characters", "rename it")
    return text.replace("%", "%%")
