"""The metadata of an xclbin (the container axlf): what kernels are in the fabric, and which memory they reach.

v++ writes one next to the bitstream; the double of XRT works from one that is written here, as Debian's XRT does in
its emulation without a device.  The layout is that of struct axlf in XRT's xclbin.h, little endian throughout:

    head (304 bytes) | length ... UUID ... number of sections (152) | heads of sections (40 each) | sections

Sections begin at multiples of 8.
"""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from harness.core.errors import ToolError
from harness.targets.vitis.signature import ARGUMENTS, Argument

MAGIC = b"xclbin2\0"
MEMORIES = ("HP0",)  # the DDR memory of a KV260, by the port of the processor that the kernels reach it through
SECTIONS: Mapping[str, int] = {"EMBEDDED_METADATA": 2, "MEM_TOPOLOGY": 6, "IP_LAYOUT": 8, "CONNECTIVITY": 7}
"""Those that XRT needs, and their kinds.  Without the last one XRT 2.13 crashes instead of throwing."""

_HEAD = struct.Struct("<8si28s256sQ")  # magic, length of the signature, reserved, key block, unique id
_HEADER = struct.Struct("<QQQHBBHH16s64s16s16sII")  # length, times, version, mode, ..., platform, uuid, ..., sections
_SECTION = struct.Struct("<I16s4xQQ")  # kind, name, offset, size
_MEMORY = struct.Struct("<BB6xQQ16s")  # type, whether it is used, KiB, base address, tag
_UNIT = struct.Struct("<IIQ64s")  # type, properties, base address, name
_CONNECTION = struct.Struct("<iii")  # argument, unit, memory
_COUNT = struct.Struct("<i")
_ALIGNMENT = 8

_VERSION = (2, 13, 0)
_PLATFORM = "xilinx_kv260"
_DDR4, _KERNEL_UNIT = 1, 1
_CHAINED, _INTERRUPT = 0x100, 0x1  # ap_ctrl_chain, as of every dataflow kernel
_MEMORY_KIB = 2 * 1024 * 1024
_CONTROL, _CONTROL_BASE, _CONTROL_RANGE = "S_AXI_CONTROL", 0xA0000000, 0x10000
_SCALAR, _GLOBAL_MEMORY = "0", "1"  # addressQualifier

