"""Tables against the ONNX file: programs and generators that agree with each other, but not with the model."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from harness import targets
from harness.analysis import proof
from harness.analysis.proof import Claim, Side, constants, expected_tables
from harness.analysis.proof.independent import file
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.execution.probe import Probe
from harness.execution.program import options
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from harness.operators.obligations import Extent
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.plan import planner
from harness.plan.plan import Plan
from harness.targets import Launch, LayerCode, Table, TaskView
from harness.targets.c import code
from harness.targets.c import qgemm as of_c
from harness.targets.cuda import qgemm as of_cuda
from harness.targets.tiovx import qgemm as of_tiovx
from harness.targets.vitis import rtl
from tests.simulators.tiovx.boards import with_dsp
from tests.simulators.tiovx.test_operators import NETWORKS
from tests.simulators.vitis.boards import with_fabric
from tests.support import builders
from tests.support.programs.board_program import build_patched, parse
from tests.support.programs.convolutions import random_convolutions
from tests.support.proof.trials import Workshop
from tests.unit.operators.test_specification import sum_network

TARGETS = tuple(name for name in expected_tables.RULES if name not in ("vitis:fold4", "vitis:fold8", "vitis:fold16"))
SQUARE = parse(builders.random_network(np.random.default_rng(1), (6, 6, 6), per_column=True, zero_points=True))
UINT8 = parse(
    builders.random_network(np.random.default_rng(2), (3, 5, 18), weights="uint8", zero_points=True, dequantize=True)
)
INT8 = parse(builders.random_network(np.random.default_rng(3), (5, 7), activations="int8", alpha=0.7, transposed=True))
FLOAT = parse(
    builders.random_network(
        np.random.default_rng(7), (5, 33), float_output=True, per_column=True, zero_points=True, alpha=0.7, argmax=True
    )
)
SUM = parse(builders.random_network(np.random.default_rng(5), (4, 6, 5), residual=2, argmax=True))
NETS = {"square": SQUARE, "uint8": UINT8, "int8": INT8, "float": FLOAT, "sum": SUM}

Change = Callable[[QGemm], QGemm]


def planned(net: Network, target: str, host: Profile, split: tuple[str, ...] = ()) -> Plan:
    """Return a plan in which the target has every layer that it does not refuse."""
    if target.startswith("tiovx"):
        return planner.make(net, with_dsp(host, target.partition(":")[2]))
    if target.startswith("vitis"):
        return planner.make(net, with_fabric(host), ["c", target])
    return planner.make(net, host, [target] * len(host.items), split=split)


def asked(made: Plan, probe: Probe | None = None, net: Network | None = None) -> Claim:
    """Return what is claimed of the tables; without a probe of a program that has what its generator made."""
    parts = [made.part(task) for task in made.tasks]
    questions = constants.questions(net or made.network, parts, codegen.generate(made).tasks, probe)
    return next(question for question in questions if question.side is Side.BOARD).ask()


@pytest.mark.half_of_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_the_tables_of_every_target_follow_from_the_file(host: Profile, target: str, net: Network) -> None:
    plan = planned(net, target, host)
    claim = asked(plan)
    assert claim.counterexample == ""
    assert claim.question.cases == sum(table.values.size for of in codegen.generate(plan).tasks for table in of.tables)
    assert claim.question.cases > 0
    assert target in {plan.items[task.item].target for task in plan.tasks}


@pytest.mark.parametrize("target", ["cuda:layerwise", "cuda:fused", "cuda:tensor"])
@pytest.mark.parametrize("seed", range(6))
def test_the_tables_of_convolutions_follow_from_the_file(host: Profile, target: str, seed: int) -> None:
    kinds = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")][seed % 3]
    net = random_convolutions(np.random.default_rng(seed), 1 + seed % 2, *kinds, 3)
    assert asked(planned(net, target, host)).counterexample == ""


@pytest.mark.parametrize("name", NETWORKS)
def test_the_tables_of_a_core_follow_from_the_file(host: Profile, name: str) -> None:
    assert asked(planned(NETWORKS[name](), "tiovx:c7x", host)).counterexample == ""


@pytest.mark.parametrize("target", [name for name in TARGETS if name.startswith("c")])
def test_the_columns_of_a_split_layer_follow_from_the_file(host: Profile, target: str) -> None:
    plan = planned(UINT8, target, host, ("layer_0=prepost+network", "layer_1=network+prepost"))
    assert {task.name for task in plan.tasks} >= {"layer_0_0", "layer_0_1", "layer_1_0", "layer_1_1"}
    assert asked(plan).counterexample == ""
    first, *others = plan.tasks
    without = dataclasses.replace(plan, tasks=(first, *others[:-2], others[-1]))
    parts = [without.part(task) for task in without.tasks]
    codes = [of for of, task in zip(codegen.generate(plan).tasks, plan.tasks, strict=True) if task in without.tasks]
    [claim] = [q.ask() for q in constants.questions(UINT8, parts, codes, None) if q.side is Side.BOARD]
    assert not claim.holds


# Generators that are wrong, so that the program and they agree.


def swapped(layer: QGemm) -> QGemm:
    return dataclasses.replace(layer, weights=layer.weights[:, [1, 0, *range(2, layer.size)]])


def transposed(layer: QGemm) -> QGemm:
    return dataclasses.replace(layer, weights=np.ascontiguousarray(layer.weights.T))


def negated_zero_points(layer: QGemm) -> QGemm:
    return dataclasses.replace(layer, weights_zero_point=-layer.weights_zero_point)


def negated_input_zero_point(layer: QGemm) -> QGemm:
    return dataclasses.replace(layer, a_zero_point=-layer.a_zero_point)


def in_double(layer: QGemm) -> QGemm:
    scales = layer.scales
    product = float(scales.alpha) * float(scales.a) * scales.b.astype(np.float64)
    multiplier = (product if scales.y is None else product / float(scales.y)).astype(np.float32)
    assert (multiplier != layer.multiplier).any()
    return dataclasses.replace(layer, multiplier=multiplier)


CHANGES: dict[str, tuple[Change, Network]] = {
    "weight columns swapped": (swapped, SQUARE),
    "weights transposed": (transposed, SQUARE),
    "sign of the weights' zero points": (negated_zero_points, SQUARE),
    "sign of the input's zero point": (negated_input_zero_point, SQUARE),
    "multiplier in double": (in_double, FLOAT),
}


@pytest.fixture
def wrong_generator(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Let every target encode layers that were changed."""

    def changed(work: TaskView, change: Change) -> TaskView:
        return dataclasses.replace(work, layer=change(work.layer)) if isinstance(work.layer, QGemm) else work

    def patch(change: Change) -> None:
        find = targets.find

        def wrong(name: str) -> Any:
            right = find(name)

            def generate(item: str, launches: list[Launch]) -> Any:
                return right.generate(item, [[changed(work, change) for work in launch] for launch in launches])

            names = {name: getattr(right, name) for name in dir(right) if not name.startswith("_")}
            return SimpleNamespace(**names | {"generate": generate})

        monkeypatch.setattr("harness.build.codegen.targets.find", wrong)

    return patch


