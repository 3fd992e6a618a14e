"""The kernels of the fabric as C++ text for Vitis HLS and for any compiler: constants, and processes side by side.

A launch is one kernel over kernels/vitis/layer.hpp; all kernels of a bundle are one text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.targets.base import KERNELS
from harness.targets.generated import Launch, Table, initialiser
from harness.targets.vitis import fabric, qgemm, records
from harness.targets.vitis.qgemm import Constants
from harness.targets.vitis.records import Flow
from harness.targets.vitis.signature import ARGUMENTS, kernel_name

SOURCE = "network.cpp"
IDENTITY = "identity.hpp"
HEADERS = ("layer.hpp", "question.h", "stream.hpp")
DIGEST_WORDS = 8
APP_DIGITS = 12
SHALLOW = 2  # elements of a stream that has no reason for more
WIDEST_PIECE = 128  # as in kernels/vitis/layer.hpp
SCALARS = tuple(argument.name for argument in ARGUMENTS if not argument.is_buffer)


@dataclass(frozen=True)
class Kernel:
    """One for the fabric: its name, its text, and the layers that it computes."""

    name: str
    text: str
    layers: tuple[QGemm, ...]


@dataclass(frozen=True)
class Fabric:
    """All kernels of a bundle: what they are made of, by the names of files, and what they are called."""

    sources: dict[str, bytes]
    kernels: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The digest by which a kernel identifies its sources: SHA-256, hexadecimal, over all but the digest itself."""
        return _digest({name: text for name, text in self.sources.items() if name != IDENTITY})

    @property
    def app(self) -> str:
        """The name of its overlay on the board."""
        return f"harness_{self.digest[:APP_DIGITS]}"


def fabric_of(kernels: Sequence[Kernel]) -> Fabric:
    """Return the source of these kernels for a compiler."""
    fixed = {name: (KERNELS / "vitis" / name).read_bytes() for name in HEADERS}
    sources = fixed | {SOURCE: _source(kernels).encode()}
    return Fabric(sources | {IDENTITY: _identity(_digest(sources)).encode()}, tuple(kernel.name for kernel in kernels))


