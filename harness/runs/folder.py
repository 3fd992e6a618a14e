"""The run folder: the request, every finished chunk, and finally `run.json`.

runs/<time>_<board>_<model>/
    request.json         the request; sufficient to resume the run
    model.onnx           the model, byte for byte
    plan/                the description of each item as text (`harness plan --load`), and the Petri net of all
    stimuli.npy          all vectors
    labels.npz           their labels, if any, and float.onnx, the float model that they also judge
    chunks/00000.json    one finished chunk: comparisons and hashes
    boards/00000.json    the board that computed that chunk; traces.json, readings.json: the board of these
    reference/00000/     its dumps from the reference, one .npy per layer
    target/00000/        its dumps from the board
    traces/              times of all steps of all items, undisturbed and with delays, and the traced vectors
    proof.json           of a proof: every claim with its method, and the assumptions
    answers.jsonl        of an unfinished proof: the claims so far
    wrong-outputs.json   of a measurement: the first wrong outputs, written immediately
    wrong-outputs.npy    these outputs, of all vectors
    failing.npy          of a run that differs: the smallest vector that still differs
    report.html junit.xml log.txt
    attempts.jsonl       start, board and failure of every attempt
    run.json             written last and atomically; a folder without it is an unfinished run
    run.dsse.json        its signatures, if any (`harness sign`)
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from harness.analysis.compare import Comparison
from harness.analysis.diagnosis import Diagnosis, DifferenceSummary
from harness.analysis.local import LocalResult
from harness.boards.identity import BoardIdentity
from harness.core.arrays import Array
from harness.core.document import first_error, write_json
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.locking import try_exclusive
from harness.core.safe_io import parse_json, read_document, require_keys
from harness.execution import dumps
from harness.reference.whole_network import NOTHING, Whole
from harness.runs import ATTEMPTS
from harness.targets import HARDWARE

INTERRUPTED = "the process ended without a word: it was killed, its machine went down, or its disk was full"
LONGEST_NAME = 200  # characters of a run folder: file systems permit 255, with the suffixes of its files on a board
ANSWERS = "answers.jsonl"
WRONG_OUTPUTS = "wrong-outputs.json"
WRONG_OUTPUTS_DUMP = "wrong-outputs.npy"
BOARDS = "boards"  # not a part of the content, so that a run resumed after a reboot has the same content
REQUEST_SCHEMA = 2
REQUEST_KEYS = ("schema", "request", "name", "bundle", "kind", "profile", "board", "command", "token")
STOPPED = {"stopped", "part", "reason"}
ATTEMPT_EVENTS = ({"began"}, {"board"}, STOPPED, {*STOPPED, "disagreement"})  # the keys of the lines of attempts.jsonl
ATTEMPT_STARTS = ('{"began": "', '{"board": {', '{"stopped": "')  # the starts of these lines
LABELS, FLOAT_MODEL = "labels.npz", "float.onnx"
CONTENT = ("chunks/", "failing.npy", FLOAT_MODEL, LABELS, "model.onnx", "plan/", "reference/", "stimuli.npy", "target/")


@dataclass(frozen=True)
class ChunkRecord:
    """One finished chunk: vectors `start` to `stop`, results and SHA-256 of the dumps by layer index.

    `diagnoses` are of the first layers that are wrong themselves, `portraits` of all layers that differ.
    `deployed` is the last layer's result in deployment mode, which a proof asks for.  `ratios` has for each layer the
    largest |ONNX Runtime - reference| / tolerance; None if they had to agree on every bit.  `whole` compares ONNX
    Runtime with the whole model.  `local` is there if the plan has bounded layers: `layers` are then compared with the
    specification for the board's own inputs.
    """

    index: int
    start: int
    stop: int
    layers: tuple[Comparison, ...]
    reference_sha256: tuple[str, ...]
    target_sha256: tuple[str, ...]
    diagnoses: tuple[Diagnosis, ...]
    portraits: tuple[DifferenceSummary, ...]
    deployed: DeployedResult | None = None
    ratios: tuple[float | None, ...] = ()
    whole: Whole = NOTHING
    local: LocalResult | None = None

    def document(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        found = asdict(self)
        return found if self.local else {key: value for key, value in found.items() if key != "local"}


@dataclass(frozen=True)
class DeployedResult:
    """The last layer of a chunk in deployment mode: the SHA-256 of its dump, and the comparison with the reference."""

    sha256: str
    result: Comparison


@dataclass(frozen=True)
class RunFolder:
    """The evidence of a run on disk."""

    path: Path

    @classmethod
    def create_at(cls, path: Path) -> RunFolder:
        """Return a new folder at that path; RequestError if the path exists or cannot be created."""
        try:
            path.mkdir(parents=True)
            (path / "chunks").mkdir()
        except OSError as error:
            raise RequestError(f"cannot create the run folder {path}: {error.strerror}", "give another path") from error
        return cls(path)

    @classmethod
    def create(cls, runs: Path, board: str, model: str, now: datetime) -> RunFolder:
        """Return a new folder named after time, board and model; a counter distinguishes two of the same second.

        A long name is cut, because the names of its files on the board begin with it.
        """
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", f"{now:%Y%m%d-%H%M%S}_{board}_{model}")[:LONGEST_NAME]
        runs.mkdir(parents=True, exist_ok=True)
        for counter in range(1, 1000):
            path = runs / (stem if counter == 1 else f"{stem}_{counter}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            (path / "chunks").mkdir()
            return cls(path)
        raise RequestError(f"{runs}: too many runs named {stem}")

    @classmethod
    def open_unfinished(cls, path: Path) -> RunFolder:
        """Return the folder of a run to resume; RequestError if it does not exist or the run is finished."""
        if not (path / "request.json").is_file():
            raise RequestError(f"{path}: not a run folder", "name a folder under runs/")
        folder = cls(path)
        if folder.is_finished:
            raise RequestError(f"{path}: this run is finished", f"its report is {path / 'report.html'}")
        return folder

    @property
    def is_finished(self) -> bool:
        """Return whether the run is finished; a finished run is never changed."""
        return (self.path / "run.json").exists()

    @property
    def name(self) -> str:
        """The folder's own name, unique among runs."""
        return self.path.name

    @property
    def on_board(self) -> str:
        """The name of its folder on the board, unique also among the runs of other machines."""
        return f"{self.name}_{self.read_request()['token']}"

    @property
    def model(self) -> Path:
        """The model, byte for byte."""
        return self.path / "model.onnx"

    @property
    def stimuli(self) -> Path:
        """All vectors, float32 (vectors, input width)."""
        return self.path / "stimuli.npy"

    @property
    def labels(self) -> Path:
        """The labels of all vectors; see `harness.runs.labels`."""
        return self.path / LABELS

    @property
    def float_model(self) -> Path:
        """The float model that the labels also judge, byte for byte."""
        return self.path / FLOAT_MODEL

    def dumps(self, kind: str, chunk: int) -> Path:
        """Return the folder of one chunk's dumps, created if missing; `kind` is `reference` or `target`."""
        folder = self.path / kind / f"{chunk:05}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def plan(self) -> Path:
        """The folder of the plan's description."""
        return self.path / "plan"

    @property
    def traces(self) -> Path:
        """The folder of the traces, created if missing."""
        folder = self.path / "traces"
        folder.mkdir(exist_ok=True)
        return folder

    def write_request(self, request: Mapping[str, Any], onnx_bytes: bytes) -> None:
        """Write the request and the model, and flush all files of the folder to the disk.

        The board is added by `note_board`, when it is first reached.
        """
        self.model.write_bytes(onnx_bytes)
        synchronise(self.path)
        added = {"schema": REQUEST_SCHEMA, "board": None, "token": secrets.token_hex(4)}
        write_json(self.path / "request.json", dict(request) | added)

    def read_request(self) -> dict[str, Any]:
        """Return the request that `write_request` wrote; RequestError if it is damaged."""
        path = self.path / "request.json"
        try:
            return require_keys(read_document(path), REQUEST_KEYS, path.name)
        except (OSError, ValueError) as error:
            raise RequestError(f"{path}: cannot be read: {error}", "start a new run") from error

    @property
    def board(self) -> BoardIdentity | None:
        """The board that the run was first observed on; None if none was reached.  RequestError for a damaged entry."""
        document = self.read_request().get("board")
        return None if document is None else _identity(document, "request.json, board")

    def note_board(self, reached: BoardIdentity) -> None:
        """Note the board that this attempt has reached; RequestError if the run was started on another board."""
        first = self.board
        if first and (others := first.differences(reached)):
            raise RequestError(
                f"{self.path}: started on another board: {'; '.join(others)}",
                "resume it on that board, or start a new run",
            )
        if first is None:
            write_json(self.path / "request.json", self.read_request() | {"board": reached.document()})
        self._note_attempt({"board": reached.document()})

    def observations(self) -> Iterator[tuple[str, BoardIdentity]]:
        """Yield every part of the folder that names a board, and that board; RequestError for a damaged part."""
        if first := self.board:
            yield "request.json", first
        for number, attempt in enumerate(self.attempts(), 1):
            if attempt["board"] is not None:
                yield f"attempt {number}", _identity(attempt["board"], f"{ATTEMPTS}, attempt {number}")
        for path in sorted((self.path / BOARDS).glob("*.json")):
            yield f"{BOARDS}/{path.name}", self.read_board(path.stem)
        for name in ("proof.json", WRONG_OUTPUTS):
            if (self.path / name).exists():
                yield name, _identity(read_document(self.path / name).get("board"), f"{name}, board")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run for the time of the block; RequestError if another process works on it."""
        with (self.path / ATTEMPTS).open("a") as file:
            if not try_exclusive(file):
                raise RequestError(f"{self.path}: another process works on this run", "wait until it has ended")
            yield

    def start_attempt(self) -> None:
        """Record that a process starts or resumes the run."""
        self._note_attempt({"began": _stamp(now())})

    def stop_attempt(self, part: str, reason: str, disagreement: Mapping[str, Any] | None = None) -> None:
        """Record the reason of a stop: the `part` that failed, or `user`; and the values of engines that disagreed."""
        event = {"stopped": _stamp(now()), "part": part, "reason": reason}
        self._note_attempt(event | ({"disagreement": dict(disagreement)} if disagreement else {}))

    def _note_attempt(self, event: Mapping[str, Any]) -> None:
        _append(self.path / ATTEMPTS, event)

    def recover(self, advance: Callable[[int], object]) -> list[int]:
        """Keep the intact chunks of earlier attempts; return the finished chunks that must be repeated.

        After a power failure, a record may be on the disk without its dumps.  `advance` gets every checked record.
        RequestError if a damaged chunk has shown a wrong activation, because a repetition may not show it again.
        """
        for left in (*self.path.rglob("*.part"), *self.path.glob("failing.npy")):
            left.unlink()
        fetch_all, damaged = self.read_request()["request"]["fetch"] == "all", []
        self._require_proof_of_board()
        for path in self._records():
            if not self._is_whole(path, fetch_all=fetch_all) or not self._is_of_board(path.stem):
                _require_no_finding(path)
                path.unlink()
                damaged.append(int(path.stem))
            advance(1)
        finished = {path.stem for path in self._records()}
        for folder in (*self.path.glob("reference/*"), *self.path.glob("target/*")):
            if folder.name not in finished:
                shutil.rmtree(folder)
        for path in (self.path / BOARDS).glob("*.json"):
            if path.stem not in finished:
                path.unlink()
        return damaged

    def _is_of_board(self, name: str) -> bool:
        """Return whether the record of the board is complete; RequestError if it names another board."""
        try:
            found = self.read_board(name)
        except RequestError:
            return False
        self._require_same(found, f"{BOARDS}/{name}.json")
        return True

    def _require_proof_of_board(self) -> None:
        if proof := self.read_proof():
            self._require_same(_identity(proof.get("board"), "proof.json, board"), "proof.json")

    def _require_same(self, found: BoardIdentity, where: str) -> None:
        if self.board and (others := self.board.differences(found)):
            raise RequestError(
                f"{self.path / where} names another board than request.json: {'; '.join(others)}",
                "the folder was edited: start a new run",
            )

    def _is_whole(self, path: Path, *, fetch_all: bool) -> bool:
        """Return whether a record can be read and its dumps have the recorded hashes."""
        try:
            record = _read_chunk(path)
        except RequestError:
            return False
        pairs = enumerate(zip(record.reference_sha256, record.target_sha256, strict=True))
        kept = [f"{layer:02}" for layer, pair in pairs if fetch_all or pair[0] != pair[1]]
        expected = {name: sha256 for name, sha256 in _dump_hashes(record) if name.rpartition("/")[2] in kept}
        folders = (self.path / kind / path.stem for kind in ("reference", "target"))
        dumps = (dump for folder in folders if folder.is_dir() for dump in folder.iterdir())
        return expected == {
            dump.relative_to(self.path).as_posix().partition("_")[0]: file_sha256(dump) for dump in dumps
        }

    def attempts(self) -> list[dict[str, Any]]:
        """Return every attempt with `began`, `board`, `part` and `reason`; RequestError for an invalid line.

        One that engines of the reference stopped has `disagreement`, too, see `harness.reference.EnginesDisagree`.

        `board` is None if none was reached, or it was not the run's.  `part` and `reason` are empty for a
        running or successful attempt.  An attempt without an end before the next one was killed, its machine stopped,
        or its disk was full: part `host`.
        """
        found: list[dict[str, Any]] = []
        for event in self._attempt_events():
            if "began" in event:
                if found and not found[-1]["part"]:
                    found[-1] |= {"part": "host", "reason": INTERRUPTED}
                found.append({"began": event["began"], "board": None, "part": "", "reason": ""})
            elif found:
                found[-1] |= {key: value for key, value in event.items() if key != "stopped"}
        return found

    def _attempt_events(self) -> Iterator[dict[str, Any]]:
        """Yield the events, without a line that a crash cut short."""
        path = self.path / ATTEMPTS
        text = path.read_bytes().decode(errors="replace") if path.exists() else ""
        for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
            with suppress(JSONDecodeError):
                yield _event(line, f"{path}, line {number}")

    def note_answer(self, answer: Mapping[str, Any]) -> None:
        """Keep the answer to a question of an unfinished proof."""
        _append(self.path / ANSWERS, answer)

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield what `note_answer` kept; ValueError for a cut line, which may be a counterexample."""
        path = self.path / ANSWERS
        yield from map(json.loads, path.read_text().splitlines() if path.exists() else ())

    def write_proof(self, proof: Mapping[str, Any]) -> None:
        """Keep a finished proof, which has all answers."""
        write_json(self.path / "proof.json", proof)
        (self.path / ANSWERS).unlink(missing_ok=True)

    def read_proof(self) -> dict[str, Any] | None:
        """Return the proof that `write_proof` wrote; None if there is no proof."""
        path = self.path / "proof.json"
        return read_document(path) if path.exists() else None

    def note_wrong_outputs(self, found: Comparison, outputs: Array, board: BoardIdentity) -> None:
        """Write the first wrong outputs of a measurement, (vectors, width), before it continues."""
        if not (self.path / WRONG_OUTPUTS).exists():
            write_json(self.path / WRONG_OUTPUTS, asdict(found) | {"board": board.document()})
            dumps.write(self.path / WRONG_OUTPUTS_DUMP, outputs)

    def write_board(self, name: str, board: BoardIdentity) -> None:
        """Note the board that a part of the evidence was observed on: a chunk (its five digits), traces or readings."""
        (self.path / BOARDS).mkdir(exist_ok=True)
        write_json(self.path / BOARDS / f"{name}.json", board.document())

    def read_board(self, name: str) -> BoardIdentity:
        """Return the board as `write_board` noted it; RequestError if the file is missing or damaged."""
        path = self.path / BOARDS / f"{name}.json"
        try:
            return _identity(read_document(path), f"{BOARDS}/{path.name}")
        except (OSError, ValueError) as error:
            raise RequestError(f"{path}: cannot be read: {error}", "start a new run") from error

    def write_chunk(self, record: ChunkRecord, board: BoardIdentity) -> None:
        """Mark a chunk as finished; written after its dumps and the board that computed it."""
        self.write_board(f"{record.index:05}", board)
        write_json(self.path / "chunks" / f"{record.index:05}.json", record.document())

    def chunks(self) -> Iterator[ChunkRecord]:
        """Return the finished chunks in order."""
        return map(_read_chunk, self._records())

    def _records(self) -> list[Path]:
        return sorted((self.path / "chunks").glob("*.json"), key=lambda path: int(path.stem))

    def finish(self, run: Mapping[str, Any]) -> None:
        """Write `run.json` with the SHA-256 of every other file: the run is then finished, even after a power cut."""
        files = dict(self._hashes())
        synchronise(self.path)
        write_json(self.path / "run.json", dict(run) | {"content_sha256": content_sha256(files), "files": files})
        synchronise(self.path)  # its name

    def _hashes(self) -> Iterator[tuple[str, str]]:
        """Yield every file's SHA-256; those of the dumps were computed during the comparison."""
        known = dict(pair for record in self.chunks() for pair in _dump_hashes(record))
        for path in sorted(self.path.rglob("*")):
            if path.is_file() and path.name != "run.json":
                name = path.relative_to(self.path).as_posix()
                yield name, known.get(name.split("_")[0]) or file_sha256(path)


