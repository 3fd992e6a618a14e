"""A plan as a folder and back; what a hand changes in it."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import nnef
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards import profile
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model import load
from harness.model.network import Network
from harness.plan import planner
from harness.plan.items import composition
from harness.plan.items.description import describe
from harness.plan.items.graphs import Description
from harness.plan.nnef import folder, parser, printer
from harness.plan.plan import Item, Plan
from harness.plan.planner import tasks_from
from harness.plan.schedule import compose
from harness.plan.split import Share
from tests.support import codes, dags, images
from tests.support.examples import examples
from tests.support.nnef import plans
from tests.support.programs.board_program import parse


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("sync", ["barrier", "flag"])
@pytest.mark.parametrize("name", plans.MODELS)
def test_a_plan_comes_back_the_same(name: str, sync: plans.Sync, tmp_path: Path) -> None:
    plan = plans.make(name, sync=sync)
    folder.write(plan, tmp_path / "plan")
    nnef.parse_file(str(tmp_path / "plan" / "graph.nnef"))
    assert plans.same(folder.read(tmp_path / "plan"), plan)


@pytest.mark.slow
@pytest.mark.parametrize("net", [images.every_operator("int8"), codes.every_operator("uint8", 12)])
def test_a_plan_of_every_operator_comes_back_the_same(net: Network, tmp_path: Path) -> None:
    plan = planner.make(net, profile.load(ROOT / "boards.yaml", {}).board("host"), block=4)
    folder.write(plan, tmp_path)
    assert plans.same(folder.read(tmp_path), plan)


def images_of(*words: str) -> Plan:
    """LeNet-5, whose images the items share."""
    net, host = load(ROOT / "models" / "lenet5_int8.onnx"), profile.load(ROOT / "boards.yaml", {}).board("host")
    return planner.make(net, host, block=4, split=words)


PARTS = {
    "channels": ("conv_1=prepost+network", "dense_3=prepost+network"),
    "channels of several layers": ("conv_1..pool_2=prepost+network",),
    "rows": ("quantize_input..pool_2=network+prepost:rows",),
    "rows, then channels": ("quantize_input..conv_1=prepost+network:rows", "pool_1..conv_2=prepost+network"),
    "channels, then rows": ("conv_1=prepost+network", "pool_1..pool_2=prepost+network:rows"),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", PARTS.values(), ids=PARTS)
def test_a_plan_whose_items_share_images_comes_back_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    made = images_of(*words)
    folder.write(made, tmp_path)
    assert plans.same(folder.read(tmp_path), made)


POOLS = "[pool_1_0, pool_1_1]"
READ = f"part(join({POOLS}, runs = 6), runs = 6, begin = 48, end = 144)"
COLUMNS = "columns = [32, 64, 16]"
WRONG_PARTS = [
    (READ, f"part(join({POOLS}, runs = 6), runs = 6, begin = 60, end = 144)", "conv_2_1 reads columns 60 to 143"),
    (READ, f"part(join({POOLS}, runs = 6), runs = 3, begin = 48, end = 144)", "conv_2_1 reads columns 48 to 143"),
    (READ, f"part(join({POOLS}, runs = 6), runs = 6, begin = 48, end = 145)", "are no part of columns 0 to 863"),
    (READ, f"part(join({POOLS}, runs = 3), runs = 6, begin = 48, end = 144)", "are not side by side in 3 runs"),
    (READ, f"part(join({POOLS}, runs = 0), runs = 6, begin = 48, end = 144)", "1 or more for runs, found 0"),
    (READ, f"part(concat({POOLS}, axis = 1), runs = 6, begin = 48, end = 144)", "which are not one result"),
    (READ, f"join({POOLS}, runs = 6)", "conv_2_1 reads columns 0 to 863 of pool_1"),
    (READ, "part(part(pool_1_1, runs = 6, begin = 0, end = 72), runs = 6, begin = 0, end = 72)", "reads columns 72 to"),
    (READ, "part(conv_2_1__weights, runs = 6, begin = 0, end = 1)", "tensor<integer>"),
    (POOLS, "[pool_1_1, pool_1_0]", "are not side by side in 6 runs"),
    (COLUMNS, "columns = [32, 63, 16]", "cannot be computed alone"),
    (COLUMNS, "columns = [32, 64, 8]", "cannot be computed alone"),
    (COLUMNS, "columns = [32, 56, 16]", "nothing computes columns 56 to 63 of each of 16 runs of conv_2"),
    (COLUMNS, "columns = [24, 64, 16]", "computes columns 24 to 31 of each of 16 runs of conv_2 a second time"),
    (COLUMNS, "columns = [512, 1024]", "computes columns 512 to 1023 of conv_2, others columns of 16 runs"),
    ("fragment join(", "fragment joined(", "a fragment of this harness"),
    ("conv_2_1__window,", "pool_2_1__window,", "pool_2_1__window"),
]


@pytest.fixture(scope="module")
def rows() -> tuple[Plan, Description, str]:
    """LeNet-5 by rows, and the text of one of its items."""
    made = images_of("conv_1..pool_2=prepost+network:rows")
    told = describe(made)
    [item] = [each for each in told.items if each.item == "network"]
    return made, told, printer.item_text(item, told.parameters, {})


def check(made: Plan, told: Description, text: str) -> None:
    item = parser.parse_item(text, "network.nnef")
    items = tuple(item if each.item == "network" else each for each in told.items)
    files = {each.item: f"{each.item}.nnef" for each in items}
    composition.check(dataclasses.replace(told, items=items), files, made.network.layers)


@pytest.mark.slow
@pytest.mark.parametrize(("right", "wrong", "message"), WRONG_PARTS, ids=[message for *_, message in WRONG_PARTS])
def test_a_wrong_part_is_refused(rows: tuple[Plan, Description, str], right: str, wrong: str, message: str) -> None:
    """A halo that is a row short, exchanged parts, columns of nobody, the window of another layer."""
    made, told, text = rows
    assert text.count(right) == 1
    check(made, told, text)
    with pytest.raises(RequestError, match=re.escape(message)):
        check(made, told, text.replace(right, wrong))


def test_a_window_that_pads_an_inner_border_is_refused(rows: tuple[Plan, Description, str]) -> None:
    made, told, text = rows
    label = "parameters/conv_2_1__window"
    window = told.parameters[label] + np.array([[0], [0], [0], [0], [1], [0]], np.int32)
    with pytest.raises(RequestError, match=rf"conv_2_1__window \({label}.dat\) is at \[4, 0\] 1, but in the network 0"):
        check(made, dataclasses.replace(told, parameters=told.parameters | {label: window}), text)


@pytest.mark.slow
@examples(20)
@given(seed=st.integers(0, 1 << 32), pipeline=st.booleans())
def test_any_distribution_of_any_network_comes_back_the_same(seed: int, pipeline: bool) -> None:
    rng = np.random.default_rng(seed)
    net = parse(dags.random_dag(rng, 8))
    shares = []
    for layer in net.layers:
        items = rng.permutation(3)[: rng.integers(1, 4) if layer.operator == "QGemm" else 1].tolist()
        edges = [layer.size * part // len(items) for part in range(len(items) + 1)]
        shares.append([Share(item, *edges[part : part + 2]) for part, item in enumerate(items)])
    tasks = tasks_from(net.layers, shares, pipeline=pipeline)
    plan = compose("host", net, 5, "barrier", [Item(name, "c", None) for name in ("one", "two", "three")], tasks)
    with tempfile.TemporaryDirectory() as path:
        folder.write(plan, Path(path))
        assert plans.same(folder.read(Path(path)), plan)


def test_the_plans_are_not_all_of_a_kind() -> None:
    made = {name: plans.make(name) for name in plans.MODELS}
    assert {len(plan.items) for plan in made.values()} == {2, 3}
    assert {plan.depth for plan in made.values()} >= {1, 2, 3}
    assert not any(plans.same(made[one], made[other]) for one in made for other in made if one != other)


def test_a_plan_folder_is_written_over_without_a_rest(tmp_path: Path) -> None:
    folder.write(plans.make("branches"), tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    folder.write(plans.make("plain"), tmp_path)
    assert plans.same(folder.read(tmp_path), plans.make("plain"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "graph.nnef", "model.onnx", "network.nnef", "notes.txt", "parameters", "plan.yaml", "prepost.nnef",
    ]  # fmt: skip
    assert not list((tmp_path / "parameters").glob("o*.dat"))


def test_what_is_no_plan_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text("mine")
    with pytest.raises(RequestError, match="is not empty, and holds no plan"):
        folder.write(plans.make("plain"), tmp_path)
    with pytest.raises(RequestError, match="is a file"):
        folder.write(plans.make("plain"), tmp_path / "graph.nnef")
    assert [path.name for path in tmp_path.iterdir()] == ["graph.nnef"]
    assert (tmp_path / "graph.nnef").read_text() == "mine"


def write(made: Plan, path: Path) -> Path:
    folder.write(made, path)
    return path


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def _block(text: str, pattern: str) -> str:
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    assert found
    return found[0]


def test_a_layer_that_a_hand_moves_gives_the_plan_of_that_split(tmp_path: Path) -> None:
    """o2 of the paper's example goes from item `network` to item `prepost`, which reads no more than before."""
    path = write(plans.make("branches"), tmp_path)
    text = (path / "network.nnef").read_text()
    variables = _block(text, r"(^    o2__\w+ += variable<[^\n]*\n)+")
    operation = _block(text, r"    # QGemm, ONNX node 'o2'\n.*?;\n\n")
    edit(
        path / "network.nnef",
        (variables, ""), (operation, ""),
        ("vsync_o1", "vsync_o2"), ("    o1 = get_var", "    o2 = get_var"),
    )  # fmt: skip
    edit(
        path / "prepost.nnef",
        ("-> (vsync_o1,", "-> (vsync_o1, vsync_o2,"),
        ("    vsync_o3  ", f"{variables}    vsync_o2 = variablesync<scalar>(shape = [1, 6]);\n    vsync_o3  "),
        ("send_var([network, third], o1);", f"send_var([third], o1);\n{operation}vsync_o2 = send_var([network], o2);"),
    )  # fmt: skip
    split = ("o1..o2=prepost", "out=prepost", "o4..o5=third")
    assert plans.same(folder.read(path), plans.make("branches", split=split))


