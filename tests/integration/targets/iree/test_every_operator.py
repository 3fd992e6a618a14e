"""Every operator as MLIR, compiled by IREE and run by its runtime on this machine: the specification's bits."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from harness import model as networks
from harness.core.arrays import Array
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.operators.qlinear_conv import QLinearConv
from harness.reference.specification import SpecificationReference
from harness.targets.iree.compiler import DEVICE, FEATURES, ORDER, STATIC, Processor, run
from harness.targets.iree.module import module_text, symbol
from harness.targets.iree.objects import Object
from harness.targets.iree.staged import StagedLowering
from tests.support import images, integers
from tests.support.codes import node
from tests.support.every_operator import NETWORKS as OF_EVERY_TARGET
from tests.support.floats import read_node
from tests.support.functions import every_definition
from tests.support.mlir import SMALL, computed, text_of
from tests.support.programs.board_program import uniform_vectors
from tests.support.programs.convolutions import random_convolutions
from tests.support.stages import Example, example
from tests.unit.operators.exact.test_stages import STAGES, X

compiler = pytest.importorskip("iree.compiler", reason="the extra iree is not installed")

OF_INTEGERS = {**integers.NETWORKS, "selections": partial(integers.every_selection, has_boxes=False)}
"""IREE 3.13 ends abnormally on boxes."""
NETWORKS = {**OF_EVERY_TARGET, "definitions": every_definition, **OF_INTEGERS}
PARTS = {f"part of {name}": partial(network, (0, 8)) for name, network in OF_INTEGERS.items()}
IN_TEST = ("codes int8", "images uint8", "terms", "definitions", *PARTS)
MODELS = sorted(path.stem for path in (ROOT / "models").glob("*.onnx"))
KINDS = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")]


def campaign(name: str, quick: tuple[str, ...]) -> object:
    return pytest.param(name, marks=() if name in quick else pytest.mark.campaign)


def differing(net: Network, vectors: Array) -> dict[str, int]:
    """Return the layers with values that differ when IREE computes the whole network, and how many."""
    right = SpecificationReference(net).activations(vectors)
    found = computed(net.layers, {net.vector.name: vectors})
    counts = {
        layer.name: int((_bits(_flushed(actual)) != _bits(_flushed(expected))).sum())
        for layer, actual, expected in zip(net.layers, found, right, strict=True)
    }
    return {name: count for name, count in counts.items() if count}


def _bits(values: Array) -> Array:
    return values.view(f"V{values.itemsize}")


def _flushed(values: Array) -> Array:
    """Return float32 with zeros for subnormal numbers: IREE's runtime sets the processor to flush them."""
    if values.dtype != np.float32:
        return values
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


@pytest.mark.parametrize("name", [campaign(name, IN_TEST) for name in (*NETWORKS, *PARTS)])
def test_every_operator_keeps_its_bits(name: str) -> None:
    """Intermediate results of Mish below -87 are subnormal, which IREE's runtime flushes, but not their product."""
    net = (NETWORKS | PARTS)[name]()
    vectors = integers.vectors(12) if name in {*OF_INTEGERS, *PARTS} else uniform_vectors(net, 12, seed=1)
    assert differing(net, np.maximum(vectors, -85.0) if name == "definitions" else vectors) == {}


# IREE 3.13 does not compile scaled_sum, whose sums begin with other values than 0 and have two axes.
OF_STAGES = [name for name in STAGES if name != "scaled_sum"]


@pytest.mark.parametrize("name", [campaign(name, ("sums_from_the_end", "two_states")) for name in OF_STAGES])
def test_programs_of_stages_keep_their_bits(name: str) -> None:
    layer, vectors = example(name), np.random.default_rng(0).normal(size=(6, X.size)).astype(np.float32)
    text = module_text([layer], vectors=6, lowerings={Example: StagedLowering()})
    [output] = computed([layer], {"x": vectors}, text)
    assert output.tobytes() == layer.prepare()(vectors).tobytes()


@pytest.mark.parametrize(
    "window",
    [{"strides": [2, 2], "kernel_shape": [2, 2]}, {"pads": [1, 1, 0, 0], "strides": [3, 3], "kernel_shape": [3, 3]}],
)
def test_one_window_may_be_a_part_of_the_image(window: dict[str, list[int]]) -> None:
    images = np.random.default_rng(0).normal(size=(4, 2, 3, 3)).astype(np.float32)
    for operator in ("AveragePool", "MaxPool"):
        layer = read_node(node(operator, "x", **window), {}, {"x": images})
        [output] = computed([layer], {"x": images.reshape(4, -1)})
        assert layer.output.shape == (2, 1, 1)
        assert output.tobytes() == layer.prepare()(images.reshape(4, -1)).tobytes()


