"""What goes wrong: each fault done by the hands of the laboratory, to a run that waits at a step."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.build.bundle import PROGRAM
from tests.campaigns.faults.laboratory import WORK, Laboratory, Scene
from tests.campaigns.faults.stage import SLOW, WITHIN, Step

DAY_S = 86_400
EVERYWHERE = tuple(Step)
WHILE_IT_RUNS = (Step.EXECUTE, Step.COLLECT, Step.COMPARE, Step.WRITE)
TRANSFERS = {Step.DEPLOY: 50_000, Step.COLLECT: 3_000}
"""Bytes after which a transfer is in its middle."""
Hand = Callable[[Laboratory, Scene], object]


def _nothing(*_: object) -> None:
    """Nothing is to be done."""


def _forget(lab: Laboratory, step: Step) -> None:
    """A bundle that is there is not copied."""
    if step is Step.DEPLOY:
        lab.shell(f"rm -rf {WORK}/bundles")


def _alter(lab: Laboratory) -> None:
    [kept] = lab.shell(f"ls {WORK}/bundles").split()
    [program] = lab.shell(f"ls {WORK}/runs/*/bundle/{PROGRAM}").split()
    offset = _offset_of_a_bias(lab.cache / "bundles" / Path(kept).stem / PROGRAM)
    lab.shell(
        f"cp {program} {program}.new && printf '\\7\\7' | dd of={program}.new bs=1 seek={offset} conv=notrunc "
        f"&& mv {program}.new {program}"
    )


def _offset_of_a_bias(program: Path) -> int:
    """Of the first one in the file."""
    shown = subprocess.run(["aarch64-linux-gnu-nm", program], capture_output=True, text=True, check=True).stdout
    address = min(int(line.split()[0], 16) for line in shown.splitlines() if re.search(r" r \w+_bias$", line))
    loaded = subprocess.run(["aarch64-linux-gnu-readelf", "-lW", program], capture_output=True, text=True, check=True)
    for line in loaded.stdout.splitlines():
        if line.split()[:1] == ["LOAD"]:
            offset, start, _, size = (int(word, 16) for word in line.split()[1:5])
            if start <= address < start + size:
                return offset + address - start
    raise AssertionError(f"{program} has no bias")


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at one of `steps`; `never` says of the others why it has no meaning there.

    `done` says in words what `strike` does: that breaks something of a run that waits at the step, `prepare` before the
    run begins; `mend` is done before it is resumed.  A run that is stopped by it blames one of `parts` for a reason
    that matches `cause`; at the steps `deadly` it is stopped.  `environment` says how the run is staged; where it
    `tears` what was kept, finished chunks may be done again.
    """

    name: str
    done: str
    strike: Hand
    parts: Collection[str] = ()
    cause: str = ""
    steps: Collection[Step] = EVERYWHERE
    never: str = ""
    deadly: Collection[Step] = ()
    prepare: Callable[[Laboratory, Step], object] = _forget
    mend: Callable[[Laboratory], object] = _nothing
    environment: Collection[str] = ()
    tears: bool = False


# ---- the link


def _cut(lab: Laboratory, scene: Scene) -> None:
    _fail(lab, scene, silently=False)


def _stall(lab: Laboratory, scene: Scene) -> None:
    _fail(lab, scene, silently=True)


def _fail(lab: Laboratory, scene: Scene, *, silently: bool) -> None:
    """In the middle of a transfer, or while the program runs, or at once."""
    if scene.step in TRANSFERS:
        lab.way.fail_after(TRANSFERS[scene.step], silently=silently)
        return
    if scene.step is Step.EXECUTE:
        scene.go()
        lab.await_program()
    (lab.way.silence if silently else lab.way.cut)()


def _slow(lab: Laboratory, _: Scene) -> None:
    lab.way.slow(0.02)


def _mend_way(lab: Laboratory) -> None:
    lab.way.cut()
    lab.way.mend()


# ---- the board


def _while_it_runs(lab: Laboratory, scene: Scene) -> None:
    """Go on with the program of this chunk, or find that of the next at work."""
    if scene.step is Step.EXECUTE:
        scene.go()
    if scene.step in WHILE_IT_RUNS:
        lab.await_program()


