"""The pytest plugin, in sessions of a laboratory's own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import onnx
import pytest

from harness.core.installation import ROOT
from tests.integration.cli.test_run import changed_kernels
from tests.support import builders
from tests.support.cli.kernels import HALF_AWAY

TESTS = """
import numpy as np
import pytest

def test_whole(harness_run):
    harness_run(vectors=300, items=("c", "c"), trace=0)

def test_zeros(harness_run, board, model, tmp_path):
    np.save(tmp_path / "zeros.npy", np.zeros((10, model.vector.size), np.float32))
    result = harness_run(tmp_path / "zeros.npy", items=("c", "c"), trace=0)
    assert (result.verdict, len(result.layers)) == ("identical", len(model.layers))
    assert result.document["board"]["name"] == board.name
    assert (result.folder / "run.json").is_file()

def test_unchecked(harness_run):
    assert harness_run(vectors=300, items=("c", "c"), trace=0, check=False).verdict == "differs"

@pytest.mark.xfail(reason="known")
def test_expected(harness_run):
    harness_run(vectors=300, items=("c", "c"), trace=0)

def test_wrong_request(harness_run):
    harness_run(vectors=0)

def test_missing_vectors(harness_run):
    harness_run("missing.npy")

def test_wrong_option(harness_run):
    harness_run(tracee=3)

def test_of_the_profile_alone(board):
    assert board.cores

def test_of_neither():
    pass
"""


@dataclass(frozen=True)
class Session:
    """What a session of pytest ended with."""

    code: int
    out: str
    cases: dict[str, ET.Element]

    def kind(self, case: str) -> str:
        """Of a test's end; of one that passed nothing."""
        return " ".join(child.tag for child in self.cases[case] if child.tag not in {"properties", "system-err"})

    def message(self, case: str) -> str:
        """Why it did not pass."""
        return next(str(child.get("message")) for child in self.cases[case] if child.get("message"))

    def properties(self, case: str) -> dict[str, str]:
        """What the plugin says of it."""
        return {str(found.get("name")): str(found.get("value")) for found in self.cases[case].iter("property")}


@pytest.fixture
def laboratory_folder(tmp_path: Path) -> Path:
    """A laboratory with tests of its own, a small model, and a board that nobody reaches."""
    (tmp_path / "test_ours.py").write_text(TESTS)
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), tmp_path / "small.onnx")
    entry = "  address: {host: 127.0.0.1, port: 1, user: nobody}\n"
    text = (ROOT / "boards.yaml").read_text()
    (tmp_path / "boards.yaml").write_text(text.replace("\nkv260:\n", f"\ngone:\n{entry}", 1))
    return tmp_path


def session(folder: Path, *options: str, **environment: str) -> Session:
    """pytest in that folder, as a user starts it."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=junit.xml", "--boards=boards.yaml"]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    arguments = [*command, "--harness-runs=runs", *options]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False, env=ours | environment)
    root = ET.parse(folder / "junit.xml").getroot()  # noqa: S314 - pytest has just written it
    return Session(done.returncode, done.stdout, {str(case.get("name")): case for case in root.iter("testcase")})


def test_a_wrong_activation_fails_a_test_and_a_board_that_is_gone_is_an_error(
    laboratory_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wrong = changed_kernels(tmp_path_factory.mktemp("changed"), HALF_AWAY)
    found = session(laboratory_folder, "--board=host", "--board=gone", "--model=small.onnx", **wrong)
    assert found.code == 1, found.out
    host = {name: found.kind(f"{name}[host-small.onnx]") for name in ("test_whole", "test_zeros", "test_unchecked")}
    assert host == {"test_whole": "failure", "test_zeros": "", "test_unchecked": ""}
    message = found.message("test_whole[host-small.onnx]")
    assert "differs: layer quantize (item prepost, target c, ran on hardware), vector" in message
    assert "expected" in message
    assert "rounding is half away from zero" in found.out
    assert "evidence: runs/" in found.out
    assert "pytest_plugin.py" not in found.out, "no trace of this program"
    assert found.properties("test_zeros[host-small.onnx]")["harness.verdict"] == "identical"
    assert found.kind("test_expected[host-small.onnx]") == "skipped"
    assert found.kind("test_whole[gone-small.onnx]") == "error"
    assert "inconclusive (network): small.onnx on gone: cannot reach 127.0.0.1" in found.out
    assert found.properties("test_whole[gone-small.onnx]")["harness.verdict"] == "inconclusive (network)"
    assert found.kind("test_wrong_request[host-small.onnx]") == "error"
    assert found.kind("test_missing_vectors[host-small.onnx]") == "error"
    assert "missing.npy" in found.message("test_missing_vectors[host-small.onnx]")
    assert "nothing would be compared" in found.message("test_wrong_request[host-small.onnx]")
    assert "unknown option 'tracee'; did you mean trace" in found.message("test_wrong_option[host-small.onnx]")
    assert "During handling of the above exception" not in found.out
    assert found.kind("test_of_the_profile_alone[gone]") == found.kind("test_of_neither") == ""


def test_a_wrong_request_is_an_error_and_no_board_s_fault(laboratory_folder: Path) -> None:
    found = session(laboratory_folder, "--board=host", "--model=small.onnx", "-k", "missing_vectors")
    assert (found.code, found.kind("test_missing_vectors[host-small.onnx]")) == (1, "error")


def test_where_nothing_but_a_board_failed_the_exit_code_says_so_also_with_workers(laboratory_folder: Path) -> None:
    chosen = ("-k", "whole or neither or expected", "-n", "1")
    found = session(laboratory_folder, "--board=gone", *chosen, HARNESS_MODEL="small.onnx")
    assert found.code == 3, found.out
    assert "1 passed, 2 errors" in found.out, "a failure that is expected is not that of a board"


def test_without_a_board_what_needs_one_is_skipped_and_says_why(laboratory_folder: Path) -> None:
    found = session(laboratory_folder, "-rs")
    assert found.code == 0, found.out
    assert "no board: give --board NAME, or HARNESS_BOARD" in found.out
    assert "1 passed, 8 skipped" in found.out


def test_an_unknown_board_is_named_with_the_choices(laboratory_folder: Path) -> None:
    found = session(laboratory_folder, "-k", "profile", HARNESS_BOARD="hots")
    assert found.code == 1
    assert "did you mean host?" in found.out


def test_other_sessions_do_not_notice_it(tmp_path: Path) -> None:
    """Nothing heavy is imported, and fixtures of the same names are their own."""
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        (folder / "conftest.py").write_text("def pytest_runtest_logreport(report):\n    assert report.when\n")
        (folder / f"test_{folder.name}.py").write_text("def test_of_a_folder_with_hooks_of_its_own():\n    pass\n")
    (tmp_path / "test_theirs.py").write_text("""
import sys
import pytest

@pytest.fixture(params=["a", "b"])
def board(request):
    return request.param

def test_theirs(board):
    assert board in "ab"
    assert not {"numpy", "onnx", "pydantic", "click"} & sys.modules.keys()
""")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "4 passed" in done.stdout) == (0, True), done.stdout
