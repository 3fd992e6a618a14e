"""The Python interface: a lab folder and its runs.

    from harness import Lab
    run = Lab(".").run("host", "acas_coc", vectors=5000)
    assert run.verdict == "identical"
    codes = run.layers["dense_1"].target  # (5000, 50)

The methods call the same pipelines as the commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from pydantic import ValidationError

from harness import targets
from harness.boards import workspace
from harness.boards.tuning import LoadName
from harness.boards.workspace import LAST
from harness.core.arrays import Array
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.pipeline import measure as measure_pipeline
from harness.pipeline import run as run_pipeline
from harness.pipeline.prove import default_floats
from harness.plan.plan import Buffers, Sync
from harness.reference import vector_files
from harness.runs.job import Fetch, Floats, Request, unfinished_request
from harness.runs.labels import MetricName
from harness.runs.measurement.request import Choices, Count, Scope
from harness.runs.results import Run

PathLike: TypeAlias = str | os.PathLike[str]
Vectors: TypeAlias = int | PathLike | Array | Mapping[str, Array]
"""A number of seeded vectors; a file or folder; an array (vectors, ...); or arrays by the name of the input."""


class Options(TypedDict, total=False):
    """Options that `Lab.run`, `Lab.prove` and `Lab.measure` share; those that are missing have the board's default."""

    seed: int
    """The seed of the generated vectors."""
    items: Sequence[str]
    """The target of each item of the board, such as ("c", "c")."""
    split: Sequence[str]
    """The distribution of layers over items, such as ("dense_2=network,pipeline",)."""
    sync: Sync
    """The synchronisation of items."""
    buffers: Buffers
    """Use of memory: `keep` the activations of all layers for the comparison, or `reuse` their bytes."""
    stream: int
    """The axis along which the model is run as a stream."""
    pulse: int
    """The new frames of a step of a stream."""
    steps: int
    """The steps after which a new stream begins."""
    reference: Sequence[str]
    """The engines that must agree on the reference, such as ("ort", "specification", "tract")."""
    x64_quant_precision: bool
    """The option session.x64quantprecision of ONNX Runtime in the reference."""
    run_folder: str
    """The folder of the evidence instead of a new one among `Lab.runs`."""