def test_other_settings_and_names_that_do_not_matter_are_taken_from_the_texts(tmp_path: Path) -> None:
    path = write(plans.make("ties"), tmp_path)
    edit(
        path / "plan.yaml",
        ("pipeline: true", "pipeline: false"),
        ("sync: barrier", "sync: flag"),
        ("core: 0", "core: 1"),
    )
    edit(path / "network.nnef", ("layer_0__bias ", "v7 "), ("layer_0__bias,", "v7,"))
    back = folder.read(path)
    assert (back.depth, back.sync, back.items[0].core) == (1, "flag", 1)


def _flip(path: Path) -> None:
    table = folder.read_tensor(path)
    table[0, 3] += 1
    folder.write_tensor(path, table)


def _set_head(word: int, value: int) -> Callable[[Path], None]:
    """Replace a 32-bit word of a tensor file: words 3 to 10 are its shape."""

    def change(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: 4 * word] + value.to_bytes(4, "little") + content[4 * word + 4 :])

    return change


def _rename(path: Path) -> None:
    path.rename(path.with_name("other.nnef"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _as_int16(path: Path) -> None:
    folder.write_tensor(path, folder.read_tensor(path).astype(np.int16))


def _narrow(path: Path) -> None:
    folder.write_tensor(path, folder.read_tensor(path)[:, 1:])


def refused(file: str, change: tuple[str, str], message: str, tmp_path: Path) -> None:
    """The plan with the paper's branches is, once a file of it is edited so."""
    path = write(plans.make("branches"), tmp_path)
    edit(path / file, change)
    with pytest.raises(RequestError, match=re.escape(message)):
        folder.read(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("parameters/o2__bias.dat", Path.unlink, "o2__bias.dat: No such file or directory"),
        ("parameters/o2__bias.dat", _cut, "o2__bias.dat: no complete NNEF tensor file: invalid tensor file"),
        ("parameters/o2__bias.dat", lambda p: p.write_bytes(b"N"), "o2__bias.dat: no complete NNEF tensor file: "),
        ("parameters/o2__bias.dat", _set_head(3, 2**32 - 1), "o2__bias.dat: no complete NNEF tensor file: "),
        ("parameters/o2__bias.dat", _set_head(4, 2**31), "o2__bias.dat: no complete NNEF tensor file: "),
        ("parameters/o2__bias.dat", _narrow, "o2__bias is of shape [1, 6], its file of [1, 5]"),
        ("parameters/o2__weights.dat", _as_int16, "is int16 of shape [6, 6], but in the model int8 of"),
        ("parameters/o2__bias.dat", _flip, "graph.nnef: o2__bias (parameters/o2__bias.dat) is at [0, 3] "),
        ("model.onnx", Path.unlink, "model.onnx: No such file"),
        ("graph.nnef", Path.unlink, "graph.nnef: No such file"),
        ("third.nnef", _rename, "other.nnef: is no item's file"),
        ("third.nnef", lambda p: p.write_bytes(b"\xff"), "third.nnef: no UTF-8 text"),
        ("plan.yaml", Path.unlink, "plan.yaml: No such file"),
        ("plan.yaml", lambda p: p.write_text("a: ["), "plan.yaml:1: not valid YAML"),
        ("plan.yaml", lambda p: p.write_text("a: 1"), "plan.yaml: board: Field required"),
    ],
)  # fmt: skip
def test_a_file_that_is_missing_or_damaged_is_named(
    file: str, change: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    path = write(plans.make("branches"), tmp_path)
    change(path / file)
    with pytest.raises(RequestError, match=re.escape(message)):
        folder.read(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        # The paper's listing 3 as it is printed: flatten(o4) for o6 in item 1, conv(o1) for o4 in item 3, and in
        # item 1 o4 as the name of o5.
        ("prepost.nnef", "quantize_linear(o6,", "quantize_linear(o5,",
            "prepost.nnef: item prepost: o7 reads columns 0 to 5 of o5, but in the network columns 0 to 5 of o6"),
        ("third.nnef", "qgemm_float32(\n        o4,", "qgemm_float32(\n        o1,",
            "third.nnef: item third: o5 reads columns 0 to 5 of o1, but in the network columns 0 to 5 of o4"),
        ("prepost.nnef", " o5", " o4", "o4 denotes different tensors: "),
    ],
)  # fmt: skip
def test_listing_3_as_it_is_printed_does_not_compose(
    file: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    refused(file, (old, new), message, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("graph.nnef", "graph NETWORK", "graph relu", "graph.nnef: no valid NNEF: Parse error"),
        ("graph.nnef", "alpha = 1.0", "alpha = 1.0000001", "graph.nnef: o1: alpha is 1.0000001, but in the "),
        ("third.nnef", "alpha = 1.0", "alpha = 1.0000001", "third.nnef: item third: o4: alpha is 1.0000001, "),
        ("third.nnef", "graphitem third", "graphitem fourth", "third.nnef: describes item fourth"),
        ("third.nnef", "ters/o4__bias", "ters/../o4__bias", "third.nnef: o4__bias: label 'parameters/../o4__bias'"),
        ("network.nnef", "vsync_o3", "vsync_o5", "vsync_o5 is sent 2 times: by network (of o3) and by third (of o5) ("),
        (
            "third.nnef",
            "[prepost]",
            "[preposy]",
            "vsync_o5: prepost gets it from third, which sends it to preposy only",
        ),
        ("plan.yaml", "name: third", "name: fourth", "third.nnef: describes item third"),
        ("plan.yaml", "file: third.nnef", "file: ../third.nnef", "plan.yaml: items.2.file: String should match"),
    ],
)
def test_an_edit_that_changes_what_is_computed_is_refused(
    file: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    refused(file, (old, new), message, tmp_path)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("17\nblock: 18", "the key block is repeated"),
        ("2020-13-45", "not a valid value of its type"),
        ("!!int ''", "not a valid value of its type"),
        ("!!bool maybe", "not a valid value of its type"),
        ("!!timestamp now", "not a valid value of its type"),
        ("9" * 5000, "not a valid value of its type"),
        ("[" * 3000, "brackets in brackets without end"),
    ],
    ids=["twice", "date", "int", "bool", "timestamp", "digits", "depth"],
)
def test_what_yaml_cannot_read_is_refused(block: str, message: str, tmp_path: Path) -> None:
    path = write(plans.make("plain"), tmp_path)
    edit(path / "plan.yaml", ("block: 17", f"block: {block}"))
    with pytest.raises(RequestError, match=rf"plan\.yaml(:\d+)?: not valid YAML: {re.escape(message)}"):
        folder.read(path)


