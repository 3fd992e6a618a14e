"""The wheel: what it contains, and that it works outside the checkout."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from subprocess import PIPE, STDOUT
from zipfile import ZipFile

import pytest

from harness import __version__
from harness.core.installation import ROOT

FILES = ("harness", "kernels", "simulators", "models", "docs", "ci", "tools", "boards.yaml", "nightly.yaml", "LICENSE")
FILES += ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", ".gitignore", "requirements")
FILES += ("benchmarks/README.md", "runs/README.md")
UNSEEN = shutil.ignore_patterns("__pycache__")


def build(source: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with one commit of the sources as they are here."""
    folder = tmp_path_factory.mktemp("package") / "checkout"
    folder.mkdir()
    for name in FILES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=UNSEEN)
        else:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(path, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "sources")
    return folder


@pytest.fixture(scope="module")
def wheel(repository: Path) -> Path:
    return build(repository, repository.parent / "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*command, str(wheel)], check=True)
    return folder


@pytest.fixture(scope="module")
def short_revision(repository: Path) -> str:
    return git(repository, "rev-parse", "--short=12", "HEAD")


def harness(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed), "HARNESS_CACHE": str(installed.parent / "cache")}
    command = [sys.executable, "-P", "-m", "harness", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.campaign
def test_two_builds_give_the_same_bytes(repository: Path, wheel: Path, tmp_path: Path) -> None:
    """Although files are newer and lie in another folder."""
    again = shutil.copytree(repository, tmp_path / "elsewhere", ignore=UNSEEN)
    for path in again.glob("harness/*.py"):
        path.touch()
    assert build(again, tmp_path).read_bytes() == wheel.read_bytes()


def test_a_wheel_has_all_files_of_the_program(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    for folder in ("kernels", "simulators"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                assert found[f"harness/share/{path.relative_to(ROOT)}"] == path.read_bytes()
    files = map(ROOT.joinpath, ("requirements/iree.txt", "boards.yaml", "nightly.yaml"))
    for path in (*ROOT.glob("models/*.onnx"), *files):
        assert found[f"harness/share/{path.relative_to(ROOT)}"] == path.read_bytes()
    templates = (ROOT / "harness").rglob("templates/*")
    assert {str(path.relative_to(ROOT)) for path in templates if path.is_file()} <= found.keys()
    assert not [name for name in found if name.endswith(".pyc") or name.startswith("tests")]


def test_a_wheel_has_the_pages_and_their_links_lead_to_files(installed: Path, tmp_path: Path) -> None:
    said = re.search(r"Documentation: (.*)", harness(installed, tmp_path, "--help").stdout)
    assert said
    share = Path(said[1]).parent
    assert share == installed / "harness" / "share"
    pages = [path.relative_to(share) for path in share.rglob("*.md")]
    assert {Path("README.md"), Path("docs/tutorial.md"), Path("docs/boards/kv260.md")} <= {*pages}
    for page in pages:
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", (share / page).read_text()):
            assert (share / page.parent / link).exists(), f"{page}: {link}"


def test_the_first_commands_of_a_new_user(installed: Path, tmp_path: Path, short_revision: str) -> None:
    told = harness(installed, tmp_path, "--version")
    assert told.stdout == f"harness {__version__}, revision {short_revision}, from {installed}/harness\n"
    created = harness(installed, tmp_path, "init", "lab")
    assert created.returncode == 0, created.stderr
    lab = tmp_path / "lab"
    assert sorted(path.name for path in lab.iterdir()) == [
        *(".gitignore", "README.md", "boards.yaml", "models", "nightly.yaml", "runs")
    ]
    ran = harness(installed, lab, "run", "--board", "host", "--model", "acas_coc", "--vectors", "500")
    assert (ran.returncode, ran.stdout.count("identical: all")) == (0, 1), ran.stderr
    [run] = (lab / "runs").glob("*_host_acas_coc")
    checked = harness(installed, lab, "verify", run.name)
    assert checked.returncode == 0, checked.stdout
    assert re.search(
        rf"sources +ok +[0-9]+ files are those of harness {re.escape(__version__)} as it is installed", checked.stdout
    )


def test_a_changed_installed_file_changes_the_revision(installed: Path, tmp_path: Path, short_revision: str) -> None:
    copy = shutil.copytree(installed, tmp_path / "copy")
    kernel = copy / "harness" / "share" / "kernels" / "program" / "clock.c"
    kernel.write_text(kernel.read_text() + "\n")
    told = harness(copy, tmp_path, "--version").stdout
    assert told == f"harness {__version__}, revision {short_revision}-dirty, from {copy}/harness\n"


def test_a_new_model_needs_a_lab(installed: Path, tmp_path: Path) -> None:
    refused = harness(installed, tmp_path, "models", "quantize", str(tmp_path / "x.onnx"), "-o", "new")
    assert refused.returncode == 2
    assert "there is no lab folder for a new model" in refused.stderr
    assert "create one: harness init LAB" in refused.stderr


def test_a_missing_extra_comes_with_the_command_for_this_environment(installed: Path, tmp_path: Path) -> None:
    """`pip` alone may be that of another environment, and install another package of this name there."""
    code = "from harness.core.installation import install_extra; print(install_extra('cross'))"
    environment = os.environ | {"PYTHONPATH": str(installed)}
    command = [sys.executable, "-P", "-c", code]
    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert told == f"run: {sys.executable} -m pip install 'onnx-harness[cross]'\n"


def test_a_lab_is_not_overwritten(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "boards.yaml").write_text("mine: {}\n")
    refused = harness(installed, tmp_path, "init", ".")
    assert refused.returncode == 2
    assert "boards.yaml exists" in refused.stderr
    assert (tmp_path / "boards.yaml").read_text() == "mine: {}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["boards.yaml"]


def test_an_invalid_boards_file_in_the_current_folder_is_an_error(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "boards.yaml").write_text("host: [\n")
    refused = harness(installed, tmp_path, "run", "--board", "host", "--model", "acas_coc")
    assert refused.returncode == 2
    assert "boards.yaml:" in refused.stderr


@pytest.mark.parametrize("order", [("--boards", "FILE", "boards", "list"), ("boards", "list", "--boards", "FILE")])
def test_common_options_before_and_after_the_command(installed: Path, tmp_path: Path, order: Sequence[str]) -> None:
    (tmp_path / "own.yaml").write_text(
        "desk: {soc: x, items: {all: {target: c, core: 0}}, toolchain: {compiler: gcc}, local: true, cores: 1}\n"
    )
    listed = harness(installed, tmp_path, *(word.replace("FILE", "own.yaml") for word in order))
    assert (listed.returncode, "desk" in listed.stdout) == (0, True), listed.stderr


def test_no_page_or_message_names_another_project(installed: Path) -> None:
    """`pip install 'harness[...]'` would install the project of that name on the public index."""
    [information] = installed.glob("*.dist-info")
    assert information.name == f"onnx_harness-{__version__}.dist-info"
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "harness").rglob("*.py")]:
        assert not re.findall(r"(?<![-\w])harness\[[a-z]", path.read_text()), path


def test_all_imported_distributions_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [
        *project["dependencies"],
        *(
            each
            for extra in ("cuda", "cross", "images", "cluster", "iree", "litert", "tract")
            for each in extras[extra]
        ),
    ]
    declared += ["pytest"]  # imported by pytest's plugin alone
    declared += ["cuda-bindings", "pydantic-core"]  # parts of cuda-python and pydantic
    names = {re.split(r"[<>=\[]", each)[0].replace("_", "-").lower() for each in declared}
    distributions = metadata.packages_distributions()
    for path in (ROOT / "harness").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for top in {module.partition(".")[0] for module in modules} - {"", "harness"} - sys.stdlib_module_names:
                owners = {name.replace("_", "-").lower() for name in distributions.get(top, ())}
                assert owners & names, f"{path}: {top} of {owners or 'an unknown distribution'} is not declared"


@pytest.mark.campaign
def test_an_empty_environment_gets_what_the_wheel_needs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    subprocess.run([binaries / "pip", "install", "--quiet", str(wheel)], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PATH": f"{binaries}:{environment['PATH']}", "HARNESS_CACHE": str(tmp_path / "cache")}
    command = "harness init lab && cd lab && harness run --board host --model acas_coc --vectors 500"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0


@pytest.mark.campaign
def test_the_tutorial_shows_what_its_commands_print(installed: Path, tmp_path: Path) -> None:
    """All commands of the page run in a shell, as a user of the wheel has them; numbers and times may be others."""
    program = shutil.copytree(installed, tmp_path / "installed")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "harness"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m harness "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {
        "PYTHONPATH": str(program),
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "BROWSER": "true",
        "PYTHONUNBUFFERED": "1",
        "HARNESS_CACHE": str(installed.parent / "cache"),
        "KERNELS": str(program / "harness/share/kernels"),
    }
    page = (ROOT / "docs" / "tutorial.md").read_text()
    steps = re.findall(r"(?m)^    \$ (.*)\n((?:    (?!\$ ).*\n)*)", page)
    assert len(steps) == 12
    folder, codes, wanted = tmp_path, [], []
    for line, shown in steps:
        if line.startswith("cd "):
            folder /= line.removeprefix("cd ")
            continue
        done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, stdout=PIPE, stderr=STDOUT, check=False)
        codes.append(done.returncode)
        wanted.append(int("verdict: differs" in shown))
        output = done.stdout.decode()
        said = iter(map(normal, output.splitlines()))
        for expected in map(normal, shown.splitlines()):
            pattern = ".*".join(map(re.escape, expected.split("...")))
            met = expected in {"", "..."} or any(re.fullmatch(pattern, found) for found in said)
            assert met, f"{line}: {expected}\n{output}"
    assert codes == wanted
    assert sum(wanted) == 1


def normal(line: str) -> str:
    """A line with one blank between words, without rules of tables, and with 0 for every number."""
    return re.sub(r"[0-9][0-9,.]*", "0", " ".join(line.replace("─", "").split()))