def test_ties_are_rounded_to_even() -> None:
    layer = SMALL["codes"]().layers[0]
    boundaries, ties = layer.stimuli.boundaries()
    assert len(ties) > 100
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 3e38], np.float32)
    values = np.concatenate([boundaries, ties, special])
    vectors = np.resize(values, (-(-len(values) // layer.size), layer.size))
    [found] = computed([layer], {layer.input.name: vectors})
    assert (found == layer.prepare()(vectors)).all()


@pytest.mark.campaign
@pytest.mark.parametrize(("code", "weights"), KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_random_convolutions_keep_their_bits(code: str, weights: str, seed: int) -> None:
    net = random_convolutions(np.random.default_rng(seed), 2, code, weights, 3)
    assert differing(net, uniform_vectors(net, 8, seed=seed)) == {}


@pytest.mark.campaign
@pytest.mark.parametrize("name", MODELS)
def test_shipped_models_keep_their_bits(name: str) -> None:
    net = networks.load(ROOT / "models" / f"{name}.onnx")
    assert differing(net, uniform_vectors(net, 100 if net.vector.size < 100 else 4, seed=2)) == {}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("role", ["weights", "bias", "multiplier"])
def test_a_wrong_constant_is_found(role: str) -> None:
    net = images.every_operator("int8", "conv")
    vectors = uniform_vectors(net, 12, seed=1)
    right = SpecificationReference(net).activations(vectors)
    values = {net.vector.name: vectors} | {layer.output.name: of for layer, of in zip(net.layers, right, strict=True)}
    place, layer = next((at, layer) for at, layer in enumerate(net.layers) if layer.name == "conv")
    assert isinstance(layer, QLinearConv)
    inputs = {name: values[name] for name in layer.sources}
    table = getattr(layer, role).copy()
    change = {"weights": 40, "bias": int(np.ceil(1 / layer.multiplier.min())), "multiplier": layer.multiplier[0]}
    table.reshape(-1)[table.size // 2] += change[role]
    [found] = computed([replace(layer, **{role: table})], inputs)
    assert (found != right[place]).any()


@pytest.mark.parametrize("name", SMALL)
def test_the_text_is_a_module_with_a_located_function_for_each_layer(name: str) -> None:
    ir = compiler.ir
    net = SMALL[name]()
    with ir.Context():
        module = ir.Module.parse(text_of(name))
        assert module.operation.verify()
        functions = {
            str(each.attributes["sym_name"]).strip('"'): each.operation
            for each in module.body.operations
            if each.operation.name == "func.func"
        }
        assert list(functions) == [*(symbol(layer) for layer in net.layers), "main"]
        for layer in net.layers:
            located: set[str] = set()
            functions[symbol(layer)].walk(functools.partial(_note, located))
            assert located == {f'loc("{layer.node}")'}


def test_names_are_read_as_they_were_written() -> None:
    layer = replace(SMALL["codes"]().layers[0], node='a\n"b" \\ \u00e9')
    with compiler.ir.Context():
        module = compiler.ir.Module.parse(module_text([layer]))
        [function, *_] = (each for each in module.body.operations if each.operation.name == "func.func")
        assert function.location == compiler.ir.Location.name(layer.node)


def _note(found: set[str], operation: Any) -> Any:
    if operation.parent is None or operation.parent.name != "linalg.fill":  # whose body is implied
        found.add(str(operation.location))
    return compiler.ir.WalkResult.ADVANCE


def fused(text: str, processor: Processor, folder: Path) -> list[str]:
    """Return the instructions of a module's dispatches that multiply and add with one rounding."""
    made = folder / "made.o"
    flags = (*DEVICE, *ORDER, *STATIC, *processor.flags, f"--iree-llvmcpu-static-library-output-path={made}")
    run(text, "module.mlir", "a test", folder, *flags)
    with made.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        symbols = [each for each in table.iter_symbols() if each["st_info"]["type"] == "STT_FUNC"]
    functions = [each.name for each in symbols if "_dispatch_" in each.name]
    assert functions
    return Object(made.read_bytes(), "a test").fused(functions)


PROCESSORS = [
    Processor("aarch64-linux-gnu", "cortex-a72"),
    Processor("x86_64-linux-gnu", "x86-64-v3"),
    Processor("x86_64-linux-gnu", "x86-64-v4", ",".join(f"+{name}" for name in FEATURES.values())),
]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda each: each.cpu)
def test_products_are_contracted_only_without_their_guard(processor: Processor, tmp_path: Path) -> None:
    text = module_text(SMALL["floats"]().layers[:1])
    assert fused(text, processor, tmp_path) == []
    guarded = r"(arith\.mulf .*?)arith\.xori (%\w+), %zero_value\w*"
    bare, count = re.subn(guarded, r"\1arith.ori \2, \2", text, flags=re.DOTALL)
    assert count == 1
    assert fused(bare, processor, tmp_path) != []


@pytest.mark.campaign
@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda each: each.cpu)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_operator_is_contracted(name: str, processor: Processor, tmp_path: Path) -> None:
    assert fused(module_text(NETWORKS[name]().layers), processor, tmp_path) == []