_ADVICE = "build and load it anew: harness firmware"


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel in the metadata; `reaches_memory` is true for a buffer in a memory that exists."""

    name: str
    size: int
    is_buffer: bool
    reaches_memory: bool = False


@dataclass(frozen=True)
class Description:
    """An xclbin: which of SECTIONS are there; by name the kernels with their arguments, in order."""

    uuid: UUID
    sections: tuple[str, ...]
    kernels: Mapping[str, tuple[Parameter, ...]]


# Writing


def write(
    kernels: Sequence[str],
    digest: str,
    *,
    without: Collection[str] = (),
    arguments: Sequence[Argument] = ARGUMENTS,
    memories: Sequence[str] = MEMORIES,
) -> bytes:
    """Return the file for kernels of these names, each with one compute unit and all its buffers in the first memory.

    `digest` (hexadecimal, 32 digits or more) is what its UUID is made of; sections in `without` are left out.
    """
    contents = {
        "EMBEDDED_METADATA": _metadata(kernels, arguments),
        "MEM_TOPOLOGY": _table([_memory(tag) for tag in memories], _ALIGNMENT),
        "IP_LAYOUT": _table([_unit(index, name) for index, name in enumerate(kernels)], _ALIGNMENT),
        "CONNECTIVITY": _table(list(_connections(len(kernels), arguments)), _COUNT.size),
    }
    return _container({name: contents[name] for name in SECTIONS if name not in without}, uuid_of(digest))


def uuid_of(digest: str) -> UUID:
    """Return the UUID of an xclbin that was made of sources with this digest: its first 32 digits."""
    return UUID(digest[:32])


def _container(contents: Mapping[str, bytes], uuid: UUID) -> bytes:
    heads, bodies = [], []
    at = _aligned(_HEAD.size + _HEADER.size + len(contents) * _SECTION.size)
    for name, content in contents.items():
        heads.append(_SECTION.pack(SECTIONS[name], name[:15].lower().encode(), at, len(content)))
        bodies.append(content.ljust(_aligned(len(content)), b"\0"))
        at += len(bodies[-1])
    major, minor, patch = _VERSION
    header = _HEADER.pack(
        *(at, 0, 0, patch, major, minor, 0, 0, bytes(16), _PLATFORM.encode(), uuid.bytes, bytes(16), len(contents), 0)
    )
    head = _HEAD.pack(MAGIC, -1, b"\xff" * 28, bytes(256), 0) + header + b"".join(heads)
    return head.ljust(_aligned(len(head)), b"\0") + b"".join(bodies)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _table(entries: Sequence[bytes], first: int) -> bytes:
    """Return a count, then entries, the first of which is placed by its alignment."""
    return _COUNT.pack(len(entries)).ljust(first, b"\0") + b"".join(entries)


def _memory(tag: str) -> bytes:
    return _MEMORY.pack(_DDR4, 1, _MEMORY_KIB, 0, tag.encode())


def _unit(index: int, kernel: str) -> bytes:
    properties = _CHAINED | index << 1 | _INTERRUPT
    return _UNIT.pack(_KERNEL_UNIT, properties, _base(index), _unit_name(kernel).encode())


def _unit_name(kernel: str) -> str:
    return f"{kernel}:{kernel}_1"


def _base(index: int) -> int:
    return _CONTROL_BASE + index * _CONTROL_RANGE


def _connections(units: int, arguments: Sequence[Argument]) -> Iterator[bytes]:
    for unit in range(units):
        for index, argument in enumerate(arguments):
            if argument.is_buffer:
                yield _CONNECTION.pack(index, unit, 0)


def _metadata(kernels: Sequence[str], arguments: Sequence[Argument]) -> bytes:
    """Return the XML as v++ writes it, as far as XRT reads it."""
    project = ET.Element("project", name="network")
    platform = ET.SubElement(project, "platform", vendor="xilinx", boardid="kv260", name=_PLATFORM, featureRomTime="0")
    device = ET.SubElement(platform, "device", name="fpga0", fpgaDevice="zynquplus:xck26:sfvc784:-2LV:c", addrWidth="0")
    core = ET.SubElement(
        device,
        "core",
        name="OCL_REGION_0",
        target="bitstream",
        type="clc_region",
        clockFreq="0MHz",
        numComputeUnits=str(len(kernels)),
    )
    for index, name in enumerate(kernels):
        core.append(_kernel(index, name, arguments))
    ET.indent(project)
    text: bytes = ET.tostring(project, encoding="UTF-8", xml_declaration=True)
    return text


def _kernel(index: int, name: str, arguments: Sequence[Argument]) -> ET.Element:
    kernel = ET.Element(
        "kernel",
        name=name,
        language="c",
        vlnv=f"xilinx.com:hls:{name}:1.0",
        attributes="",
        preferredWorkGroupSizeMultiple="0",
        workGroupSize="1",
        interrupt="true",
        hwControlProtocol="ap_ctrl_chain",
    )
    for port in dict.fromkeys(argument.port for argument in arguments if argument.is_buffer):
        _port(kernel, port, "master", "0xFFFFFFFFFFFFFFFF")
    _port(kernel, _CONTROL, "slave", f"{_CONTROL_RANGE:#x}")
    for number, argument in enumerate(arguments):
        _argument(kernel, number, argument)
    instance = ET.SubElement(kernel, "instance", name=f"{name}_1")
    ET.SubElement(instance, "addrRemap", base=f"{_base(index):#x}", range=f"{_CONTROL_RANGE:#x}", port=_CONTROL)
    return kernel


def _port(kernel: ET.Element, name: str, mode: str, size: str) -> None:
    ET.SubElement(kernel, "port", name=name, mode=mode, range=size, dataWidth="32", portType="addressable", base="0x0")


def _argument(kernel: ET.Element, number: int, argument: Argument) -> None:
    ET.SubElement(
        kernel,
        "arg",
        name=argument.name,
        addressQualifier=_GLOBAL_MEMORY if argument.is_buffer else _SCALAR,
        id=str(number),
        port=argument.port,
        size=f"{argument.size:#x}",
        offset=f"{argument.offset:#x}",
        hostOffset="0x0",
        hostSize=f"{argument.size:#x}",
        type=argument.c_type,
    )


# Reading


def read(content: bytes) -> Description:
    """Return the content of an xclbin; raise ToolError if it is none or incomplete."""
    if not content.startswith(MAGIC):
        raise ToolError("this file is no xclbin", "name one that v++ has linked")
    try:
        return _read(content)
    except (struct.error, ValueError, ET.ParseError, KeyError) as error:
        raise ToolError(f"this xclbin is damaged: {error}", "copy it again, or link it again") from error


def _read(content: bytes) -> Description:
    length, *_, uuid, _debug, count, _padding = _HEADER.unpack_from(content, _HEAD.size)
    if length > len(content):
        raise ValueError(f"it ends after {len(content)} of {length} bytes")
    found = dict(_sections(content, count))
    metadata = ET.fromstring(found.get("EMBEDDED_METADATA", b"<project/>"))  # noqa: S314 a tool's own output
    connected = _connected(found)
    kernels = {kernel.attrib["name"]: _parameters(kernel, connected) for kernel in metadata.iter("kernel")}
    return Description(UUID(bytes=uuid), tuple(name for name in SECTIONS if name in found), kernels)


def _sections(content: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    names = {kind: name for name, kind in SECTIONS.items()}
    for index in range(count):
        kind, _, at, size = _SECTION.unpack_from(content, _HEAD.size + _HEADER.size + index * _SECTION.size)
        if kind in names:
            if at + size > len(content):
                raise ValueError(f"section {names[kind]} ends behind it")
            yield names[kind], content[at : at + size]


def _entries(section: bytes, first: int, entry: struct.Struct) -> Iterator[tuple[Any, ...]]:
    count = _COUNT.unpack_from(section)[0] if section else 0
    for index in range(count):
        yield entry.unpack_from(section, first + index * entry.size)


def _connected(found: Mapping[str, bytes]) -> Collection[tuple[str, int]]:
    """Return names of units with numbers of their arguments that reach a memory that is there."""
    memories = [bool(used) for _, used, *_ in _entries(found.get("MEM_TOPOLOGY", b""), _ALIGNMENT, _MEMORY)]
    units = [_text(name) for *_, name in _entries(found.get("IP_LAYOUT", b""), _ALIGNMENT, _UNIT)]
    connections = list(_entries(found.get("CONNECTIVITY", b""), _COUNT.size, _CONNECTION))
    return {
        (units[unit], argument)
        for argument, unit, memory in connections
        if unit in range(len(units)) and memory in range(len(memories)) and memories[memory]
    }


def _text(name: bytes) -> str:
    return name.split(b"\0")[0].decode()


def _parameters(kernel: ET.Element, connected: Collection[tuple[str, int]]) -> tuple[Parameter, ...]:
    units = [f"{kernel.attrib['name']}:{instance.attrib['name']}" for instance in kernel.iter("instance")]
    found = sorted(kernel.iter("arg"), key=lambda argument: int(argument.attrib["id"]))
    return tuple(
        Parameter(
            argument.attrib["name"],
            int(argument.attrib["size"], 0),
            argument.attrib["addressQualifier"] == _GLOBAL_MEMORY,
            bool(units) and all((unit, index) in connected for unit in units),
        )
        for index, argument in enumerate(found)
    )


# Checking


def check(description: Description, kernels: Sequence[str], arguments: Sequence[Argument] = ARGUMENTS) -> None:
    """Raise ToolError with the section or kernel that is missing, a surplus kernel, or the argument that differs."""
    complaint = next(_complaints(description, kernels, arguments), None)
    if complaint:
        raise ToolError(f"this xclbin {complaint}", _ADVICE)


def _complaints(description: Description, kernels: Sequence[str], arguments: Sequence[Argument]) -> Iterator[str]:
    for name in SECTIONS:
        if name not in description.sections:
            yield f"has no section {name}"
    for name in kernels:
        if name not in description.kernels:
            yield f"has no kernel {name}; it has {', '.join(sorted(description.kernels)) or 'none'}"
    for name in sorted(set(description.kernels) - set(kernels)):
        yield f"has a kernel {name}, which the network has not"
    for name in kernels:
        yield from _complaints_of(name, description.kernels[name], arguments)


def _complaints_of(kernel: str, found: Sequence[Parameter], arguments: Sequence[Argument]) -> Iterator[str]:
    if len(found) != len(arguments):
        yield f"has a kernel {kernel} with {len(found)} arguments; it must have {len(arguments)}"
    for index, (parameter, argument) in enumerate(zip(found, arguments, strict=False)):
        where = f"has a kernel {kernel} whose argument {index}"
        if parameter.name != argument.name:
            yield f"{where} is {parameter.name}; it must be {argument.name}"
        if parameter.size != argument.size:
            yield f"{where} ({argument.name}) has {parameter.size} bytes; it must have {argument.size}"
        if parameter.is_buffer != argument.is_buffer:
            yield f"{where} ({argument.name}) is {'a' if parameter.is_buffer else 'no'} buffer; it must be otherwise"
        if argument.is_buffer and not parameter.reaches_memory:
            yield f"{where} ({argument.name}) reaches no memory"
