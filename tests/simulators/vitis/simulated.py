"""A row of QGemm layers as one kernel, in C simulation: a library with the function that the fabric would have."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from ctypes import c_int32, c_uint32
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.targets import Launch, TaskView
from harness.targets.vitis import circuit, kernel, records

WHOLE, ACCUMULATE, FINISH, TABLES, IDENTITY, COMPUTE = range(6)
NO_LAYER = 0x7FFFFFFF
FLAGS = ("-std=c++14", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror", "-fno-exceptions", "-shared", "-fPIC")


@dataclass(frozen=True)
class Kernel:
    """The compiled kernel of a launch."""

    library: ctypes.CDLL
    launch: Launch
    digest: str
    fold: int = 1

    @property
    def layers(self) -> tuple[Any, ...]:
        """Its layers."""
        return tuple(task.layer for task in self.launch)

    def ask(
        self, given: Array, made: int, part: int = WHOLE, layer: int = NO_LAYER, *, everything: bool = False
    ) -> Array:
        """int32 (vectors, given) -> (vectors, made); for constants one row of all of them."""
        given = np.ascontiguousarray(given, np.int32)
        result = np.full((len(given), made), -1, np.int32)
        pointers = [array.ctypes.data_as(ctypes.POINTER(c_int32)) for array in (given, result)]
        question = (len(given), everything, part, layer, given.shape[1], made)
        getattr(self.library, kernel.name_of(self.launch))(*pointers, *map(c_uint32, question))
        return result


def launch_of(layers: Sequence[Layer]) -> Launch:
    """Layers each of which reads the one before; the last is wanted."""
    sources = ["input", *(records.output_of(layer) for layer in layers)]
    pairs = zip(layers, sources, strict=False)
    return [TaskView(layer, (source,), is_output=layer is layers[-1]) for layer, source in pairs]


def build(
    launch: Launch, folder: Path, *flags: str, changed: Mapping[str, tuple[str, str]] | None = None, fold: int = 1
) -> Kernel:
    """Compile the launch's kernel in `folder`; `changed` replaces a text in a source."""
    write(launch, folder, changed, fold)
    compile_there(folder, *(flags or ("-O0",)))
    return load(launch, folder, fold)


def write(launch: Launch, folder: Path, changed: Mapping[str, tuple[str, str]] | None = None, fold: int = 1) -> None:
    """The kernel's sources; `changed` replaces a text in one."""
    folder.mkdir(parents=True, exist_ok=True)
    fabric = kernel.fabric_of([kernel.of_launch(launch, fold)])
    for name, content in fabric.sources.items():
        text = content.decode()
        old, new = (changed or {}).get(name, ("", ""))
        assert old in text
        (folder / name).write_text(text.replace(old, new) if old else text)


def compile_there(folder: Path, *flags: str) -> None:
    """The library of the sources in `folder`."""
    command = ["g++", *FLAGS, *flags, "network.cpp", "-o", "network.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def load(launch: Launch, folder: Path, fold: int = 1) -> Kernel:
    """What was built in `folder` for the launch."""
    digest = kernel.fabric_of([kernel.of_launch(launch, fold)]).digest
    return Kernel(ctypes.CDLL(str(folder / "network.so")), launch, digest, fold)


def told(layer: Layer, fold: int = 1) -> Array:
    """All of a layer's constants in the order in which the kernel tells them."""
    return np.concatenate([[], *(table.values.ravel() for table in circuit.of(layer, fold).tables)])
