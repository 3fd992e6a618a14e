"""The statements of CUDA for programs of stages, as C: the bits of numpy, also of recurrences."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.core.arrays import Array
from harness.targets import KERNELS
from harness.targets.c import code
from harness.targets.cuda.staged import StagedLowering
from harness.targets.generated import Table
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.support.stages import Example, example
from tests.unit.operators.exact.test_stages import STAGES, X

HEAD = '#include <stddef.h>\n#include "elementary.h"\n#include "saturate.h"\n'


def cuda_text(layer: Example) -> str:
    function = (
        f"static float {layer.name}_compute(const float *x_0, unsigned n)\n{{\n{StagedLowering().value(layer)}\n}}"
    )
    loop = f"for (unsigned n = 0; n < {layer.size}; ++n)\n        out[n] = {layer.name}_compute(x, n);"
    head = f"void {layer.name}(const float *x, float *restrict out)"
    return f"{tables(layer)}\n{function}\n{head};\n{head}\n{{\n    {loop}\n}}"


def tables(layer: Example) -> str:
    return code.definitions([Table(f"{layer.name}_{role}", values) for role, values in layer.numbers().items()])


def assert_bits(texts: Sequence[str], names: Sequence[str], flags: Sequence[str], folder: Path) -> None:
    source, library = folder / "stages.c", folder / "stages.so"
    source.write_text(HEAD + "\n".join(texts), encoding="utf-8")
    command = ["gcc", "-std=gnu11", *flags, *EXACTNESS_FLAGS, "-shared", "-fPIC", f"-I{KERNELS / 'c'}", str(source)]
    subprocess.run([*command, "-o", str(library), "-lm"], check=True)
    program = ctypes.CDLL(str(library))
    vectors = np.random.default_rng(0).normal(size=(50, X.size)).astype(np.float32)
    for name in names:
        right: Array = example(name).prepare()(vectors)
        y = np.empty_like(right)
        for x, out in zip(vectors, y, strict=True):
            getattr(program, name)(*(array.ctypes.data_as(ctypes.c_void_p) for array in (x, out)))
        assert y.tobytes() == right.tobytes(), name


def test_statements_of_cuda_have_the_bits_of_the_definition(tmp_path: Path) -> None:
    assert {"sums_from_the_end", "two_states"} <= {*STAGES}
    assert_bits([cuda_text(example(name)) for name in STAGES], [*STAGES], ["-O2"], tmp_path)
