"""Deploying a bundle, running it chunk by chunk, collecting the dumps.

The board is not trusted: every file of the bundle is hashed there before it runs, the program must report the bundle's
hash, and every dump must have the expected length and hash.

Other users of the board cannot replace a file between the check of its hash and its use: each attempt unpacks the
bundle into a new folder that only this user can enter, below the work folder that `harness.boards.work_folder` checks.
"""

from __future__ import annotations

import re
import secrets
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from harness.boards.hashes import hash_files, hash_timeout_s, hashes_of, parse_hashes, require_present
from harness.boards.session import COMMAND_TIMEOUT_S, Board, Completed, Fetch
from harness.build.bundle import PROGRAM, PROTOCOL, Bundle
from harness.core.arrays import Array
from harness.core.errors import BoardError, InfrastructureError
from harness.core.file_digest import file_sha256
from harness.core.safe_io import parse_json
from harness.execution import dumps, fp_environment
from harness.execution.fp_environment import FpEnvironment
from harness.operators.base import Layer
from harness.plan.plan import Plan
from harness.targets import STAND_INS

KILLED = 137  # exit status of a program that got signal 9
SLOTS = 2
DAMAGED = "the copy was damaged or changed; check the board's disk and run again"
DEPLOYMENTS = {"deployment": ("--dump", "last", "--time", "network"), "untimed": ("--dump", "last")}
"""Options of a program whose layers are not dumped, as `harness measure` uses them and without times, by folder."""

ARCHIVE = "bundle.tar"
KEPT = 3  # exit status of UNPACK if the archive is missing or differs

# $1: the folder of the attempt, $2: the archive that is kept for later attempts, $3: its SHA-256, $4...: the files in
# it.  If the attempt's folder is missing, create it with a copy of the kept archive, which no other process has open.
UNPACK = r"""
umask 077
run=$1 kept=$2 sha256=$3
shift 3
archive=$run/bundle.tar
if [ ! -d "$run" ]; then
    mkdir "$run" "$run/bundle" "$run/out0" "$run/out1" || exit
    mkdir "$run/out0/deployment" "$run/out0/untimed" "$run/out1/deployment" "$run/out1/untimed" || exit
    [ -f "$kept" ] && cp "$kept" "$archive" || exit 3
fi
found=$(sha256sum <"$archive") || exit
[ "${found%% *}" = "$sha256" ] || exit 3
tar -xf "$archive" -C "$run/bundle" && mv -f "$archive" "$kept" && cd "$run/bundle" && sha256sum -- "$@"
"""

# $1: the common prefix of the folders of a run.  The shell's `read` omits the NUL between two arguments.
FORGET = r"""
for process in /proc/[0-9]*; do
    read -r arguments <"$process/cmdline"
    case $arguments in *"$1."*) kill -9 "${process#/proc/}" ;; esac
    arguments=
done 2>/dev/null
rm -rf -- "$1".*
"""


@dataclass(frozen=True)
class Deployed:
    """A checked bundle on a board, in the folder of one attempt at a run; `command` starts its program.

    `files` maps the paths of the bundle's files on the board to their SHA-256; together they have `size` bytes.
    `fp_environments` collects the environments that the program reported after each computation.
    """

    board: Board
    folder: PurePosixPath
    run_folder: PurePosixPath
    sha256: str
    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    fp_environments: set[FpEnvironment] = field(default_factory=set, compare=False)


@dataclass(frozen=True)
class Executed:
    """One chunk as computed on the board: its folder there, and the SHA-256 of every layer's dump, "" without one.

    `answer` is the program's report, `deployed` the last layer's dump in deployment mode, if requested.
    """

    out: PurePosixPath
    vectors: int
    sha256: tuple[str, ...]
    answer: dict[str, Any]
    deployed: ExecutedAlone | None = None