class Lab:
    """A lab folder: its boards, models and runs.

    Each method raises `harness.RequestError` for an invalid request, and `harness.InfrastructureError` if a board, a
    tool or the reference failed.  In the latter case there is no verdict, and the attribute `run` of the error is the
    folder to resume.

    `run`, `prove` and `measure` have arguments of their own, and those of `harness.lab.Options`.
    """

    def __init__(
        self,
        folder: PathLike | None = None,
        *,
        boards: PathLike | None = None,
        runs: PathLike | None = None,
        progress: bool = False,
    ) -> None:
        """Open a lab folder.

        Arguments:
            folder: the lab folder; None selects the one that commands would use here.
            boards: a file of boards instead of the folder's.
            runs: a folder of runs instead of the folder's.
            progress: whether notes and progress bars are printed on standard error.

        """
        paths = (None if path is None else Path(path) for path in (boards, runs, folder))
        self._workspace = workspace.find(*paths)
        self._console = Console.open(as_json=True) if progress else Console.silent()

    @property
    def boards(self) -> list[str]:
        """The names of all boards."""
        return list(targets.load_boards(self._workspace.boards).profiles)

    @property
    def models(self) -> list[str]:
        """The names of all models."""
        return [path.stem for path in self._workspace.model_files()]

    @property
    def runs(self) -> list[str]:
        """The names of all run folders, the newest first."""
        return self._workspace.run_names()

    def load(self, run: PathLike = LAST) -> Run:
        """Return a finished run by its name or path, by default the last one."""
        return Run.read(self._workspace.run(Path(run)))

    def run(
        self,
        board: str,
        model: str,
        *,
        vectors: Vectors = 100_000,
        block: int | None = None,
        cover: float | None = None,
        chunk: int | None = None,
        fetch: Fetch | None = None,
        trace: int = 100,
        accept: Literal["bound"] | None = None,
        labels: PathLike | Array | None = None,
        metric: MetricName | None = None,
        float_model: PathLike | None = None,
        **options: Unpack[Options],
    ) -> Run:
        """Run a model on a board and compare every activation with the reference.

        Arguments:
            board: a name in boards.yaml.
            model: a name under models/, or the path of an ONNX file.
            vectors: see `Vectors`; arrays have the type of the model's input.
            block: vectors that an item computes before each hand-over.
            cover: share of all codes for which vectors are searched; `vectors` is then the maximum.
            chunk: vectors per step, the unit of resume.
            fetch: dumps to fetch from the board: all, or those of layers that differ.
            trace: number of executions to trace and replay on the plan's Petri net.
            accept: "bound" if `within bound` is good, too.
            labels: labels of the vectors: a file, or an array of classes (n,), targets (n, k) or boxes (m, 6).
            metric: what the labels are for; None for what fits output and labels.
            float_model: the float model that the labels also judge; None for the one that the model names.
            options: see `Options`.

        """
        own = {"block": block, "cover": cover, "chunk": chunk, "fetch": fetch, "trace": trace, "accept": accept}
        judged = {"metric": metric, "float_model": None if float_model is None else str(float_model)}
        with _vectors_option(vectors) as source, _labels_option(labels) as file:
            request = _request(board=board, model=model, vectors=source, labels=file, **judged, **own, **options)
            return self._execute(request, None)

    def resume(self, run: PathLike = LAST) -> Run:
        """Resume an unfinished run, by default the last one."""
        folder = self._workspace.run(Path(run))
        return self._execute(unfinished_request(folder), folder)

    def prove(
        self,
        board: str,
        model: str,
        *,
        floats: Floats | None = None,
        vectors: Vectors = 10_000,
        block: int | None = None,
        trace: int = 100,
        **options: Unpack[Options],
    ) -> Run:
        """Prove that a board computes a model correctly for all inputs, then compare vectors as `run` does.

        Arguments, in addition to those of `run`:
            floats: inputs of QuantizeLinear on the board: all 2^32, or those where codes change; by default all, but
                those where codes change on an emulated board.
        """
        floats = floats or default_floats(targets.load_boards(self._workspace.boards).board(board))
        own = {"floats": floats, "block": block, "trace": trace}
        with _vectors_option(vectors) as source:
            return self._execute(_request(board=board, model=model, vectors=source, **own, **options), None)

    def measure(
        self,
        board: str,
        model: str,
        *,
        samples: int | None = None,
        duration_s: float | None = None,
        scope: Scope | None = None,
        count: Count | None = None,
        load: LoadName = "idle",
        warmup: int | None = None,
        against: Sequence[PathLike] = (),
        **options: Unpack[Options],
    ) -> Run:
        """Measure the execution times of a model on a board, or count its instructions.

        Arguments:
            board: a name in boards.yaml.
            model: a name under models/, or the path of an ONNX file.
            samples: number of executions.
            duration_s: minimum duration of the measurement, seconds.
            scope: the measured part.
            count: times, or events of the processor.
            load: the load on the board during the measurement.
            warmup: number of executions before the measured ones.
            against: earlier measurements to compare with, by name or path; at least three include the noise between
                runs.
            options: see `Options`.

        """
        request = _request(board=board, model=model, **options)
        choices = Choices(samples=samples, duration_s=duration_s, scope=scope, count=count, load=load, warmup=warmup)
        bases = [Path(path) for path in against]
        measurement = measure_pipeline.build_request(request, self._workspace, against=bases, **choices)
        return Run.read(measure_pipeline.execute(measurement, self._workspace, self._console)[1])

    def _execute(self, request: Request, unfinished: Path | None) -> Run:
        return Run.read(run_pipeline.execute(request, unfinished, self._workspace, self._console)[1])


def _request(**options: Any) -> Request:
    """Return a request; RequestError for a wrong type or value."""
    try:
        return Request(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option, message = str(first["loc"][0]), first["msg"]
        raise RequestError(
            f"{option} {first['input']!r}: {message[:1].lower()}{message[1:]}", "see help(Lab)"
        ) from error


@contextmanager
def _vectors_option(vectors: Vectors) -> Iterator[str]:
    """Yield a number or a path; arrays are in a temporary file, or in a folder of a file for each input."""
    if not isinstance(vectors, np.ndarray | Mapping):
        yield str(vectors)
        return
    with TemporaryDirectory() as folder:
        if isinstance(vectors, np.ndarray):
            path = Path(folder) / "array.npy"
            _save(path, vectors)
        else:
            path = Path(folder)
            for name, values in vectors.items():
                _save(path / vector_files.file_name(name), np.asarray(values))
        yield str(path)


@contextmanager
def _labels_option(labels: PathLike | Array | None) -> Iterator[str | None]:
    """Yield a path; an array is in a temporary file."""
    if not isinstance(labels, np.ndarray):
        yield None if labels is None else str(labels)
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "labels.npy"
        _save(path, labels, "labels")
        yield str(path)


def _save(path: Path, values: Array, name: str = "vectors") -> None:
    if values.dtype.hasobject:
        raise RequestError(f"{name}: an array of {values.dtype}, not float32", f"convert it: {name}.astype('float32')")
    np.save(path, values, allow_pickle=False)
