"""Networks of families as onnxruntime.quantization writes them (QDQ): the codes of the file, and those of a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model import importer, parse
from harness.model.importer import NetworkImport, check, fused, graph, simplify
from harness.model.onnx_runtime.agreement import random_inputs
from harness.model.onnx_runtime.sessions import Stored, session
from tests.support.cli.command import User

FORMS: Mapping[str, Mapping[str, Any]] = {
    "int8": {},
    "channels": {"per_channel": True},
    "symmetric": {"extra_options": {"ActivationSymmetric": True}},
    "uint8 and int8": {"activation_type": QuantType.QUInt8},
    "uint8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
}
"""Options of the quantiser."""
GROUPS = {"kws_lstm": 2, "kws_gru": 2, "text_tiny": 51}
"""Networks, and their groups of DequantizeLinear, an operator and QuantizeLinear."""
VOCABULARY = 64


class Samples(CalibrationDataReader):  # type: ignore[misc] # it has no types
    """Random inputs of a model, one vector at a time."""

    def __init__(self, model: Path) -> None:
        loaded = session(model, 1, optimised=False)
        self.feeds = [random_inputs(loaded, {}, 1, seed, VOCABULARY) for seed in range(8)]

    def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
        """Return the next input; None behind the last one."""
        return self.feeds.pop() if self.feeds else None


def quantised(name: str, folder: Path, **options: Any) -> Path:
    """Write a network with QDQ groups."""
    model, path = ROOT / "models" / f"{name}.onnx", folder / f"{name}_codes.onnx"
    quantize_static(model, path, Samples(model), quant_format=QuantFormat.QDQ, **options)
    return path


QUICK = (("kws_lstm", "int8"), ("kws_gru", "uint8"))
CASES = [
    pytest.param(name, form, marks=() if (name, form) in QUICK else pytest.mark.slow)
    for name in GROUPS
    for form in FORMS
]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_the_network_has_the_codes_of_its_file(name: str, form: str, tmp_path: Path) -> None:
    result = importer.bring_in(quantised(name, tmp_path, **FORMS[form]))
    assert isinstance(result, NetworkImport)
    assert f"{GROUPS[name]} QDQ groups are the quantised operators as which ONNX Runtime runs them" in result.notes
    assert {"LSTM", "GRU", "GatherElements"} & {layer.operator for layer in result.network.layers}
    assert len(result.check.tensors) > GROUPS[name]


def test_another_code_than_that_of_the_file_is_refused(tmp_path: Path) -> None:
    path = quantised("text_tiny", tmp_path)
    simplified, _ = simplify.read(path)
    converted = fused.convert(graph.read(simplified.model, "text", of_one_float=False))
    changed = onnx.ModelProto.FromString(converted.model.SerializeToString())
    [table] = [tensor for tensor in changed.graph.initializer if VOCABULARY in tensor.dims]
    values = numpy_helper.to_array(table).copy()
    values.reshape(VOCABULARY, -1)[-1] += 1
    table.CopyFrom(numpy_helper.from_array(values, table.name))
    network = parse(changed.SerializeToString(), "text")
    with pytest.raises(RequestError, match="has other values in the file than as converted"):
        check.same_for_any_inputs(Stored(simplified.model), replace(converted, model=changed), network)


@pytest.mark.parametrize("name", ["kws_lstm", pytest.param("text_tiny", marks=pytest.mark.campaign)])
def test_the_host_computes_them(name: str, tmp_path: Path, cache: Path) -> None:
    user, path = User(tmp_path, cache), quantised(name, tmp_path)
    assert user.harness("models", "import", str(path), "-o", str(tmp_path / "codes.onnx")).code == 0
    words = ("--board", "host", "--model", str(tmp_path / "codes.onnx"), "--vectors", "20", "--json")
    ended = user.harness("run", *words)
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