@dataclass(frozen=True)
class ExecutedAlone:
    """The last layer's dump of a chunk in deployment mode: its path on the board and its SHA-256."""

    path: PurePosixPath
    sha256: str


def deploy(board: Board, bundle: Bundle, work: PurePosixPath, run: str) -> Deployed:
    """Unpack the bundle in its own folder, check every hash on the board, check the program's first answer.

    `work` is the folder on the board that `reach` returns, `run` a name for this run in it.  Every attempt has its own
    folder, because the program of an attempt that lost its board may still write.
    BoardError if a hash is wrong or the program does not belong to the bundle.
    """
    run_folder = work / "runs" / f"{run}.{secrets.token_hex(4)}"
    folder = run_folder / "bundle"
    try:
        _require_files(bundle, folder, _unpacked(board, bundle, work, run_folder))
        command = start_command(folder, stand_ins=any(path.startswith(f"{STAND_INS}/") for path in bundle.files))
        _shake_hands(board, command, bundle.sha256)
    except BoardError:
        with suppress(InfrastructureError):  # an incomplete copy is useless and may fill the disk
            board.run(["rm", "-rf", str(run_folder)], COMMAND_TIMEOUT_S)
        raise
    files = {str(folder / path): sha256 for path, sha256 in bundle.files.items()}
    size = sum((bundle.folder / path).stat().st_size for path in bundle.files)
    return Deployed(board, folder, run_folder, bundle.sha256, command, files, size)


def forget(board: Board, work: PurePosixPath, run: str) -> None:
    """Remove the files of all attempts at the run from the board, and kill their programs that still run."""
    board.run(["sh", "-c", FORGET, "sh", str(work / "runs" / run)], COMMAND_TIMEOUT_S)


def start_command(folder: PurePosixPath, *, stand_ins: bool) -> tuple[str, ...]:
    """Return the command of the bundle in `folder`, with the path of its stand-in libraries, if any."""
    libraries = ("env", f"LD_LIBRARY_PATH={folder / STAND_INS}") if stand_ins else ()
    return (*libraries, str(folder / PROGRAM))


def _unpacked(board: Board, bundle: Bundle, work: PurePosixPath, run_folder: PurePosixPath) -> dict[str, str]:
    """Unpack the bundle into the folder of the attempt; return the SHA-256 that the board computed, by path.

    One archive contains all files, because a round trip per file takes longer than the transfer.
    """
    kept = work / "bundles" / f"{bundle.sha256[:16]}.tar"
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / ARCHIVE
        _pack(bundle, archive)
        script = ["sh", "-c", UNPACK, "sh", str(run_folder), str(kept), file_sha256(archive), *bundle.files]
        timeout_s = hash_timeout_s(3 * archive.stat().st_size)
        done = board.run(script, timeout_s)
        if done.status == KEPT:
            board.put(archive, run_folder / ARCHIVE)
            done = board.run(script, timeout_s)
    if done.status == KEPT:
        raise BoardError(f"{run_folder / ARCHIVE} on the board differs from the archive that was sent", DAMAGED)
    if done.status != 0:
        raise _failed("unpacking the bundle", done)
    return parse_hashes(done)


def _pack(bundle: Bundle, archive: Path) -> None:
    """Write the files of the bundle as an archive that depends only on their contents."""

    def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.mtime = 1  # GNU tar warns of 0
        info.uname = info.gname = ""
        info.mode = 0o755 if info.mode & 0o100 else 0o644
        return info

    with tarfile.open(archive, "w") as tar:
        for path in bundle.files:
            tar.add(bundle.folder / path, path, filter=anonymous)


def out_folder(run_folder: PurePosixPath, slot: int) -> PurePosixPath:
    """Return the folder into which the program writes the dumps of a slot (of SLOTS)."""
    return run_folder / f"out{slot}"


