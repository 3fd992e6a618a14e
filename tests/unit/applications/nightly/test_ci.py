"""The files that a laboratory copies call commands that exist, with options that they take."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from harness.cli.main import cli
from harness.core.installation import ROOT

FILES = [ROOT / "ci" / "github.yml", ROOT / "ci" / "gitlab-ci.yml"]


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - texts only: `on` is one
    return document


def lines(path: Path) -> list[str]:
    """The shell commands of the file."""
    document = read(path)
    if "jobs" in document:
        return [step["run"] for step in document["jobs"]["nightly"]["steps"] if "run" in step]
    return [*document["nightly"]["script"], *document["nightly"]["after_script"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_commands_exist_and_take_their_options(path: Path) -> None:
    asked = [shlex.split(line) for line in lines(path) if "/harness " in line]
    assert [words[3] for words in asked] == ["nightly", "report"]
    for program, runs, _, name, *words in asked:
        assert (program, runs) == (".venv/bin/harness", "--runs")
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, list(words))
        with pytest.raises(click.NoSuchOption):
            command.make_context(name, [*words, "--nonsense"])
    assert "make setup" in lines(path)
    assert re.search(r"^setup:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_one_night_at_a_time_and_all_is_kept() -> None:
    github, gitlab = map(read, FILES)
    job = github["jobs"]["nightly"]
    assert github["concurrency"] == {"group": "harness-nightly", "cancel-in-progress": "false"}
    assert "schedule" in github["on"]
    assert job["runs-on"] == ["self-hosted", "laboratory"]
    assert job["steps"][-1]["with"]["path"].split() == ["junit.xml", "site"]
    assert all(step["if"] == "always()" for step in job["steps"][3:])
    assert gitlab["nightly"]["resource_group"] == "harness-nightly"
    assert gitlab["nightly"]["artifacts"]["reports"]["junit"] == "junit.xml"
    assert gitlab["nightly"]["artifacts"]["when"] == "always"


def test_the_campaigns_run_every_night_too() -> None:
    github, gitlab = map(read, FILES)
    assert github["jobs"]["campaigns"]["steps"][-1] == {"run": "make campaigns"}
    assert gitlab["campaigns"]["script"] == ["make campaigns"]
    assert re.search(r"^campaigns:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ["network-github.yml", "network-gitlab-ci.yml"])
def test_each_change_of_a_network_is_run_by_the_installed_wheel(name: str) -> None:
    document = read(ROOT / "ci" / name)
    job = document.get("jobs", document)["network"]
    shown = [*job.get("before_script", ()), *job.get("script", ())]
    shown += [step["run"] for step in job.get("steps", ()) if "run" in step]
    assert '.venv/bin/pip install --quiet "$WHEEL"' in shown
    wheel = (document.get("env") or job["variables"])["WHEEL"]
    assert re.fullmatch(r"onnx_harness-[0-9.]+-py3-none-any\.whl", wheel)
    commands = [shlex.split(line) for line in shown if line.startswith(".venv/bin/harness ")]
    assert [words[1] for words in commands] == ["models", "run"]
    for words in commands:
        command, rest = cli.get_command(click.Context(cli), words[1]), words[2:]
        if isinstance(command, click.Group):
            command, rest = command.get_command(click.Context(command), words[2]), words[3:]
        assert command is not None
        command.make_context(words[1], [*rest])
        with pytest.raises(click.NoSuchOption):
            command.make_context(words[1], [*rest, "--nonsense"])
