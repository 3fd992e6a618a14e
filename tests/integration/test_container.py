"""The steps of ci/Dockerfile, run in folders of a test without a builder; and the image itself where one is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.installation import ROOT
from tests.integration.test_package import repository

__all__ = ["repository"]  # a fixture

DOCKERFILE = ROOT / "ci" / "Dockerfile"
FOLDERS = ("/build", "/dist", "/src", "/setup", "/opt/harness", "/lab", "/var/lib/apt/lists")
"""Folders of the image, which are folders of the test here."""
STUBS = ("apt-get", "useradd", "chown")
"""Programs that change the system: here they record how they are called."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of the Dockerfile, in one line, and the number of its stage."""

    stage: int
    name: str
    text: str


def instructions() -> list[Instruction]:
    joined = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    found, stage = [], -1
    for name, text in (line.split(maxsplit=1) for line in lines):
        stage += name == "FROM"
        found.append(Instruction(stage, name, re.sub(r"\s+", " ", text.strip())))
    return found


def texts(name: str, stage: int | None = None) -> list[str]:
    return [each.text for each in instructions() if each.name == name and stage in (None, each.stage)]


class Image:
    """Runs the steps with the folders of the image below `root`, and the commands of STUBS replaced."""

    def __init__(self, root: Path, checkout: Path) -> None:
        self.root, self.checkout, self.calls = root, checkout, root / "calls"
        tools = root / "tools"
        tools.mkdir(parents=True)
        for name in STUBS:
            (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {self.calls}\n')
            (tools / name).chmod(0o755)
        (tools / "python3").symlink_to(sys.executable)
        self.environment = {
            "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(root), "EXTRAS": "cross", "PACKAGES": "none",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }  # fmt: skip

    def here(self, text: str) -> str:
        """Return a text with the folders of the test in the place of those of the image."""
        return re.sub("(?<![\\w.])(" + "|".join(FOLDERS) + r")(?![\w-])", lambda found: f"{self.root}{found[0]}", text)

    def copy(self, text: str) -> None:
        *sources, target = text.split()
        origin = self.checkout
        if sources[0].startswith("--from="):
            origin = self.root
            sources = [source.lstrip("/") for source in sources[1:]]
        folder = self.root / "src" if target == "." else Path(self.here(target))
        for source in sources:
            path = origin / source
            if path.is_dir():
                shutil.copytree(path, folder, dirs_exist_ok=True)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder)

    def run(self, text: str, folder: str) -> None:
        command, downloads = without_downloads(text)
        for file in downloads:
            assert "--hash=sha256:" in (ROOT / "requirements" / file).read_text(), file
        where = self.root / folder.lstrip("/")
        where.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["sh", "-eu", "-c", self.here(command)], cwd=where, env=self.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def share_packages(self) -> None:
        """Let the environments of the image find the packages of this one, in the place of those from the index."""
        for pyvenv in self.root.rglob("pyvenv.cfg"):
            [packages] = pyvenv.parent.glob("lib/python3*/site-packages")
            (packages / "shared.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")


def without_downloads(text: str) -> tuple[str, list[str]]:
    """Return a step without its downloads by hash, and the files of requirements that they name."""
    pattern = r"\S*/pip install (?:--quiet |--no-cache-dir )*--require-hashes((?: --requirement \S+)+)"
    files = [name for found in re.findall(pattern, text) for name in re.findall(r"--requirement (\S+)", found)]
    extras = texts("ARG", 1)[0].partition("=")[2].strip('"').split()
    named = [other for file in files for other in (["harness.txt", *(f"{name}.txt" for name in extras)]
             if "$name" in file else [Path(file).name])]  # fmt: skip
    return re.sub(pattern, "true", text), named


def test_the_steps_install_a_wheel_that_runs(repository: Path, tmp_path: Path) -> None:
    image, folder = Image(tmp_path / "image", repository), "/"
    for step in instructions():
        if step.name == "COPY":
            image.copy(step.text)
        elif step.name == "WORKDIR":
            folder = step.text
        elif step.name == "RUN":
            text = step.text.replace("/setup/system-packages", "test -x /setup/system-packages")
            for part in text.split(" && "):  # packages of this environment are there once a venv is made
                image.share_packages()
                image.run(part, folder)
        elif step.name == "FROM":
            folder = "/"
    calls = image.calls.read_text().splitlines()
    assert [call.split()[:3] for call in calls if call.startswith("apt-get")] == [
        ["apt-get", "update", "-q"], ["apt-get", "install", "-q"],
    ] * 2  # fmt: skip
    assert [call for call in calls if call.startswith("useradd")] == ["useradd --create-home --uid 1000 harness"]
    program = image.root / "opt" / "harness" / "bin" / "harness"
    done = subprocess.run([program, "models", "cost", "acas_coc", "--json"], cwd=image.root / "lab",
                          env=image.environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"multiply_adds": 18000' in done.stdout
    where = subprocess.run([image.root / "opt/harness/bin/python", "-c", "import harness; print(harness.__file__)"],
                           cwd="/", env=image.environment, capture_output=True, text=True, check=True)  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(image.root), "the wheel, not the checkout"


def test_the_user_has_no_privileges_and_the_base_is_an_argument() -> None:
    names = [each.name for each in instructions() if each.stage == 1]
    assert texts("USER", 1) == ["harness"]
    assert not {"RUN", "COPY", "ADD"} & {*names[names.index("USER") :]}
    assert texts("FROM") == ["${BASE} AS wheel", "${BASE}"]
    assert texts("ARG")[0] == "BASE=docker.io/library/debian:12-slim"
    assert texts("ENTRYPOINT") == ['["harness"]']


def test_files_that_steps_name_are_in_the_context() -> None:
    for text in texts("COPY"):
        for source in (word for word in text.split()[:-1] if not text.startswith("--from")):
            assert (ROOT / source).exists(), source
    for text in texts("RUN"):
        for file in without_downloads(text)[1]:
            assert (ROOT / "requirements" / file).is_file(), file
    ignored = (ROOT / "ci" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {".venv", "boards.local.yaml", "runs/*"} <= {*ignored}
    assert not {".git", "kernels", "models", "ci"} & {*ignored}


def builder() -> str | None:
    """Return a program that can build images here; None without one."""
    for name in ("docker", "podman", "buildah"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    return None


@pytest.mark.campaign
def test_the_image_is_built_and_runs() -> None:
    """Build it in minutes, with packages from the network."""
    program = builder()
    if program is None:
        pytest.skip("no builder of images works here: docker, podman or buildah")
    tag = "harness-test"
    words = shlex.split(f"{program} build --file ci/Dockerfile --tag {tag} .")
    assert subprocess.run(words, cwd=ROOT, check=False).returncode == 0
    done = subprocess.run([program, "run", "--rm", tag, "models", "cost", "acas_coc", "--json"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert '"multiply_adds": 18000' in done.stdout, done.stderr