def _require_files(bundle: Bundle, folder: PurePosixPath, found: Mapping[str, str]) -> None:
    for path, sha256 in bundle.files.items():
        if found.get(path) != sha256:
            raise BoardError(
                f"{folder / path}: SHA-256 on the board is {found.get(path, 'missing')}, expected {sha256}", DAMAGED
            )


def _shake_hands(board: Board, command: Sequence[str], sha256: str) -> None:
    program = command[-1]
    done = board.run([*command, "--version"], COMMAND_TIMEOUT_S)
    if done.status != 0:
        raise BoardError(
            f"{program} does not start on the board (exit status {done.status}): {_tail(done)}",
            "check compiler, flags and glibc in the profile's toolchain against the board",
        )
    answer = _last_line(done)
    if answer.get("bundle") != sha256 or answer.get("protocol") != PROTOCOL:
        raise BoardError(
            f"{program} is bundle {answer.get('bundle')} with protocol {answer.get('protocol')}, "
            f"expected {sha256} with protocol {PROTOCOL}",
            "it is not built from the sources of this bundle: build it again",
        )


def options(plan: Plan) -> list[str]:
    """Return the program's options that follow from the plan."""
    cores = [item.core for item in plan.items]
    pinned = [] if None in cores else ["--pin", ",".join(map(str, cores))]
    return ["--block", str(plan.block), *pinned]


def execute_chunk(
    deployed: Deployed,
    slot: int,
    vectors: Path,
    count: int,
    layers: Sequence[Layer],
    options: Sequence[str],
    timeout_s: float,
    *,
    deployment: bool = False,
    kept: Sequence[bool] | None = None,
) -> Executed:
    """Run the program over `count` vectors of the .npy file `vectors`, all layers dumped and hashed on the board.

    `kept` is whether each layer has its activations still when an execution ends; of others there is no dump.

    The dumps stay in the folder of `slot` (of SLOTS) until the slot is used again: one chunk can be collected while
    the next is executed.  With `deployment`, the program runs again in deployment mode: it dumps only the last layer,
    once with and once without times; of these dumps one that differs is returned.  BoardError if the program fails, is
    killed or runs longer than `timeout_s`, if a dump is missing, or if the program or the vectors are not those that
    were sent.
    """
    there, out = deployed.run_folder / f"vectors{slot}.npy", out_folder(deployed.run_folder, slot)
    deployed.board.put(vectors, there)
    wanted = {index: layer for index, layer in enumerate(layers) if kept is None or kept[index]}
    names = [dumps.file_name(index, layer) for index, layer in wanted.items()]
    modes = {out: (), **{out / name: mode for name, mode in DEPLOYMENTS.items() if deployment}}
    answers = []
    for folder, mode in modes.items():
        answer = run_program(deployed, ["--vectors", str(there), "--out", str(folder), *mode, *options], timeout_s)
        answers.append(answer)
        if answer.get("vectors") != count:
            raise BoardError(f"the program on the board reports {answer.get('vectors')} vectors, not {count}")
    deployed_paths = [folder / names[-1] for folder in modes if folder != out]
    paths = [*(out / name for name in names), *deployed_paths]
    dumped = [*wanted.values(), *(layers[-1] for _ in deployed_paths)]
    size = sum(dumps.size(layer, count) for layer in dumped) + vectors.stat().st_size + deployed.size
    found = hash_files(deployed.board, [*paths, there, *map(PurePosixPath, deployed.files)], size)
    _require_unchanged(found, {**deployed.files, str(there): file_sha256(vectors)})
    hashes = require_present(found, paths)
    alone = [ExecutedAlone(*pair) for pair in zip(paths, hashes, strict=True)][len(wanted) :]
    last = hashes[len(wanted) - 1]
    differing = next((mode for mode in alone if mode.sha256 != last), alone[0] if alone else None)
    of_layer = dict(zip(wanted, hashes, strict=False))
    return Executed(out, count, tuple(of_layer.get(index, "") for index in range(len(layers))), answers[0], differing)


