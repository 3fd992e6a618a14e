"""Texts that make a bitstream an application of Kria's manager: device tree overlay, shell.json, image description.

What the overlay must say follows from the design: how wide the ports between processor and fabric are, which clocks
the processor gives, where the kernels' interrupts end.  The tools write all that into the hardware handoff, an XML file
(`.hwh`).  As AMD's device tree generator does it (device_tree.tcl, gen_afi_node):

    config-afi <2 i, 2 i + 1>     port S_AXI_GP i of the processor:  128 bits 0, 64 bits 1, 32 bits 2
    config-afi <14>               M_AXI_GP0 << 8 | M_AXI_GP1 << 10:  32 bits 0, 64 bits 1, 128 bits 2
    config-afi <15>               M_AXI_GP2 << 8
    clocking i                    clock 71 + i of the processor, where its buffer is used

With a wrong width every kernel reads and writes garbage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from harness.core.errors import ToolError

PROCESSOR = "zynq_ultra_ps_e"
CONTROLLER = "axi_intc"
TO_PROCESSOR = {"128": 0, "64": 1, "32": 2}
FROM_PROCESSOR = {"32": 0, "64": 1, "128": 2}
TO_PORTS, FROM_PORTS, CLOCKS = 7, 3, 4
FIRST_CLOCK = 71  # PL0 of the processor's clocks (dt-bindings/clock/xlnx-zynqmp-clk.h)
FIRST_RESET, RESETS = 116, 4  # ZYNQMP_RESET_PS_PL0 to 3
FIRST_INTERRUPT, INTERRUPTS = 89, 8  # of the fabric, at the processor's controller: pl_ps_irq0
LEVEL = 4  # IRQ_TYPE_LEVEL_HIGH


@dataclass(frozen=True)
class Controller:
    """An interrupt controller in the fabric that gathers the kernels' interrupts for the processor."""

    address: int
    size: int
    inputs: int
    kind: int


@dataclass(frozen=True)
class Hardware:
    """The properties of a design in the overlay: words of config-afi and clocks in Hz by number, interrupt controller.

    Without a controller they end at the processor's own, as in AMD's platforms for the KV260.
    """

    afi: tuple[tuple[int, int], ...]
    clocks_hz: tuple[tuple[int, int], ...]
    controller: Controller | None = None


def hardware(handoff: str) -> Hardware | None:
    """Read a hardware handoff; None if it is not that of the design with the processor, but of a part.

    ToolError if it is no XML, or says a port's width in no way that is known.
    """
    try:
        root = ET.fromstring(handoff)  # noqa: S314 - the vendor's tool has just written it here
    except ET.ParseError as error:
        raise ToolError(f"the hardware handoff is no XML: {error}", "see the log of v++") from error
    modules = {module.get("MODTYPE", ""): _parameters(module) for module in root.iter("MODULE")}
    if PROCESSOR not in modules:
        return None
    processor = modules[PROCESSOR]
    controller = _controller(modules[CONTROLLER]) if CONTROLLER in modules else None
    return Hardware(tuple(_afi(processor).items()), tuple(_clocks(processor).items()), controller)


def _parameters(module: ET.Element) -> dict[str, str]:
    return {each.get("NAME", ""): each.get("VALUE", "") for each in module.findall("PARAMETERS/PARAMETER")}


def _afi(processor: Mapping[str, str]) -> dict[int, int]:
    """Return the words by their number; a port that the handoff does not contain is left unchanged."""
    into = [_width(processor, f"C_SAXIGP{port}_DATA_WIDTH", TO_PROCESSOR) for port in range(TO_PORTS)]
    out = [_width(processor, f"C_MAXIGP{port}_DATA_WIDTH", FROM_PROCESSOR) for port in range(FROM_PORTS)]
    if all(code is None for code in (*into, *out)):
        raise _otherwise("the width of no port")
    words = {2 * port + half: code for port, code in enumerate(into) if code is not None for half in (0, 1)}
    if out[0] is not None or out[1] is not None:
        words[14] = (out[0] or 0) << 8 | (out[1] or 0) << 10
    return words if out[2] is None else {**words, 15: out[2] << 8}


def _width(processor: Mapping[str, str], name: str, codes: Mapping[str, int]) -> int | None:
    bits = processor.get(name)
    if bits is not None and bits not in codes:
        raise _otherwise(f"{name} {bits!r} where one of {', '.join(codes)} bits was expected")
    return None if bits is None else codes[bits]


def _otherwise(what: str) -> ToolError:
    return ToolError(
        f"the hardware handoff says {what}: the overlay cannot be written",
        "this version of the tools writes it otherwise: please report it with the .hwh file",
    )


