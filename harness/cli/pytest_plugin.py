"""The pytest plugin: fixtures for a lab's own tests of its boards.

    def test_the_network_is_on_the_board(harness_run):
        assert harness_run(vectors=1000).verdict == "identical"

    pytest --board xavier --board kv260 --model acas_coc

A wrong activation fails a test.  A failed board, network or tool is an error, never a failure; if there are only such
errors, pytest exits with 3.  An invalid request, such as a missing file of vectors, is also an error; pytest then
exits with 1.  Slow imports are delayed until a test needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.boards.profile import Profile
    from harness.boards.workspace import Workspace
    from harness.core.errors import InfrastructureError
    from harness.model.network import Network
    from harness.runs.job import Request

BOARDS, MODELS = "HARNESS_BOARD", "HARNESS_MODEL"
EXIT_INFRASTRUCTURE = 3
VECTORS = 1000
PART = "harness_part"  # attribute of a report: the component that failed
REQUEST = "request"  # its value for an invalid request of the test


@dataclass(frozen=True)
class Result:
    """A finished run: verdict, layers and document of its `run.json`, and its folder."""

    verdict: str
    reason: str
    layers: list[dict[str, Any]]
    folder: Path
    document: dict[str, Any]


class Inconclusive(pytest.fail.Exception):  # type: ignore[misc,name-defined] # its public name, of no public type
    """Error for a test without a result: a component failed, or the request was invalid."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message, pytrace=False)
        self.part = part


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; without a board the tests that need one are skipped."""
    group = parser.getgroup("harness", "networks on boards")
    group.addoption("--board", action="append", metavar="NAME", help=f"Board to test; may be repeated; {BOARDS}.")
    group.addoption("--model", action="append", metavar="NAME", help=f"Model to test; may be repeated; {MODELS}.")
    group.addoption("--boards", metavar="FILE", help="File of boards; HARNESS_BOARDS.")
    group.addoption("--harness-lab", metavar="DIR", help="Lab folder; HARNESS_LAB.")
    group.addoption("--harness-runs", metavar="DIR", help="Folder of runs; HARNESS_RUNS.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate a test for every board and model."""
    for name, option, variable in (("harness_board", "board", BOARDS), ("harness_model", "model", MODELS)):
        if name in metafunc.fixturenames:
            given = metafunc.config.getoption(option) or list(filter(None, [os.environ.get(variable)]))
            metafunc.parametrize(name, given or [None], ids=str if given else [f"no {option}"], scope="session")


@pytest.fixture(scope="session")
def harness_workspace(pytestconfig: pytest.Config) -> Workspace:
    """Return the file of boards, models, runs and cache of the lab."""
    from harness.boards import workspace

    given = (pytestconfig.getoption(name) for name in ("boards", "harness_runs", "harness_lab"))
    boards, runs, lab = (Path(path) if path else None for path in given)
    return workspace.find(boards, runs, lab)


@pytest.fixture(scope="session")
def board(harness_board: str | None, harness_workspace: Workspace) -> Profile:
    """Return the profile of the board under test; skips without --board."""
    from harness import targets

    with _refused():
        return targets.load_boards(harness_workspace.boards).board(_given(harness_board, "board", BOARDS))


@pytest.fixture(scope="session")
def model(harness_model: str | None, harness_workspace: Workspace) -> Network:
    """Return the model under test; skips without --model."""
    with _refused():
        return harness_workspace.model(_given(harness_model, "model", MODELS))


