"""What the tests of several rooms share: the shipped laboratory, this machine as a board, a cache for bundles."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from harness.boards import profile
from harness.boards.profile import BoardProfiles, Profile
from harness.core.installation import ROOT
from harness.targets import toolchain
from harness.targets.cuda import nvrtc
from tests.support import examples
from tests.support import objects as object_files
from tests.support.objects import compiled_once, identified_once, kept, share_with_all_sessions

# A job in a shell's background starts with SIGINT ignored, one of nohup with SIGHUP, and so would all that the tests
# start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# As the profile without deadlines and luck; --hypothesis-profile=default draws other examples.
hypothesis.settings.register_profile("tests", hypothesis.settings.get_profile("ci"), max_examples=examples.count(100))
hypothesis.settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave half of the cases of a function with the mark `half_of_cases` to the campaigns.

    The half follows the Thue-Morse sequence, which does not always leave out the same value of a parameter.  It can
    leave out a rare value: do not mark a function whose cases are chosen already.
    """
    cases: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("half_of_cases") and not item.get_closest_marker("campaign"):
            function = item.nodeid.partition("[")[0]
            if cases[function].bit_count() % 2:
                item.add_marker(pytest.mark.campaign)
            cases[function] += 1


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over modules and tests, which live as long as the session."""
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(scope="session", autouse=True)
def _boards_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The locks of boards that users of a machine share: nobody waits for these tests, nor do they for each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_LOCKS", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> BoardProfiles:
    """`boards.yaml` as it is shipped, without this machine's boards.local.yaml and environment."""
    copy = shutil.copy(ROOT / "boards.yaml", tmp_path_factory.mktemp("laboratory"))
    return profile.load(Path(copy), {})


@pytest.fixture(scope="session")
def host(laboratory: BoardProfiles) -> Profile:
    """The profile of this machine, its items as they are to be read: tests change the text of plain kernels."""
    shipped = laboratory.board("host")
    items = {name: item.model_copy(update={"target": "c"}) for name, item in shipped.items.items()}
    return shipped.model_copy(update={"items": items})


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for bundles that this session alone uses."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what programs have in common, of all workers: to compile takes longer than to run."""
    session = tmp_path_factory.getbasetemp()
    folder = (session.parent if "PYTEST_XDIST_WORKER" in os.environ else session) / "objects"
    folder.mkdir(exist_ok=True)
    share_with_all_sessions(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _identified_once(objects: Path) -> Iterator[None]:
    with identified_once(objects), compiled_once(objects):
        yield


@pytest.fixture
def identified_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers are identified as in a command: for tests of just that."""
    monkeypatch.setattr(toolchain, "identify", object_files.IDENTIFY)
    monkeypatch.setattr(toolchain, "hash_headers", object_files.HASH_HEADERS)
    monkeypatch.setattr(nvrtc, "compile_for", object_files.COMPILE_FOR)


@pytest.fixture(scope="module")
def kept_objects(objects: Path) -> Iterator[None]:
    """Programs are built with the object files of that folder, also those that commands build."""
    with kept(objects):
        yield