def _reboot(lab: Laboratory, scene: Scene) -> None:
    """It ends all sessions in good order."""
    _while_it_runs(lab, scene)
    lab.shell("sync; reboot -f >/dev/null 2>&1 & exit")


def _cut_power(lab: Laboratory, scene: Scene) -> None:
    """No word from it any more, as the network of a board without power has nobody who would close a connection."""
    _while_it_runs(lab, scene)
    lab.way.silence()
    lab.cut_power()


def _power_up(lab: Laboratory) -> None:
    _mend_way(lab)
    lab.power_up()


def _fill_board(lab: Laboratory, _: Scene) -> None:
    lab.shell(f"dd if=/dev/zero of={WORK}/filler bs=4096")


def _free_board(lab: Laboratory) -> None:
    lab.shell(f"rm -f {WORK}/filler")


def _set_board_clock(offset_s: int) -> Hand:
    return lambda lab, _: lab.shell(f"date -s @$(($(date +%s) + {offset_s}))")


def _right_board_clock(lab: Laboratory) -> None:
    lab.on_board("date", "-s", f"@{time.time():.0f}")


# ---- the program


def _kill(lab: Laboratory, scene: Scene) -> None:
    _signal(lab, scene, "KILL")


def _stop(lab: Laboratory, scene: Scene) -> None:
    _signal(lab, scene, "STOP")


def _signal(lab: Laboratory, scene: Scene, name: str) -> None:
    """The program that computes, or at deployment that which receives."""
    if scene.step is Step.DEPLOY:
        lab.way.slow(0.02)
        scene.go()
        lab.on_board("kill", f"-{name}", lab.await_program("cat"))
        lab.way.slow(0.0)
        return
    if scene.step is Step.EXECUTE:
        scene.go()
    lab.on_board("kill", f"-{name}", lab.await_program())


# ---- files

FLIP = """
byte=$(dd if="$file" bs=1 skip=143 count=1 | od -An -tu1)
printf "\\\\$(printf %o $((byte ^ 255)))" | dd of="$file" bs=1 seek=143 conv=notrunc
"""


def _damage(lab: Laboratory, scene: Scene) -> None:
    """One bit of what the program is about to read, or of what is about to be fetched."""
    name = "vectors1.npy" if scene.step is Step.EXECUTE else "out1/03_*.npy"
    lab.shell(f"file=$(ls {WORK}/runs/*/{name}); {FLIP}")


def _alter_bundle(lab: Laboratory, scene: Scene) -> None:
    """Another bias: the program still runs and calls itself by the bundle's name."""
    if scene.step is not Step.DEPLOY:
        _alter(lab)


def _alter_before(lab: Laboratory, step: Step) -> None:
    if step is Step.DEPLOY:
        [kept] = lab.shell(f"ls {WORK}/bundles").split()
        lab.shell(f"printf '\\7\\7' | dd of={WORK}/bundles/{kept} bs=1 seek=2000 conv=notrunc")


# ---- the host


class Untried(Exception):
    """What cannot be done here, and why."""


def _require_small_disk(lab: Laboratory, step: Step) -> None:
    if not lab.disk.is_mount():
        raise Untried("to fill a disk takes a small one, and to mount that takes root")
    _forget(lab, step)


def _fill_host(lab: Laboratory, _: Scene) -> None:
    with (lab.disk / "filler").open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def _free_host(lab: Laboratory) -> None:
    (lab.disk / "filler").unlink()


def _set_host_clock(offset_s: int) -> Hand:
    return lambda lab, _: lab.set_host_clock(offset_s)


def _right_host_clock(lab: Laboratory) -> None:
    lab.set_host_clock(0)


def _kill_host(lab: Laboratory, scene: Scene) -> None:
    if scene.step is Step.EXECUTE:
        scene.go()
        lab.await_program()
    os.kill(scene.pid, signal.SIGKILL)