@pytest.mark.half_of_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", CHANGES)
def test_a_generator_that_is_wrong_is_found(
    host: Profile, wrong_generator: Callable[[Change], None], target: str, how: str
) -> None:
    change, net = CHANGES[how]
    plan = planned(net, target, host)
    assert asked(plan).holds
    wrong_generator(change)
    claim = asked(plan)
    if (target, how) == ("c:unrolled", "multiplier in double"):
        assert claim.holds, "no table has it"
        assert "multiplier of QGemm ('every sum becomes the right activation')" in claim.question.statement
        return
    if (target, how) == ("iree:static", "sign of the input's zero point"):
        assert claim.holds, "no table has it"
        assert "input_zero_point of QGemm ('every sum of products is the right one')" in claim.question.statement
        return
    assert "values differ); its target generated it so" in claim.counterexample


@pytest.mark.campaign
@pytest.mark.parametrize("target", ["c", "c:vector", "c:unrolled", "cuda:fused", "tiovx:c7x", "vitis"])
def test_a_program_of_such_a_generator_is_found(
    workshop: Workshop, wrong_generator: Callable[[Change], None], target: str, tmp_path: Any
) -> None:
    """The program holds what its generator made; the claim that compares the two alone would hold."""
    plan = planned(SQUARE, target, workshop.board)
    wrong_generator(swapped)
    program = build_patched(plan, workshop.board, tmp_path / "bundle", flags=["-O1"], objects=workshop.objects)
    (tmp_path / "scratch").mkdir()
    probe = Probe(program.deployed(tmp_path / "run"), options(plan), 60, tmp_path / "scratch")
    tables = [table for of in codegen.generate(plan).tasks for table in of.tables]
    held = probe.tables(tables)
    assert all(np.array_equal(np.atleast_2d(table.values), there) for table, there in zip(tables, held, strict=True))
    assert "its target generated it so" in asked(plan, probe).counterexample