@pytest.fixture
def harness_run(
    board: Profile,
    model: Network,  # noqa: ARG001 - refused, or skipped, before anything runs
    harness_model: str,
    harness_workspace: Workspace,
    request: pytest.FixtureRequest,
) -> Callable[..., Result]:
    """Return a function that runs the model on the board; see `run` in it.

    Other options are those of `harness.runs.job.Request`: items, chunk, fetch, trace, seed...
    """

    def run(vectors: int | str | Path = VECTORS, *, check: bool = True, **options: Any) -> Result:
        """Run a number of vectors, or those of a file; with `check`, a verdict other than identical fails the test.

        `accept="bound"` accepts the verdict within bound, too.
        """
        with _refused():
            asked = _request(board.name, harness_model, str(vectors), options)
            result = _carry_out(asked, harness_workspace, request.node)
        if check and result.verdict != "identical" and "accepted" not in result.document:
            pytest.fail(_explanation(result), pytrace=False)
        return result

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report an inconclusive run as an error of the set-up, in JUnit XML and in the summary."""
    report = yield
    if call.excinfo and isinstance(call.excinfo.value, Inconclusive):
        report.when, report.outcome = "setup", "failed"  # also for a test that is expected to fail
        vars(report).pop("wasxfail", None)
        setattr(report, PART, call.excinfo.value.part)
    return report


def pytest_configure(config: pytest.Config) -> None:
    """Count, for the exit code."""
    config.pluginmanager.register(_Tally(), "harness-tally")


@dataclass(eq=False)  # plugins are compared by identity
class _Tally:
    """The numbers of failed tests and of tests without a result."""

    failed: int = 0
    inconclusive: int = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and getattr(report, PART, REQUEST) != REQUEST:
            self.inconclusive += 1
        elif report.failed:
            self.failed += 1

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self.inconclusive and not self.failed:
            session.exitstatus = EXIT_INFRASTRUCTURE


def _given(name: str | None, option: str, variable: str) -> str:
    if name is None:
        pytest.skip(f"no {option}: give --{option} NAME, or {variable}")
    return name


@contextmanager
def _refused() -> Iterator[None]:
    """Convert an invalid request to an error with advice and without a traceback of this program."""
    from harness.core.errors import RequestError

    try:
        yield
    except RequestError as error:
        words = f"{error.message}; {error.hint}" if error.hint else error.message
        raise Inconclusive(REQUEST, words) from None


def _request(board: str, model: str, vectors: str, options: Mapping[str, Any]) -> Request:
    from harness.core.errors import unknown_name
    from harness.runs.job import Request

    known = {field.name for field in fields(Request)} - {"board", "model", "vectors"}
    for option in options:
        if option not in known:
            raise unknown_name("option", option, known)
    return Request(board=board, model=model, vectors=vectors, **options)


def _carry_out(asked: Request, workspace: Workspace, node: pytest.Item) -> Result:
    """Return the run; Inconclusive if there is no result."""
    from harness.core.console import Console
    from harness.core.errors import InfrastructureError
    from harness.pipeline.run import execute

    try:
        found, folder = execute(asked, None, workspace, Console.open(as_json=True))
    except InfrastructureError as error:
        _note(node, f"inconclusive ({error.part})", asked, error.run)
        raise Inconclusive(error.part, _failed(asked, error)) from None
    _note(node, found.verdict, asked, folder)
    document = found.to_json()
    return Result(found.verdict, found.reason, document["layers"], folder, document)


def _note(node: pytest.Item, verdict: str, asked: Request, folder: Path | None) -> None:
    """Properties of the test, for JUnit XML."""
    noted = {"verdict": verdict, "board": asked.board, "model": asked.model, "run": str(folder or "none")}
    node.user_properties.extend((f"harness.{name}", value) for name, value in noted.items())


def _failed(asked: Request, error: InfrastructureError) -> str:
    """Return the message: one line for the summary, then the hint and the run folder."""
    first = f"inconclusive ({error.part}): {asked.model} on {asked.board}: {error.message}"
    return "\n".join(filter(None, (first, error.hint, str(error.run or ""))))


def _explanation(result: Result) -> str:
    """Describe the first difference, its cause and its evidence; some summaries show only the first lines."""
    from harness.core.outcome import Outcome
    from harness.runs.entries import RunDocument
    from harness.runs.facts import acceptance, diagnosed

    first = next((layer for layer in result.layers if layer["differing"]), None)
    run = RunDocument.view(result.document)
    causes = (f"{where}: {text}" for where, text in diagnosed(run))
    accept = [acceptance(run)] if result.verdict == Outcome.WITHIN_BOUND else []
    verdict = f"{result.verdict}{_first(first) if first else ''}"
    return "\n".join((verdict, *causes, result.reason, *accept, f"evidence: {result.folder}"))


def _first(layer: Mapping[str, Any]) -> str:
    found = layer["first_difference"]
    return (
        f": layer {layer['name']} (item {layer['item']}, target {layer['target']}, ran on {layer['ran_on']}), vector "
        f"{found['vector']}, unit {found['unit']}: expected {found['expected']}, found {found['actual']}"
    )