def _cut_host_power(lab: Laboratory, scene: Scene) -> None:
    """Whatever was not synchronised with the disk is cut short."""
    _kill_host(lab, scene)
    safe = set(map(int, (lab.folder / "synchronised").read_text().split()))
    for path in scene.folder.rglob("runs/*/**/*"):
        if path.is_file() and path.stat().st_ino not in safe:
            os.truncate(path, path.stat().st_size // 2)


OF_A_LINK = r"^network: .*(connection was cut|no sign of life|Connection refused|handshake|not answer|reach)"
OF_A_DISK = r"No space left on device"
WHILE_NEEDED = tuple(step for step in Step if step is not Step.END)
"""The steps at which something of the board is still needed."""
WITH_PROGRAM = (Step.DEPLOY, *WHILE_IT_RUNS)


def _of_the_link(name: str, done: str, strike: Hand, mend: Callable[[Laboratory], object]) -> Fault:
    return Fault(name, done, strike, ["network"], OF_A_LINK, deadly=WHILE_NEEDED, mend=mend, environment=[SLOW])


def _of_the_program(name: str, done: str, strike: Hand, cause: str) -> Fault:
    never, at = "the program has ended", WITH_PROGRAM
    return Fault(name, done, strike, ["board"], cause, at, never, at, mend=_mend_way, environment=[SLOW])


def _of_a_clock(whose: str, set_clock: Callable[[int], Hand], right: Callable[[Laboratory], object]) -> Iterator[Fault]:
    for words, offset_s in (("a day forth", DAY_S), ("a day back", -DAY_S)):
        yield Fault(f"{whose} clock {words}", "the time of day is changed", set_clock(offset_s), mend=right)


def _of_the_host(name: str, done: str, strike: Hand, *, tears: bool) -> Fault:
    return Fault(name, done, strike, deadly=EVERYWHERE, environment=[WITHIN, SLOW], tears=tears)


FAULTS = (
    _of_the_link("connection cut", "the connection is closed at both ends", _cut, _mend_way),
    Fault("link slow", "20 ms for every 8 KiB, in both directions", _slow, mend=_mend_way),
    _of_the_link("link stalled", "no data arrives, and neither end is notified", _stall, _mend_way),
    _of_the_link(
        "board restarted",
        "`reboot -f`; the board starts again and has lost the content of its memory",
        _reboot,
        _power_up,
    ),
    _of_the_link(
        "board without power", "neither end is notified; the board starts again as above", _cut_power, _power_up
    ),
    Fault(
        "board's disk full",
        "a file takes all free space",
        _fill_board,
        ["board"],
        OF_A_DISK,
        deadly=[Step.DEPLOY, Step.EXECUTE],
        mend=_free_board,
    ),
    _of_the_program("program killed", "SIGKILL", _kill, r"killed by signal 9|cannot write .*Killed"),
    _of_the_program(
        "program hung", "SIGSTOP", _stop, r"(writing \S+|/inference) on \S+ (did not end within|has come no further)"
    ),
    *_of_a_clock("board's", _set_board_clock, _right_board_clock),
    Fault(
        "file damaged on the board",
        "a byte of the vectors (execute) or of a dump (collect) is changed",
        _damage,
        ["board"],
        r"SHA-256",
        (Step.EXECUTE, Step.COLLECT),
        "the file does not exist, or was already checked",
        (Step.EXECUTE, Step.COLLECT),
    ),
    Fault(
        "bundle altered on the board",
        "a changed bias, in a program that still reports the bundle's name (deploy: in the cached archive)",
        _alter_bundle,
        ["board"],
        r"was changed on the board while it was in use",
        deadly=[step for step in WHILE_NEEDED if step is not Step.DEPLOY],
        prepare=_alter_before,
    ),
    Fault(
        "host's disk full",
        "a file takes all free space",
        _fill_host,
        ["tool"],
        OF_A_DISK,
        deadly=EVERYWHERE,
        prepare=_require_small_disk,
        mend=_free_host,
    ),
    *_of_a_clock("host's", _set_host_clock, _right_host_clock),
    Fault("two users at once", "another run of the same board is started", lambda lab, _: lab.other_user()),
    _of_the_host("host's process killed", "SIGKILL", _kill_host, tears=False),
    _of_the_host(
        "host without power",
        "also, every file that was not synchronised with the disk is cut in half",
        _cut_host_power,
        tears=True,
    ),
)
