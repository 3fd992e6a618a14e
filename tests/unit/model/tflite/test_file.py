"""TFLite files: what is written is read back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.model.tflite.file import OperatorCall, Scales, TensorValue, TfliteFile, decode, encode

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

SCALES = Scales(np.array([0.5, 0.25, 2.0], np.float32), 0, axis=0)
WEIGHTS = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)


def example() -> TfliteFile:
    tensors = (
        TensorValue("x", (1, 4), np.dtype(np.int8), Scales(np.array([0.1], np.float32), -7)),
        TensorValue("weights", (3, 4), np.dtype(np.int8), SCALES, WEIGHTS),
        TensorValue("y", (1, 3), np.dtype(np.int8), Scales(np.array([0.2], np.float32), 9)),
        TensorValue("most", (1,), np.dtype(np.int64)),
        TensorValue("axis", (1,), np.dtype(np.int32), None, np.array([1], np.int32)),
    )
    operators = (
        OperatorCall("FULLY_CONNECTED", (0, 1, -1), (2,), {"fusedActivationFunction": 1, "keepNumDims": True}),
        OperatorCall("ARG_MAX", (2, 4), (3,), {"outputType": 4}),
    )
    return TfliteFile(tensors, operators, (0,), (2, 3), {"source": b"abc"}, "an example")


def test_a_file_is_read_as_it_was_written() -> None:
    written = example()
    read = decode(encode(written), "net.tflite")
    assert (read.inputs, read.outputs, dict(read.metadata), read.description) == (
        (0,),
        (2, 3),
        {"source": b"abc"},
        "an example",
    )
    for one, other in zip(written.tensors, read.tensors, strict=True):
        assert (one.name, one.shape, one.dtype) == (other.name, other.shape, other.dtype)
        assert np.array_equal(one.values, other.values) if one.values is not None else other.values is None
        if one.scales is None:
            assert other.scales is None
        else:
            assert other.scales is not None
            assert (one.scales.scale == other.scales.scale).all()
            assert (one.scales.zero_point, one.scales.axis) == (other.scales.zero_point, other.scales.axis)
    for call, found in zip(written.operators, read.operators, strict=True):
        assert (call.name, call.inputs, call.outputs) == (found.name, found.inputs, found.outputs)
        assert {name: found.options[name] for name in call.options} == dict(call.options)


def test_equal_content_has_equal_bytes() -> None:
    assert encode(example()) == encode(example())


def test_a_file_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match="net is no TFLite file: bytes 4 to 8 are b''"):
        decode(b"", "net")


def test_a_constant_of_another_size_is_refused() -> None:
    file = example()
    weights = replace(file.tensors[1], shape=(3, 5))
    content = encode(replace(file, tensors=(file.tensors[0], weights, *file.tensors[2:])))
    with pytest.raises(RequestError, match=r"tensor weights of int8 \[3, 5\] has 12 bytes"):
        decode(content, "net")
