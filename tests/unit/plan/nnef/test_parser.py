"""What a text may say, and how it is told what it may not."""

from __future__ import annotations

import re

import nnef
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import RequestError
from harness.plan.items.description import describe, traces
from harness.plan.items.graphs import External, Get, ItemGraph, Operation, Send, Shared
from harness.plan.nnef import parser, printer
from tests.support.examples import examples
from tests.support.nnef import plans


@pytest.fixture(scope="module")
def graph() -> str:
    return _texts("argmax")[0]


@pytest.fixture(scope="module")
def item() -> str:
    """The item `network` of the paper's example 5."""
    return _texts("branches")[2]


def _texts(name: str) -> list[str]:
    plan = plans.make(name)
    told = describe(plan)
    texts = [printer.graph_text(told.network, told.parameters, traces(plan))]
    return texts + [printer.item_text(each, told.parameters, traces(plan)) for each in told.items]


@pytest.mark.slow
@pytest.mark.parametrize("name", plans.MODELS)
def test_every_graph_is_read_as_it_was_written(name: str) -> None:
    told = describe(plans.make(name))
    network, *items = _texts(name)
    assert parser.parse_graph(network, "graph.nnef") == told.network
    assert tuple(parser.parse_item(text, "item.nnef") for text in items) == told.items
    assert max(len(line) for line in network.splitlines() if "= variable<" not in line) <= 120


def test_indices_are_handed_over_as_scalars() -> None:
    attributes = (("width", 4), ("select_last_index", False), ("type", "int64"))
    graph = ItemGraph(
        name="NETWORK_one",
        inputs=("x", "vsync_other"),
        outputs=("vsync_best",),
        instructions=(
            External("x", (1, 4)),
            Operation("best", "argmax", ("x",), attributes),
            Send("vsync_best", ("two",), "best"),
            Get("other", "two", "vsync_other"),
            Operation("both", "concat_columns", (("best", "other"),), (("type", "int64"),)),
        ),
        item="one",
        shared=(Shared("vsync_best", (1, 1)), Shared("vsync_other", (1, 1))),
    )
    text = printer.item_text(graph, {}, {})
    assert parser.parse_item(text, "one.nnef") == graph
    as_integer = text.replace("vsync_best  = variablesync<scalar>", "vsync_best  = variablesync<integer>")
    assert as_integer != text
    with pytest.raises(RequestError, match=r"a variablesync<scalar>, found .*vsync_best.*, a variablesync<integer>"):
        parser.parse_item(as_integer, "one.nnef")


@pytest.mark.slow
@examples(300)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_decimal_is_read_as_the_bits_it_was_written_from(value: float) -> None:
    """By this parser and by the Khronos one, which also reads a double and rounds it."""
    text = _texts("plain")[0].replace("alpha = 1.0", f"alpha = {printer.decimal(value)}")
    ours = [dict(each.attributes)["alpha"] for each in parser.parse_graph(text, "").instructions[-3:]]
    theirs = [each.attribs["alpha"] for each in nnef.parse_string(text).operations[-3:]]
    bits = np.float32(value).tobytes()
    assert [np.float32(each).tobytes() for each in [*ours, *theirs]] == [bits] * 6
    assert len(printer.decimal(value)) <= 15


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1.0, "1.0"), (-0.0, "-0.0"), (float(np.float32(1e-5)), "1.0e-05"), (2.0**31, "2.1474836e+09")],
)
def test_decimals_are_short(value: float, text: str) -> None:
    assert printer.decimal(float(np.float32(value))) == text


def test_a_decimal_that_rounds_twice_to_another_float32_gets_more_digits() -> None:
    value = np.uint32(0x15AE43FD).view(np.float32)
    assert np.float32(float(str(value))) != value
    assert np.float32(float(printer.decimal(float(value)))) == value


def test_constants_stand_in_any_order_and_both_quotes(graph: str) -> None:
    turned = graph.replace("low = 0, high = 255, type = 'uint8');", 'type = "uint8", high = 255, low = 0);', 1)
    assert turned != graph
    assert parser.parse_graph(turned, "") == parser.parse_graph(graph, "")