def padding_of(values: Array) -> Array:
    """Return the table with a 1 in its last place, which only fills it up."""
    changed = values.copy()
    changed.reshape(-1)[-1] = 1
    return changed


LAYOUTS: dict[str, tuple[str, Any, str, Callable[[Any], Any], Network]] = {
    "c:vector, padding of weights": ("c:vector", of_c, "packed", padding_of, FLOAT),
    "c:vector, padding of columns": ("c:vector", code, "filled", padding_of, FLOAT),
    "cuda:fused, padding of weights": ("cuda:fused", of_cuda, "packed", padding_of, FLOAT),
    "cuda:fused, padding of columns": ("cuda:fused", of_cuda, "padded", padding_of, FLOAT),
    "tiovx:c7x, padding of weights": ("tiovx:c7x", of_tiovx, "packed", padding_of, FLOAT),
    "tiovx:c7x, groups reversed": ("tiovx:c7x", of_tiovx, "packed", np.flipud, UINT8),
    "c:vector, panels reversed": ("c:vector", of_c, "packed", np.flipud, UINT8),
    "cuda:fused, groups reversed": ("cuda:fused", of_cuda, "packed", np.flipud, UINT8),
    "tiovx:mpu, thresholds off by one": ("tiovx:mpu", Contraction, "thresholds", lambda steps: steps + 1, UINT8),
    "vitis, thresholds off by one": (
        "vitis",
        Contraction,
        "thresholds_by_multiplier",
        lambda found: (found[0] + 1, found[1]),
        UINT8,
    ),
    "tiovx:mpu, thresholds of floats off by one": (
        "tiovx:mpu",
        QuantizeLinear,
        "thresholds",
        lambda steps: steps + 1,
        UINT8,
    ),
    "vitis, levels in another order": ("vitis", rtl, "threshold_levels", lambda found: found[::-1], UINT8),
}


@pytest.mark.parametrize("how", LAYOUTS)
def test_a_wrong_layout_is_found(host: Profile, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    target, module, name, change, net = LAYOUTS[how]
    plan = planned(net, target, host)
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: change(right(*given)))
    claim = asked(plan)
    assert "its target generated it so" in claim.counterexample or "the model makes it" in claim.counterexample


# Every constant of the file is in a table, and nothing else is.


def altered(net: Network) -> Iterator[tuple[str, Network]]:
    """Return the network with another file: of each initialiser in turn the last value is another."""
    for index, tensor in enumerate(onnx.load_model_from_string(net.onnx_bytes).graph.initializer):
        model = onnx.load_model_from_string(net.onnx_bytes)
        values = numpy_helper.to_array(tensor).copy()
        last = values.reshape(-1)
        last[-1] = last[-1] * np.float32(1.5) if values.dtype == np.float32 else last[-1] ^ 1
        model.graph.initializer[index].CopyFrom(numpy_helper.from_array(values, tensor.name))
        yield tensor.name, dataclasses.replace(net, onnx_bytes=model.SerializeToString())


@pytest.mark.half_of_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_no_constant_of_the_file_is_missing_in_the_tables(host: Profile, target: str, net: Network) -> None:
    plan = planned(net, target, host)
    unseen = [other for _, other in altered(net) if asked(plan, net=other).holds]
    assert not unseen or target in {"c:unrolled", "iree:static"}
    complete = {(question.step, question.layer) for question in of_board(plan)}
    right = file.nodes(net.onnx_bytes)
    for layer, node in zip(net.layers, right.values(), strict=True):
        allowed = {*expected_tables.in_instructions(node, target), *SCALES}
        for other in unseen:
            changed = file.nodes(other.onnx_bytes)[layer.output.name].constants
            names = {name for name, values in node.constants.items() if not np.array_equal(values, changed[name])}
            assert names <= allowed
            assert not names or (layer.rounded.step, layer.name) in complete


