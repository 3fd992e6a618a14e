"""The vector kernels of float sums with the registers of each kind of processor: the bits of the specification."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

from harness.operators.conv import Conv
from harness.targets.base import KERNELS
from harness.targets.c.kernels import Memory, in_quads
from tests.support.builders import make_model
from tests.support.programs.board_program import parse
from tests.unit.operators.test_float_contraction import conv

FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-ffp-contract=off", "-shared", "-fPIC")
PROCESSORS = {
    "portable": ("-DLANES_PORTABLE",),
    "baseline": (),
    "AVX": ("-mavx",),
    "AVX512": ("-mavx512f", "-mavx512vnni", "-mavx512vbmi", "-mavx512bw", "-mavx512vl"),
}


def code_of(layer: Conv, memory: Memory, name: str) -> str:
    """Return the C code of a function that computes the layer with this memory."""
    head = f"void {name}(const float *in, const float *w, const float *bias, float *out)"
    return (
        f"{head};\n{head}\n{{\n"
        f"    const struct conv_vector layer = {memory.text(layer)};\n    float memory[{memory.size}];\n"
        f"    float sums[FLOAT_CHANNELS * {memory.step}];\n"
        "    conv_vector_float32(&layer, in, memory, w, bias, sums, out);\n}\n"
    )


def compiled(code: str, flags: tuple[str, ...], folder: Path) -> ctypes.CDLL:
    (folder / "conv.c").write_text(f'#include "conv_vector.h"\n{code}')
    library = folder / "conv.so"
    sources = [str(folder / "conv.c"), "-o", str(library), "-I", str(KERNELS / "c"), "-I", str(KERNELS / "program")]
    subprocess.run(["gcc", *FLAGS, *flags, *sources], check=True)
    return ctypes.CDLL(str(library))


def run(function: Any, layer: Conv, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the outputs of the layer, float32 (n, size), as a compiled function computes them."""
    found = np.full((len(x), layer.size), np.nan, np.float32)
    weights, bias = np.ascontiguousarray(in_quads(layer)), np.ascontiguousarray(layer.bias)
    for vector, out in zip(x, found, strict=True):
        function(*(ctypes.c_void_p(each.ctypes.data) for each in (vector, weights, bias, out)))
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("processor", PROCESSORS)
def test_every_kind_of_register_gives_the_specified_bits(processor: str, seed: int, tmp_path: Path) -> None:
    if processor == "AVX512" and "avx512_vbmi" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512")
    rng = np.random.default_rng(seed)
    [layer] = conv(rng, channels=18)[0].layers
    assert isinstance(layer, Conv)
    x = rng.normal(size=(3, layer.input.size)).astype(np.float32)
    fastest = Memory.of(layer)
    assert fastest is not None
    memories = {"copied": Memory.copied(layer, shifted=False), "shifted": Memory.copied(layer, shifted=True)}
    codes = [code_of(layer, memory, name) for name, memory in (memories | {"fastest": fastest}).items()]
    library = compiled("\n".join(codes), PROCESSORS[processor], tmp_path)
    expected = layer.prepare()(x).view(np.uint32)
    for function in (library.copied, library.shifted, library.fastest):
        assert (run(function, layer, x).view(np.uint32) == expected).all()


def test_the_fastest_memory_is_taken() -> None:
    """Small images leave many columns of a line over, large ones few, so that a copy does not pay."""
    kinds = {}
    for channels, side, outputs in ((6, 12, 16), (3, 32, 2)):
        weights = np.zeros((outputs, channels, 5, 5), np.float32)
        given = make_model(
            [
                helper.make_node("Reshape", ["x", "shape"], ["image"]),
                helper.make_node("Conv", ["image", "w"], ["sums"]),
                helper.make_node("Flatten", ["sums"], ["y"]),
            ],
            {"shape": np.array([-1, channels, side, side]), "w": weights},
            {"y": ("float32", outputs * (side - 4) ** 2)},
            width=channels * side**2,
        )
        layer = parse(given).layers[1]
        assert isinstance(layer, Conv)
        memory = Memory.of(layer)
        assert memory is not None
        kinds[side] = memory.direct, memory.shifted
    assert kinds == {12: (False, True), 32: (True, False)}
