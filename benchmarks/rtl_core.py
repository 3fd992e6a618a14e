"""Layers as constants of the RTL core, kernels/vitis/rtl: pure functions.

A QGemm becomes parameters of its module and texts for `$readmemh`; layers in a row become a module `chain`.  A
QLinearConv becomes a module `convolution`: windows, and the QGemm of each position.
"""  # noqa: INP001 - beside the scripts that import it

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.contraction import Contraction
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_conv import QLinearConv
from harness.operators.window import Window
from harness.targets.base import KERNELS
from harness.targets.vitis import rtl

SOURCES = tuple(sorted((KERNELS / "vitis" / "rtl").glob("*.sv")))


def gemms(network: Network) -> tuple[QGemm, ...]:
    """Return the network's QGemms, each of which reads the one before.

    RequestError if there is none, or if one reads something else: the core has no branches.
    """
    layers = tuple(layer for layer in network.layers if isinstance(layer, QGemm))
    if not layers:
        raise RequestError("the network has no QGemm", "take one that has")
    for before, layer in itertools.pairwise(layers):
        if layer.sources != (before.output.name,):
            raise RequestError(
                f"layer {layer.name} does not read {before.name}",
                "the RTL core takes QGemms in a row; take such a network",
            )
    return layers


def parameters(layer: Contraction) -> dict[str, int]:
    """Return the parameters of module `layer`, except the folder of its constants."""
    depth, width = layer.weights.shape
    return {
        "DEPTH": depth,
        "WIDTH": width,
        "WEIGHT_BITS": weight_bits(layer),
        "SIGNED_INPUT": int(layer.input.dtype == np.int8),
        "ZERO_POINT": layer.a_zero_point,
        "CODES": int(layer.dtype != np.float32),
        "SIGNED_OUTPUT": int(layer.dtype == np.int8),
    }


def weight_bits(layer: Contraction) -> int:
    """Return 8 if all weights less their zero points are int8, else 9."""
    weights = _weights(layer)
    return 8 if weights.min() >= -128 and weights.max() <= 127 else 9


def memories(layer: Contraction, window: Window | None = None) -> dict[str, str]:
    """Return the files of the layer's folder: name -> text; those of a convolution have its window."""
    bits = weight_bits(layer)
    weights = _weights(layer) if window is None else rtl.by_positions(_weights(layer), window)
    files = {"weights.mem": _rows(weights, bits), "bias.mem": _rows(layer.bias[None], 32)}
    if layer.dtype != np.float32:
        levels = enumerate(rtl.threshold_levels(layer.thresholds()))
        files |= {f"level_{level}.mem": _rows(values.reshape(-1, 1), 32) for level, values in levels}
    return files


def convolution(layer: QLinearConv) -> str:
    """Return the text of module `convolution`, with the ports of a `layer`; the layer has one group."""
    sizes = rtl.window_sizes(layer.window, layer.input.shape[0]) | {"ZERO_POINT": layer.a_zero_point % 256}
    chosen = (", ".join(f".{name}({value})" for name, value in each.items()) for each in (sizes, parameters(layer)))
    return CONVOLUTION.format(ports=PORTS, **dict(zip(("window", "layer"), chosen, strict=True)))


def convolution_cycles(layer: QLinearConv) -> tuple[int, int]:
    """Return latency and interval of module `convolution`, if windows have more values than the layer has channels.

    Each code enters the line buffer, and leaves it for each window that has it: H W C + P K cycles a vector.  The last
    window's sums follow as in a `layer`.  The interval includes rows that no window reaches, the latency does not.
    """
    depth, width = layer.weights.shape
    unread = (layer.window.shape[0] - _reached(layer.window)) * layer.window.shape[1] * layer.input.shape[0]
    interval = layer.input.size + layer.window.positions * depth
    return interval - unread + 1 + rtl.ACCUMULATE_CYCLES + rtl.REQUANTIZE_CYCLES + width, interval


def _reached(window: Window) -> int:
    return min(window.shape[0], max(0, window.reach[0] - window.before[0]))


def _weights(layer: Contraction) -> Array:
    difference: Array = layer.weights.astype(np.int64) - layer.weights_zero_point
    return difference


