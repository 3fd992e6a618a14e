"""Every byte of a program has an owner, and each link leads to what the plan and the model say."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.applications.trace import page
from harness.applications.trace.document import TraceabilityDocument
from harness.applications.trace.traced import Traced
from harness.boards.profile import Profile, Toolchain
from harness.build import bundle, codegen
from harness.core.errors import ToolError
from harness.operators.qgemm import QGemm
from harness.plan import planner
from harness.targets.contraction import signed_weights
from tests.campaigns.misra.check import network
from tests.support.programs.c_variants import EVERY, GNU, of_variant

FOREIGN = '\n__asm__(".text\\n.type foreign, %function\\nforeign:\\n.byte 0xc3, 0xc3, 0xc3\\n.size foreign, 3\\n");\n'
PLAIN = Toolchain(compiler="gcc", flags=("-O1",))
OTHERS = [
    pytest.param(name, target, compiler, marks=pytest.mark.campaign)
    for name, target, compiler in (
        *(("dense", target, "gcc") for target in EVERY),
        ("dense", "c:vector", GNU),
        ("dense", "c", "python-zig cc -target aarch64-linux-gnu.2.31"),
        ("images", "c:inlined", "gcc"),
        ("floats", "c:vector", GNU),
        ("codes", "c:generic", "gcc"),
        ("dense", "cuda:fused", "gcc"),
        ("dense", "tiovx:c7x", "gcc"),
        ("dense", "vitis", "gcc"),
        ("dense", "iree:static", "gcc"),
    )
]


def traced(generated: codegen.Program, board: Profile, cache: Path) -> Traced:
    built = bundle.build(generated, board, cache)
    return Traced.of(generated, built, bundle.with_debug_data(generated, board, built, cache))


def assert_complete(document: TraceabilityDocument) -> None:
    """Nothing is without an owner, and the bytes of each section add up."""
    assert document.unattributed == []
    assert document.differing == []
    for each in document.sections:
        assert (each.unattributed, each.nodes + each.items + each.support + each.padding) == (0, each.size), each.name
    owned = {name for each in document.all for name in each.owner.tasks}
    assert owned == {task.name for task in document.tasks}


@pytest.fixture(scope="module")
def generic(host: Profile, cache: Path) -> Traced:
    board = of_variant(host, "c:generic").model_copy(update={"toolchain": PLAIN})
    return traced(codegen.generate(planner.make(network("dense"), board)), board, cache)


@pytest.fixture(scope="module")
def document(generic: Traced) -> TraceabilityDocument:
    return generic.document()


def test_every_byte_has_an_owner(document: TraceabilityDocument) -> None:
    assert_complete(document)
    assert TraceabilityDocument.from_json(document.to_json()) == document


@pytest.mark.parametrize(("name", "target", "compiler"), OTHERS)
def test_every_byte_of_other_programs(name: str, target: str, compiler: str, host: Profile, cache: Path) -> None:
    board = of_variant(host, target).model_copy(update={"toolchain": Toolchain(compiler=compiler, flags=("-O2",))})
    if target not in EVERY:
        of_network = host.items["network"].model_copy(update={"target": target})
        board = host.model_copy(update={"items": host.items | {"network": of_network}, "toolchain": board.toolchain})
    trace = traced(codegen.generate(planner.make(network(name), board)), board, cache)
    complete = trace.document()
    assert_complete(complete)
    dense = {each.name for each in complete.nodes if each.operator == "QGemm"}
    if target == "iree:static":
        compiled = [each for each in complete.functions if each.kind == "compiled" and each.line]
        assert {(*each.owner.tasks, each.file) for each in compiled} >= {
            (name, f"iree/{name}_{part}.mlir") for name in dense for part in ("accumulate", "finish")
        }
    elif target not in EVERY:
        assert {task for each in complete.devices for task in each.tasks} >= dense
    assert all(node.node in page.html(trace, complete) for node in complete.nodes)


def test_links_from_a_node_to_bytes_and_back(generic: Traced, document: TraceabilityDocument) -> None:
    [layer] = [each for each in generic.generated.plan.network.layers if isinstance(each, QGemm)][:1]
    [node] = [each for each in document.nodes if each.node == layer.node]
    assert (node.operator, node.specification) == ("QGemm", "harness/operators/qgemm.py")
    named = {each.name: each for each in document.all}
    weights = named[f"{layer.name}_weights"]
    expected = hashlib.sha256(np.ascontiguousarray(signed_weights(layer)[0].T).tobytes()).hexdigest()[:16]
    assert (weights.sha256, weights.expected_sha256, list(weights.owner.tasks)) == (expected, expected, [layer.name])
    program = generic.analysis.program
    stage = named[f"{layer.name}_accumulate"]
    assert (stage.kind, list(stage.owner.tasks), stage.file) == ("stage", [layer.name], "network.c")
    assert f"{layer.name}_accumulate(" in generic.text_of("network.c")[stage.line - 1]
    place = generic.debug.place_at(stage.address)
    assert place is not None
    assert (place.file, stage.line <= place.line <= stage.line + 3) == ("network.c", True)
    assert program.content(weights.address, 2) == signed_weights(layer)[0].T.tobytes()[:2]


def test_a_function_that_layers_share_belongs_to_all_of_them(document: TraceabilityDocument) -> None:
    dense = [each.name for each in document.nodes if each.operator == "QGemm"]
    [shared] = [each for each in document.functions if each.name.startswith("generic_qgemm_accumulate")]
    assert (shared.kind, list(shared.owner.tasks)) == ("kernel", dense)
    schedule = [each for each in document.functions if each.file == "kernels/program/schedule.c"]
    assert {text for each in schedule for text in each.owner.support} == {"board program (kernels/program/schedule.c)"}


def test_the_argument_of_a_layer_states_loops_tables_and_code(document: TraceabilityDocument) -> None:
    argument = {each.task: each for each in document.argument}
    [first] = [each.name for each in document.nodes if each.operator == "QGemm"][:1]
    steps = {step.step: step.statement for step in argument[first].steps}
    assert "acc[n] = C[n] + sum over k" in steps["layer to formula"]
    assert "for (size_t k = 0; k < depth; ++k)" in steps["formula to loops"]
    assert f"{first}_weights: int8 8x5" in steps["constants to tables"]
    assert {claim.step for claim in argument[first].evidence} >= {"structure", "accumulation", "requantization"}


def test_foreign_code_and_changed_weights_are_found(generic: Traced, host: Profile, cache: Path) -> None:
    board = of_variant(host, "c:generic").model_copy(update={"toolchain": PLAIN})
    weights = next(line for line in generic.generated.source.splitlines() if "_weights[8][5]" in line)
    start = generic.generated.source.index(weights) + len(weights)
    at = generic.generated.source.index("-", start)  # the sign of the first negative weight
    source = generic.generated.source
    changed = replace(generic.generated, source=f"{source[:at]} {source[at + 1 :]}{FOREIGN}")
    trace = traced(changed, board, cache)
    wrong = replace(trace, generated=generic.generated).document()
    assert [(gap.text, gap.size) for gap in wrong.unattributed] == [("foreign", 3)]
    assert wrong.differing == [weights.split()[3].partition("[")[0]]


def test_lines_of_another_program_are_refused(generic: Traced, tmp_path: Path) -> None:
    content = bytearray((generic.bundle.folder / bundle.PROGRAM).read_bytes())
    [text] = [each for each in generic.analysis.program.sections if each.name == ".text"]
    place = bytes(content).index(text.content)
    content[place] ^= 1
    other = tmp_path / "inference"
    other.write_bytes(content)
    with pytest.raises(ToolError, match=r"other code than the deployed one: \.text"):
        Traced.of(generic.generated, generic.bundle, other)