def _refused(text: str, old: str, new: str, *, item: bool) -> str:
    """The message for a text with `new` in the place of `old`, with lines and columns counted from there."""
    assert old in text
    changed = text.replace(old, new, 1)
    parse = parser.parse_item if item else parser.parse_graph
    with pytest.raises(RequestError) as refusal:
        parse(changed, "a.nnef")
    before = text[: text.index(old)]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    found = re.fullmatch(r"a\.nnef:(\d+):(\d+): (.*)", refusal.value.message)
    assert found
    return f"{int(found[1]) - line}:{int(found[2]) - column if int(found[1]) == line else found[2]}: {found[3]}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version 1.0;", "version '1.0';", "0:8: expected '1.0', the version of NNEF, found '1.0'"),
        ("version 1.0;", "version 1.1;", "0:8: expected '1.0', the version of NNEF, found '1.1'"),
        ("KHR_enable_operator_expressions", "x", "0:0: expected 'KHR_enable_operator_expressions', found 'x'"),
        ("fragment quantize_linear", "fragment relu", "0:9: expected a fragment of this harness, found 'relu'"),
        ("fragment argmax", "fragment qgemm", "0:9: expected a fragment of this harness, found 'qgemm' a second time"),
        ("2.0 * floor", "2.0 * ceil", "0:6: expected 'floor' in fragment round_half_even, found 'ceil'"),
        ("rest < 0.5", "rest <= 0.5", "0:5: expected '<' in fragment round_half_even, found '<='"),
        ("graph NETWORK", "graf NETWORK", "0:0: expected 'graph', found 'graf'"),
        ("NETWORK(x)", "NETWORK(y)", "0:8: expected an input that is declared below, found 'y'"),
        ("NETWORK(x)", "NETWORK(x, x)", "0:11: expected a name that is not listed yet, found 'x'"),
        ("-> (advisory)", "-> (layer_9)", "0:4: expected an output that has a value in the end, found 'layer_9'"),
        ("external<scalar>(", "external<logical>(", "0:9: expected scalar or integer, found 'logical'"),
        ("= quantize_linear(x", "quantize_linear(x", "0:0: expected '=', found 'quantize_linear'"),
        ("= quantize_linear(x", "= relu(x", "0:2: expected an operation of this harness, found 'relu'"),
        ("= quantize_linear(x", "= argmin(x", "0:2: expected an operation that this file defines, found 'argmin'"),
        ("quantize_linear(x,", "quantize_linear(z,", "0:16: expected a tensor that has a value here for x, found 'z'"),
        ("layer_0__bias, ", "quantize, ",
            "0:0: expected a tensor<integer> for bias, found 'quantize', a tensor<scalar>"),
        ("layer_0__bias, ", "",
            "0:0: expected a tensor<integer> for bias, found 'layer_0__multiplier', a tensor<scalar>"),
        ("layer_1 = qgemm(", "layer_0 = qgemm(", "0:0: expected a name that is not in use, found 'layer_0'"),
        ("scale = 0.", "scale = 1, y = 0.", "0:8: expected a decimal fraction for scale, found '1'"),
        ("scale = 0.", "scale = 1.0e39 + 0.", "0:8: expected a float32 for scale, found '1.0e39'"),
        ("low = 0,", "low = 0.0,", "0:6: expected an integer for low, found '0.0'"),
        ("low = 0,", f"low = {'0' * 5000},", "0:6: expected an integer for low, found 5000 digits"),
        ("low = 0,", "low = \u0660,", "0:6: expected a word of NNEF, found the character '\u0660'"),
        ("low = 0,", "low = 0, low = 0,", "0:9: expected a constant of quantize_linear, found 'low'"),
        ("low = 0,", "", "0:27: expected ', low = ', a constant of quantize_linear, found ')'"),
        ("columns = [0, 6]", "columns = [0; 6]", "0:12: expected ']', found ';'"),
        ("select_last_index = false", "select_last_index = 0",
            "0:20: expected true or false for select_last_index, found '0'"),
        ("type = 'uint8'", "type = uint8", "0:7: expected a text in quotes for type, found 'uint8'"),
        ("type = 'uint8'", "type = 'uint8", "0:7: expected a word of NNEF, found a quote that is not closed"),
        ("quantize = ", "quantize§ = ", "0:8: expected a word of NNEF, found the character '§'"),
        ("int64');\n}", "int64');", "1:1: expected an instruction, or '}', found the end of the file"),
        ("int64');\n}", "int64')\n}", "1:1: expected ';', found '}'"),
        ("int64');\n}", "int64');\n}\ngraph", "2:1: expected the end of the file, found 'graph'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_what_was_expected(old: str, new: str, message: str, graph: str) -> None:
    assert _refused(graph, old, new, item=False) == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # The paper's listing 3 as it is printed: lists in the head, no semicolon behind get_var, e1 for o1 in item 2.
        ("(vsync_o1) -> (vsync_o3)", "([vsync_o1]) -> ([vsync_o3])", "0:1: expected a name, found '['"),
        ("vsync_o1);\n", "vsync_o1)\n", "3:5: expected ';', found 'o2'"),
        ("o2 = qgemm(\n        o1,", "o2 = qgemm(\n        e1,",
            "1:9: expected a tensor that has a value here for a, found 'e1'"),
        ("get_var(prepost, vsync_o1)", "get_var(prepost, o1)", "0:17: expected a shared variable, found 'o1'"),
        ("vsync_o3 = send_var", "o3_sent = send_var", "0:0: expected a shared variable, found 'o3_sent'"),
        ("o3);\n}", "o3);\n    vsync_o3 = send_var([prepost], o3);\n}",
            "1:5: expected a shared variable that is not sent yet, found 'vsync_o3'"),
        ("send_var([prepost]", "send_var(prepost", "0:9: expected '[', found 'prepost'"),
        ("graphitem network", "graph network", "0:0: expected 'graphitem', found 'graph'"),
        ("fragment send_var", "fragment o_send_var", "0:9: expected a fragment of this harness, found 'o_send_var'"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_item_is_told_too(old: str, new: str, message: str, item: str) -> None:
    assert _refused(item, old, new, item=True) == message


def test_a_list_of_one_tensor_is_this_tensor(graph: str) -> None:
    listed = graph.replace("quantize_linear(x,", "quantize_linear(concat([x], axis = 1),")
    assert listed != graph
    assert parser.parse_graph(listed, "") == parser.parse_graph(graph, "")


@pytest.mark.slow
def test_a_cut_file_ends_where_it_is_cut(item: str) -> None:
    """Wherever: a text that is not whole is refused at its end."""
    last = item.rstrip().rindex("}")
    for cut in range(0, last, 97):
        with pytest.raises(RequestError, match=r"^a.nnef:\d+:\d+: expected "):
            parser.parse_item(item[:cut], "a.nnef")


def test_items_exchange_and_graphs_do_not(graph: str) -> None:
    with pytest.raises(RequestError, match="an operation of this harness, found 'get_var'"):
        parser.parse_graph(graph.replace("quantize_linear(x", "get_var(x"), "a.nnef")
