"""The two texts give back the bytes of the ONNX file, whatever the model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from harness import operators
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from tests.support.builders import random_network
from tests.support.examples import examples
from tests.support.text.texts import changed, description_of, read_back, without_hashes

options = st.fixed_dictionaries(
    {
        "widths": st.lists(st.integers(2, 9), min_size=2, max_size=4),
        "weights": st.sampled_from(["int8", "uint8"]),
        "per_column": st.booleans(),
        "zero_points": st.booleans(),
        "transposed": st.booleans(),
        "alpha": st.sampled_from([1.0, 0.7]),
        "argmax": st.booleans(),
        "output": st.sampled_from(["codes", "float_output", "dequantize"]),
        "residual": st.sampled_from([1, 1, 3]),
        "activations": st.sampled_from(["uint8", "int8"]),
    }
)


def network_of(seed: int, output: str, residual: int, activations: str, weights: str, **asked: Any) -> onnx.ModelProto:
    kind = {output: True} if output != "codes" and residual == 1 else {}
    weights = weights if activations == "uint8" else "int8"
    rng = np.random.default_rng(seed)
    return random_network(rng, weights=weights, activations=activations, residual=residual, **kind, **asked)


def small() -> onnx.ModelProto:
    return random_network(np.random.default_rng(1), [3, 4, 2], per_column=True, argmax=True)


@pytest.mark.slow
@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 32), options)
def test_a_network_comes_back_with_its_bytes(seed: int, asked: dict[str, Any]) -> None:
    content = network_of(seed, **asked).SerializeToString()
    described = description_of(content)
    rebuilt = read_back(described.text, described.weights)
    assert rebuilt.onnx_bytes == content
    assert (rebuilt.name, rebuilt.original) == ("net", True)


def test_the_shipped_network_comes_back_with_its_bytes() -> None:
    content = (ROOT / "models/acas_coc.onnx").read_bytes()
    described = description_of(content, "acas_coc")
    assert read_back(described.text, described.weights).onnx_bytes == content


def constants_in_nodes(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        node = helper.make_node("Constant", [], [tensor.name], name=f"make_{tensor.name}", value=tensor)
        model.graph.node.insert(0, node)
    model.graph.node[0].attribute[0].t.ClearField("name")
    del model.graph.initializer[:]


def typed_storage(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        tensor.CopyFrom(
            helper.make_tensor(tensor.name, tensor.data_type, tensor.dims, values.reshape(-1).tolist(), raw=False)
        )


def texts_everywhere(model: onnx.ModelProto) -> None:
    """A text with everything that could break a line format, wherever ONNX keeps one."""
    text = 'two\nlines, a "quote", a \\, a # and \u202e\u2028 \U0001f600'
    model.producer_name, model.producer_version, model.domain, model.doc_string = "exporter", "", "a.b", text
    model.model_version = -(1 << 63)
    graph = model.graph
    annotated = [graph, graph.node[1], graph.input[0], graph.output[0], graph.initializer[0], graph.initializer[2]]
    for message in annotated:
        message.doc_string = text
        message.metadata_props.add(key=text, value=" blanks at both ends ")
    for key, value in (("empty", ""), ("colon", ": ="), (text, text), ("json", '["a", {"b": 1}]')):
        model.metadata_props.add(key=key, value=value)
    graph.node[0].overload = ""
    graph.node[0].domain = ""


def value_infos(model: onnx.ModelProto) -> None:
    shapes: list[Any] = [None, [], ["n", None, 3]]
    for index, shape in enumerate(shapes):
        model.graph.value_info.append(helper.make_tensor_value_info(f"v{index}", TensorProto.INT64, shape))
    model.graph.value_info.add(name="no type")


def unnamed_nodes(model: onnx.ModelProto) -> None:
    model.graph.node[0].ClearField("name")
    model.graph.node[1].name = ""


def initializers_as_inputs(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def empty_tensors(model: onnx.ModelProto) -> None:
    for index, shape in enumerate([(0,), (0, 3), (3, 0)]):
        for kind in (np.int32, np.float32):
            tensor = numpy_helper.from_array(np.zeros(shape, kind), f"empty_{index}_{kind.__name__}")
            model.graph.initializer.append(tensor)


def odd_floats(model: onnx.ModelProto) -> None:
    """Zeros, subnormals, infinities and NaN of either sign, quiet, signalling and with a payload."""
    bits = [0, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FABCDEF]
    values = np.array(bits, np.uint32).view(np.float32)
    tensors = {
        "row": values,
        "matrix": values.reshape(2, 5),
        **{f"value_{bit}": value for bit, value in zip(bits, values, strict=True)},
    }
    for name, value in tensors.items():
        model.graph.initializer.append(
            TensorProto(name=name, data_type=TensorProto.FLOAT, dims=np.shape(value), raw_data=value.tobytes())
        )


EXPORTERS = [
    constants_in_nodes, typed_storage, texts_everywhere, value_infos, unnamed_nodes, initializers_as_inputs,
    empty_tensors, odd_floats,
]  # fmt: skip


@pytest.mark.parametrize("write", EXPORTERS, ids=lambda write: write.__name__)
def test_every_way_to_write_a_model_comes_back_with_its_bytes(write: Any) -> None:
    model = small()
    write(model)
    described = description_of(model)
    assert read_back(described.text, described.weights).onnx_bytes == model.SerializeToString()
    assert all(line.isprintable() for line in (described.text + described.weights).split("\n"))


def test_odd_floats_are_written_with_their_bits() -> None:
    model = small()
    odd_floats(model)
    described = description_of(model)
    assert '"row"[1] = -0.0/0x80000000  # ' in described.weights
    assert '"row"[2] = 1e-45/0x00000001  # ' in described.weights
    assert '"matrix"[1, 4] = nan/0x7fabcdef  # ' in described.weights
    assert 'initializer "value_2147483648" float32 () raw = -0.0/0x80000000 ' in described.text


def test_a_changed_weight_changes_its_row_and_the_hashes() -> None:
    model = random_network(np.random.default_rng(1), [5, 50, 5])
    weights = next(tensor for tensor in model.graph.initializer if tensor.name == "layer_0_weights")
    before = description_of(model)
    values = numpy_helper.to_array(weights).copy()
    values[3, 7] = 100 if values[3, 7] < 0 else -100
    weights.raw_data = values.tobytes()
    after = description_of(model)
    assert [old.split()[:2] for old, _ in changed(before.text, after.text)] == [
        ["sha256", "onnx"],
        ["sha256", "weights"],
    ]
    ((old, new),) = changed(before.weights, after.weights)
    assert old.startswith('"layer_0_weights"[3] = ')
    assert old.endswith('  # B of "layer_0"')
    assert len(changed("\n".join(old.split()), "\n".join(new.split()))) == 1


def test_edited_texts_give_a_new_model() -> None:
    described = description_of(small())
    text = without_hashes(described.text)
    line = next(line for line in text.splitlines() if line.startswith('initializer "x_scale"'))
    edited = text.replace(line, 'initializer "x_scale" float32 () raw = 0.0625')
    rebuilt = read_back(edited, described.weights)
    assert not rebuilt.original
    model = onnx.ModelProto.FromString(rebuilt.onnx_bytes)
    assert numpy_helper.to_array(model.graph.initializer[0]) == np.float32(0.0625)
    expected = copy.deepcopy(small())
    expected.graph.initializer[0].raw_data = np.float32(0.0625).tobytes()
    assert rebuilt.onnx_bytes == expected.SerializeToString()


def test_every_supported_operator_is_explained() -> None:
    for (_, name), operator in operators.by_onnx_name().items():
        assert "=" in operator.text.explain(name)
        assert operator.text.role(0)
        assert operator.text.fragments


def reject(model: onnx.ModelProto | bytes) -> RequestError:
    with pytest.raises(RequestError) as caught:
        description_of(model)
    assert caught.value.hint == "write it in the canonical form first: harness models import FILE -o NAME"
    return caught.value


@pytest.mark.parametrize(
    ("path", "add"),
    [
        ("model.training_info[0]", lambda model: model.training_info.add()),
        ("model.graph.quantization_annotation[0]", lambda model: model.graph.quantization_annotation.add()),
        ("model.graph.initializer[0].data_location", lambda model: model.graph.initializer[0].MergeFrom(
            TensorProto(data_location=TensorProto.DEFAULT))),
        ("model.graph.input[0].type.denotation", lambda model: setattr(model.graph.input[0].type, "denotation", "a")),
        ("model.graph.node[0].attribute[0].doc_string", lambda model: model.graph.node[0].attribute.append(
            onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, i=1, doc_string="a"))),
        ("model.graph.initializer[18].data_type DOUBLE", lambda model: model.graph.initializer.append(
            numpy_helper.from_array(np.zeros(2), "unused"))),
        ("model.graph.value_info[0].type.tensor_type.elem_type STRING", lambda model: model.graph.value_info.append(
            helper.make_tensor_value_info("v", TensorProto.STRING, [1]))),
        ("model: unknown field 77", lambda model: model.MergeFromString(b"\xe8\x04\x01")),
    ],
)  # fmt: skip
def test_what_the_form_has_no_words_for_is_refused_by_name(path: str, add: Any) -> None:
    model = small()
    add(model)
    assert reject(model).message == f"model 'net': the text form has no words for {path}"


def test_bytes_in_another_order_are_refused() -> None:
    model = small()
    first, second = onnx.ModelProto(graph=model.graph), copy.deepcopy(model)
    second.ClearField("graph")
    content = first.SerializeToString() + second.SerializeToString()
    place = "the order of its fields in the file"
    assert reject(content).message == f"model 'net': the text form does not keep {place}"


def test_a_value_beyond_its_type_is_refused_by_name() -> None:
    model = small()
    model.graph.initializer.append(TensorProto(name="unused", data_type=TensorProto.UINT8, dims=[1], int32_data=[300]))
    assert reject(model).message == "model 'net': the text form does not keep model.graph.initializer[18].int32_data"
