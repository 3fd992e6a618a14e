"""Defined interference: stress-ng on the board while times are measured, started, checked and ended from here.

It runs on the cores without an item: its purpose is contention for caches, memory, power and the kernel, not for the
item's core, which a priority decides.  If every core has an item, it runs on all of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from threading import Thread
from typing import Literal

from harness.boards.profile import Profile
from harness.boards.session import Board, Completed, Deadline
from harness.boards.tuning import cores as core_sets
from harness.boards.tuning.commands import Notify
from harness.core.debian_packages import install_command
from harness.core.errors import BoardError, InfrastructureError

PROGRAM = "stress-ng"
PID_FILE = "load.pid"
COMMAND_TIMEOUT_S = 30.0
START_S = 20.0
POLL_S = 0.1
END_S = 5
METRICS_CHARACTERS = 4000
LIMIT_S = 4 * 3600.0

LoadName = Literal["idle", "memory", "cpu", "io", "network"]


@dataclass(frozen=True)
class Recipe:
    """Options of stress-ng; a stressor of `per_core` has one worker for each core of the load, others have one.

    The options are fixed, so that a load is the same on every board and with every version.
    """

    per_core: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    reason: str = ""

    def workers(self, cores: int) -> int:
        """Return the number of worker processes on this number of cores."""
        return cores * len(self.per_core) + len(self.single)


RECIPES: Mapping[LoadName, Recipe] = {
    "idle": Recipe(reason="nothing but what the board does anyway"),
    "memory": Recipe(
        per_core=("stream",),
        options=("--stream-l3-size", "8M"),
        reason="reads and writes arrays larger than 8 MiB: takes the memory's bandwidth, evicts shared caches",
    ),
    "cpu": Recipe(
        per_core=("cpu",),
        options=("--cpu-method", "matrixprod"),
        reason="multiplies matrices: takes power and heats, so that clocks may fall, and shares what cores share",
    ),
    "io": Recipe(
        single=("hdd",),
        options=("--hdd-bytes", "64M", "--hdd-opts", "wr-seq,rd-seq,sync"),
        reason="writes 64 MiB to the work folder's disk, synchronously, without pause: interrupts, kernel threads, DMA",
    ),
    "network": Recipe(
        single=("sock", "udp"),
        options=("--sock-domain", "ipv4", "--udp-domain", "ipv4"),
        reason="sends over the loopback: soft interrupts and context switches, without a network card's interrupts",
    ),
}

# $1: where its process id is kept, $2...: the program, which becomes this process.
START = 'echo $$ >"$1" && shift && exec "$@"'

# $1: where the process id is kept.  The number of its children; the fourth field of /proc/PID/stat is the parent.
WORKERS = r"""
read -r pid <"$1" || exit
count=0
for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    set -- ${line##*) }
    [ "$2" != "$pid" ] || count=$((count + 1))
done
echo "$count"
"""

# $1: where the process id is kept, $2: tenths of a second that it may take; a process of another name is not ours.
STOP = r"""
read -r pid <"$1" || exit 0
case $(tr '\0' ' ' <"/proc/$pid/cmdline") in
    *stress-ng*)
        kill -TERM "$pid"
        tenths=$2
        while [ -d "/proc/$pid" ] && [ "$tenths" -gt 0 ]; do
            sleep 0.1
            tenths=$((tenths - 1))
        done
        [ ! -d "/proc/$pid" ] || kill -KILL "-$pid" "$pid"
        ;;
esac
rm -f "$1"
"""


@dataclass
class Load:
    """A background load that ran on `cores`, () for cores that the kernel chose.

    `metrics`, stress-ng's own count of its work, and `failure`, why it did not last as long as the measurement, are
    known at the end of the block.
    """

    name: LoadName
    reason: str
    argv: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    version: str = ""
    metrics: str = ""
    failure: str = ""

    def __post_init__(self) -> None:
        self.running: Future[Completed] | None = None  # no field: it is not part of the load's document

    def check(self) -> None:
        """Raise BoardError if the load has ended."""
        if self.running is not None and self.running.done():
            raise BoardError(
                f"the load {self.name} has ended while times were measured: {_output(self.running)}",
                "what was measured since is not under load: measure for a shorter time, or look at the board",
            )


@contextmanager
def loaded(
    name: LoadName,
    board: Profile,
    session: Board,
    notify: Notify,
    *,
    work: PurePosixPath,
    cores: Collection[int] | None = None,
    limit_s: float = LIMIT_S,
) -> Iterator[Load]:
    """Run the load `name` on the board during the block, at most `limit_s` seconds.

    `work` is its folder on the board, `cores` are those with items, by default those of the profile.  BoardError if
    stress-ng is missing, or if its workers do not run at the start of the block; `Load.check` checks them later.  If
    this process or the link is lost, the load ends with it, on this machine after `limit_s` or with the next load.
    """
    pid_file = str(work / PID_FILE)
    _stop(session, pid_file)  # of a session that was killed: it would disturb `idle` too
    load = _prepare(name, board, session, work, cores, limit_s)
    if not load.argv:
        yield load
        return
    load.running = _start(session, ["sh", "-c", START, "sh", pid_file, *load.argv], limit_s)
    try:
        wanted = RECIPES[name].workers(len(load.cores) or board.cores)
        _await_workers(load, wanted, session, pid_file, load.running)
        notify(f"load {name} runs ({load.version})")
        yield load
    finally:
        _end(load, session, pid_file, load.running, notify)


def arguments(recipe: Recipe, cores: Collection[int], count: int, work: PurePosixPath, limit_s: float) -> list[str]:
    """Return stress-ng's command line for a load on `cores`, or on `count` cores that the kernel chooses."""
    many, pinned = str(len(cores) or count), ["--taskset", core_sets.text(cores)] if cores else []
    stressors = [word for name in recipe.per_core for word in (f"--{name}", many)]
    stressors += [word for name in recipe.single for word in (f"--{name}", "1")]
    # The same numbers each time; no file of its own but below the work folder.
    common = ["--no-rand-seed", "--temp-path", str(work), "--metrics-brief", "--timeout", f"{limit_s:.0f}s"]
    return [PROGRAM, *stressors, *recipe.options, *pinned, *common]


