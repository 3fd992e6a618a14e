"""Workers of a Dask scheduler as a pool: several machines work on the tasks of one command."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager

from harness import __version__
from harness.core.errors import InfrastructureError, RequestError
from harness.core.installation import install_extra, revision

CONNECT_TIMEOUT_S = 10
RETRIES = 3
"""Repetitions of a task that failed; the scheduler itself repeats a task whose worker was lost."""


def version() -> tuple[str, str | None]:
    """Return version and revision of this installation."""
    return __version__, revision()


@contextmanager
def connected(address: str) -> Iterator[tuple[Executor, int]]:
    """Provide the workers of the scheduler at `address` as an executor, and the number of their threads.

    RequestError if Dask is not installed, the scheduler does not answer, has no workers, or if a worker has another
    version of this program.  InfrastructureError if a task lost several workers, or the scheduler was lost.
    """
    try:
        from distributed import Client
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise RequestError("--scheduler needs Dask, which is not installed", install_extra("cluster")) from error
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RequestError(f"no Dask scheduler answers at {address}: {reason}", "start one: dask scheduler") from error
    try:
        threads = sum(client.nthreads().values())
        if not threads:
            raise RequestError(f"the scheduler {address} has no workers", f"start some: dask worker {address}")
        for name, found in client.run(version, on_error="return").items():
            if found != version():
                has = f"harness {found[0]} ({found[1]})" if isinstance(found, tuple) else f"no such harness: {found}"
                raise RequestError(
                    f"worker {name} has {has}; this machine has harness {version()[0]} ({version()[1]})",
                    "install the same revision on all workers",
                )
        yield client.get_executor(retries=RETRIES, pure=False), threads
    except (KilledWorker, CancelledError) as error:
        raise InfrastructureError(
            f"the scheduler {address} gave a task up: {error}", "see the logs of its workers; --resume continues"
        ) from error
    finally:
        client.close()
