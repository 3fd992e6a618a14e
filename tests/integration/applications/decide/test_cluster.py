"""Slabs on the workers of a real Dask scheduler, also while a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import RequestError
from tests.support.cli.command import User
from tests.support.decide.domains import random_domain

# Its import takes half a second, in each process that collects tests.
pytestmark = pytest.mark.skipif(not find_spec("distributed"), reason="the extra `cluster` is not installed")
START_S = 60


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, stack: ExitStack, folder: Path, cache: Path) -> None:
        self._stack, self._folder, self._cache = stack, folder, cache
        self._file = folder / "scheduler.json"
        self._start("dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--no-show")
        deadline = time.monotonic() + START_S
        while not self._file.exists():
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.05)
        from distributed import Client

        self.client = Client(scheduler_file=str(self._file), set_as_default=False)
        stack.callback(self.client.close)
        self.address = str(self.client.scheduler.address)

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker of one thread; a nanny would start another one after a death."""
        return self._start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60")

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(self._file), *arguments]
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=os.environ | {"HARNESS_CACHE": str(self._cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def cluster(tmp_path: Path, cache: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path, cache)


def test_a_killed_worker_changes_nothing(cluster: Cluster, tmp_path: Path, cache: Path) -> None:
    user = User(tmp_path, cache)
    domain = random_domain(1, argmax=True, float_output=True, axes=4, codes=40)
    paths = map(str, domain.write(tmp_path, property="robust", axes=domain.axes()))
    options = [word for pair in zip(("--model", "--property"), paths, strict=True) for word in pair]
    alone = user.harness("decide", *options, "--json").document

    empty = user.harness("decide", *options, "--scheduler", cluster.address)
    assert (empty.code, "has no workers" in empty.err) == (2, True), empty.err

    victim = cluster.worker()
    cluster.client.wait_for_workers(1, timeout=START_S)
    command = user.start("decide", *options, "--scheduler", cluster.address, "--json")
    runs = tmp_path / "runs"
    deadline = time.monotonic() + START_S
    while len(list(runs.glob("*/slabs/*.npz"))) < len(alone["slabs"]) + 2:
        assert time.monotonic() < deadline
        assert command.poll() is None, command.communicate()
        time.sleep(0.002)
    victim.send_signal(signal.SIGKILL)
    cluster.worker()
    out, err = command.communicate(timeout=120)
    assert command.returncode in {0, 1}, err
    together = json.loads(out)
    assert together["decisions_sha256"] == alone["decisions_sha256"]
    assert [slab["decisions_sha256"] for slab in together["slabs"]] == [
        slab["decisions_sha256"] for slab in alone["slabs"]
    ]
    assert together["counts"] == alone["counts"]
    assert np.load(Path(together["run"]) / "decisions.npy").shape == domain.shape
    assert user.harness("verify", together["run"]).code == 0


def test_boxes_are_bounded_by_workers(cluster: Cluster, tmp_path: Path, cache: Path) -> None:
    user, domain = User(tmp_path, cache), random_domain(1, argmax=True, float_output=True)
    model, stated = domain.write(tmp_path, property="robust", axes=domain.axes())
    options = ("decide", "--bounds", "--model", str(model), "--property", str(stated), "--json")
    cluster.worker()
    cluster.client.wait_for_workers(1, timeout=START_S)
    alone, together = user.harness(*options), user.harness(*options, "--scheduler", cluster.address)
    names = ("possible_sha256", "reached_sha256", "witnesses_sha256", "counts")
    assert [together.document[name] for name in names] == [alone.document[name] for name in names]
    assert together.code == alone.code == 1


def test_an_address_without_a_scheduler(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.nightly.cluster.CONNECT_TIMEOUT_S", 1)
    user, domain = User(tmp_path, cache), random_domain(1, argmax=True)
    model, stated = domain.write(tmp_path, property="robust", axes=domain.axes())
    options = ("--model", str(model), "--property", str(stated), "--scheduler", "tcp://127.0.0.1:9")
    with pytest.raises(RequestError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        user.here("decide", *options)