SCALES = ("alpha", "a_scale", "b_scale", "y_scale")  # of which the multiplier is made


def of_board(made: Plan) -> list[proof.Question]:
    subject = proof.Subject.of(codegen.generate(made), None)
    return [q for q in proof.questions(subject, Extent(all_floats=False)) if q.side is Side.BOARD]


def test_an_addend_of_the_file_is_in_a_table(host: Profile) -> None:
    net = sum_network(["addend", "b"], {"addend": np.float32(-0.37)}, 0.01)
    plan = planned(net, "c", host)
    assert asked(plan).holds
    assert not any(asked(plan, net=other).holds for _, other in altered(net))


def with_tables(codes: list[LayerCode], index: int, *tables: Table) -> list[LayerCode]:
    return [*codes[:index], dataclasses.replace(codes[index], tables=tables), *codes[index + 1 :]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda given: (*given, Table("cache", np.zeros(4, np.int32))), "table cache is not derived from the model"),
        (lambda given: given[1:], "there is no table layer_0_weights"),
        (lambda given: (*given, given[0]), "2 tables are called layer_0_weights"),
        (
            lambda given: (dataclasses.replace(given[0], values=given[0].values.astype(np.int32)), *given[1:]),
            r"table layer_0_weights is int32 \(6, 6\), the model makes it int8 \(6, 6\)",
        ),
        (
            lambda given: (dataclasses.replace(given[0], values=given[0].values[:5]), *given[1:]),
            r"table layer_0_weights is int8 \(5, 6\), the model makes it int8 \(6, 6\)",
        ),
    ],
)
def test_a_table_too_many_or_too_few_is_found(host: Profile, change: Any, words: str) -> None:
    plan = planned(SQUARE, "c", host)
    parts, codes = [plan.part(task) for task in plan.tasks], codegen.generate(plan).tasks
    wrong = with_tables(list(codes), 1, *change(codes[1].tables))
    claim = next(iter(constants.questions(SQUARE, parts, wrong, None))).ask()
    assert re.match(words, claim.counterexample), claim.counterexample


def test_the_tables_of_a_target_without_a_rule_are_not_derived(host: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(expected_tables.RULES, "c")
    words = (
        "the tables of target c are not derived from the model: "
        "RULES in harness/analysis/proof/expected_tables.py has no"
    )
    assert asked(planned(SQUARE, "c", host)).counterexample.startswith(words)


# The specification's own constants.


def of_reference(net: Network, layers: tuple[Layer, ...]) -> str:
    asked_ = constants.questions(dataclasses.replace(net, layers=layers), [], [], None)
    return next(question for question in asked_ if question.side is Side.REFERENCE).ask().counterexample


@pytest.mark.parametrize(
    "field", ["weights", "bias", "multiplier", "weights_zero_point", "a_zero_point", "y_zero_point", "width", "sources"]
)
def test_a_constant_that_was_read_wrongly_is_found(field: str) -> None:
    quantize, layer, *rest = SQUARE.layers
    assert of_reference(SQUARE, SQUARE.layers) == ""
    wrong: dict[str, Any]
    if field == "sources":
        wrong = {"inputs": (dataclasses.replace(layer.input, name="other"),)}
    elif field == "width":
        wrong = {"output": dataclasses.replace(layer.output, shape=(layer.size + 1,))}
    else:
        value = getattr(layer, field)
        wrong = {field: value + np.asarray(value).dtype.type(1)}
    found = of_reference(SQUARE, (quantize, dataclasses.replace(layer, **wrong), *rest))
    name = {"a_zero_point": "input_zero_point", "y_zero_point": "output_zero_point"}.get(field, field)
    assert found.startswith(f"layer layer_0: {name}")
    assert "the file says" in found


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_the_specification_has_the_files_constants(net: Network) -> None:
    assert of_reference(net, net.layers) == ""
    assert of_reference(net, net.layers[:-1]).startswith("the layers write")


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_the_steps_of_constants_in_instructions_exist(net: Network) -> None:
    for layer in net.layers:
        steps = {obligation.step for obligation in layer.obligations(Extent(all_floats=False, random_vectors=0))}
        assert layer.rounded.step in steps
