"""A chain of QGemm layers as one kernel, in C simulation: a library with the function that the fabric would have."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from ctypes import c_int32, c_uint32
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import rtl
from harness.network import Array, QGemm
from harness.reference import specification
from harness.targets import KERNELS, initialiser

WHOLE, ACCUMULATE, FINISH, TABLES = range(4)
FLAGS = ("-std=c++14", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror", "-fno-exceptions", "-shared", "-fPIC")


class _Question(ctypes.Structure):
    _fields_ = tuple((name, c_uint32) for name in ("vectors", "everything", "part", "layer", "given", "made"))


@dataclass(frozen=True)
class Kernel:
    """The compiled kernel of these layers."""

    library: ctypes.CDLL
    layers: Sequence[QGemm]

    def ask(self, given: Array, made: int, part: int = WHOLE, layer: int = 0, everything: bool = False) -> Array:
        """int32 (vectors, given) -> (vectors, made); for constants one row of all of them."""
        given = np.ascontiguousarray(given, np.int32)
        result = np.full((len(given), made), -1, np.int32)
        question = _Question(len(given), everything, part, layer, given.shape[1], made)
        pointers = [array.ctypes.data_as(ctypes.POINTER(c_int32)) for array in (given, result)]
        self.library.network(*pointers, question)
        return result


def build(
    layers: Sequence[QGemm], folder: Path, *flags: str, changed: Mapping[str, tuple[str, str]] | None = None
) -> Kernel:
    """Compile the layers' kernel in `folder`; `changed` replaces a text in a header."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (KERNELS / "vitis").glob("*.hpp"):
        text = path.read_text()
        old, new = (changed or {}).get(path.name, ("", ""))
        assert old in text
        (folder / path.name).write_text(text.replace(old, new) if old else text)
    (folder / "network.cpp").write_text(source(layers))
    command = ["g++", *FLAGS, *(flags or ("-O1",)), "network.cpp", "-o", "network.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Kernel(ctypes.CDLL(str(folder / "network.so")), layers)


def levels(layer: QGemm) -> list[Array]:
    """The thresholds as the search meets them, (N, 2^s) for each step s."""
    return rtl.threshold_levels(specification.thresholds(layer))


def centred(layer: QGemm) -> Array:
    """b - zb, int32 (K, N)."""
    return layer.weights.astype(np.int32) - layer.weights_zero_point


def constants(layer: QGemm) -> Array:
    """All of a layer's constants in the order in which the kernel tells them."""
    held = [centred(layer), layer.bias, np.array([layer.a_zero_point])]
    if layer.dtype != np.float32:
        held += [*levels(layer), np.array([np.iinfo(layer.dtype).min])]
    return np.concatenate([np.ravel(part) for part in held]).astype(np.int32)


def source(layers: Sequence[QGemm]) -> str:
    """The kernel: constants, and a process a layer."""
    texts = ['#include "layer.hpp"\n']
    for number, layer in enumerate(layers):
        texts.append(_layer(number, layer, before=layers[0].input_width + sum(each.width for each in layers[:number])))
    streams = ", ".join(f"stream_{i}" for i in range(len(layers) + 1))
    calls = "\n".join(f"    layer<layer_{i}>(stream_{i}, stream_{i + 1}, asked);" for i in range(len(layers)))
    texts.append(
        'extern "C" void network(const element *given, element *made, question asked)\n{\n#pragma HLS DATAFLOW\n'
        f"    elements {streams};\n    load(given, stream_0, asked);\n{calls}\n"
        f"    store(stream_{len(layers)}, made, asked);\n}}\n"
    )
    return "\n".join(texts)


def _layer(number: int, layer: QGemm, before: int) -> str:
    """`before` elements of a full record come in; otherwise the inputs alone, which nobody needs behind it."""
    depth, width = layer.input_width, layer.width
    sums = f"{{{initialiser(centred(layer))}, {initialiser(layer.bias)}, {layer.a_zero_point}}}"
    rounding, kind = "{}", "no_thresholds"
    if layer.dtype != np.float32:
        rounding = ", ".join(map(initialiser, levels(layer)))
        rounding, kind = f"{{{rounding}, {np.iinfo(layer.dtype).min}}}", f"thresholds<{width}>"
    return (
        f"struct layer_{number} {{\n    enum : unsigned {{ NUMBER = {number}, DEPTH = {depth}, WIDTH = {width}, "
        f"RECORD = {depth}, AT = 0, FULL_RECORD = {before}, FULL_AT = {before - depth} }};\n"
        "    static bool needed(unsigned) { return false; }\n"
        f"    static const sums<{depth}, {width}> held;\n    static const {kind} rounding;\n}};\n"
        f"const sums<{depth}, {width}> layer_{number}::held = {sums};\n"
        f"const {kind} layer_{number}::rounding = {rounding};\n"
    )
