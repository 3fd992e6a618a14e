"""The functions between inputs and outputs: one code each, which the network and the proof call, and its values."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators import exact
from harness.operators.add import Add
from harness.operators.base import Layer
from harness.operators.obligations import StageKind
from harness.operators.qgemm import QGemm
from harness.targets import KERNELS, LayerCode, Stage
from harness.targets.cuda import build, nvrtc, ptx_syntax
from harness.targets.cuda.code import DeviceCode
from tests.simulators.cuda import interpreted
from tests.simulators.ptx.interpreter import Module
from tests.support import builders
from tests.support.programs.board_program import parse
from tests.unit.operators.test_specification import sum_network
from tests.unit.targets.cuda.test_ptx import EXACT, compiled

TARGETS = ["cuda:layerwise", "cuda:fused", "cuda:tensor"]
TENSOR = TARGETS[2]
MACHINE_CODE = [
    *itertools.product(TARGETS[:2], ("sm_61", "sm_72", "sm_90")),
    *(pytest.param(TENSOR, arch, marks=pytest.mark.campaign) for arch in ("sm_72", "sm_75", "sm_90")),
]
VECTORS = 150
INT32 = np.iinfo(np.int32)

# What computes values: nothing of it may stand in a kernel, which only calls.
ARITHMETIC = re.compile(
    r"(mul|add|sub|div|sqrt)\.rn\.f32|cvt\.(rn\.f32|rni\.s32)\.\w+|(min|max|setp\.\w+|selp)\.f32|dp4a\..*|w?mma\..*"
)


def random_networks() -> dict[str, Network]:
    """Every operator, on every kind of codes."""
    rng = np.random.default_rng(5)

    def of(activations: str, weights: str, size: int = 3, **choices: bool | int) -> Network:
        widths = [int(width) for width in rng.integers(2, 40, size)]
        kinds = {"activations": activations, "weights": weights}
        return parse(builders.random_network(rng, widths, **kinds, per_column=True, zero_points=True, **choices))  # type: ignore[arg-type]

    return {
        "uint8 by int8": of("uint8", "int8", dequantize=True, argmax=True),
        "uint8 by uint8": of("uint8", "uint8", power_of_two=True, argmax=True),
        "int8 by int8": of("int8", "int8", float_output=True),
        "sums": of("int8", "int8", 2, residual=3, argmax=True),
        "sum with a constant": sum_network(["a", "addend"], {"addend": np.array([-1.2e-38], np.float32)}, 1.0),
    }


NETWORKS = random_networks()


@dataclass(frozen=True, eq=False)
class Generated:
    """A network's device code with its PTX for sm_72."""

    net: Network
    tasks: Sequence[LayerCode]
    code: DeviceCode
    text: str


WIDE = "uint8 by uint8"


def marks_of(target: str, name: str) -> Sequence[pytest.MarkDecorator]:
    """Of the networks on tensor cores one is tested always."""
    return [pytest.mark.campaign] if target == TENSOR and name != WIDE else []


GENERATED = [
    pytest.param((target, name), id=f"{target}-{name}", marks=marks_of(target, name))
    for target, name in itertools.product(TARGETS, NETWORKS)
]


@pytest.fixture(scope="module", params=GENERATED)
def generated(request: pytest.FixtureRequest, host: Profile) -> Generated:
    target, name = request.param
    item = interpreted.item_code(NETWORKS[name], host, target)
    return Generated(NETWORKS[name], item.tasks, item.kernels, interpreted.compiled(item.kernels))


@pytest.mark.parametrize("arch", ["sm_72", pytest.param("sm_90", marks=pytest.mark.campaign)])
def test_every_function_of_one_code_is_one_which_network_and_proof_call(generated: Generated, arch: str) -> None:
    code = generated.code
    text = generated.text if arch == "sm_72" else interpreted.compiled(code, arch)
    calls = calls_of(text)
    functions = [name for name, _ in calls]
    found = re.findall(r"^ONE_CODE \w+ (\w+)\(", code.text, re.MULTILINE)
    assert len(found) == sum(1 + isinstance(layer, QGemm) for layer in generated.net.layers)
    for function in found:
        layer = function.rpartition("_")[0]
        [kernel] = [kernel.name for kernel in code.kernels if layer in kernel.layers]
        assert functions.count(function) == 1, function
        assert {caller for caller, callees in calls if function in callees} == {kernel}
    assert inlined(text) == []