def _rows(values: Array, bits: int) -> str:
    """Return a line for every row of integers (rows, columns), `bits` bits each, the first column in the lowest."""
    digits = -(-values.shape[1] * bits // 4)
    return "".join(f"{_packed(row, bits):0{digits}x}\n" for row in values.tolist())


def _packed(row: Iterable[int], bits: int) -> int:
    mask = (1 << bits) - 1
    return sum((value & mask) << (column * bits) for column, value in enumerate(row))


def synthesis_of_text(text: str, top: str, family: str) -> str:
    """Return commands for yosys for module `top` of a generated file in the folder."""
    return f"""\
read_verilog -sv -defer {" ".join(f'"{source}"' for source in SOURCES)} {text}
synth_xilinx -family {family} -top {top} -flatten -noiopad -noclkbuf
"""


def synthesis(layer: QGemm, family: str, *options: str) -> str:
    """Return commands for yosys, run in the layer's folder: its module in cells of a family, `xcup` is UltraScale+."""
    chosen = " ".join(f"-set {name} {value}" for name, value in parameters(layer).items())
    return f"""\
read_verilog -sv -defer {" ".join(f'"{source}"' for source in SOURCES)}
chparam {chosen} -set FOLDER "." layer
synth_xilinx -family {family} -top layer -flatten -noiopad -noclkbuf {" ".join(options)}
"""


def chain(layers: Sequence[QGemm]) -> str:
    """Return the text of module `chain`: the layers in sequence, each with its constants in the folder of its name.

    Its ports are those of a `layer`; the values of the last layer come out.
    """
    instances = "\n".join(_instance(at, layer, is_last=layer is layers[-1]) for at, layer in enumerate(layers))
    return CHAIN.format(ports=PORTS, layers=len(layers), instances=instances)


def _instance(at: int, layer: QGemm, *, is_last: bool) -> str:
    values: Mapping[str, object] = parameters(layer) | {"FOLDER": f'"{layer.name}"'}
    chosen = ", ".join(f".{name}({value})" for name, value in values.items())
    if is_last:
        following = ".out_valid(out_valid), .out_ready(out_ready), .out_value(out_value)"
        return INSTANCE.format(at=at, chosen=chosen, name=layer.name, node=layer.node, following=following, wires="")
    following = f".out_valid(valid_{at + 1}), .out_ready(ready_{at + 1}), .out_value(value_{at + 1})"
    wires = WIRES.format(next=at + 1)
    return INSTANCE.format(at=at, chosen=chosen, name=layer.name, node=layer.node, following=following, wires=wires)


PORTS = """(
    input logic clock,
    input logic reset,
    input logic in_valid,
    output logic in_ready,
    input logic [7:0] in_code,
    output logic out_valid,
    input logic out_ready,
    output logic [31:0] out_value
);
"""

CHAIN = """\
// Generated by benchmarks/rtl_core.py: {layers} layers one behind the other.
module chain {ports}    wire valid_0 = in_valid, ready_0;
    wire [7:0] code_0 = in_code;
    assign in_ready = ready_0;
{instances}endmodule
"""

INSTANCE = """{wires}
    // {node!r}
    layer #({chosen}) {name}_{at} (
        .clock(clock), .reset(reset), .in_valid(valid_{at}), .in_ready(ready_{at}), .in_code(code_{at}),
        {following});
"""

WIRES = """
    wire valid_{next}, ready_{next};
    wire [31:0] value_{next};
    wire [7:0] code_{next} = value_{next}[7:0];
    wire unused_{next} = &{{1'b0, value_{next}[31:8]}};
"""

CONVOLUTION = """\
// Generated by benchmarks/rtl_core.py: the windows of a QLinearConv, and the sums of each.
module convolution {ports}    wire valid, ready;
    wire [7:0] code;

    window #({window}) window (
        .clock(clock), .reset(reset), .in_valid(in_valid), .in_ready(in_ready), .in_code(in_code),
        .out_valid(valid), .out_ready(ready), .out_code(code));

    layer #({layer}, .FOLDER(".")) layer (
        .clock(clock), .reset(reset), .in_valid(valid), .in_ready(ready), .in_code(code),
        .out_valid(out_valid), .out_ready(out_ready), .out_value(out_value));
endmodule
"""