def _digest(sources: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, text in sorted(sources.items()):
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()


def words(digest: str) -> list[str]:
    """Return the digest as C writes its words of 32 bits."""
    return [f"0x{digest[8 * i : 8 * i + 8]}" for i in range(DIGEST_WORDS)]


def _identity(digest: str) -> str:
    values = ", ".join(f"(element){word}u" for word in words(digest))
    return (
        "/* Generated: what these kernels were made of. */\n"
        f"static const element identity[IDENTITY_WORDS] = {{{values}}};\n"
    )


def _source(kernels: Sequence[Kernel]) -> str:
    head = "/* The network's kernels; network.c names the ONNX node of every layer. */"
    return (
        "\n\n".join([head, f'#include "layer.hpp"\n\n#include "{IDENTITY}"', *(each.text for each in kernels)]) + "\n"
    )


def name_of(launch: Launch) -> str:
    """Return the name of the launch's kernel, after its first task."""
    return kernel_name(launch[0].layer.name)


def of_launch(launch: Launch) -> Kernel:
    """Return the kernel that computes all tasks of a launch."""
    name, layers = name_of(launch), layers_of(launch)
    held = [qgemm.of_layer(layer) for layer in layers]
    partial, full = (records.flows(launch, everything=everything) for everything in (False, True))
    texts = [
        _layer_text(name, number, *of_layer)
        for number, of_layer in enumerate(zip(layers, held, partial, full, strict=True))
    ]
    kept = [flow.kept_width for flow in partial]
    return Kernel(name, "\n\n".join([*texts, _top(name, layers, held, kept)]), layers)


def layers_of(launch: Launch) -> tuple[QGemm, ...]:
    """Return the layers of a launch."""
    return tuple(qgemm.qgemm(task.layer) for task in launch)


def _layer_text(kernel: str, number: int, layer: QGemm, held: Constants, partial: Flow, full: Flow) -> str:
    """Return the struct of a layer, which states the places of its inputs, and its constants."""
    sizes = {
        "NUMBER": number,
        "DEPTH": layer.input.size,
        "WIDTH": layer.size,
        "RECORD": partial.before.width,
        "AT": partial.input_start,
        "KEPT": partial.kept_width,
        "FULL_RECORD": full.before.width,
        "FULL_AT": full.input_start,
    }
    named = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    needed = " || ".join(_in_range(*each) for each in records.kept_ranges(partial)) or "false"
    unused = "" if records.kept_ranges(partial) else " /* i */"
    return (
        f"/* Layer {number} of {kernel}: {layer.name}. */\n"
        f"struct {layer.name}_layer {{\n    enum : unsigned {{ {named} }};\n"
        f"    static bool needed(unsigned{unused or ' i'})\n    {{\n        return {needed};\n    }}\n}};\n"
        f"{_sums_text(layer, held.sums)}\n{_rounding_text(layer, held.rounding)}"
    )


def _in_range(start: int, stop: int) -> str:
    return f"i < {stop}" if start == 0 else f"(i >= {start} && i < {stop})"


def weight_type(weights: Array) -> str:
    """Return the smallest C type that holds b - zb."""
    return "int8_t" if weights.min() >= -128 and weights.max() <= 127 else "int16_t"


def _sums_text(layer: QGemm, tables: Sequence[Table]) -> str:
    weights, bias, zero_point = (table.values for table in tables)
    kind = f"sums<{weight_type(weights)}, {layer.input.size}, {layer.size}>"
    values = f"{{{initialiser(weights)}, {initialiser(bias)}, {zero_point[0]}}}"
    return f"static const {kind} {layer.name}_sums = {values};"


def _rounding_text(layer: QGemm, tables: Sequence[Table]) -> str:
    if not tables:
        return f"static const no_thresholds {layer.name}_rounding = {{}};"
    *levels, lowest = (table.values for table in tables)
    values = ", ".join(initialiser(level) for level in levels)
    return f"static const thresholds<{len(levels[0])}> {layer.name}_rounding = {{{values}, {lowest[0]}}};"


def _top(name: str, layers: Sequence[QGemm], held: Sequence[Constants], kept: Sequence[int]) -> str:
    """Return the kernel, and its processes, which HLS wants in a function of their own, with streams between them.

    `kept` is how many elements of a record pass each layer: so many wait for the outputs of the vector before.
    """
    parameters = ["const element *given", "element *made", *(f"uint32_t {scalar}" for scalar in SCALARS)]
    interfaces = [
        "m_axi port=given offset=slave bundle=gmem0",
        "m_axi port=made offset=slave bundle=gmem1",
        *(f"s_axilite port={port} bundle=control" for port in ("given", "made", *SCALARS, "return")),
    ]
    streams = [f"stream_{number}" for number in range(len(layers) + 1)]
    processes = [
        *(line for of_layer in zip(layers, held, strict=True) for line in _storage(*of_layer)),
        "#pragma HLS DATAFLOW",
        f"    elements {', '.join(streams)};",
        f"    elements {', '.join(f'passed_{number}' for number in range(len(layers)))};",
        *(f"    {_rows(layer.size)} rows_{number};" for number, layer in enumerate(layers)),
        *(f"#pragma HLS STREAM variable=passed_{n} depth={max(SHALLOW, room)}" for n, room in enumerate(kept)),
        "    load(given, stream_0, asked, identity);",
        *(line for number, layer in enumerate(layers) for line in _calls(number, layer)),
        f"    store({streams[-1]}, made, asked);",
    ]
    body = [
        *(f"#pragma HLS INTERFACE {interface}" for interface in interfaces),
        f"    {name}_processes(given, made, {{{', '.join(SCALARS)}}});",
    ]
    return "\n".join(
        [
            f"static void {name}_processes(const element *given, element *made, question asked)\n{{",
            *processes,
            "}\n",
            f'extern "C" void {name}({", ".join(parameters)})\n{{',
            *body,
            "}",
        ]
    )


def _rows(width: int) -> str:
    """Return the type of what the sums of a vector pass through."""
    return f"hls::stream<row<{width}> >" if width <= WIDEST_PIECE else f"wide_rows<{width}>"


def _calls(number: int, layer: QGemm) -> tuple[str, str]:
    kind, streams = f"{layer.name}_layer", f"passed_{number}, rows_{number}"
    return (
        f"    sum_up<{kind}>(stream_{number}, {streams}, asked, {layer.name}_sums);",
        f"    finish<{kind}>({streams}, stream_{number + 1}, asked, {layer.name}_rounding);",
    )


def _storage(layer: QGemm, held: Constants) -> list[str]:
    """Return the pragmas of weights and bias, all columns at once, and of the memories, as fabric.py counts them."""
    sums, rounding = f"{layer.name}_sums", f"{layer.name}_rounding"
    lines = [
        f"ARRAY_RESHAPE variable={sums}.weights dim=2 type=complete",
        f"ARRAY_PARTITION variable={sums}.bias type=complete",
        _bind(f"{sums}.weights", in_bram=fabric.weights_in_bram(layer)),
    ]
    levels = [table.values for table in held.rounding[:-1]]
    lines += [
        _bind(f"{rounding}.level_{step}", in_bram=fabric.level_in_bram(level.size)) for step, level in enumerate(levels)
    ]
    return [f"#pragma HLS {line}" for line in lines]


def _bind(memory: str, *, in_bram: bool) -> str:
    return f"BIND_STORAGE variable={memory} type=rom_1p impl={'bram' if in_bram else 'lutram'}"
