"""Every test of this folder needs a GPU: a real one or, to try the tests without, HARNESS_GPU_TESTS=simulated."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.boards.profile import BoardProfiles, Profile
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from tests.campaigns.gpu import device
from tests.campaigns.gpu.device import Device, NoGpu
from tests.support.cli.command import User


class NeedsGpu(pytest.Module):
    """A module of tests, which without a GPU are skipped together: in one line with the reason."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        list(super().collect())
        try:
            device.find()
        except NoGpu as reason:
            pytest.skip(f"needs a GPU: {reason}", allow_module_level=True)
        except RequestError as error:
            raise pytest.UsageError(f"{error.message}: {error.hint}") from error
        return super().collect()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    module: pytest.Module = NeedsGpu.from_parent(parent, path=module_path)
    return module


@pytest.fixture(scope="session")
def gpu() -> Device:
    return device.find()


@pytest.fixture(scope="session")
def board(gpu: Device, laboratory: BoardProfiles) -> Profile:
    """The board that has the GPU, as it is shipped."""
    return laboratory.board(gpu.board)


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    """Somebody who has the shipped boards."""
    return User(tmp_path, cache, ROOT / "boards.yaml")