_APPENDING = threading.Lock()


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    """Append the entry on a new line, also after a line that a crash or a full disk cut off.

    Two threads may append at the same time.  Without the lock, one of them could read a line that the other has half
    written.  `held` excludes other processes.  This function must not wait for the lock of `held`: its caller has it.
    """
    with _APPENDING, path.open("a+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        torn = size and os.pread(file.fileno(), 1, size - 1) != b"\n"
        file.write(b"\n" * bool(torn) + json.dumps(entry).encode() + b"\n")
        os.fsync(file.fileno())


def envelope_of(document: str) -> str:
    """Return the name of the file with the signatures of a document, e.g. run.dsse.json of run.json."""
    return f"{Path(document).stem}.dsse.json"


def content_sha256(files: Mapping[str, str]) -> str:
    """Return the hash of the results of a run, without times and attempts.

    `files` are all files' SHA-256 by name.  Two runs of the same bundle over the same vectors have the same hash, even
    if one was interrupted.  It is the SHA-256 of the output of `sha256sum` for these files, sorted by name.
    """
    shown = (name for name in sorted(files) if name.startswith(CONTENT))
    return hashlib.sha256("".join(f"{files[name]}  {name}\n" for name in shown).encode()).hexdigest()


def differs_so_far(path: Path) -> bool | None:
    """Return whether the finished part of a run has a wrong activation.

    None if a part cannot be read and the rest shows none.
    """
    if (path / WRONG_OUTPUTS).exists():
        return True
    found = [_has_found(record) for record in (*(path / "chunks").glob("*.json"), *path.glob("proof.json"))]
    return True if True in found else None if None in found else False


def _has_found(path: Path) -> bool | None:
    """Return whether a record of a chunk or of a proof has a difference; None if it cannot be read."""
    try:
        record = read_document(path)
        if "layers" not in record:
            return not record["holds"]
        deployed = record.get("deployed")
        results = [*record["layers"], *([deployed["result"]] if deployed else [])]
        return any(result["differing"] for result in results)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def was_on_hardware(runs: Path, board: str, target: str) -> bool:
    """Return whether a finished run of any model had an item of the target on the board's hardware."""
    return any(_was_there(path, board, target) for path in runs.glob(f"*_{board}_*/run.json"))


def _was_there(path: Path, board: str, target: str) -> bool:
    try:
        run = read_document(path)
        items = [(item["target"], item["ran_on"]) for item in run["plan"]["items"]]
        return bool(run["board"]["name"] == board and (target, HARDWARE) in items)
    except (OSError, ValueError, KeyError, TypeError):  # missing, or of another version
        return False


def _dump_hashes(record: ChunkRecord) -> Iterator[tuple[str, str]]:
    """Yield the hashes of a chunk's dumps by the part of their names before the layer's, e.g. target/00000/03."""
    for kind, hashes in (("reference", record.reference_sha256), ("target", record.target_sha256)):
        for layer, sha256 in enumerate(hashes):
            yield f"{kind}/{record.index:05}/{layer:02}", sha256


def _event(line: str, where: str) -> dict[str, Any]:
    """Return the event of a line of attempts.jsonl; JSONDecodeError for half a line, RequestError for anything else."""
    try:
        event = parse_json(line)
    except JSONDecodeError as error:
        if line and any(line.startswith(start[: len(line)]) for start in ATTEMPT_STARTS):
            raise
        raise RequestError(f"{where}: {line[:80]!r} is no part of an event of a run", "start a new run") from error
    except ValueError as error:
        raise RequestError(f"{where}: {error}", "start a new run") from error
    if not isinstance(event, dict) or set(event) not in ATTEMPT_EVENTS or json.dumps(event) != line:
        raise RequestError(f"{where}: {line[:80]!r} is not an event of a run", "start a new run")
    return event


def _read_chunk(path: Path) -> ChunkRecord:
    try:
        return _form().validate_python({"chunk": read_document(path)})["chunk"]
    except ValidationError as error:
        reason = first_error(error, path.name)
    except ValueError as error:
        reason = str(error)
    raise RequestError(f"{path}: damaged, or written by another version of harness: {reason}", "start a new run")


@cache
def _form() -> TypeAdapter[dict[str, ChunkRecord]]:
    """Return the form of a chunk, which has no other entries; a dataclass takes this setting from what contains it."""
    return TypeAdapter(dict[str, ChunkRecord], config=ConfigDict(extra="forbid"))


def _identity(document: Any, where: str) -> BoardIdentity:
    try:
        return BoardIdentity.parse(document, where)
    except ValueError as error:
        raise RequestError(f"damaged, or written by another version of harness: {error}", "start a new run") from error


def _require_no_finding(path: Path) -> None:
    """Raise RequestError if a record, as far as it can be read, has a difference."""
    if _has_found(path):
        raise RequestError(
            f"{path}: it has shown wrong activations, and their files are damaged",
            "keep the folder unchanged and start a new run",
        )


def synchronise(folder: Path) -> None:
    """Flush the file system of a folder, one call for thousands of files; OSError if it fails.

    Other disks, such as an unreachable file server, are not involved.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))
    finally:
        os.close(descriptor)


_BEGAN = datetime.now(UTC) - timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))


def now() -> datetime:
    """Return the time in UTC, from the clock at the start of this process: later changes of the clock have no effect.

    The difference of two times includes the sleep of the machine.
    """
    return _BEGAN + timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
