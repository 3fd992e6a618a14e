"""Completion in a shell, and the newest run by the name `last`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.main import COMMANDS
from harness.cli.open import GRAPHICAL

PROGRAM = "import sys; sys.argv[0] = 'harness'; from harness.cli.main import main; main()"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    (tmp_path / "boards.yaml").write_text("desk: {}\ndock: {}\n")
    (tmp_path / "boards.local.yaml").write_text("door: {}\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "own.onnx").touch()
    for name in ("20260101-000000_desk_own", "20260102-000000_dock_own"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "request.json").touch()
    return tmp_path


def completed(lab: Path, line: str, shell: str = "bash") -> list[str]:
    """The words that the shell offers for the last word of `line`."""
    words = line.split(" ")
    variables = {"_HARNESS_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=lab, env=os.environ | variables, capture_output=True, text=True, check=True)
    return [found.rpartition(",")[2] for found in done.stdout.split()]


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("harness run --board d", ["desk", "dock", "door"]),
        ("harness run --model acas_w", ["acas_wl", "acas_wr"]),
        ("harness run --model o", ["own"]),
        ("harness plan --items cuda:", ["cuda:fused", "cuda:layerwise", "cuda:tensor"]),
        ("harness verify ", ["last", "20260102-000000_dock_own", "20260101-000000_desk_own"]),
        ("harness diff last 2026010", ["20260102-000000_dock_own", "20260101-000000_desk_own"]),
        ("harness run --resume l", ["last"]),
        ("harness boards lock de", ["desk"]),
        ("harness --lab /nowhere run --board d", []),
        ("harness ru", ["run"]),
    ],
)
def test_names_are_completed(lab: Path, line: str, expected: list[str]) -> None:
    assert completed(lab, line) == expected


@pytest.mark.parametrize("content", [b"", b"- 1\n", b"a: [\n", b"\xff"])
def test_a_file_of_boards_without_boards_completes_nothing(lab: Path, content: bytes) -> None:
    (lab / "boards.yaml").write_bytes(content)
    (lab / "boards.local.yaml").unlink()
    assert completed(lab, "harness run --board d") == []


def test_the_last_of_several_targets_is_completed(lab: Path) -> None:
    variables = {"_HARNESS_COMPLETE": "bash_complete", "COMP_WORDS": "harness run --items c,vit", "COMP_CWORD": "3"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=lab, env=os.environ | variables, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "plain,c,vitis"
    assert "plain,c,vitis:fold4" in done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    command = [sys.executable, "-m", "harness", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"_HARNESS_COMPLETE={shell}_complete" in done.stdout


def test_bash_itself_completes_a_board(lab: Path, tmp_path: Path) -> None:
    """The script is read by bash, whose function is called as bash calls it."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "harness"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m harness "$@"\n')
    program.chmod(0o755)
    script = """
    eval "$(harness completion bash)"
    function=$(complete -p harness | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    COMP_WORDS=(harness run --board de) COMP_CWORD=3
    $function harness de --board
    echo "${COMPREPLY[@]}"
    """
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=lab, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["desk"]


def test_open_prints_the_report_of_the_last_run(lab: Path) -> None:
    report = lab / "runs" / "20260102-000000_dock_own" / "report.html"
    command = [sys.executable, "-m", "harness", "open", "--json"]
    refused = subprocess.run(command, cwd=lab, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert f"{report}: there is no report" in refused.stderr
    report.touch()
    done = subprocess.run(command, cwd=lab, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"report": str(report)}


def test_open_starts_no_browser_without_a_graphical_session(lab: Path) -> None:
    (lab / "runs" / "20260102-000000_dock_own" / "report.html").touch()
    environment = {name: value for name, value in os.environ.items() if name not in GRAPHICAL}
    command = [sys.executable, "-m", "harness", "open"]
    done = subprocess.run(command, cwd=lab, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{lab}/runs/20260102-000000_dock_own/report.html\n"
    assert done.stderr == "not opened: there is no graphical session, and BROWSER is not set\n"


def test_without_runs_there_is_no_last_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "--runs", str(tmp_path), "verify", "last"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "unknown run 'last'" in done.stderr) == (2, True)


def test_help_lists_commands_in_the_order_of_use_with_an_example_each() -> None:
    done = subprocess.run([sys.executable, "-m", "harness", "--help"], capture_output=True, text=True, check=True)
    section = done.stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in section.splitlines() if line.startswith("  ") and line[2] != " "] == [*COMMANDS]
    for name in COMMANDS:
        command = [sys.executable, "-m", "harness", name, "--help"]
        if name not in {"models", "boards"}:
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert "harness " + name in text.partition("Example: ")[2], name
