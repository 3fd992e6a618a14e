"""`harness models cost` as a user types it, its sizes compared with what the linker and nm say of the program."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as RichConsole

from harness.applications.cost import terminal
from harness.applications.cost.document import CostDocument
from tests.support.cli.command import Ended, User

M4 = ("--board", "cortex-m4", "--block", "1", "--build")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    return User(tmp_path_factory.mktemp("costs"), cache)


@pytest.fixture(scope="module")
def built(user: User) -> Ended:
    return user.harness("models", "cost", "lenet5_int8", *M4, "--json")


def program(cache: Path, document: dict[str, Any]) -> Path:
    return cache / "bundles" / document["program"]["bundle"] / "inference"


def symbols(path: Path) -> dict[str, tuple[str, int]]:
    """Return kind and bytes of each symbol with a size, as nm says."""
    listed = subprocess.run(["arm-none-eabi-nm", "-S", path], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in listed.splitlines()]
    return {name: (kind, int(size, 16)) for _, size, kind, name in (each for each in words if len(each) == 4)}


def sections(path: Path) -> dict[str, int]:
    listed = subprocess.run(["arm-none-eabi-size", "-A", path], capture_output=True, text=True, check=True).stdout
    return {name: int(size) for name, size in re.findall(r"^(\.\w+)\s+(\d+)", listed, re.MULTILINE)}


def test_flash_and_ram_are_those_of_the_linked_program(built: Ended, cache: Path) -> None:
    assert built.code == 0, built.err
    document = built.document
    path = program(cache, document)
    size, of_linker = sections(path), symbols(path)
    assert document["program"]["stored"] == size[".text"] + size[".data"]
    assert document["program"]["written"] == size[".data"] + size[".bss"]
    for layer in document["layers"]:
        own = {name: symbol for name, symbol in of_linker.items() if name.startswith(f"{layer['name']}_")}
        constants = sum(length for kind, length in own.values() if kind in "rR")
        functions = sum(length for kind, length in own.values() if kind in "tT" and length)
        assert layer["constants"] + layer["code"] == constants + functions, layer["name"]  # text holds both
        assert layer["buffers"] == of_linker[f"{layer['name']}_output"][1]
    outputs = sum(of_linker[f"{layer['name']}_output"][1] for layer in document["layers"])
    assert document["memory"]["keep"] == outputs + 4 * 28 * 28, "and the input"
    assert document["multiply_adds"] == 281_640
    data = next(limit for limit in document["limits"] if limit["name"] == "data memory")
    assert size[".data"] + size[".bss"] < data["needed"] < data["limit"] == 4 << 20


@pytest.mark.parametrize(
    ("model", "constants"),
    [("acas_coc", 21_316), ("lenet5_int8", 46_142), ("ds_cnn_int8", 26_864), ("resnet8_int8", 80_308)],
)
def test_constants_are_those_that_were_counted_in_the_sections_of_a_program(
    user: User, model: str, constants: int
) -> None:
    done = user.harness("models", "cost", model, "--board", "cortex-m4", "--block", "1", "--json")
    assert done.document["memory"]["constants"] == constants


def test_shared_buffers_take_the_bytes_of_the_arena(user: User, cache: Path) -> None:
    done = user.harness("models", "cost", "lenet5_int8", *M4, "--buffers", "reuse", "--json")
    assert done.code == 0, done.err
    of_linker = symbols(program(cache, done.document))
    assert done.document["memory"]["reuse"] == of_linker["arena"][1] + 4 * 28 * 28
    assert done.document["memory"]["reuse"] < done.document["memory"]["keep"]


def test_a_program_that_was_not_built_has_no_size_of_its_code(user: User) -> None:
    done = user.harness("models", "cost", "acas_sl", "--board", "cortex-r5", "--block", "3", "--json")
    assert done.code == 0
    assert done.document["program"] is None
    assert {layer["code"] for layer in done.document["layers"]} == {None}
    assert any(text.startswith("code: this program was not built") for text in done.document["unknown"])
    assert any(text.startswith("times and cycles: no measurement of acas_sl") for text in done.document["unknown"])


@pytest.mark.campaign
def test_constants_in_kernels_of_a_device_are_not_those_of_the_program(user: User) -> None:
    done = user.harness("models", "cost", "lenet5_int8", "--board", "kv260", "--json")
    assert done.code == 0, done.err
    layers = {layer["name"]: layer for layer in done.document["layers"]}
    assert (layers["conv_1"]["targets"], layers["conv_1"]["constants"]) == (["vitis"], None)
    assert layers["quantize_input"]["constants"] == 8
    assert any(text.startswith("constants in the kernels of vitis") for text in done.document["unknown"])
    assert (
        done.document["forecast"]
        == user.harness("plan", "--board", "kv260", "--model", "lenet5_int8", "--json").document["forecast"]
    )
    assert done.document["forecast"], "the fabric has resources"


def test_a_network_alone_has_its_own_numbers(user: User) -> None:
    done = user.harness("models", "cost", "resnet8_int8", "--json")
    assert done.code == 0
    document = done.document
    assert (document["board"], document["program"], document["limits"]) == (None, None, [])
    assert document["multiply_adds"] == 12_501_632
    [first] = [layer for layer in document["layers"] if layer["name"] == "conv_1"]
    assert (first["multiply_adds"], first["buffers"], first["operator"]) == (442_368, 16 * 32 * 32, "QLinearConv")
    assert document["memory"]["keep"] == 4 * 3 * 32 * 32 + sum(layer["buffers"] for layer in document["layers"])


def test_the_table_fits_80_columns(built: Ended) -> None:
    text = io.StringIO()
    RichConsole(file=text, width=80).print(terminal.table(CostDocument.from_json(built.document)))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in lines[2:]}
    assert {layer["name"] for layer in built.document["layers"]} == {*rows}
    assert rows["conv_1"][0] == "86,400"


def test_layers_that_targets_refuse_are_named_with_the_reason(user: User) -> None:
    done = user.harness("models", "cost", "lenet5_int8", "--board", "host", "--items", "vitis,vitis", "--json")
    assert done.code == 2
    misfits = {each["layer"]: each for each in done.document["misfits"]}
    assert [*misfits] == ["quantize_input", "dequantize_output"]
    assert misfits["quantize_input"]["target"] == "vitis"
    assert "others need floating point" in misfits["quantize_input"]["reason"]
    assert done.document["multiply_adds"] == 281_640, "the network's own numbers are known"


def test_memory_beyond_that_of_the_board_is_named_with_both_numbers(user: User) -> None:
    done = user.harness("models", "cost", "mobilenet_int8", "--board", "cortex-m4", "--block", "100", "--json")
    assert done.code == 2
    reasons = [each["reason"] for each in done.document["misfits"]]
    assert any("and the memory budget is 2 MiB" in reason for reason in reasons)
    data = next(limit for limit in done.document["limits"] if limit["name"] == "data memory")
    assert data["needed"] > data["limit"]
    fits = user.harness("models", "cost", "mobilenet_int8", "--board", "cortex-m4", "--block", "1", "--json")
    assert (fits.code, fits.document["misfits"]) == (0, [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--build",), "--build and the options of a plan are those of a board"),
        (("--block", "1"), "--build and the options of a plan are those of a board"),
        (("--board", "nowhere"), "unknown board 'nowhere'"),
        (("--board", "host", "--items", "c,abacus"), "unknown target 'abacus'"),
    ],
)
def test_a_wrong_request_is_refused(user: User, options: tuple[str, ...], message: str) -> None:
    done = user.harness("models", "cost", "acas_coc", *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.slow
@pytest.mark.campaign
def test_times_are_those_of_the_measurement_by_the_same_targets(user: User) -> None:
    given = ("--board", "host", "--items", "c,c")
    asked = (
        "measure",
        *given,
        "--model",
        "acas_coc",
        "--scope",
        "layer",
        "--samples",
        "300",
        "--warmup",
        "0",
        "--json",
    )
    measured = user.harness(*asked)
    assert measured.code == 0, measured.err
    document = user.harness("models", "cost", "acas_coc", *given, "--json").document
    assert document["measured"]["run"] == Path(measured.document["run"]).name
    medians = {part["name"]: part["summary"]["median_ns"] for part in measured.document["parts"]}
    assert {layer["name"]: layer["measured"] for layer in document["layers"]} == medians
    assert (document["measured"]["unit"], document["measured"]["total"]) == ("ns", sum(medians.values()))
    assert document["bound"] is None
    for model, items in (("acas_coc", "c:vector,c:vector"), ("acas_sl", "c,c")):
        other = user.harness("models", "cost", model, "--board", "host", "--items", items, "--json")
        assert other.document["measured"] is None, "of other targets, or another model"


@pytest.mark.campaign
def test_bounds_are_those_of_the_machine_code(user: User) -> None:
    given = ("--board", "kv260", "--items", "c,c")
    bounded = user.harness("wcet", "--model", "acas_coc", *given, "--core", "none", "--json")
    assert bounded.code == 0, bounded.err
    document = user.harness("models", "cost", "acas_coc", *given, "--json").document
    limits = {layer["name"]: layer["instructions"] + layer["library"] for layer in bounded.document["layers"]}
    assert {layer["name"]: layer["bound"] for layer in document["layers"]} == limits
    stated = document["bound"]
    assert (stated["unit"], stated["statistic"]) == ("instructions", "bound")
    assert (stated["run"], stated["total"]) == (Path(bounded.document["run"]).name, bounded.document["instructions"])
    assert (document["board"], document["measured"]) == ("kv260", None)
