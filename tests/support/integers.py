"""Networks of operators on integers, which Cast makes of a float32 input and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.model.network import Network
from harness.model.transforms.edit import declare_functions
from harness.operators.exact import formats
from harness.operators.integer_samples import special_integers
from harness.operators.reduce import OF_INTEGERS
from harness.operators.selection import TYPES
from harness.operators.tensor import BOOL, EVERY_TYPE, FLOAT16, FLOAT32, FLOAT64, INTEGERS, STORED
from tests.support.builders import ELEMENT_TYPES, make_model
from tests.support.codes import node
from tests.support.programs.board_program import parse

WIDTH = 6
TYPE_NAMES = re.compile("|".join(sorted(ELEMENT_TYPES, key=len, reverse=True)))
Part = tuple[int, int]
"""A place and a count: the parts of all places below the count have together all types of all operators."""
WHOLE: Part = (0, 1)


def network_of(
    nodes: Sequence[onnx.NodeProto], constants: dict[str, Any], kinds: dict[str, str], part: Part = WHOLE
) -> Network:
    """Build the network of a part of the nodes; its outputs, of these types, are tensors that no node reads."""
    read = {name for each in nodes for name in each.input}
    outputs = _outputs_of(part, [name for name in kinds if name not in read])
    needed, kept = set(outputs), list[onnx.NodeProto]()
    for each in reversed(nodes):
        if needed.intersection(each.output):
            needed.update(each.input)
            kept.insert(0, each)
    values = {name: value for name, value in constants.items() if name in needed}
    stated = {name: (kinds[name], None) for name in outputs}
    model = make_model(kept, values, stated, width=WIDTH, metadata=None)
    declare_functions(model)
    return parse(model)


def _outputs_of(part: Part, names: Sequence[str]) -> list[str]:
    """Return the outputs of a part: of those whose names differ only in types every count-th one, at least one."""
    place, count = part
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(TYPE_NAMES.sub("", name), []).append(name)
    parts = (members[(place + shift) % count :: count] or members[:1] for shift, members in enumerate(alike.values()))
    return [name for members in parts for name in members]


def cast(source: str, kind: Any, output: str) -> onnx.NodeProto:
    return node("Cast", source, output=output, to=ELEMENT_TYPES[str(kind)])


def every_cast(part: Part = WHOLE) -> Network:
    """Casts of float32 to all types, between all types, and back."""
    nodes, kinds = [node("Mul", "x", "scales", output="scaled")], {}
    for kind in EVERY_TYPE:
        if kind != FLOAT32:
            nodes.append(cast("scaled", kind, f"from_float_{kind}"))
            kinds[f"from_float_{kind}"] = str(kind)
    for kind in EVERY_TYPE:
        for other in EVERY_TYPE:
            if kind not in {FLOAT32, other}:
                nodes.append(cast(f"from_float_{kind}", other, f"{kind}_to_{other}"))
                kinds[f"{kind}_to_{other}"] = str(other)
    scales = np.float32([1, 0.01, 100, 3e4, 1e9, 1e18])
    return network_of(nodes, {"scales": scales}, kinds, part)


def every_choice(part: Part = WHOLE) -> Network:
    """Comparisons, choices and moves of all types of integers and of bool."""
    nodes: list[onnx.NodeProto] = [node("Mul", "x", "scales", output="scaled")]
    constants: dict[str, Any] = {
        "scales": np.float32([1, 1, 10, 1, 100, 1e4]),
        "begin": np.array([1]), "end": np.array([6]), "axis": np.array([1]), "step": np.array([2]),
        "image": np.array([-1, 2, 3]), "around": np.array([0, 1, 0, 2]), "indices": np.array([4, 0, 4]),
    }  # fmt: skip
    kinds: dict[str, str] = {}
    for kind in (*INTEGERS, BOOL):
        for each, output in _choices(str(kind)):
            nodes.append(each)
            kinds[each.output[0]] = output
        special = special_integers(kind) if kind in INTEGERS else np.array([True, False, True])
        constants[f"limit_{kind}"] = np.resize(special, WIDTH)
        constants[f"filler_{kind}"] = special[0]
    return network_of(nodes, constants, kinds, part)


def _choices(kind: str) -> Iterator[tuple[onnx.NodeProto, str]]:
    x, limit = f"x_{kind}", f"limit_{kind}"
    yield cast("scaled", kind, x), kind
    compared = (
        ("And", "Xor", "Equal") if kind == "bool" else ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
    )
    for operator in compared:
        yield node(operator, x, limit, output=f"{operator.lower()}_{kind}"), "bool"
    yield cast(f"equal_{kind}", "float32", f"flag_{kind}"), "float32"
    yield helper.make_node("Select", [x, limit, x], [f"chosen_{kind}"], f"chosen_{kind}", domain="harness"), kind
    yield node("Slice", x, "begin", "end", "axis", "step", output=f"part_{kind}"), kind
    yield node("Reshape", x, "image", output=f"image_{kind}"), kind
    yield node("Transpose", f"image_{kind}", output=f"swapped_{kind}", perm=[0, 2, 1]), kind
    yield node("Flatten", f"swapped_{kind}", output=f"flat_{kind}"), kind
    yield node("Pad", x, "around", f"filler_{kind}", output=f"padded_{kind}"), kind
    yield node("Concat", x, f"part_{kind}", output=f"joined_{kind}", axis=1), kind
    yield node("Gather", x, "indices", output=f"gathered_{kind}", axis=1), kind


def every_arithmetic(part: Part = WHOLE) -> Network:
    """Arithmetic and operations on bits of all types of integers."""
    nodes: list[onnx.NodeProto] = [node("Mul", "x", "scales", output="scaled")]
    constants: dict[str, Any] = {"scales": np.float32([1, 10, 100, 1e4, 1e9, 1e18])}
    kinds: dict[str, str] = {}
    for kind in INTEGERS:
        for each in _arithmetic(str(kind)):
            nodes.append(each)
            kinds[each.output[0]] = str(kind)
        numbers = special_integers(kind)
        constants |= {f"{name}_{kind}": numbers[at] for name, at in (("low", 1), ("high", -2))}
        divisors = np.array([3, 7, 100, 127, 2, 5], kind)
        constants[f"divisors_{kind}"] = divisors if kind.kind == "u" else -divisors
        constants[f"row_{kind}"] = np.resize(numbers, WIDTH)
        constants[f"places_{kind}"] = np.array([0, 1, 7, 8, 31, 70], kind)
        constants[f"one_{kind}"] = kind.type(1)
    return network_of(nodes, constants, kinds, part)


def _arithmetic(kind: str) -> Iterator[onnx.NodeProto]:
    x, row, divisors = f"x_{kind}", f"row_{kind}", f"divisors_{kind}"
    yield cast("scaled", kind, x)
    y = f"bitwiseor_{kind}"
    for operator in ("BitwiseOr", "BitwiseAnd", "BitwiseXor", "Add", "Sub", "Mul", "Max", "Min"):
        yield node(operator, x, row, output=f"{operator.lower()}_{kind}")
    for operator in ("Add", "Sub", "Mul"):
        yield node(operator, x, y, output=f"both_{operator.lower()}_{kind}")
    yield node("Div", x, divisors, output=f"div_{kind}")
    yield node("Mod", x, divisors, output=f"mod_{kind}")
    yield node("Mod", x, divisors, output=f"fmod_{kind}", fmod=1)
    yield node("Max", y, f"one_{kind}", output=f"positive_{kind}")
    yield node("Div", x, f"positive_{kind}", output=f"quotient_{kind}")
    yield node("Mod", x, f"positive_{kind}", output=f"rest_{kind}")
    yield node("Clip", x, f"low_{kind}", f"high_{kind}", output=f"clip_{kind}")
    operators = ["Abs", "Sign", "BitwiseNot"]
    if kind.startswith("uint"):
        for direction in ("LEFT", "RIGHT"):
            yield node("BitShift", x, f"places_{kind}", output=f"{direction.lower()}_{kind}", direction=direction)
            yield node("BitShift", x, y, output=f"by_{direction.lower()}_{kind}", direction=direction)
    else:
        operators += ["Neg", "Relu"]
    for operator in operators:
        yield node(operator, x, output=f"{operator.lower()}_{kind}")


def every_reduction(part: Part = WHOLE) -> Network:
    """Reductions and sums so far of integers."""
    nodes: list[onnx.NodeProto] = [node("Mul", "x", "scales", output="scaled")]
    constants: dict[str, Any] = {
        "scales": np.float32([1, 10, 100, 1e4, 1e9, 1e18]),
        "image": np.array([-1, 2, 3]), "second": np.array([2]), "axis": np.array(2), "both": np.array([1, 2]),
    }  # fmt: skip
    kinds: dict[str, str] = {}
    for kind in dict.fromkeys(kind for types in OF_INTEGERS.values() for kind in types):
        operators = [name for name, types in OF_INTEGERS.items() if kind in types]
        nodes += [cast("scaled", kind, f"x_{kind}"), node("Reshape", f"x_{kind}", "image", output=f"image_{kind}")]
        if kind in OF_INTEGERS["ReduceSum"]:
            nodes.append(node("CumSum", f"image_{kind}", "axis", output=f"sums_{kind}", reverse=1))
            nodes.append(node("CumSum", f"x_{kind}", "one", output=f"first_sums_{kind}", exclusive=1))
            nodes.append(node("Flatten", f"sums_{kind}", output=f"flat_{kind}"))
            kinds |= dict.fromkeys((f"first_sums_{kind}", f"flat_{kind}"), str(kind))
        for operator in operators:
            for axes in ("second", "both"):
                name = f"{operator.lower()}_{axes}_{kind}"
                nodes.append(node(operator, f"image_{kind}", axes, output=name, keepdims=int(axes == "both")))
                nodes.append(node("Flatten", name, output=f"flat_{name}"))
                kinds[f"flat_{name}"] = str(kind)
    return network_of(nodes, constants | {"one": np.array(1)}, kinds, part)


def every_selection(part: Part = WHOLE, *, has_boxes: bool = True) -> Network:
    """Values at indices, ranks and places of the extreme ones, of float32 and integers."""
    nodes: list[onnx.NodeProto] = [node("Mul", "x", "scales", output="scaled"), node("Floor", "x", output="whole"),
                                   node("Clip", "whole", "low_float32", "high_float32", output="floor")]  # fmt: skip
    indices = np.array([1, -1, 0, 1, 2, -3]).reshape(1, 1, 3, 2)
    constants: dict[str, Any] = {
        "scales": np.float32([1, 10, 1, 100, 1, 10]), "image": np.array([-1, 1, 3, 2]),
        "row": np.array([-1, 1, 6, 1]), "three": np.array([3]), "three_boxes": np.array([-1, 1, 3, 4]),
        "two_classes": np.array([-1, 1, 2, 3]),
    }  # fmt: skip
    if has_boxes:
        nodes += [node("Concat", "x", "floor", output="corners", axis=1),
                  node("Reshape", "corners", "three_boxes", output="boxes"),
                  node("Reshape", "floor", "two_classes", output="scores")]  # fmt: skip
    kinds: dict[str, str] = {}
    for kind in map(str, TYPES):
        dtype = np.dtype(kind)
        constants |= {f"low_{kind}": dtype.type(-3), f"high_{kind}": dtype.type(2)}
        constants[f"zeros_{kind}"] = np.zeros((1, 1, 3, 1), dtype)
        constants[f"table_{kind}"] = np.arange(12).reshape(1, 1, 3, 4).astype(dtype)
        constants[f"indices_{kind}"] = indices.astype(dtype)
        for name, source in (("x", "scaled"), ("w", "floor")):
            is_float = kind == "float32"
            output = f"{name}_{kind}"
            nodes.append(node("Neg", source, output=output) if is_float else cast(source, kind, output))
        nodes.append(node("Clip", f"w_{kind}", f"low_{kind}", f"high_{kind}", output=f"index_{kind}"))
        for name, form in (("x", "image"), ("x", "row"), ("w", "image"), ("index", "image"), ("index", "row")):
            nodes.append(node("Reshape", f"{name}_{kind}", form, output=f"{name}_{form}_{kind}"))
        for selection, output in _selections(kind, has_boxes=has_boxes):
            nodes.append(selection)
            for place, name in enumerate(selection.output):
                nodes.append(node("Flatten", name, output=f"flat_{name}"))
                kinds[f"flat_{name}"] = output if place == 0 else "int64"
    return network_of(nodes, constants, kinds, part)


def _selections(kind: str, *, has_boxes: bool) -> Iterator[tuple[onnx.NodeProto, str]]:
    names = ("x_image", "w_image", "index_image", "index_row", "x_row", "indices", "zeros")
    x, w, index, row, of_row, constant, zeros = (f"{name}_{kind}" for name in names)

    def of_harness(operator: str, output: str, *inputs: str, **attributes: Any) -> tuple[onnx.NodeProto, str]:
        name = f"{output}_{kind}"
        return helper.make_node(operator, inputs, [name], name, domain="harness", **attributes), kind

    yield of_harness("GatherElements", "gathered", x, index)
    yield of_harness("GatherElements", "rows", x, row)
    if kind == "int64":
        yield of_harness("GatherElements", "looked_up", "table_float32", row)[0], "float32"
    if kind == "int32":
        yield of_harness("GatherElements", "integers_looked_up", "table_int64", row)[0], "int64"
    yield of_harness("ScatterElements", "scattered", x, index, w, reduction="none")
    yield of_harness("ScatterElements", "of_constants", zeros, row, of_row, reduction="max")
    yield of_harness("ScatterElements", "smaller", x, constant, w, reduction="min")
    yield of_harness("ScatterElements", "at_constants", w, constant, constant, reduction="max")
    if kind == "float32":
        for is_centre in (0, 1) if has_boxes else ():
            limits = {"max_output_boxes_per_class": 2, "iou_threshold": 0.25, "score_threshold": -2.0}
            yield of_harness("NonMaxSuppression", f"selected_{is_centre}", "boxes", "scores",
                             center_point_box=is_centre, **limits)[0], "int64"  # fmt: skip
        yield of_harness("ScatterElements", "added", x, index, w, reduction="add")
        yield of_harness("ScatterElements", "multiplied", x, constant, w, reduction="mul")
    for largest in (0, 1):
        outputs = [f"{part}_{largest}_{kind}" for part in ("ranked", "ranks")]
        yield helper.make_node("TopK", [x, "three"], outputs, outputs[0], axis=2, largest=largest), kind
    for operator in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            name = f"{operator.lower()}_{last}_{kind}"
            yield node(operator, x, output=name, axis=2, select_last_index=last), "int64"


def every_format(part: Part = WHOLE) -> Network:
    """Casts from and to float16 and float64, and moves of them."""
    nodes: list[onnx.NodeProto] = [node("Mul", "x", "scales", output="scaled")]
    constants: dict[str, Any] = {
        "scales": np.float32([1, 1e-6, 1e-7, 1e4, 1e-30, 1e30]), "image": np.array([-1, 2, 3]),
        "indices": np.array([4, 0, 4]),
    }  # fmt: skip
    kinds: dict[str, str] = {}
    for kind in STORED:
        x = f"x_{kind}"
        nodes += [
            cast("scaled", kind, x),
            node("Reshape", x, "image", output=f"image_{kind}"),
            node("Transpose", f"image_{kind}", output=f"swapped_{kind}", perm=[0, 2, 1]),
            node("Flatten", f"swapped_{kind}", output=f"flat_{kind}"),
            node("Gather", x, "indices", output=f"gathered_{kind}", axis=1),
            node("Concat", x, f"gathered_{kind}", output=f"joined_{kind}", axis=1),
            cast(f"joined_{kind}", FLOAT32, f"back_{kind}"),
        ]
        kinds[f"back_{kind}"] = "float32"
        if kind != formats.E8M0:
            nodes.append(cast(f"flat_{kind}", BOOL, f"flag_{kind}"))
        kinds[f"flat_{kind}" if kind == formats.E8M0 else f"flag_{kind}"] = (
            str(kind) if kind == formats.E8M0 else "bool"
        )
    for kind in INTEGERS:
        nodes += [cast("x_float16", kind, f"{kind}_of_half"), cast(f"{kind}_of_half", FLOAT16, f"half_of_{kind}")]
        kinds[f"half_of_{kind}"] = "float16"
    nodes.append(cast("x_float16", FLOAT64, "double_of_half"))
    constants["halves"] = np.float16([0.1, -3, 7e-5, 60000, 1e-7, 1])
    for operator in ("Add", "Sub", "Mul", "Div"):
        nodes.append(node(operator, "x_float16", "halves", output=f"{operator.lower()}_half"))
        nodes.append(node(operator, "x_float16", "half_of_int32", output=f"both_{operator.lower()}_half"))
        kinds |= dict.fromkeys((f"{operator.lower()}_half", f"both_{operator.lower()}_half"), "float16")
    for operator in ("Neg", "Abs"):
        nodes.append(node(operator, "x_float16", output=f"{operator.lower()}_half"))
        kinds[f"{operator.lower()}_half"] = "float16"
    return network_of(nodes, constants, kinds | {"double_of_half": "float64"}, part)


def vectors(count: int) -> Any:
    """Inputs of several magnitudes, integers among them, of special values too, float32 (count, WIDTH)."""
    rng, shape = np.random.default_rng(1), (count, WIDTH)
    numbers = rng.normal(0, 3, shape) * rng.choice([1, 30, 1e4], (count, 1))
    numbers[::3] = np.round(numbers[::3])
    numbers[::5] = rng.choice(
        [0, -0.0, 1, -1, 127, 128, -129, 255, 256, 32768, 2.0**31, 2.0**63, -1e30], numbers[::5].shape
    )
    return numbers.astype(np.float32)


NETWORKS: Mapping[str, Callable[..., Network]] = {
    "casts": every_cast,
    "choices": every_choice,
    "arithmetic": every_arithmetic,
    "reductions": every_reduction,
    "formats": every_format,
    "selections": every_selection,
}
