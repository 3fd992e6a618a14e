"""Tools that work for long, fail, fall silent or leave something behind: real programs, each a line of shell."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core import subprocesses
from harness.core.errors import ToolError
from harness.core.subprocesses import ToolCall


def call(script: str, tmp_path: Path) -> ToolCall:
    return ToolCall(
        ("sh", "-c", script),
        doing="working",
        noun="the work",
        log=tmp_path / "log",
        timeout_s=20,
        tell_every_s=20,
        folder=tmp_path,
        environment={"WORD": "a word"},
    )


def test_all_that_it_says_is_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    subprocesses.run(call('pwd; echo "$WORD" >&2; printf end', tmp_path), lambda _: None)
    assert (tmp_path / "log").read_text() == f"before\n{tmp_path}\na word\nend"


def test_no_variable_of_the_user_reaches_the_compilers_that_it_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "LD_PRELOAD", "XILINXD_LICENSE_FILE"):
        monkeypatch.setenv(name, "given")
    subprocesses.run(call("env", tmp_path), lambda _: None)
    told = dict(line.split("=", 1) for line in (tmp_path / "log").read_text().splitlines() if "=" in line)
    assert told["WORD"] == "a word"
    assert [name for name, value in told.items() if value == "given"] == ["XILINXD_LICENSE_FILE"]


def test_a_failure_is_told_with_the_last_words_that_say_something(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as error:
        subprocesses.run(call("echo one; echo two; echo; echo three; printf four; exit 7", tmp_path), lambda _: None)
    assert error.value.message == "the work failed, exit status 7: two / three / four"
    assert str(tmp_path / "log") in error.value.hint
    with pytest.raises(ToolError, match="exit status 1: it said nothing"):
        subprocesses.run(call("exit 1", tmp_path), lambda _: None)


def test_no_such_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot run /nowhere/tool: No such file") as error:
        subprocesses.run(replace(call("", tmp_path), command=("/nowhere/tool",), if_missing="buy it"), lambda _: None)
    assert error.value.hint == "buy it"


def test_progress_is_told_even_of_a_tool_that_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocesses, "POLL_S", 0.02)
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        (tmp_path / "told").touch()

    silent = call("until test -e told; do sleep 0.05; done; echo done", tmp_path)
    subprocesses.run(replace(silent, tell_every_s=0.05), tell)
    assert re.fullmatch(r"working, 0 lines: it is silent \(\ds\)", told[0])


def test_what_a_tool_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    subprocesses.run(call("sleep 30 & echo $! >child; echo done", tmp_path), lambda _: None)
    child = (tmp_path / "child").read_text().strip()
    assert (tmp_path / "log").read_text() == "done\n"
    os.kill(int(child), signal.SIGKILL)  # it was still there: what v++ leaves running is its own affair


def test_a_tool_that_closes_its_output_and_works_on_is_waited_for(tmp_path: Path) -> None:
    subprocesses.run(call("exec >&- 2>&-; sleep 0.7; touch made", tmp_path), lambda _: None)
    assert (tmp_path / "made").exists()


def test_a_tool_that_outlasts_its_time_is_stopped_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocesses, "POLL_S", 0.02)
    with pytest.raises(ToolError, match=r"the work did not end within 2 s and was stopped"):
        subprocesses.run(replace(call("sleep 30 & echo $! >child; wait", tmp_path), timeout_s=2), lambda _: None)
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "status"
    with suppress(FileNotFoundError, ProcessLookupError):
        while "Z (zombie)" not in child.read_text():
            time.sleep(0.01)  # it is on its way; a test has a time limit
