"""Frames of a serial line: those of the board and those of the host are the same."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.serial_line import Frame, Frames, decode, encode
from harness.core.installation import ROOT

# The port of a test: what is sent comes back.
PORT = """
#include "uart.h"
unsigned char line[4096];
int sent, received;
void uart_begin(void) {}
void uart_send(unsigned char byte) { line[sent++] = byte; }
unsigned char uart_receive(void) { return received < 4096 ? line[received++] : 0; }
"""
LONG = st.binary(max_size=1040) | st.integers(0, 1040).map(lambda size: b"\x07" * size)


class FrameOfC(ctypes.Structure):
    """`struct frame` of kernels/bare/serial/frame.h."""

    _fields_ = (("payload_bytes", ctypes.c_size_t), ("content", ctypes.c_ubyte * 1046))


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The code of the board, compiled for this machine."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not on this machine")
    folder = tmp_path_factory.mktemp("frames")
    (folder / "port.c").write_text(PORT)
    serial = ROOT / "kernels" / "bare" / "serial"
    library = folder / "frames.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", f"-I{serial}", "-o", str(library), str(folder / "port.c")]
    subprocess.run([*command, str(serial / "frame.c")], check=True)
    return ctypes.CDLL(str(library))


def sent_by_board(board: ctypes.CDLL, frame: Frame) -> bytes:
    line = (ctypes.c_ubyte * 4096).in_dll(board, "line")
    sent = ctypes.c_int.in_dll(board, "sent")
    sent.value = 0
    content = bytes([frame.kind, frame.sequence]) + frame.payload
    sent_frame = FrameOfC(len(frame.payload), (ctypes.c_ubyte * 1046)(*content))
    board.frame_send(ctypes.byref(sent_frame))
    return bytes(line[: sent.value])


def received_by_board(board: ctypes.CDLL, encoded: bytes) -> Frame | None:
    line = (ctypes.c_ubyte * 4096).in_dll(board, "line")
    line[: len(encoded)] = encoded
    ctypes.c_int.in_dll(board, "received").value = 0
    frame = FrameOfC()
    board.frame_receive.restype = ctypes.c_bool
    if not board.frame_receive(ctypes.byref(frame)):
        return None
    content = bytes(frame.content[: 2 + frame.payload_bytes])
    return Frame(content[0], content[1], content[2:])


@given(kind=st.integers(0, 255), sequence=st.integers(0, 255), payload=LONG)
def test_both_sides_have_the_same_frames(board: ctypes.CDLL, kind: int, sequence: int, payload: bytes) -> None:
    frame = Frame(kind, sequence, payload)
    encoded = encode(frame)
    assert b"\0" not in encoded[1:-1]
    assert [*Frames().feed(encoded)] == [frame]
    assert [*Frames().feed(sent_by_board(board, frame))] == [frame]
    assert received_by_board(board, encoded) == frame


@given(payload=st.binary(max_size=300), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_side_takes_a_damaged_frame(board: ctypes.CDLL, payload: bytes, place: int, bit: int) -> None:
    encoded = encode(Frame(87, 5, payload))
    at = 1 + place % (len(encoded) - 2)
    damaged = encoded[:at] + bytes([encoded[at] ^ 1 << bit]) + encoded[at + 1 :]
    assert not any(Frames().feed(damaged))
    assert received_by_board(board, damaged) is None


@given(st.binary(max_size=400))
def test_no_noise_is_a_frame(content: bytes) -> None:
    """With a checksum of 32 bits, noise is a frame once in 4 thousand million times."""
    assert decode(content.replace(b"\0", b"\1")) is None


def test_frames_are_told_apart_wherever_their_bytes_are_divided() -> None:
    frames = [Frame(82, sequence, bytes([0, sequence] * 70)) for sequence in range(1, 5)]
    content = b"boot loader\r\n" + b"".join(map(encode, frames))
    for size in (1, 2, 7, 300, len(content)):
        received = Frames()
        pieces = [content[start : start + size] for start in range(0, len(content), size)]
        assert [frame for piece in pieces for frame in received.feed(piece)] == frames
