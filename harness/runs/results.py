"""A finished run as Python values: its verdict, its layers and their activations, or its execution times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import model as networks
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.safe_io import read_document
from harness.runs.entries import DifferenceEntry, LayerEntry, RunDocument


@dataclass(frozen=True)
class Layer:
    """One layer of a run; `entry` is its entry in run.json."""

    entry: LayerEntry
    folder: Path

    @property
    def name(self) -> str:
        """The name of the layer in the model."""
        return self.entry.name

    @property
    def differing(self) -> int:
        """The number of activations that differ from the reference."""
        return self.entry.differing

    @property
    def first_difference(self) -> DifferenceEntry | None:
        """Vector, unit, expected and actual value of the first difference; None without one."""
        return self.entry.first_difference

    @property
    def target(self) -> Array:
        """Return the activations that the board computed, (vectors, size), in the type of the layer.

        RequestError if the run left them on the board because they have the hash of the reference (`fetch="mismatch"`),
        or if the board has overwritten them (`buffers="reuse"`).
        """
        return self._activations("target")

    @property
    def reference(self) -> Array:
        """Return the expected activations, (vectors, size), in the type of the layer."""
        return self._activations("reference")

    def _activations(self, side: str) -> Array:
        if not self.entry.kept:
            raise RequestError(
                f"{self.folder}: the activations of {self.name} were overwritten on the board",
                'run with buffers="keep" to keep those of all layers',
            )
        paths = sorted(self.folder.glob(f"{side}/*/{self.entry.index:02}_{self.name}.npy"))
        chunks = len(list(self.folder.glob("chunks/*.json")))
        if len(paths) != chunks:
            raise RequestError(
                f"{self.folder}: {side} has the activations of {self.name} for {len(paths)} of {chunks} chunks",
                'run with fetch="all" to keep all activations',
            )
        return np.concatenate([np.load(path, allow_pickle=False) for path in paths])


class Layers(Mapping[str, Layer]):
    """The layers of a run by their names, in the order of the model."""

    def __init__(self, entries: Iterator[LayerEntry], folder: Path) -> None:
        self._layers = {entry.name: Layer(entry, folder) for entry in entries}

    def __getitem__(self, name: str) -> Layer:
        return self._layers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


@dataclass(frozen=True)
class Run:
    """A finished run, proof or measurement: its folder, and the content of run.json as JSON types."""

    document: Mapping[str, Any]
    folder: Path

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Read a run folder; RequestError if the run is not finished or run.json cannot be read."""
        path = folder / "run.json"
        try:
            return cls(read_document(path), folder)
        except FileNotFoundError:
            raise RequestError(f"{folder}: the run is not finished", "resume it: harness run --resume RUN") from None
        except (OSError, ValueError) as error:
            raise RequestError(f"{path}: cannot be read: {error}", "name another run") from error

    @property
    def verdict(self) -> str:
        """`identical`, `within bound` or `differs`.

        The verdict of a measurement is `measured`, `regressed`, `varies`, `differs` or `inconclusive`.
        """
        return str(self.document["verdict"])

    @property
    def reason(self) -> str:
        """One sentence that explains the verdict."""
        return str(self.document["reason"])

    @property
    def board_kind(self) -> str:
        """Return `hardware`, `emulated`, `virtual machine` or `this machine`; each layer states where it ran."""
        return str(self.document["board"]["kind"])

    @property
    def report(self) -> Path:
        """The web page of the run."""
        return self.folder / "report.html"

    @property
    def layers(self) -> Layers:
        """The layers by their names; empty for a measurement."""
        return Layers(iter(RunDocument.view(self.document).layers if "layers" in self.document else ()), self.folder)

    @property
    def stimuli(self) -> Array:
        """Return all vectors, (vectors, input width); of several inputs the bytes of each vector, see `inputs`."""
        return np.asarray(np.load(self.folder / "stimuli.npy", mmap_mode="r", allow_pickle=False))

    @property
    def inputs(self) -> dict[str, Array]:
        """Return the values of each input of the network by its name, (vectors, size), for all vectors."""
        return networks.load(self.folder / "model.onnx").values(self.stimuli)

    @property
    def readings(self) -> Array:
        """Return all readings of a measurement, uint64 (executions, parts), in ns or counted events."""
        return np.asarray(np.load(self.folder / "readings.npy", mmap_mode="r", allow_pickle=False))
