"""mutants.c, compiled by the real compiler and called with arrays."""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int32, c_size_t, cast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import toolchain

SOURCE = Path(__file__).with_name("mutants.c")


class _Product(Structure):
    _fields_ = (
        ("sum", c_int32),
        ("bias", c_int32),
        *((name, c_float) for name in ("alpha", "sa", "sb", "sy")),
        *((name, c_int32) for name in ("zy", "qmin", "qmax")),
    )


class _Sum(Structure):
    _fields_ = (
        ("depth", c_size_t),
        ("width", c_size_t),
        *((name, POINTER(c_int32)) for name in ("b", "zb", "bias")),
        ("za", c_int32),
        ("a_is_signed", c_bool),
        ("b_is_signed", c_bool),
    )


class _Quantization(Structure):
    _fields_ = (("scale", c_float), *((name, c_int32) for name in ("zero_point", "qmin", "qmax")))


@dataclass(frozen=True)
class Mutants:
    """The library; every family of functions is known by the names that it gives them, the first is right."""

    library: ctypes.CDLL

    @classmethod
    def compile(cls, board: Profile, folder: Path) -> Mutants:
        compiler = toolchain.find(board)
        compiler = dataclasses.replace(compiler, flags=(*compiler.flags, "-shared", "-fPIC"))
        (folder / SOURCE.name).write_bytes(SOURCE.read_bytes())
        compiler.build(folder, [Path(SOURCE.name)], (), (), folder / "mutants.so")
        return cls(ctypes.CDLL(str(folder / "mutants.so")))

    def names(self, family: str) -> list[str]:
        name_of = getattr(self.library, f"{family}_name")
        name_of.restype, name_of.argtypes = c_char_p, [c_size_t]
        names: list[str] = []
        while name := name_of(len(names)):
            names.append(name.decode())
        return names

    def requantize(self, name: str, layer: QGemm, sums: Array) -> Array:
        """The codes (vectors, N) of the sums, int64 (vectors, N), without their bias."""
        codes = self._columns("requantize", name, layer, sums, np.int32)
        return codes.astype(layer.dtype)

    def scale(self, name: str, layer: QGemm, sums: Array) -> Array:
        """The float32 outputs of the sums without their bias."""
        return self._columns("scale", name, layer, sums, np.float32)

    def _columns(self, family: str, name: str, layer: QGemm, sums: Array, dtype: Any) -> Array:
        columns = (_Product * layer.size)(*(_product(layer, column) for column in range(layer.size)))
        output = np.empty(sums.shape, dtype)
        self._call(family, name, *map(c_size_t, sums.shape), _int32(sums), columns, output.ctypes)
        return output

    def accumulate(self, name: str, layer: QGemm, inputs: Array) -> Array:
        """The accumulators, bias included, int64 (vectors, N)."""
        operands = _int32(layer.weights), _int32(layer.weights_zero_point), _int32(layer.bias)
        pointers = (cast(operand, POINTER(c_int32)) for operand in operands)
        signs = (layer.input.dtype == np.int8, layer.weights.dtype == np.int8)
        given = _Sum(layer.input.size, layer.size, *pointers, layer.a_zero_point, *map(bool, signs))
        acc = np.empty((len(inputs), layer.size), np.int32)
        self._call("accumulate", name, c_size_t(len(inputs)), ctypes.byref(given), _int32(inputs), acc.ctypes)
        return acc.astype(np.int64)

    def quantize(self, name: str, layer: QuantizeLinear, x: Array) -> Array:
        """The codes of x."""
        info = np.iinfo(layer.dtype)
        given = _Quantization(layer.scale, layer.zero_point, info.min, info.max)
        codes = np.empty(x.shape, np.int32)
        values = np.ascontiguousarray(x, np.float32)
        self._call("quantize", name, c_size_t(x.size), ctypes.byref(given), values.ctypes, codes.ctypes)
        return codes.astype(layer.dtype)

    def _call(self, family: str, name: str, *arguments: Any) -> None:
        mutant = self.names(family).index(name)
        getattr(self.library, f"{family}_all")(c_size_t(mutant), *arguments)


def _product(layer: QGemm, column: int) -> _Product:
    scales = layer.scales
    info = np.iinfo(layer.dtype if layer.dtype != np.float32 else np.uint8)
    real = scales.alpha, scales.a, scales.b[column], scales.y or 0
    return _Product(0, int(layer.bias[column]), *map(float, real), layer.y_zero_point, info.min, info.max)


def _int32(values: Array) -> Any:
    """A C array of the values."""
    return (c_int32 * values.size)(*values.reshape(-1).tolist())
