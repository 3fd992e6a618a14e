"""The metadata of an xclbin: written, read back, and refused where they are not those of the network."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from harness.core.errors import ToolError
from harness.targets.vitis import xclbin
from harness.targets.vitis.signature import ARGUMENTS, Argument

NAMES = ("dense_1_kernel", "dense_4_kernel")
DIGEST = "00112233445566778899aabbccddeeff" + 32 * "5"
SECTIONS = ("EMBEDDED_METADATA", "MEM_TOPOLOGY", "IP_LAYOUT", "CONNECTIVITY")


def written(without: tuple[str, ...] = ()) -> bytes:
    return xclbin.write(NAMES, DIGEST, without=without)


def section(content: bytes, kind: int) -> bytes:
    """Bytes of a section, found as xclbin.h of XRT lays them out."""
    count = struct.unpack_from("<I", content, 448)[0]
    for index in range(count):
        found, at, size = struct.unpack_from("<I20xQQ", content, 456 + 40 * index)
        if found == kind:
            assert at % 8 == 0
            return content[at : at + size]
    raise AssertionError(kind)


def test_the_head_is_that_of_an_xclbin() -> None:
    content = written()
    assert content[:8] == b"xclbin2\0"
    assert struct.unpack_from("<i", content, 8) == (-1,)
    assert struct.unpack_from("<Q", content, 304) == (len(content),)
    assert content[416:432].hex() == DIGEST[:32]
    assert struct.unpack_from("<I", content, 448) == (4,)


def test_a_memory_two_units_and_their_connections() -> None:
    content = written()
    memories, units, connections = (section(content, kind) for kind in (6, 8, 7))
    assert struct.unpack("<i4xBB6xQQ16s", memories) == (1, 1, 1, 2 << 20, 0, b"HP0".ljust(16, b"\0"))
    assert struct.unpack_from("<i", units) == (2,)
    first, second = (struct.unpack_from("<IIQ64s", units, 8 + 80 * index) for index in range(2))
    assert (first[0], first[3].rstrip(b"\0")) == (1, b"dense_1_kernel:dense_1_kernel_1")
    assert second[3].rstrip(b"\0") == b"dense_4_kernel:dense_4_kernel_1"
    assert second[2] - first[2] == 0x10000
    expected = [4, *(0, 0, 0), *(1, 0, 0), *(0, 1, 0), *(1, 1, 0)]
    np.testing.assert_array_equal(np.frombuffer(connections, np.int32), expected)


def test_the_xml_tells_every_argument() -> None:
    core = ET.fromstring(section(written(), 2)).find("platform/device/core")  # noqa: S314 - our own
    assert core is not None
    kernels = core.findall("kernel")
    assert [kernel.attrib["name"] for kernel in kernels] == list(NAMES)
    for kernel in kernels:
        told = [each.attrib for each in kernel.findall("arg")]
        assert [(each["name"], int(each["size"], 0), int(each["offset"], 0), each["type"]) for each in told] == [
            (each.name, each.size, each.offset, each.c_type) for each in ARGUMENTS
        ]
        assert [each["addressQualifier"] for each in told] == ["1", "1", *"000000"]
        ports = {port.attrib["name"] for port in kernel.findall("port")}
        assert {each["port"] for each in told} == ports
        assert kernel.find("instance/addrRemap") is not None


def test_what_is_written_is_read_back() -> None:
    found = xclbin.read(written())
    assert found.uuid == xclbin.uuid_of(DIGEST)
    assert found.sections == SECTIONS
    assert list(found.kernels) == list(NAMES)
    for parameters in found.kernels.values():
        assert [(each.name, each.size, each.is_buffer, each.reaches_memory) for each in parameters] == [
            (each.name, each.size, each.is_buffer, each.is_buffer) for each in ARGUMENTS
        ]
    xclbin.check(found, NAMES)


def test_the_same_is_written_the_same_and_another_digest_otherwise() -> None:
    assert written() == written()
    other = xclbin.write(NAMES, "f" * 64)
    assert xclbin.read(other).uuid != xclbin.read(written()).uuid


def test_other_sections_are_passed_over() -> None:
    """As of a file from v++: a bitstream, clocks, its own notes."""
    content = bytearray(written(without=("CONNECTIVITY",)))
    struct.pack_into("<I", content, 456 + 40 * 2, 11)
    assert xclbin.read(bytes(content)).sections == ("EMBEDDED_METADATA", "MEM_TOPOLOGY")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_missing_section_is_named(name: str) -> None:
    found = xclbin.read(written((name,)))
    assert found.sections == tuple(each for each in SECTIONS if each != name)
    with pytest.raises(ToolError, match=f"has no section {name}") as caught:
        xclbin.check(found, NAMES)
    assert "harness firmware" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"xclbin1\0" + bytes(600), b"\x7fELF" + bytes(600)])
def test_a_file_that_is_none(content: bytes) -> None:
    with pytest.raises(ToolError, match="no xclbin"):
        xclbin.read(content)


def test_every_file_that_is_cut_off_is_damaged() -> None:
    whole = written()
    for size in range(8, len(whole)):
        with pytest.raises(ToolError, match="this xclbin is damaged"):
            xclbin.read(whole[:size])


def test_no_change_of_a_byte_is_more_than_damage() -> None:
    """Nothing but a description, or this error, comes of a file whatever its bytes."""
    whole = written()
    rng = np.random.default_rng(0)
    for _ in range(2000):
        content = bytearray(whole)
        for at in rng.integers(8, len(whole), 3):
            content[at] = rng.integers(256)
        try:
            xclbin.read(bytes(content))
        except ToolError as error:
            assert error.message.startswith("this xclbin is damaged"), error.message  # noqa: PT017 - or none


def test_kernels_must_be_the_network_s() -> None:
    found = xclbin.read(written())
    with pytest.raises(ToolError, match="has no kernel dense_2_kernel; it has dense_1_kernel, dense_4_kernel"):
        xclbin.check(found, ["dense_1_kernel", "dense_2_kernel"])
    with pytest.raises(ToolError, match="has a kernel dense_4_kernel, which the network has not"):
        xclbin.check(found, ["dense_1_kernel"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (ARGUMENTS[:-1], "dense_1_kernel with 7 arguments; it must have 8"),
        ([*ARGUMENTS, ARGUMENTS[-1]], "dense_1_kernel with 9 arguments; it must have 8"),
        ([replace(ARGUMENTS[0], name="taken"), *ARGUMENTS[1:]], "argument 0 is taken; it must be given"),
        (
            [*ARGUMENTS[:4], replace(ARGUMENTS[4], size=8, c_type="unsigned long"), *ARGUMENTS[5:]],
            r"argument 4 \(part\) has 8 bytes; it must have 4",
        ),
        ([replace(ARGUMENTS[0], c_type="unsigned long"), *ARGUMENTS[1:]], r"argument 0 \(given\) is no buffer"),
        ([*ARGUMENTS[:2], replace(ARGUMENTS[2], c_type="int*"), *ARGUMENTS[3:]], r"argument 2 \(vectors\) is a buffer"),
    ],
)
def test_another_signature_is_named(arguments: list[Argument], words: str) -> None:
    found = xclbin.read(xclbin.write(NAMES, DIGEST, arguments=arguments))
    with pytest.raises(ToolError, match=words):
        xclbin.check(found, NAMES)


@pytest.mark.parametrize(("at", "size", "value"), [(4, "<i", 5), (8, "<i", 1), (8, "<i", -1), (12, "<i", 1)])
def test_a_buffer_must_reach_a_memory(at: int, size: str, value: int) -> None:
    """Connection 0 is of another argument, unit or memory."""
    content = bytearray(written())
    start = bytes(content).index(section(bytes(content), 7))
    struct.pack_into(size, content, start + at, value)
    with pytest.raises(ToolError, match=r"dense_1_kernel whose argument 0 \(given\) reaches no memory"):
        xclbin.check(xclbin.read(bytes(content)), NAMES)


def test_a_memory_must_be_used() -> None:
    content = bytearray(written())
    start = bytes(content).index(section(bytes(content), 6))
    content[start + 9] = 0
    with pytest.raises(ToolError, match="reaches no memory"):
        xclbin.check(xclbin.read(bytes(content)), NAMES)