def cores_of(board: Profile, item_cores: Collection[int] | None) -> tuple[int, ...]:
    """Return the cores of a load: those without an item; () means all, if every core or none has an item."""
    pinned = {item.core for item in board.items.values()} if item_cores is None else set(item_cores)
    named = {core for core in pinned if core is not None}
    return tuple(sorted(set(range(board.cores)) - named)) if named else ()


def _prepare(
    name: LoadName,
    board: Profile,
    session: Board,
    work: PurePosixPath,
    item_cores: Collection[int] | None,
    limit_s: float,
) -> Load:
    recipe = RECIPES[name]
    if name == "idle":
        return Load(name, recipe.reason)
    cores = cores_of(board, item_cores)
    argv = arguments(recipe, cores, board.cores, work, limit_s)
    return Load(name, recipe.reason, tuple(argv), cores, _version(session))


def _version(session: Board) -> str:
    done = session.run([PROGRAM, "--version"], COMMAND_TIMEOUT_S)
    if done.status != 0:
        raise BoardError("the board has no stress-ng, which makes the load", f"there, run: {install_command(PROGRAM)}")
    said = done.stdout.decode(errors="replace").strip()[:200]
    return re.sub(r"^stress-ng, version (\S+).*", r"stress-ng \1", said, flags=re.DOTALL)


def _start(session: Board, argv: list[str], limit_s: float) -> Future[Completed]:
    """Run a program to its end in another thread; a session, also over SSH, serves several."""
    done: Future[Completed] = Future()

    def run() -> None:
        try:
            done.set_result(session.run(argv, limit_s + COMMAND_TIMEOUT_S))
        except BaseException as error:  # noqa: BLE001 - the thread that waits for the result raises it
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    return done


def _await_workers(load: Load, wanted: int, session: Board, pid_file: str, running: Future[Completed]) -> None:
    deadline = Deadline.after(START_S)
    while (found := _workers(session, pid_file)) < wanted:
        if running.done() or deadline.passed:
            said = _output(running) if running.done() else f"{found} of {wanted} workers after {START_S:g} s"
            raise BoardError(f"the load {load.name} does not run: {said}", f"try there: {' '.join(load.argv)}")
        time.sleep(POLL_S)


def _workers(session: Board, pid_file: str) -> int:
    said = session.run(["sh", "-c", WORKERS, "sh", pid_file], COMMAND_TIMEOUT_S).stdout.decode(errors="replace")
    return int(said) if re.fullmatch(r"[0-9]{1,6}\s*", said, re.ASCII) else 0


def _stop(session: Board, pid_file: str) -> None:
    session.run(["sh", "-c", STOP, "sh", pid_file, str(10 * END_S)], COMMAND_TIMEOUT_S)


def _end(load: Load, session: Board, pid_file: str, running: Future[Completed], notify: Notify) -> None:
    """End the load; a failure is kept with the load and must not hide the first cause."""
    if running.done():
        load.failure = f"it ended before the measurement: {_output(running)}"
    try:
        done = _ended(session, pid_file, running)
        load.metrics = (done.stdout + done.stderr).decode(errors="replace").strip()[-METRICS_CHARACTERS:]
    except (InfrastructureError, TimeoutError) as error:
        load.failure = load.failure or f"it could not be ended: {error or 'no answer'}"
    if load.failure:
        notify(f"warning: load {load.name}: {load.failure}")


def _ended(session: Board, pid_file: str, running: Future[Completed]) -> Completed:
    """End what runs, again if it was just starting."""
    deadline = Deadline.after(COMMAND_TIMEOUT_S)
    while True:
        _stop(session, pid_file)
        with suppress(TimeoutError):
            return running.result(1.0)
        if deadline.passed:
            raise TimeoutError


def _output(running: Future[Completed]) -> str:
    """Return the last words of a program that has ended."""
    error = running.exception()
    if error is not None:
        return str(error)
    done = running.result()
    said = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return "; ".join(line.strip()[:200] for line in said[-2:]) or f"exit status {done.status}"