def require_unchanged(deployed: Deployed) -> None:
    """Raise BoardError if a file of the bundle has changed since it was deployed: the program that ran is unknown."""
    _require_unchanged(hash_files(deployed.board, map(PurePosixPath, deployed.files), deployed.size), deployed.files)


def _require_unchanged(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    for path, sha256 in expected.items():
        if found.get(path) != sha256:
            raise BoardError(
                f"{path} was changed on the board while it was in use: its SHA-256 is {found.get(path, 'missing')} "
                f"now, and was {sha256}",
                "check for other users of the board and for a failing disk, then start the run again",
            )


def remove(board: Board, paths: Sequence[str], timeout_s: float) -> None:
    """Remove files from the board; raise BoardError if one is left."""
    done = board.run(["rm", "-f", *paths], timeout_s)
    if done.status != 0:
        raise BoardError(f"the board does not remove old outputs: {_tail(done)}")


def size_of(board: Board, path: PurePosixPath) -> int:
    """Return the size of a file on the board in bytes; raise BoardError if it is unknown."""
    done = board.run(["wc", "-c", str(path)], COMMAND_TIMEOUT_S)
    count = _text(done.stdout).partition(" ")[0]
    if done.status != 0 or not re.fullmatch("[0-9]{1,18}", count):
        raise BoardError(f"the board does not report the size of {path}: {_tail(done)}")
    return int(count)


def fetch_arrays(board: Board, files: Sequence[tuple[PurePosixPath, np.dtype[Any], tuple[int, int]]]) -> list[Array]:
    """Return arrays that the program has just written, each given by path, type and shape (rows, width).

    BoardError if one is missing, or has not the length, header and SHA-256 that it should have.
    """
    sizes = [dumps.HEADER_BYTES + rows * width * dtype.itemsize for _, dtype, (rows, width) in files]
    hashes = hashes_of(board, [path for path, _, _ in files], sum(sizes))
    with tempfile.TemporaryDirectory() as scratch:
        here = [Path(scratch) / path.name for path, _, _ in files]
        board.get_many([Fetch(there, to, size) for (there, _, _), to, size in zip(files, here, sizes, strict=True)])
        return [
            dumps.read_array(path, dtype, shape, sha256)
            for path, (_, dtype, shape), sha256 in zip(here, files, hashes, strict=True)
        ]


def fetch_whole(board: Board, path: PurePosixPath, to: Path, largest: int | None = None) -> None:
    """Fetch a file that the program has just written; BoardError if it is longer than `largest` or damaged."""
    [sha256], size = hashes_of(board, [path], largest or 0), size_of(board, path)
    if largest is not None and size > largest:
        raise BoardError(f"{path} has {size} bytes, at most {largest} were expected")
    board.get(path, to, size)
    if file_sha256(to) != sha256:
        raise BoardError(
            f"{path} was changed during the transfer from the board", "run again; check the network and the disks"
        )


def run_program(deployed: Deployed, arguments: Sequence[str], timeout_s: float) -> dict[str, Any]:
    """Run the deployed program to its end and return its last line.

    BoardError if it fails, is killed or runs longer than `timeout_s`, or if that line does not report completion.
    """
    done = deployed.board.run([*deployed.command, *arguments], timeout_s)
    if done.status != 0:
        status = f"{done.status}, killed by signal {done.status - 128}" if done.status > 128 else str(done.status)
        raise BoardError(f"the program on the board failed (exit status {status}): {_tail(done)}", _hint(done))
    answer = _last_line(done)
    if answer.get("done") is not True or answer.get("bundle") != deployed.sha256:
        raise BoardError(
            f"the program on the board did not finish its work: {_tail(done)}",
            f"its last line must report completion and name bundle {deployed.sha256}",
        )
    if "vectors" in answer:
        deployed.fp_environments.update(fp_environment.parse(answer.get("fp_environment")))
    return answer


def faultless(answer: Mapping[str, Any]) -> str:
    """Return the fault that the program reports about itself; empty without a fault.  BoardError without an answer."""
    fault = answer.get("fault")
    if not isinstance(fault, str):
        raise BoardError(f"the program on the board reports {fault!r} as its fault")
    return fault


def _hint(done: Completed) -> str:
    """Return a hint for a program that failed because something is missing."""
    if b"No space left" in done.stderr:
        return "free space on the board, or use a smaller --chunk"
    if b"does not count" in done.stderr:
        return "check kernel.perf_event_paranoid on the board; virtual machines seldom have counters"
    return "if the board has run out of memory (see dmesg), use a smaller --block" if done.status == KILLED else ""


def devices(deployed: Deployed, timeout_s: float) -> dict[str, str]:
    """Return the device of each item, as its driver names it; items on the processor are left out.

    BoardError if an item cannot be opened, or rejects its device.
    """
    found = run_program(deployed, ["--devices"], timeout_s).get("devices")
    if not isinstance(found, dict):
        raise BoardError(f"the program on the board reports {found!r} as its devices")
    return {str(item): str(device) for item, device in found.items()}


def collect_alone(deployed: Deployed, executed: ExecutedAlone, layer: Layer, vectors: int) -> Array:
    """Return the last layer's dump of a chunk in deployment mode, (vectors, width); BoardError as for `collect`."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch) / executed.path.name
        deployed.board.get_many([Fetch(executed.path, here, dumps.size(layer, vectors))])
        return dumps.read(here, layer, vectors, executed.sha256)


def collect(
    deployed: Deployed, executed: Executed, wanted: Sequence[int], layers: Sequence[Layer], to: Path
) -> dict[int, Array]:
    """Fetch the dumps of the layers `wanted` (indices) into the folder `to` and read them, (vectors, width) each.

    BoardError if one has not the length, header and SHA-256 that it should have.
    """
    names = {index: dumps.file_name(index, layers[index]) for index in wanted}
    sizes = [dumps.size(layers[index], executed.vectors) for index in wanted]
    files = zip(names.values(), sizes, strict=True)
    deployed.board.get_many([Fetch(executed.out / name, to / name, size) for name, size in files])
    return {
        index: dumps.read(to / name, layers[index], executed.vectors, executed.sha256[index])
        for index, name in names.items()
    }


def clean(deployed: Deployed) -> None:
    """Remove the run's folder from the board; the bundle stays for the next run."""
    deployed.board.run(["rm", "-rf", str(deployed.run_folder)], COMMAND_TIMEOUT_S)


def environment(board: Board) -> dict[str, str]:
    """Return kernel, processor, memory, governor and clock of the board; unknown ones are left out."""
    questions = {
        "kernel": ["uname", "-a"],
        "command_line": ["cat", "/proc/cmdline"],
        "processors": ["cat", "/proc/cpuinfo"],
        "memory": ["head", "-1", "/proc/meminfo"],
        "governor": ["cat", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"],
        "clock": ["date", "-u", "+%Y-%m-%dT%H:%M:%SZ"],
    }
    answers = {topic: board.run(question, COMMAND_TIMEOUT_S) for topic, question in questions.items()}
    return {topic: _text(done.stdout) for topic, done in answers.items() if done.status == 0}


def _failed(what: str, done: Completed) -> BoardError:
    full = b"No space left" in done.stderr
    hint = "its disk is full: free some of it" if full else "see the board's work folder"
    return BoardError(f"{what} failed on the board: {_tail(done)}", hint)


def _last_line(done: Completed) -> dict[str, Any]:
    """Return the last JSON line of standard output; empty without one."""
    lines = _text(done.stdout).splitlines()
    try:
        answer = parse_json(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _tail(done: Completed) -> str:
    return _text(done.stderr)[-500:] or _text(done.stdout)[-500:] or "it said nothing"


def _text(output: bytes) -> str:
    return output.decode(errors="replace").strip()
