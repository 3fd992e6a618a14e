"""Hostile inputs: what files may look like that nobody made with this program in mind.  Functions of a seed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Random: TypeAlias = np.random.Generator
Mutate: TypeAlias = Callable[[bytes, Random], bytes]

TEXTS = (
    *(
        "",
        " ",
        "x",
        "-",
        "--help",
        "../../../etc/passwd",
        "/dev/zero",
        "a" * 70_000,
        "\n",
        "\x1b[2J\x07",
        "\u202egnp.exe",
    ),
    *(
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned",
        "| touch pwned",
        "&& touch pwned",
        "'\"",
        "%s%n",
        "*/ #error",
    ),
    *("</script><script>", "QGemm", "QuantizeLinear", "com.microsoft", "\u0000", "\U0001f600", "NaN", "__proto__"),
)
INTEGERS = (0, 1, -1, 2, 7, 127, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1e-45, -1.0, 3.4e38, 1e308, float("nan"), float("inf"), float("-inf"))
LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def pick(rng: Random, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def of_bytes(content: bytes, rng: Random) -> bytes:
    """Bits flipped, bytes inserted, removed, repeated; cut short; a piece moved."""
    for _ in range(int(rng.integers(1, 6))):
        at, length = int(rng.integers(len(content) + 1)), int(2 ** rng.uniform(0, 10))
        piece = content[at : at + length]
        content = pick(
            rng,
            (
                lambda c=content, at=at: c[:at] + bytes([rng.integers(256)]) + c[at + 1 :],
                lambda c=content, at=at, n=length: c[:at] + rng.bytes(n) + c[at:],
                lambda c=content, at=at, n=length: c[:at] + c[at + n :],
                lambda c=content, at=at, p=piece: c[:at] + p * int(rng.integers(1, 50)) + c[at:],
                lambda c=content, at=at: c[:at],
                lambda c=content, at=at, p=piece: p + c[:at] + c[at + len(p) :],
                lambda c=content, at=at: c[:at] + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + c[at + 10 :],
            ),
        )()
    return content


@dataclass(frozen=True)
class Place:
    """A field that a message has."""

    message: Message
    field: FieldDescriptor


def places(message: Message) -> Iterator[Place]:
    """Every field of it and of all messages in it."""
    for field, value in message.ListFields():
        yield Place(message, field)
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from places(inner)


def of_model(content: bytes, rng: Random) -> bytes:
    """An ONNX model with some of its fields changed, so that it can still be decoded."""
    model = onnx.load_model_from_string(content)
    for _ in range(int(rng.integers(1, 5))):
        pick(rng, (change_field, change_field, change_field, change_tensor, change_graph))(model, rng)
    return bytes(model.SerializeToString())


def change_field(model: onnx.ModelProto, rng: Random) -> None:
    place = pick(rng, list(places(model)) or [Place(model, model.DESCRIPTOR.fields[0])])
    if place.field.is_repeated:
        change_list(getattr(place.message, place.field.name), place.field, rng)
    elif place.field.type == place.field.TYPE_MESSAGE or rng.random() < 0.1:
        place.message.ClearField(place.field.name)
    else:
        setattr(place.message, place.field.name, scalar(place.field, rng))


def change_list(values: Any, field: FieldDescriptor, rng: Random) -> None:
    """One more, one less, none, or one changed."""
    how, at = int(rng.integers(4)), int(rng.integers(len(values))) if len(values) else 0
    if how == 0 and len(values):
        values.extend([values[at]] * int(rng.integers(1, 40)))
    elif how == 1 and len(values):
        del values[at]
    elif how == 2:
        del values[:]
    elif field.type != field.TYPE_MESSAGE:
        values.extend([scalar(field, rng)])
        if len(values) > 1:
            values[at] = scalar(field, rng)


def scalar(field: FieldDescriptor, rng: Random) -> Any:
    """A value that the field can have and nobody expects."""
    if field.cpp_type in LIMITS:
        low, high = LIMITS[field.cpp_type]
        return min(max(pick(rng, INTEGERS), low), high)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return pick(rng, sorted(field.enum_type.values_by_number))
    if field.cpp_type in {field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE}:
        return pick(rng, FLOATS)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return bool(rng.integers(2))
    text = str(pick(rng, TEXTS))
    return text if field.type == field.TYPE_STRING else pick(rng, (text.encode(), rng.bytes(int(rng.integers(3000)))))


def change_tensor(model: onnx.ModelProto, rng: Random) -> None:
    """Sizes that lie, types that do not fit, values of floats that no scale has, data in other files."""
    if not model.graph.initializer:
        return
    tensor = pick(rng, model.graph.initializer)
    how = int(rng.integers(6))
    if how == 0:
        del tensor.dims[:]
        tensor.dims.extend(int(pick(rng, INTEGERS)) for _ in range(int(rng.integers(5))))
    elif how == 1:
        tensor.data_type = int(rng.integers(26))
    elif how == 2:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", pick(rng, ("/etc/passwd", "../../../etc/passwd", "/dev/zero", "", "x"))
    elif how == 3:
        with np.errstate(over="ignore"):
            value = np.float32(pick(rng, FLOATS))
        tensor.raw_data = np.full(max(1, len(tensor.raw_data) // 4), value).tobytes()
    elif how == 4:
        tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data) + 1))]
    else:
        tensor.raw_data = tensor.raw_data + rng.bytes(int(rng.integers(5000)))


def change_graph(model: onnx.ModelProto, rng: Random) -> None:
    """Nodes in other places, graphs in graphs, attributes that nobody asked for, inputs and outputs exchanged."""
    nodes, how = model.graph.node, int(rng.integers(6))
    if not nodes:
        return
    node = pick(rng, nodes)
    if how == 0:
        nodes.append(pick(rng, nodes))
    elif how == 1:
        nodes.insert(int(rng.integers(len(nodes))), pick(rng, nodes))
    elif how == 2 and node.input:
        node.input[int(rng.integers(len(node.input)))] = pick(rng, [*node.output, *pick(rng, nodes).output, *TEXTS])
    elif how == 3:
        node.attribute.append(attribute(rng))
    elif how == 4:
        node.op_type = pick(rng, ("Loop", "If", "Constant", "Scan", "Add", "QGemm", "ArgMax", "Gemm", "MatMul", "Relu"))
    else:
        model.graph.input.append(pick(rng, [*model.graph.input, *model.graph.output]))


def attribute(rng: Random) -> onnx.AttributeProto:
    """A graph within a graph within..., or a known name with an odd value."""
    name = pick(rng, ("alpha", "transA", "transB", "axis", "keepdims", "select_last_index", "value", "body", "\u0000"))
    if rng.random() < 0.5:
        return onnx.helper.make_attribute(name, pick(rng, (1, -1, 2**62, 0.5, float("nan"), "x", [1, 2], [0.5])))
    graph = onnx.helper.make_graph([], "g", [], [])
    for _ in range(int(rng.integers(1, 30))):
        inner = onnx.helper.make_node("If", [], [])
        inner.attribute.append(onnx.helper.make_attribute("then_branch", graph))
        graph = onnx.helper.make_graph([inner], "g", [], [])
    return onnx.helper.make_attribute(name, graph)


JSON_VALUES = (
    *(None, True, -1, 0, 2**70, 10**400, 0.5, 1e308, float("nan"), "", "x", "../../etc/passwd", "\x1b[2J", "</script>"),
    *([], {}, [[]], {"x": 1}, [None] * 3, "9" * 5000, "$(touch pwned)", "2026-99-99", ["a", 1], {"": {}}),
)


def of_json(content: bytes, rng: Random) -> bytes:
    """Some of its values, anywhere, are others, or are not there."""
    document = json.loads(content)
    for _ in range(int(rng.integers(1, 4))):
        holder, key = pick(rng, list(_slots(document)))
        if rng.random() < 0.25:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(pick(rng, JSON_VALUES))
        document = document or {"x": 1}
    return json.dumps(document).encode()


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where a value stands in its list or object, for all of them; of a long list the first alone."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value[:2]))
    for key, inner in pairs:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _slots(inner)


ESCAPED = (
    "\\0",
    "\\x1b[2J",
    "\\u202e",
    "\\ud800",
    "$(touch pwned)",
    "; touch pwned",
    "'",
    "-oProxyCommand=touch pwned",
)
TAGGED = ("!!python/object/apply:os.system ['touch pwned']", "!!binary x", "&a [*a]", "*nothing", "{<<: *nothing}", "~")
EXPONENTS = ("1e999999999", "-1e-999999999", "1e400*pi", "pi/1e-400", "1/0")
NUMBERS = (
    *EXPONENTS,
    ".inf",
    ".nan",
    "-1",
    "0",
    "1e400",
    "9" * 5000,
    "0x" + "f" * 9000,
    "2020-13-45",
    "12:99:99",
    "yes",
)
NESTED = ("[]", "{}", "[[]]", "{a: 1}", "[" * 3000, "{a: " * 900, "[" * 150 + "]" * 150)
PLAIN = ("|\n  two\n  lines", "x" * 70_000, "../../../etc/passwd", "/dev/zero", "''", "'  '")
VALUES = (*(f'"{text}"' for text in ESCAPED), *TAGGED, *NUMBERS, *NESTED, *PLAIN)
BOMB = "\n".join(
    ["", "b0: &b0 {x: 1}", *(f"b{i}: &b{i} {{{', '.join(f'k{j}: *b{i - 1}' for j in range(9))}}}" for i in range(1, 9))]
)
MERGES = "\n".join(
    ["", "m0: &m0 {x: 1}", *(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}" for i in range(1, 9)), ""]
)


def of_yaml(content: bytes, rng: Random) -> bytes:
    """Values exchanged for hostile ones, lines moved, doubled, indented otherwise; aliases that grow without end."""
    lines = content.decode(errors="replace").splitlines()
    for _ in range(int(rng.integers(1, 5))):
        at, how = int(rng.integers(len(lines))), rng.random()
        key, colon, _ = lines[at].partition(":")
        if how < 0.6 and colon:
            lines[at] = f"{key}: {pick(rng, VALUES)}"
        elif how < 0.7:
            lines.insert(int(rng.integers(len(lines))), lines[at])
        elif how < 0.8 and len(lines) > 1:
            del lines[at]
        elif how < 0.9:
            lines[at] = " " * int(rng.integers(9)) + lines[at].strip()
        else:
            lines.append(pick(rng, (BOMB, MERGES, f"{pick(rng, VALUES)}: {pick(rng, VALUES)}")))
    return "\n".join(lines).encode(errors="surrogatepass")


def of_terms(content: bytes, rng: Random) -> bytes:
    """Assertions of a VNN-LIB file repeated, multiplied, nested, with numbers that expand."""
    terms = content.decode(errors="replace").splitlines()
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(terms)))
        condition = terms[at].removeprefix("(assert ").removesuffix(")")
        times = int(min(2 ** rng.uniform(0, 12), 200_000 / (1 + len(condition)) + 1))
        number = f"(assert (>= Y_0 {pick(rng, (*EXPONENTS, *NUMBERS))}))"
        more = pick(
            rng,
            (
                [number],
                [terms[at]] * times,
                [f"(assert (or {condition} (>= Y_0 Y_1)))"] * times,
                [f"(assert (or{f' {condition}' * times}))"],
                [f"(assert {'(and ' * times}{condition}{')' * times})"],
                [f"(assert (and{f' (or {condition} {condition})' * times}))"],
                [terms[at].replace("X_", pick(rng, ("X_9", "Y_", "X_0000", "Z_")))],
            ),
        )
        terms[at : at + int(rng.integers(2))] = more
    return "\n".join(terms).encode(errors="surrogatepass")
