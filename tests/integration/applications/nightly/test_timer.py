from __future__ import annotations

import os
import shutil
import subprocess
import time
from datetime import date
from pathlib import Path

import pytest

from harness.applications.nightly import timer
from harness.core.errors import RequestError

COMMAND = ["/opt/my lab/100%/bin/python", "-P", "-m", "harness", "--runs", '/srv/a "b"\\$HOME']
ENVIRONMENT = {
    "PATH": "/usr/bin:/opt/50% off/bin",
    "HARNESS_XAVIER_HOST": "nvidia@xavier.lab",
    "HARNESS_RUNS": "/elsewhere",
    "SSH_AUTH_SOCK": "/run/agent",
    "PASSWORD": "planted",
}


def units(file: str = "/lab/my nights 5%.yaml", at: str = "02:00") -> dict[str, str]:
    return timer.units(Path(file), at, COMMAND, ENVIRONMENT)


def test_a_night_begins_every_day_and_goes_on_after_a_reboot() -> None:
    made = units("/lab/nightly.yaml")
    assert list(made) == ["harness-nightly.service", "harness-nightly-resume.service", "harness-nightly.timer"]
    service, resume, daily = made.values()
    assert "OnCalendar=*-*-* 02:00:00\nPersistent=true\n" in daily
    assert "WantedBy=timers.target" in daily
    assert "After=harness-nightly-resume.service" in service
    assert "[Install]" not in service
    assert '"nightly" "/lab/nightly.yaml" "--resume"\n' in resume
    assert "WantedBy=default.target" in resume


def test_what_systemd_would_expand_reaches_the_command_as_it_is() -> None:
    service = units()["harness-my_nights_5_.service"]
    assert r'ExecStart=:"/opt/my lab/100%%/bin/python" "-P" "-m" "harness" "--runs" "/srv/a \"b\"\\$HOME"' in service
    assert '"nightly" "/lab/my nights 5%%.yaml"\n' in service
    assert 'Environment="PATH=/usr/bin:/opt/50%% off/bin"\n' in service


def test_only_what_harness_needs_of_the_environment_is_written_down() -> None:
    text = "".join(units().values())
    assert 'Environment="HARNESS_XAVIER_HOST=nvidia@xavier.lab"' in text
    assert not any(word in text for word in ("planted", "agent", "elsewhere"))


@pytest.mark.parametrize("at", ["2:00", "24:00", "02:60", "02:00\nExecStart=/bin/sh", "", "daily"])
def test_a_time_that_is_none_is_refused(at: str) -> None:
    with pytest.raises(RequestError, match="not a time of day"):
        units(at=at)


def test_a_path_that_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(RequestError, match="control characters"):
        units("/lab/a\nExecStart=b.yaml")


def test_a_unit_is_known_by_its_file() -> None:
    for text in units("/lab/a b.yaml").values():
        assert timer.is_of(Path("/lab/a b.yaml"), text)
    assert not timer.is_of(Path("/other/a b.yaml"), units("/lab/a b.yaml")["harness-a_b.service"])


@pytest.mark.parametrize(
    ("at", "day"), [("02:00", date(2027, 3, 28)), ("02:59", date(2027, 3, 28)), ("03:00", None), ("01:59", None)]
)
def test_the_day_on_which_the_clock_is_put_forward_over_it_is_known(
    at: str, day: date | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`systemd-analyze calendar` leaves it out too."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        found = timer.skipped(at, date(2026, 11, 22))
    time.tzset()
    assert found == day


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """And expands what is in them as it is meant: it looks for the program."""
    program = tmp_path / "my lab 100% $x" / "python"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    made = timer.units(tmp_path / "nightly.yaml", "02:00", [str(program), "-m", 'a "b" %h \\'], ENVIRONMENT)
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    done = verify(tmp_path, made)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "harness" in line]) == (0, []), done.stderr
    program.unlink()
    assert f"{program} is not executable" in verify(tmp_path, made).stderr


def verify(folder: Path, made: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "verify", "--user", "--man=no", *(str(folder / name) for name in made)]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