def _clocks(processor: Mapping[str, str]) -> dict[int, int]:
    """Return the clocks whose buffer is used and whose frequency is stated, in Hz."""
    found: dict[int, int] = {}
    for number in range(CLOCKS):
        frequency = processor.get(f"PSU__CRL_APB__PL{number}_REF_CTRL__ACT_FREQMHZ", "")
        used = processor.get(f"C_PL_CLK{number}_BUF", "").upper() == "TRUE"
        if used and re.fullmatch(r"\d+(\.\d+)?", frequency):
            found[number] = int(float(frequency) * 1_000_000)
    return found


def _controller(parameters: Mapping[str, str]) -> Controller:
    try:
        low, high = (int(parameters[name], 0) for name in ("C_BASEADDR", "C_HIGHADDR"))
        inputs, kind = int(parameters["C_NUM_INTR_INPUTS"], 0), int(parameters["C_KIND_OF_INTR"], 0)
    except (KeyError, ValueError) as error:
        raise _otherwise(f"too little of the design's interrupt controller ({error})") from error
    return Controller(low, high - low + 1, inputs, kind)


def device_tree(app: str, design: Hardware) -> str:
    """Return the overlay's source, for `dtc -@`: bitstream, ports, clocks, and the node of XRT's driver."""
    words = ", ".join(f"<{index} {word:#x}>" for index, word in design.afi)
    clocks = "".join(_clock(number, hertz) for number, hertz in design.clocks_hz)
    return TREE.format(
        app=app,
        resets=", ".join(f"<&zynqmp_reset {FIRST_RESET + number}>" for number in range(RESETS)),
        afi=words,
        cells=CELLS if design.controller else "",
        clocks=clocks,
        interrupts=_direct() if design.controller is None else _gathered(design.controller),
    )


def _clock(number: int, hertz: int) -> str:
    return CLOCK.format(number=number, hertz=hertz, clock=FIRST_CLOCK + number)


def _direct() -> str:
    lines = ", ".join(f"<0 {FIRST_INTERRUPT + line} {LEVEL}>" for line in range(INTERRUPTS))
    return DRIVER.format(parent="gic", interrupts=lines)


def _gathered(controller: Controller) -> str:
    lines = ", ".join(f"<{line} {LEVEL}>" for line in range(controller.inputs))
    node = CONTROLLER_NODE.format(
        address=controller.address,
        low=controller.address & 0xFFFFFFFF,
        high=controller.address >> 32,
        size=controller.size,
        inputs=controller.inputs,
        kind=controller.kind & 0xFFFFFFFF,
        interrupt=FIRST_INTERRUPT,
        level=LEVEL,
    )
    return node + DRIVER.format(parent="fabric_intc", interrupts=lines)


def shell() -> str:
    """Return shell.json, which describes a complete bitstream with kernels for XRT to Kria's manager."""
    return json.dumps({"shell_type": "XRT_FLAT", "num_slots": "1"}, indent=1) + "\n"


def image_description(bitstream: str) -> str:
    """Return the .bif from which bootgen takes the bitstream."""
    return f"all:\n{{\n    [destination_device = pl] {bitstream}\n}}\n"


TREE = """\
/* Generated by harness/targets/vitis/overlay.py: what Linux must know of {app}. */
/dts-v1/;
/plugin/;

&fpga_full {{
    #address-cells = <2>;
    #size-cells = <2>;
    firmware-name = "{app}.bit.bin";
    resets = {resets};
}};

&amba {{
{cells}    afi0: afi0 {{
        compatible = "xlnx,afi-fpga";
        config-afi = {afi};
    }};
{clocks}{interrupts}}};
"""

CLOCK = """
    clocking{number}: clocking{number} {{
        compatible = "xlnx,fclk";
        #clock-cells = <0>;
        assigned-clocks = <&zynqmp_clk {clock}>;
        assigned-clock-rates = <{hertz}>;
        clock-output-names = "fabric_clk";
        clocks = <&zynqmp_clk {clock}>;
    }};
"""

CELLS = """\
    #address-cells = <2>;
    #size-cells = <2>;

"""

CONTROLLER_NODE = """
    fabric_intc: interrupt-controller@{address:x} {{
        compatible = "xlnx,axi-intc-4.1", "xlnx,xps-intc-1.00.a";
        reg = <{high:#x} {low:#x} 0x0 {size:#x}>;
        #address-cells = <0>;
        #interrupt-cells = <2>;
        interrupt-controller;
        interrupt-parent = <&gic>;
        interrupts = <0 {interrupt} {level}>;
        xlnx,kind-of-intr = <{kind:#x}>;
        xlnx,num-intr-inputs = <{inputs:#x}>;
    }};
"""

DRIVER = """
    zyxclmm_drm: zyxclmm_drm {{
        compatible = "xlnx,zocl";
        status = "okay";
        interrupt-parent = <&{parent}>;
        interrupts = {interrupts};
    }};
"""
