"""What is not as the format has it is refused, with file, line, and what was expected."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.model.text import Description
from harness.model.text.coverage import ELEMENT_TYPES
from tests.support.builders import random_network
from tests.support.text.texts import description_of, read_back, without_hashes


@pytest.fixture(scope="module")
def described() -> Description:
    return description_of(random_network(np.random.default_rng(1), [3, 4, 2], per_column=True, argmax=True))


def refusal(text: str, weights: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        read_back(text, weights)
    return caught.value


def replace_line(text: str, start: str, line: str) -> tuple[str, int]:
    """The text with the first line that starts so replaced, and the number of that line."""
    lines = text.split("\n")
    index = next(index for index, old in enumerate(lines) if old.startswith(start))
    return "\n".join([*lines[:index], line, *lines[index + 1 :]]), index + 1


TYPES = ", ".join(ELEMENT_TYPES)
FLOATS = "a float32 such as 0.1, or with its bits 0.1/0x3dcccccd; NaN only with bits"


@pytest.mark.parametrize(
    ("start", "line", "message"),
    [
        ("harness", "something else", "expected FORMAT, found 'something else'"),
        ("harness", "harness model description, format 2", "expected FORMAT, found 'harness model description, form"),
        ("harness", "harness model description, format 1\r", "found 'harness model description, format 1\\r'"),
        ("harness", "", "expected FORMAT, found the end of the line"),
        ("model", "model net", "expected the model's name in quotes, found 'net'"),
        ("model", 'model "net', "expected the model's name in quotes, found '\"net'"),
        ("model", r'model "\ud800"', "expected the model's name in quotes with JSON's escapes, found "),
        ("model", r'model "\x41"', "expected the model's name in quotes with JSON's escapes, found "),
        ("model", 'model "net" 1', "expected the end of the line or a # comment, found '1'"),
        ("sha256 onnx", "sha256 onnx 12ab", "expected 64 hexadecimal digits, found '12ab'"),
        ("sha256 onnx", "sha256 text 12ab", "expected what the SHA-256 is of: onnx, weights, found 'text 12ab'"),
        ("sha256 weights", f"sha256 onnx {'a' * 64}", "expected one line `sha256 onnx`"),
        ("ir_version", "ir_version 1.0", "expected an integer from -9223372036854775808 to 9223372036854775807, "),
        ("ir_version", "ir_version 010", "expected an integer from "),
        ("ir_version", f"ir_version {'9' * 5000}", "expected an integer from "),
        ("opset_import", "ir_version 9", "expected one ir_version, found a second one"),
        ("opset_import", "opsets 9", "expected one of: model, sha256, ir_version, model_version, producer_name, "),
        ("metadata", "metadata_props input_box_low: 1", "expected the key in quotes"),
        ("metadata", 'metadata_props "input_box_low" 1', "expected the value after a colon, or in quotes, found '1'"),
        ("graph", "", "expected a line `model` and a line `graph`, found the end of the line"),
        ("model", "", "expected a line `model` and a line `graph`, found the end of the line"),
        ("model", '  doc_string "a"', "expected a line that is not indented"),
        ("node", 'opset_import 17\n  domain "a"', "expected a line that is not indented"),
        ("input", 'input "x" float', f"expected the element type: {TYPES}, found 'float'"),
        ("input", 'input "x" float32 (vectors, 3)', "expected an integer from "),
        ("input", 'input "x" float32 ("vectors", 3', "expected an integer from "),
        ("initializer", 'initializer "x_scale" float32 () raw', "expected '=', found the end of the line"),
        ("initializer", 'initializer "x_scale" float32 () raw 0.5', "expected '=', found '0.5'"),
        ("initializer", 'initializer "x_scale" float32 () = 0.5', "expected the storage: raw, typed, found '= 0.5'"),
        ("initializer", 'initializer "x_scale" float32 (-1) raw', "expected an integer from 0 to 9223372036854775807"),
        ("initializer", 'initializer "x_scale" float32 () raw = half', f"expected {FLOATS}, found 'half'"),
        ("initializer", 'initializer "x_scale" float32 () raw = nan', f"expected {FLOATS}, found 'nan'"),
        ("initializer", 'initializer "x_scale" float32 () raw = 1.2.3', f"expected {FLOATS}, found '1.2.3'"),
        ("initializer", 'initializer "x_scale" float32 () raw = 0.5/0x3F000000', f"expected {FLOATS}"),
        ("initializer", 'initializer "x_scale" float32 () raw = 0.5/0x3f000001',
         "expected 0.50000006 or 0.50000006/0x3f000001, the shortest decimal of this float32, found '0.5/0x3f000001'"),
        ("initializer", 'initializer "x_scale" float32 () raw = 0.12345678901',
         "expected 0.12345679 or 0.12345679/0x3dfcd6ea, the shortest decimal of this float32, found '0.12345678901'"),
        ("initializer", 'initializer "x_scale" float32 () raw = 1e99', "expected inf or inf/0x7f800000"),
        ("initializer", 'initializer "x_scale" float32 () raw = 0.5 1', "expected the end of the line or a # comment"),
        ("initializer", 'initializer "x_scale" uint8 () raw = 256', "expected an integer from 0 to 255, found '256'"),
        ("node", 'node "quantize"', "expected an operator, found '\"quantize\"'"),
        ("  output", "  result", "expected one of: doc_string, metadata_props, domain, overload, input, output, "),
        ("  domain", '  domain "a"\n  domain "b"', "expected one domain, found a second one"),
        ("  attribute", '  attribute "axis" text "a"', "expected the attribute's type: int, float, tensor, found "),
        ("  attribute", '  attribute "alpha" float x', f"expected {FLOATS}, found 'x'"),
    ],
)  # fmt: skip
def test_a_bad_line_of_the_description(described: Description, start: str, line: str, message: str) -> None:
    text, number = replace_line(described.text, start, line)
    error = refusal(text, described.weights)
    place, expected = error.message.split(": ", 1)
    if "line `model`" in message:
        number = described.text.count("\n") + 1
    assert place == f"net.txt, line {number + line.count(chr(10))}"
    assert message.replace("FORMAT", "'harness model description, format 1'") in expected
    assert "docs/reference/describe-a-model.md" in error.hint


def test_a_tensor_of_a_node_needs_the_output_above_it(described: Description) -> None:
    text = described.text + 'node Constant "c"\n  attribute "value" tensor int8 (2) raw\n  output "c"\n'
    assert "expected the node's output above its tensor" in refusal(text, described.weights).message


@pytest.mark.parametrize(
    ("start", "line", "message"),
    [
        ("harness", "", "expected 'harness model weights, format 1', found the end of the line"),
        ('"layer_0_weights"[1]', "", "expected '\"layer_0_weights\"[1]', found '\"layer_0_weights\"[2] ="),
        ('"layer_0_weights"[1]', '"layer_0_weights"[0] = 1 2 3 4', "expected '\"layer_0_weights\"[1]', found '"),
        ('"layer_0_weights"[1]', '"layer_0_weights"[1] 1 2 3 4', "expected '=', found '1 2 3 4'"),
        ('"layer_0_weights"[1]', '"layer_0_weights"[1] = 1 2 3', '4 values of int8 in "layer_0_weights"[1], found 3'),
        ('"layer_0_weights"[1]', '"layer_0_weights"[1] = 1 2 3 4 5', '4 values of int8 in "layer_0_weights"[1]'),
        ('"layer_0_weights"[1]', '"layer_0_weights"[1] =', '4 values of int8 in "layer_0_weights"[1], found 0'),
        ('"layer_0_weights"[1]', '"layer_0_weights"[1] = 1 2 3 128', "an integer from -128 to 127, found '128'"),
        ('"layer_0_weights"[1]', '"layer_0_weights"[1] = 1 2 3 -0', "an integer from -128 to 127, found '-0'"),
        ('"layer_0_weights"[1]', '"layer_0_weights"[1] = 1, 2, 3, 4', "an integer from -128 to 127, found ', 2, 3, 4'"),
        ('"layer_0_b_scale"[2]', '"layer_0_b_scale"[2] = 1', "expected 1.0 or 1.0/0x3f800000"),
        ('"layer_0_b_scale"[2]', '"layer_0_b_scale"[2] = 1.0 2.0', '1 values of float32 in "layer_0_b_scale"[2], f'),
    ],
)  # fmt: skip
def test_a_bad_line_of_the_weights(described: Description, start: str, line: str, message: str) -> None:
    weights, number = replace_line(described.weights, start, line)
    error = refusal(described.text, weights)
    assert error.message.startswith(f"net.weights.txt, line {number if line else number + (number > 1)}: ")
    assert message in error.message


def test_a_weights_file_cut_short(described: Description) -> None:
    lines = described.weights.splitlines()[:-1]
    message = refusal(described.text, "\n".join(lines)).message
    assert message.startswith(f"net.weights.txt, line {len(lines)}: expected '\"layer_1_bias\"'")
    assert message.endswith("found the end of the line")


def test_a_weights_file_with_a_row_too_many(described: Description) -> None:
    message = refusal(described.text, described.weights + '"more" = 1\n').message
    number = described.weights.count("\n") + 1
    assert message == f"net.weights.txt, line {number}: expected the end of the file, found '\"more\" = 1'"


def test_another_weights_file_is_refused(described: Description) -> None:
    row = next(line for line in described.weights.splitlines() if line.startswith('"layer_0_bias"'))
    weights = described.weights.replace(row, '"layer_0_bias" = 1 2 3 4')
    error = refusal(described.text, weights)
    number = described.text[: described.text.index("sha256 weights")].count("\n") + 1
    found, expected = (hashlib.sha256(text.encode()).hexdigest() for text in (weights, described.weights))
    assert error.message == f"net.txt, line {number}: the weights file has SHA-256 {found}, not {expected}"
    assert "take the sha256 lines out of the head" in error.hint


def test_an_edited_description_is_refused_as_what_it_was(described: Description) -> None:
    text, _ = replace_line(described.text, "graph", 'graph "another"')
    error = refusal(text, described.weights)
    number = described.text[: described.text.index("sha256 onnx")].count("\n") + 1
    assert error.message.startswith(f"net.txt, line {number}: the ONNX file that these texts give has SHA-256 ")
    assert "loaded as a new model" in error.hint
    assert not read_back(without_hashes(text), described.weights).original


def test_comments_and_blanks_say_nothing(described: Description) -> None:
    text = described.text.replace("\n\n", "\n   \n# more\n").replace("  # ", " # changed ").replace(" = ", "   =  ")
    assert text != described.text
    assert read_back(text, described.weights).onnx_bytes == read_back(described.text, described.weights).onnx_bytes


def test_a_size_beyond_the_memory_is_refused_at_its_first_missing_line(described: Description) -> None:
    initializer = next(line for line in described.text.split("\n") if line.startswith("initializer") and ", " in line)
    edited, _ = replace_line(described.text, initializer, initializer.replace("(", "(9000000000000, ", 1))
    assert ": expected '\"" in refusal(edited, described.weights).message