@pytest.mark.parametrize(("target", "arch"), MACHINE_CODE)
def test_the_machine_code_has_one_copy_of_every_function(target: str, arch: str, host: Profile, tmp_path: Path) -> None:
    """A kernel's copies of what it calls are symbols named $kernel$function; the assembler's own begin with __."""
    net = NETWORKS["uint8 by int8"]
    code = interpreted.device_code(net, host, target)
    text, headers = build.source([code]).encode(), build.headers_in(KERNELS / "cuda")
    (tmp_path / "cubin").write_bytes(nvrtc.compile_for(arch, build.SOURCE, text, headers).cubin)
    symbols = subprocess.run(["readelf", "-sW", "cubin"], cwd=tmp_path, capture_output=True, text=True, check=True)
    copies = re.findall(r" FUNC .* \$(\w+)\$((?!__)\w+)$", symbols.stdout, re.MULTILINE)
    kernels = {name: kernel.name for kernel in code.kernels for name in kernel.layers}
    found = re.findall(r"^ONE_CODE \w+ (\w+)\(", code.text, re.MULTILINE)
    assert sorted(copies) == sorted((kernels[function.rpartition("_")[0]], function) for function in found)


def calls_of(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """All functions that have code, kernels too, each with the functions that it calls, in the order of the text."""
    return [
        (
            function.name,
            tuple(
                operand.text
                for instruction in function.body
                if instruction.opcode.split(".")[0] == "call"
                for operand in instruction.operands
                if isinstance(operand, ptx_syntax.Name)
            ),
        )
        for function in ptx_syntax.parse(text).functions
    ]


def test_functions_and_calls() -> None:
    text = compiled(EXACT)
    value, fill = ("value", ()), ("fill", ("value",))
    assert calls_of(text) == [value, fill]
    assert calls_of(text + text[text.index(".func") : text.index(".visible .entry")]) == [value, fill, value]


def inlined(text: str) -> list[str]:
    """What kernels compute themselves, where they should only call."""
    entries = [f for f in ptx_syntax.parse(text).functions if f.is_entry and f.name != "self_test"]
    return [i.text for entry in entries for i in entry.body if ARITHMETIC.fullmatch(i.opcode)]


def test_every_stage_computes_the_specification(generated: Generated) -> None:
    module = Module(generated.text)
    kernels = {name: kernel for kernel in generated.code.kernels for name in kernel.layers}
    for layer, task in zip(generated.net.layers, generated.tasks, strict=True):
        for stage in task.stages:
            given = stage_inputs(layer, stage)
            expected = stage_outputs(layer, stage, given)
            found = np.zeros_like(expected)
            interpreted.ask(module, generated.code, kernels[layer.name], stage, given, found)
            assert found.tobytes() == expected.tobytes(), stage.name


def stage_inputs(layer: Layer, stage: Stage) -> Array:
    """(VECTORS, width): random values of the whole type, the extreme ones in the first vectors."""
    rng = np.random.default_rng(len(stage.name))
    shape = VECTORS, stage.input_width
    if stage.input_dtype == np.float32:
        return random_floats(rng, shape, finite=isinstance(layer, Add))
    info = np.iinfo(stage.input_dtype)
    values = rng.integers(info.min, info.max + 1, shape).astype(stage.input_dtype)
    values[0], values[1] = info.min, info.max
    if stage.part is StageKind.FINISH:
        low, high = layer.accumulator_bounds()  # type: ignore[arg-type]
        values[2:100] = rng.integers(low, high + 1, (98, layer.size))
        values[2], values[3], values[4] = low, high, 0
    return values


def random_floats(rng: np.random.Generator, shape: tuple[int, int], *, finite: bool) -> Array:
    """All kinds of them: of any bits, near codes, equal ones, subnormal ones, infinite ones, those that are none."""
    values = rng.integers(0, 2**32, shape, np.uint32).view(np.float32)
    values[::2] = rng.normal(0, 1, values[::2].shape)
    values[4::4] = np.rint(8 * values[4::4]) / 8
    words = [0, 1 << 31, 1, 0x80000001, 0x7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000]
    values[: len(words)] = np.array(words, np.uint32).view(np.float32)[:, None]
    return np.where(np.isfinite(values), values, np.float32(1)) if finite else values


def stage_outputs(layer: Layer, stage: Stage, given: Array) -> Array:
    """By the specification."""
    if stage.part is StageKind.COMPUTE:
        terms = np.split(given, len(layer.sources), axis=1)
        return np.asarray(layer.prepare()(*terms))
    assert isinstance(layer, QGemm)
    if stage.part is StageKind.ACCUMULATE:
        return layer.accumulate()(given).astype(np.int32)
    return finished(layer, given)


def finished(layer: QGemm, acc: Array) -> Array:
    """saturate(round_half_even(float32(acc) * m) + zero_point), also of accumulators that no codes give."""
    v = exact.float_bits(acc.astype(np.int64), layer.multiplier).view(np.float32)
    if layer.dtype == np.float32:
        return v
    info, zero_point = np.iinfo(layer.dtype), layer.y_zero_point
    codes = np.rint(np.clip(v.astype(np.float64), info.min - zero_point, info.max - zero_point)) + zero_point
    low, high = layer.accumulator_bounds()
    inside = ((low <= acc) & (acc <= high)).all(axis=1)
    assert inside.sum() > VECTORS / 2
    assert (layer.finish()(acc[inside].astype(np.int64)) == codes[inside]).all()
    return codes.astype(layer.dtype)