def test_an_item_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    path = write(plans.make("branches"), tmp_path)
    edit(path / "plan.yaml", ("- name: third", "- {name: third, target: c, core: 1, file: third.nnef}\n- name: third"))
    with pytest.raises(RequestError, match=r"plan\.yaml: item third is listed twice"):
        folder.read(path)


def test_items_whose_names_are_words_of_nnef_stay_apart(tmp_path: Path) -> None:
    board = plans.board("for", "for_")
    plan = planner.make(plans.network("plain"), board, split=("layer_0=for", "layer_1=for_"))
    assert plans.same(folder.read(write(plan, tmp_path)), plan)
    assert {path.name for path in tmp_path.glob("for*")} == {"for_.nnef", "for__.nnef"}


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="none: there is no such folder"):
        folder.read(tmp_path / "none")


def test_a_part_is_called_by_its_columns(tmp_path: Path) -> None:
    path = write(plans.make("codes_argmax"), tmp_path)
    swapped = {"layer_1_0": "layer_1_1", "layer_1_1": "layer_1_0"}
    for file in ("network.nnef", "third.nnef", "prepost.nnef"):
        text = (path / file).read_text()
        (path / file).write_text(re.sub(r"layer_1_[01]\b", lambda found: swapped[found[0]], text))
    with pytest.raises(RequestError, match="item network: layer_1_1 computes columns 0 to 0 of layer_1") as refusal:
        folder.read(path)
    assert refusal.value.hint == "call it layer_1_0"
