"""Small networks as device code, and the stand-in for the CUDA driver that runs them on this machine's processor."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.network import Array
from harness.targets.cuda import nvrtc
from harness.toolchain import EXACTNESS_FLAGS

CUDA = Path(__file__).parents[3] / "kernels/cuda"
SIMULATION = CUDA / "simulation"
DRIVER = Path(__file__).with_name("driver.c")
LANGUAGE_FLAGS = (
    *("-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wl,-soname,libcuda.so.1", "-Wl,-z,defs"),
)


@dataclass(frozen=True, eq=False)
class Chain:
    """QGemms one behind the other, uint8 activations and int8 weights: b[k][n], bias[n], m[n], zero point za = zy."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    multipliers: tuple[Array, ...]
    zero_point: int = 3

    @property
    def widths(self) -> tuple[int, ...]:
        return (len(self.weights[0]), *(b.shape[1] for b in self.weights))

    def activations(self, codes: Array) -> tuple[Array, ...]:
        """By the formulas of the specification, the input first; uint8 (vectors, width) each."""
        found = [codes]
        for b, bias, m in zip(self.weights, self.biases, self.multipliers, strict=True):
            acc = (found[-1].astype(np.int64) - self.zero_point) @ b.astype(np.int64) + bias
            scaled = acc.astype(np.int32).astype(np.float32) * m
            found.append(np.clip(np.rint(scaled) + self.zero_point, 0, 255).astype(np.uint8))
        return tuple(found)


def random_chain(*widths: int, seed: int = 0) -> Chain:
    """With accumulators near half-way between two codes, and codes that seldom saturate."""
    random = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(widths))
    return Chain(
        tuple(random.integers(-128, 128, (k, n)).astype(np.int8) for k, n in pairs),
        tuple(random.integers(-5000, 5000, n).astype(np.int32) + 40000 for _, n in pairs),
        tuple((random.integers(1, 4, n) / np.float32(1024)).astype(np.float32) for _, n in pairs),
    )


def random_codes(chain: Chain, vectors: int) -> Array:
    return np.random.default_rng(1).integers(0, 256, (vectors, chain.widths[0])).astype(np.uint8)


# Device code


def _table(kind: str, name: str, rows: Array) -> str:
    """`rows` of the values of a type such as uint4, or of plain values."""
    texts = ("{" + ", ".join(map(_literal, row)) + "}" if np.ndim(row) else _literal(row) for row in rows)
    return f"__device__ {kind} {name}[{len(rows)}] = {{{', '.join(texts)}}};\n"


def _literal(value: Array) -> str:
    return float(value).hex() + "f" if isinstance(value, np.float32) else str(value)


