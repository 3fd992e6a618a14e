"""The kernels of the fabric as C++ text for Vitis HLS and for any compiler: constants, and processes side by side.

A launch is one kernel over kernels/vitis/layer.hpp; all kernels of a bundle are one text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from harness.targets.base import KERNELS
from harness.targets.generated import Launch
from harness.targets.vitis import circuit, records
from harness.targets.vitis.circuit import Circuit
from harness.targets.vitis.records import Flow
from harness.targets.vitis.signature import ARGUMENTS, kernel_name

SOURCE = "network.cpp"
IDENTITY = "identity.hpp"
HEADERS = ("layer.hpp", "question.h", "stream.hpp")
DIGEST_WORDS = 8
APP_DIGITS = 12
SHALLOW = 2  # elements of a stream that has no reason for more
SCALARS = tuple(argument.name for argument in ARGUMENTS if not argument.is_buffer)

Circuits: TypeAlias = tuple[Circuit[Any], ...]


@dataclass(frozen=True)
class Kernel:
    """One for the fabric: its name, its text, and the layers that it computes."""

    name: str
    text: str
    circuits: Circuits


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
    fixed = {name: header(name).read_bytes() for name in (*HEADERS, *_headers(kernels))}
    sources = fixed | {SOURCE: _source(kernels).encode()}
    return Fabric(sources | {IDENTITY: _identity(_digest(sources)).encode()}, tuple(kernel.name for kernel in kernels))


def header(name: str) -> Path:
    """Return where a header of the kernels lies; some are shared with other targets."""
    own = KERNELS / "vitis" / name
    return own if own.exists() else KERNELS / "c" / "integer" / name


def path_of(name: str) -> str:
    """Return the path in a bundle of a source of the fabric."""
    return name if name in (SOURCE, IDENTITY) else str(header(name).relative_to(KERNELS.parent))


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
    included = "\n".join(f'#include "{name}"' for name in ("layer.hpp", *_headers(kernels)))
    return "\n\n".join([head, included, f'#include "{IDENTITY}"', *(kernel.text for kernel in kernels)]) + "\n"


def _headers(kernels: Sequence[Kernel]) -> list[str]:
    """Return the headers of the circuits, each once."""
    return list(dict.fromkeys(name for kernel in kernels for of in kernel.circuits for name in of.headers))


def name_of(launch: Launch) -> str:
    """Return the name of the launch's kernel, after its first task."""
    return kernel_name(launch[0].layer.name)


def of_launch(launch: Launch, fold: int = 1) -> Kernel:
    """Return the kernel that computes all tasks of a launch."""
    name, circuits = name_of(launch), circuits_of(launch, fold)
    partial, full = (records.flows(launch, everything=everything) for everything in (False, True))
    texts = [
        f"/* Layer {number} of {name}: {of.name}. */\n{_struct(number, of, *flows)}\n{of.definitions}"
        for number, (of, *flows) in enumerate(zip(circuits, partial, full, strict=True))
    ]
    kept = [flow.kept_width if of.passes_ahead else 0 for of, flow in zip(circuits, partial, strict=True)]
    return Kernel(name, "\n\n".join([*texts, _top(name, circuits, kept)]), circuits)


def circuits_of(launch: Launch, fold: int = 1) -> Circuits:
    """Return the circuits of the layers of a launch."""
    return tuple(circuit.of(task.layer, fold) for task in launch)


def _struct(number: int, of: Circuit[Any], partial: Flow, full: Flow) -> str:
    """Return the struct of a layer, which states the places of its inputs."""
    sizes = {
        "NUMBER": number,
        "DEPTH": of.layer.input.size,
        "WIDTH": of.layer.size,
        "RECORD": partial.before.width,
        "KEPT": partial.kept_width,
        "FULL_RECORD": full.before.width,
        **of.sizes,
    }
    places = ", ".join(f"{{{one.start}, {other.start}}}" for one, other in zip(partial.reads, full.reads, strict=True))
    named = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    needed = " || ".join(_in_range(*each) for each in records.kept_ranges(partial)) or "false"
    unused = "" if records.kept_ranges(partial) else " /* i */"
    return (
        f"struct {of.name}_layer {{\n    enum : unsigned {{ {named} }};\n"
        f"    static unsigned at(unsigned input, bool everything)\n    {{\n"
        f"        const unsigned places[][2] = {{{places}}};\n        return places[input][everything];\n    }}\n"
        f"    static bool needed(unsigned{unused or ' i'})\n    {{\n        return {needed};\n    }}\n}};"
    )


def _in_range(start: int, stop: int) -> str:
    return f"i < {stop}" if start == 0 else f"(i >= {start} && i < {stop})"


def _top(name: str, circuits: Circuits, kept: Sequence[int]) -> str:
    """Return the kernel, and its processes, which HLS wants in a function of their own, with streams between them.

    `kept` is how many elements of a record wait in front of each layer for the outputs of the vector before.
    """
    parameters = ["const element *given", "element *made", *(f"uint32_t {scalar}" for scalar in SCALARS)]
    interfaces = [
        "m_axi port=given offset=slave bundle=gmem0",
        "m_axi port=made offset=slave bundle=gmem1",
        *(f"s_axilite port={port} bundle=control" for port in ("given", "made", *SCALARS, "return")),
    ]
    streams = [f"stream_{number}" for number in range(len(circuits) + 1)]
    processes = [
        *(f"#pragma HLS {line}" for of in circuits for line in of.storage),
        "#pragma HLS DATAFLOW",
        f"    elements {', '.join(streams)};",
        f"    elements {', '.join(f'passed_{number}' for number in range(len(circuits)))};",
        *(line for number, of in enumerate(circuits) for line in of.streams(number)),
        *(f"#pragma HLS STREAM variable=passed_{n} depth={max(SHALLOW, room)}" for n, room in enumerate(kept)),
        "    load(given, stream_0, asked, identity);",
        *(line for number, of in enumerate(circuits) for line in of.calls(number)),
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
