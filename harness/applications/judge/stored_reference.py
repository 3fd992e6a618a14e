"""A reference that is kept in a folder, for the next engine with the same vectors.

    reference.json      model, vectors, version of harness, and the SHA-256 of the values of each file
    0_conv_1.npy, ...   the specified activations, (vectors, size), one file for each layer

The hash of every file is checked while its values are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from pydantic import Field

from harness import __version__
from harness.core.arrays import Array, file_type
from harness.core.document import Document, write_json
from harness.core.errors import ReferenceFailed, RequestError
from harness.core.installation import revision
from harness.core.safe_io import load_array
from harness.model.network import Network
from harness.reference.stimuli import BLOCK, Stimuli

FILE = "reference.json"


class Reference(Protocol):
    """The right activations, asked for in the order of the vectors."""

    def activations(self, vectors: Array) -> Sequence[Array]:
        """Return the outputs of all layers, (n, size) each, for the next vectors."""


class ReferenceDocument(Document):
    """The content of `reference.json`; `values_sha256` are those of the values of each layer."""

    number: ClassVar[int | None] = 1

    schema_number: int = Field(alias="schema")
    harness: str
    model_sha256: str
    vectors_sha256: str
    vectors: int
    values_sha256: Sequence[str]


class StoredReference:
    """The reference of a folder: it is read if it exists, and else computed and written.

    Raises RequestError if the folder is of another model, of other vectors, or of another version of harness.
    """

    def __init__(self, folder: Path, network: Network, stimuli: Stimuli, specification: Reference) -> None:
        self._folder, self._network, self._count = folder, network, stimuli.count
        self._specification, self._position = specification, 0
        self._hashes = [hashlib.sha256() for _ in network.layers]
        self._about: dict[str, Any] = {
            "harness": f"{__version__} {revision()}",
            "model_sha256": network.sha256,
            "vectors_sha256": _vectors_sha256(stimuli),
            "vectors": stimuli.count,
        }
        self._kept = ReferenceDocument.read(folder / FILE) if (folder / FILE).is_file() else None
        self._files = self._opened() if self._kept else self._created()

    def _paths(self) -> list[Path]:
        return [self._folder / f"{index}_{layer.name}.npy" for index, layer in enumerate(self._network.layers)]

    def _opened(self) -> list[Array]:
        kept = self._kept.to_json() if self._kept else {}
        other = [name for name, value in self._about.items() if kept[name] != value]
        if other:
            names = ", ".join(name.removesuffix("_sha256") for name in other)
            raise RequestError(f"--reference {self._folder}: it is of another {names}", "name a new folder")
        try:
            files = [load_array(path) for path in self._paths()]
        except (OSError, ValueError) as error:
            raise RequestError(f"--reference {self._folder}: cannot be read: {error}", "name a new folder") from error
        return [values.view(layer.dtype) for values, layer in zip(files, self._network.layers, strict=True)]

    def _created(self) -> list[Array]:
        try:
            self._folder.mkdir(parents=True)
        except OSError as error:
            hint = "name a new folder, or one that this command has completed"
            raise RequestError(f"--reference {self._folder}: {error.strerror}", hint) from error
        return [
            np.lib.format.open_memmap(path, "w+", file_type(layer.dtype), (self._count, layer.size))
            for path, layer in zip(self._paths(), self._network.layers, strict=True)
        ]

    def activations(self, vectors: Array) -> Sequence[Array]:
        """Return the outputs of all layers for the next vectors."""
        part = slice(self._position, self._position + len(vectors))
        self._position += len(vectors)
        if self._kept:
            outputs = [values[part] for values in self._files]
        else:
            outputs = list(self._specification.activations(vectors))
            for values, output in zip(self._files, outputs, strict=True):
                values[part] = output.view(values.dtype)
        for digest, output in zip(self._hashes, outputs, strict=True):
            digest.update(np.ascontiguousarray(output).view(np.uint8).data)
        return outputs

    def finish(self) -> None:
        """Check the hashes of what was read, or write the document; an unfinished folder is not read again.

        Raises ReferenceFailed if a value was changed.
        """
        if self._position != self._count:
            return
        hashes = [digest.hexdigest() for digest in self._hashes]
        if self._kept:
            for path, kept, read in zip(self._paths(), self._kept.values_sha256, hashes, strict=True):
                if kept != read:
                    raise ReferenceFailed(f"{path}: its values were changed", "name a new folder: --reference")
            return
        write_json(self._folder / FILE, ReferenceDocument(schema=1, values_sha256=hashes, **self._about))


def _vectors_sha256(stimuli: Stimuli) -> str:
    digest = hashlib.sha256()
    for start in range(0, stimuli.count, BLOCK):
        vectors = stimuli.chunk(start, min(start + BLOCK, stimuli.count))
        digest.update(np.ascontiguousarray(vectors).view(np.uint8).data)
    return digest.hexdigest()