def _padded(values: Array, width: int) -> Array:
    padded = np.zeros(-(-width // 4) * 4, values.dtype)
    padded[:width] = values
    return padded.reshape(-1, 4)


def _packed(weights: Array) -> Array:
    """Words of four inputs' weights, for four outputs side by side: uint32 (groups * words, 4)."""
    depth, width = weights.shape
    whole = np.zeros((-(-depth // 4) * 4, -(-width // 4) * 4), np.uint32)
    whole[:depth, :width] = weights.astype(np.uint8)
    bytes_of_words = whole.reshape(whole.shape[0] // 4, 4, whole.shape[1] // 4, 4)
    words = sum(bytes_of_words[:, i] << np.uint32(8 * i) for i in range(4))
    return np.asarray(words).transpose(1, 0, 2).reshape(-1, 4)


def fused_text(chain: Chain) -> str:
    """All layers in the kernel `network_forward`."""
    half = f"{max(-(-width // 4) for width in chain.widths)} * STRIDE"
    tiles = ("&tiles[0]", f"&tiles[{half}]")
    steps = [f"    load<uint8_t, {chain.widths[0]}>(carry, a0, {tiles[0]});\n"]
    for i, b in enumerate(chain.weights):
        steps.append(_fused_step(i, b.shape, tiles[i % 2], tiles[(i + 1) % 2]))
    outputs = ", ".join(f"uint8_t *a{i + 1}" for i in range(len(chain.weights)))
    head = (
        f"KERNEL __launch_bounds__(128) network_forward(unsigned vectors, const uint8_t *a0, {outputs})\n{{\n"
        f"    __shared__ uint4 staged[STAGED];\n    __shared__ uint32_t tiles[2 * {half}];\n"
        "    const Carried carry = carried(vectors);\n"
    )
    layers = [_fused_layer(chain, i) for i in range(len(chain.weights))]
    return "".join(["#define VECTORS 128\n", '#include "fused.cuh"\n', *layers, head, *steps, "}\n"])


def _fused_layer(chain: Chain, i: int) -> str:
    b = chain.weights[i]
    depth, width = b.shape
    offset = chain.biases[i] - chain.zero_point * b.sum(axis=0, dtype=np.int32)
    return (
        _table("uint4", f"weights{i}", _packed(b))
        + _table("uint4", f"offset{i}", _padded(offset.astype(np.int32).view(np.uint32), width))
        + _table("float4", f"multiplier{i}", _padded(chain.multipliers[i], width))
        + f"ONE_CODE int4 accumulate{i}(const uint32_t *a, const uint4 *b, unsigned g) "
        f"{{ return accumulate_four<uint8_t, int8_t, {depth}>(a, b, offset{i}[g], nullptr); }}\n"
        f"ONE_CODE uint32_t finish{i}(int4 acc, unsigned g) "
        f"{{ return requantize_four<uint8_t>(acc, multiplier{i}[g], {chain.zero_point}); }}\n"
    )


def _fused_step(i: int, shape: tuple[int, ...], from_tile: str, to_tile: str) -> str:
    depth, width = shape
    return (
        f"    each_group<{-(-depth // 4)}, {width}>(weights{i}, staged, {from_tile}, {to_tile},\n"
        "        [](const uint32_t *a, const uint4 *b, unsigned g) "
        f"{{ return finish{i}(accumulate{i}(a, b, g), g); }});\n"
        f"    store<uint8_t, {width}>(carry, {to_tile}, a{i + 1});\n"
    )


def layerwise_text(chain: Chain) -> str:
    """A kernel for each layer, `layer0_forward` and so on."""
    parts = ['#include "layerwise.cuh"\n']
    zero_point = chain.zero_point
    for i, (b, bias, m) in enumerate(zip(chain.weights, chain.biases, chain.multipliers, strict=True)):
        depth, width = b.shape
        parts.append(_table("int8_t", f"weights{i}", b.reshape(-1)))
        parts.append(_table("int32_t", f"bias{i}", bias) + _table("float", f"multiplier{i}", m))
        parts.append(
            f"ONE_CODE int32_t accumulate{i}(const uint8_t *a, unsigned n) "
            f"{{ return qgemm_accumulate<{depth}, {width}>(a, weights{i}, 0, bias{i}[n], {zero_point}, n); }}\n"
            f"ONE_CODE uint8_t finish{i}(int32_t acc, unsigned n) "
            f"{{ return requantize<uint8_t>(acc, multiplier{i}[n], {zero_point}); }}\n"
            f"KERNEL layer{i}_forward(unsigned vectors, const uint8_t *a, uint8_t *y)\n{{\n"
            f"    const Output<{width}> out;\n    if (out.v < vectors)\n"
            f"        y[out.v * {width} + out.n] = finish{i}(accumulate{i}(&a[out.v * {depth}], out.n), out.n);\n}}\n"
        )
    return "".join(parts)


def registry_text(kernels: Mapping[str, bool], tables: Sequence[str]) -> str:
    """`kernels` by name, and whether they have barriers."""
    listed = ", ".join(f"SIMULATED_KERNEL({name}, {str(barriers).lower()})" for name, barriers in kernels.items())
    named = ", ".join(f"SIMULATED_TABLE({name})" for name in tables)
    return (
        '#include "cuda_on_cpu.h"\n#include "network.cu"\n#include "registry.h"\n'
        f"const simulated_kernel simulated_kernels[] = {{{listed}}};\n"
        "const size_t simulated_kernel_count = SIMULATED_COUNT(simulated_kernels);\n"
        f"const simulated_table simulated_tables[] = {{{named}}};\n"
        "const size_t simulated_table_count = SIMULATED_COUNT(simulated_tables);\n"
    )


# Building


def build(
    folder: Path,
    text: str,
    registry: str,
    *flags: str,
    compiler: Sequence[str] = ("gcc",),
    headers: Path = CUDA,
) -> Path:
    """The stand-in for device code `text`: `folder`/libcuda.so.1.  AssertionError if the compiler says a word."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.cu").write_text(text)
    (folder / "network.cpp").write_text(registry)
    sources = [folder / "network.cpp", *sorted(SIMULATION.glob("*.cpp"))]
    include = [f"-I{path}" for path in (folder, headers, SIMULATION)]
    library = folder / "libcuda.so.1"
    compile_quietly([*compiler, *LANGUAGE_FLAGS, *EXACTNESS_FLAGS, *flags, *include, *map(str, sources)], library)
    return library


def build_driver(folder: Path, *flags: str) -> Path:
    """The program of driver.c."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "driver"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-O1", *flags, f"-I{CUDA}", str(DRIVER)]
    compile_quietly([*command, "-ldl"], program)
    return program


def compile_quietly(command: Sequence[str], output: Path) -> None:
    done = subprocess.run([*command, "-o", str(output), "-lm"], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def cuda_headers() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in CUDA.glob("*.cuh")}


def compiled(arch: str, text: str) -> nvrtc.Compiled:
    """PTX and cubin of device code `text`."""
    return nvrtc.compile_for(arch, "network.cu", text.encode(), cuda_headers())


@dataclass(frozen=True)
class Launch:
    """How driver.c sends vectors through kernels: threads of a block, how often a graph is replayed."""

    kernels: tuple[str, ...]
    threads: tuple[int, int] = (128, 1)
    replays: int = 0


@dataclass(frozen=True)
class Driven:
    """What became of it; activations are None where it failed."""

    process: subprocess.CompletedProcess[str]
    activations: tuple[Array, ...] | None


def drive(program: Path, library: Path, image: Path, widths: Sequence[int], codes: Array, launch: Launch) -> Driven:
    """Run driver.c on uint8 codes (vectors, width) in the folder of `library`; `widths` in bytes, the input's first."""
    folder = library.parent
    codes.tofile(folder / "input")
    (folder / "output").unlink(missing_ok=True)
    fixed = ["setarch", "-R"] if subprocess.run(["setarch", "-R", "true"], check=False).returncode == 0 else []
    command = [*fixed, program, library, image, len(codes), folder / "input", folder / "output", *launch.threads]
    command += [launch.replays, ",".join(map(str, widths)), *launch.kernels]
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Driven(done, _read(folder / "output", widths, len(codes)))


def _read(path: Path, widths: Sequence[int], vectors: int) -> tuple[Array, ...] | None:
    if not path.exists():
        return None
    ends = np.cumsum([vectors * width for width in widths])
    parts = np.split(np.fromfile(path, np.uint8), ends[:-1])
    return tuple(part.reshape(vectors, width) for part, width in zip(parts, widths, strict=True))
