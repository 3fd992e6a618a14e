"""Steps that `run` and `measure` share, around what each does with the board."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from harness import chunks, dumps, evidence, execute, targets
from harness.board_state import Notify
from harness.errors import BoardError, InfrastructureError, ToolError
from harness.evidence import RunFolder
from harness.execute import Deployed
from harness.jobs import Job
from harness.screen import Screen
from harness.workspace import Workspace

LOCK_WAIT_S = 3600.0
STIMULI_AT_ONCE = 100_000


def host_failure(error: OSError) -> InfrastructureError:
    """A full disk, missing rights: a file of this machine that the run needs."""
    return ToolError(f"this machine: {error}", "check free space and rights of the runs folder and the cache")


def tell_unconfirmed(job: Job, workspace: Workspace, screen: Screen) -> None:
    """What a person has to look at when a target runs on a board's hardware for the first time."""
    for name in dict.fromkeys(item.target for item in job.plan.items):
        target = targets.find(name)
        first = target.unconfirmed and target.ran_on(job.profile) == targets.HARDWARE
        if first and not evidence.was_on_hardware(workspace.runs, job.profile.name, name):
            screen.note(f"target {name} runs on the hardware of {job.profile.name} for the first time; look at this:")
            for line in target.unconfirmed:
                screen.note(f"  [ ] {line}")


@contextmanager
def journal(folder: RunFolder, screen: Screen, go_on: str) -> Iterator[Notify]:
    """Notes that go to the screen and, with the time, to the run's log; `go_on` says what to do if it ends early."""
    folder.begin_attempt()
    with (folder.path / "log.txt").open("a", encoding="utf-8") as log:

        def notify(text: str) -> None:
            screen.note(text)
            log.write(f"{evidence.now():%Y-%m-%dT%H:%M:%SZ} {text}\n")
            log.flush()

        try:
            yield notify
        except BaseException as error:
            reason = str(error) or type(error).__name__
            folder.stop_attempt(_part(error), reason)
            notify(f"stopped: {reason}")
            notify(go_on)
            raise


def _part(error: BaseException) -> str:
    """What stopped a run."""
    if isinstance(error, InfrastructureError):
        return error.part
    return ToolError.part if isinstance(error, Exception) else "user"


def write_stimuli(job: Job, screen: Screen) -> None:
    """Keep all vectors; a file that is there is complete."""
    if job.folder.stimuli.exists():
        return
    count = job.stimuli.count
    temporary = job.folder.path / "stimuli.part"
    with temporary.open("wb") as file, screen.progress("writing stimuli", count) as bar:
        file.write(dumps.header(np.dtype(np.float32), count, job.network.input_width))
        for chunk in chunks.cut(count, STIMULI_AT_ONCE):
            file.write(np.ascontiguousarray(job.stimuli.chunk(chunk.start, chunk.stop)).data.cast("B"))
            bar.advance(chunk.size)
    temporary.replace(job.folder.stimuli)


def devices(job: Job, deployed: Deployed, notify: Notify) -> dict[str, str]:
    """What the items say they run on; BoardError where that is not what evidence would say of them."""
    items = {item.name: targets.find(item.target) for item in job.plan.items}
    asked = {name for name, target in items.items() if target.compiler()}
    if not asked:
        return {}
    found = execute.devices(deployed, job.profile.timeout_s)
    if not asked <= found.keys() <= items.keys():
        raise BoardError(
            f"the program on the board tells the devices of {', '.join(found) or 'no items'}",
            f"it must tell those of {', '.join(sorted(asked))}",
        )
    for item, device in found.items():
        contradiction = items[item].contradiction(job.profile, device)
        if contradiction:
            raise BoardError(contradiction, "check the board's LD_LIBRARY_PATH, or stand_ins in its profile")
        notify(f"item {item} runs on {device}")
    return {f"device of item {item}": device for item, device in found.items()}


def clean(deployed: Deployed, notify: Notify) -> None:
    """All is compared by now: what is left on the board changes no verdict."""
    try:
        execute.clean(deployed)
    except InfrastructureError as error:
        notify(f"warning: the run's folder was not removed from the board: {error.message}")
