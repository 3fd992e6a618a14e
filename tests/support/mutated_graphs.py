"""Graphs with one planted error of a shape or a type, and the node at which it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.helper
from onnx import numpy_helper

from harness.core.installation import ROOT
from harness.model.analysis.propagation import node_names, propagate
from tests.campaigns.misra.check import NETWORKS, network

MODELS = ("acas_coc", "ds_cnn_int8", "lenet5", "resnet8_int8")
EDITS = ("grow", "shrink", "add axis", "other type", "attribute", "swap inputs")
COMMUTATIVE = ("Concat", "Max", "Mean", "Min", "Sum")
"""Operators whose inputs can be exchanged where they have one shape."""
FREE_AXES = (("Position", 1),)
"""Operators and axes of their constants that can have any size: the number of cuts."""
ATTRIBUTES = ("strides", "pads", "kernel_shape", "perm", "axis", "group", "transB", "axes")


@dataclass(frozen=True)
class Mutant:
    """A model, what was changed, and the name of the node that no longer fits."""

    model: onnx.ModelProto
    change: str
    node: str


def correct_models() -> Iterator[onnx.ModelProto]:
    """The shipped networks, and some of all operators, with the shape of every tensor stated as exporters do."""
    for name in MODELS:
        yield stated(onnx.load(ROOT / "models" / f"{name}.onnx"))
    for name in NETWORKS:
        model = onnx.load_model_from_string(network(name).onnx_bytes)
        if any(tensor.dims for tensor in model.graph.initializer):  # otherwise nothing fixes a shape
            yield stated(model)


def stated(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the shapes that the analysis finds as stated ones, those of outputs too."""
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    propagation = propagate(model)
    assert not propagation.contradictions
    del model.graph.value_info[:]
    outputs = {value.name: value for value in model.graph.output}
    for tensor in dict.fromkeys(tensor for node in model.graph.node for tensor in node.output):
        fact = propagation.facts.of(tensor)
        assert fact.type is not None, tensor
        assert fact.rank is not None, tensor
        sizes = (fact.sizes[axis] for axis in range(fact.rank))
        shape = [str(size) if size.constant is None else size.constant for size in sizes]
        value = onnx.helper.make_tensor_value_info(tensor, fact.type, shape)
        outputs[tensor].CopyFrom(value) if tensor in outputs else model.graph.value_info.append(value)
    return model


def mutants(count: int) -> Iterator[Mutant]:
    """Mutants of the correct models in turn, each with another seed."""
    models = list(correct_models())
    for seed in range(count):
        rng, tried = np.random.default_rng(seed), 0
        found = None
        while found is None:
            model = onnx.ModelProto()
            model.CopyFrom(models[seed % len(models)])
            found, tried = _mutated(model, rng, EDITS[(seed // len(models) + tried) % len(EDITS)]), tried + 1
        yield found


def _mutated(model: onnx.ModelProto, rng: np.random.Generator, edit: str) -> Mutant | None:
    """The mutant of one kind at a random place; None if there is no such place."""
    names = node_names(model.graph)
    if edit == "attribute":
        return _with_attribute(model, str(rng.choice(list(names))))
    if edit == "swap inputs":
        name = str(rng.choice(list(names)))
        node = names[name]
        if len(node.input) < 3 or node.op_type in COMMUTATIVE or _fits(model, node.input[0], node.input[-1]):
            return None
        node.input[0], node.input[-1] = node.input[-1], node.input[0]
        return Mutant(model, f"first and last input of {name}", name)
    readers = {
        each.name: [name for name, node in names.items() if each.name in node.input] for each in model.graph.initializer
    }
    alone = [each for each in model.graph.initializer if len(readers[each.name]) == 1 and len(each.dims)]
    if not alone:
        return None
    tensor = alone[rng.integers(len(alone))]
    values = numpy_helper.to_array(tensor)
    axis = int(rng.integers(min(values.ndim, 2)))  # kernels of several sizes can give one size of the output
    if (names[readers[tensor.name][0]].op_type, axis) in FREE_AXES and edit in {"grow", "shrink"}:
        return None
    if edit == "grow":
        new = np.concatenate([values, values.take([0], axis)], axis)
    elif edit == "shrink" and values.shape[axis] > 1:
        new = values.take(range(values.shape[axis] - 1), axis)
    elif edit == "other type":
        new = values.astype(np.bool_)
    else:
        new = values[None, None, None]
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(new), tensor.name))
    return Mutant(model, f"{edit} {tensor.name} along {axis}", readers[tensor.name][0])


def _fits(model: onnx.ModelProto, one: str, other: str) -> bool:
    """Return whether two tensors can have one type and one shape; a number of vectors can be any size."""
    kinds = {tensor.name: (tensor.data_type, *tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        kind = value.type.tensor_type
        kinds[value.name] = (kind.elem_type, *(dim.dim_value for dim in kind.shape.dim))
    first, second = kinds.get(one, ()), kinds.get(other, ())
    return len(first) == len(second) and all(a == b or 0 in (a, b) for a, b in zip(first, second, strict=True))


def _with_attribute(model: onnx.ModelProto, name: str) -> Mutant | None:
    """The mutant with another attribute of a node that fixes a shape."""
    node = node_names(model.graph)[name]
    same = any(attribute.name == "auto_pad" and b"SAME" in attribute.s for attribute in node.attribute)
    for attribute in node.attribute:
        if attribute.name not in ATTRIBUTES or (same and attribute.name == "kernel_shape"):
            continue  # with auto_pad, the output has the same size with any kernel
        if attribute.ints:
            attribute.ints[0] += 5
        else:
            attribute.i = 1 - attribute.i if attribute.name == "transB" else attribute.i + 7
        return Mutant(model, f"{attribute.name} of {name}", name)
    return None
