from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.boards import workspace
from harness.core.file_digest import file_sha256
from harness.operators import sweeps
from harness.pipeline import prove as proof
from harness.runs.verification import bundle, revisions, sources
from harness.runs.verification.folder import Evidence
from tests.campaigns.mutation.campaign import EFFORT
from tests.support.cli.command import User
from tests.support.cli.history import History
from tests.support.cli.ready import Servers
from tests.support.objects import searched_once

FEW_FLOATS = 1 << 20


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is downloaded and built is the user's; boards are this worker's, as its locks keep no other off them."""
    own, users = tmp_path_factory.mktemp("cache"), workspace.cache_folder()
    for name in ("bundles", "guest", "litert", "xrt"):
        (users / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        (own / name).symlink_to(users / name)
    return own


@pytest.fixture(scope="session", autouse=True)
def _no_command_starts_from_nothing(objects: Path) -> Iterator[None]:
    with ExitStack() as stack:
        User.servers = Servers(objects, stack)
        yield
    User.servers = None


@pytest.fixture(scope="module", autouse=True)
def _commands_here_share_what_they_can(objects: Path, kept_objects: None) -> Iterator[None]:  # noqa: ARG001 - its effect
    """Nor do those in this process."""
    with searched_once(objects):
        yield


@pytest.fixture
def few_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let proofs of this process sweep the reference over few floats: all take 17 s of a processor."""
    monkeypatch.setattr(sweeps, "FLOATS", FEW_FLOATS)


@pytest.fixture
def small_proof(few_floats: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - its effect
    """Let proofs of this process also execute the program seldom, and delay items little; test_prove.py does all."""
    monkeypatch.setattr(proof, "effort_of", lambda *_: EFFORT)


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A history of this checkout, whatever has been changed in it."""
    return History.make(tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="module")
def clean_checkout(history: History) -> Iterator[None]:
    """This checkout is what the last commit of that history has."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in history.now.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def revisions_asked_once() -> Iterator[None]:
    """A revision is unpacked and started once for each program and files: that takes over a second of a processor."""
    answers: dict[object, Any] = {}

    def ask(evidence: Evidence, program: str, arguments: Sequence[Path | str], folder: Path) -> Any:
        commit = revisions.commit(evidence)
        given = [Path(each) for each in arguments]
        if not all(path.exists() for path in given):  # it also writes a folder
            return revisions.by_its_revision(evidence, program, arguments, folder)
        files = [path for each in given for path in (each, *sorted(each.rglob("*"))) if path.is_file()]
        key = (commit, program, tuple((path.name, file_sha256(path)) for path in files))
        if key not in answers:
            answers[key] = revisions.by_its_revision(evidence, program, arguments, folder)
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (bundle, sources):
            patch.setattr(module, "by_its_revision", ask)
        yield
