"""Several items on one GPU: each has a stream, what they exchange stays on the GPU, and events order it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import model as networks
from harness.analysis.proof import structure
from harness.boards.profile import ItemProfile, Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.operators.obligations import StageKind
from harness.plan import conformance, plan, planner
from harness.reference import SpecificationReference
from tests.integration.programs.test_operators import COMPILED
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import dags
from tests.support.programs.board_program import (
    BoardProgram,
    Patch,
    assert_same,
    build_patched,
    fixed_addresses,
    parse,
    uniform_vectors,
)

ITEMS = ("gpu_a", "gpu_b", "gpu_c")
LISTING_3 = ["e1..o1=gpu_a", "o2..o3=gpu_b", "o4..o5=gpu_c"]


def with_items(host: Profile, *names: str) -> Profile:
    """The board with these processing elements, all of them its GPU."""
    return host.model_copy(update={"items": {name: ItemProfile(target="cuda:layerwise") for name in names}})


def plan_of(net: Network, host: Profile, split: list[str], **choices: Any) -> plan.Plan:
    """The plan for the three items, of which those without work are left out; blocks are shorter than the vectors."""
    return planner.make(net, with_items(host, *ITEMS), split=split, **({"block": 16} | choices))


def assert_identical(program: BoardProgram, vectors: Array, folder: Path, *options: object) -> None:
    expected = SpecificationReference(program.network).activations(vectors)
    assert_same(program.activations(vectors, folder, *options), expected)


@pytest.mark.parametrize(
    ("target", "sync"),
    [
        ("cuda:layerwise", "flag"),
        ("cuda:fused", "barrier"),
        pytest.param("cuda:layerwise", "barrier", marks=pytest.mark.campaign),
        pytest.param("cuda:fused", "flag", marks=pytest.mark.campaign),
    ],
)
def test_the_papers_items(
    target: str, sync: str, host: Profile, objects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing 3: its three items on one GPU, whichever of their streams begins first."""
    net = parse(dags.listing_2())
    planned = plan_of(net, host, LISTING_3, sync=sync, items=[target] * 3)
    program = build_patched(planned, host, tmp_path / "bundle", flags=FLAGS, objects=objects)
    vectors = uniform_vectors(net, 70, seed=8)
    assert_identical(program, vectors, tmp_path / "out")
    for setting, value in (("STREAMS", "1"), ("EAGER", "2"), ("EAGER", "5")):
        monkeypatch.setenv(f"HARNESS_SIMULATED_{setting}", value)
        assert_identical(program, vectors, tmp_path / f"{setting}{value}", "--random-delay", "50:1")


@pytest.mark.campaign
@pytest.mark.parametrize("stand_in", [{}, {"STREAMS": "1"}, {"STREAMS": "2"}, {"EAGER": "2"}, {"EAGER": "5"}])
def test_the_thread_sanitizer_finds_no_race_in_program_and_simulator(
    stand_in: dict[str, str], host: Profile, tmp_path: Path
) -> None:
    """Kernels without barriers, as ThreadSanitizer does not follow fibres; in deployment mode and with all dumps."""
    net = parse(dags.listing_2())
    flags = ["-O1", "-g", "-fsanitize=thread"]
    program = build_patched(plan_of(net, host, LISTING_3), host, tmp_path / "bundle", flags=flags)
    np.save(tmp_path / "vectors.npy", uniform_vectors(net, 300, seed=8))
    for dump in ("last", "all"):
        command = [*fixed_addresses(), *program.command, "--vectors", tmp_path / "vectors.npy", "--out", tmp_path]
        environment = os.environ | {f"HARNESS_SIMULATED_{name}": value for name, value in stand_in.items()}
        done = subprocess.run(
            [*map(str, command), "--dump", dump, "--block", "5", "--random-delay", "50:1"],
            capture_output=True, text=True, check=False, timeout=120, env=environment,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    assert_same(
        program.read_dumps(tmp_path), SpecificationReference(net).activations(np.load(tmp_path / "vectors.npy"))
    )


LENET_ROWS = ["conv_1..pool_1=gpu_a+gpu_b:rows", "conv_2..pool_2=gpu_a+gpu_b"]


@pytest.mark.parametrize(
    ("model", "split", "options"),
    [
        ("lenet5_int8", LENET_ROWS, ()),
        *(
            pytest.param(*each, marks=pytest.mark.campaign)
            for each in (
                ("lenet5", LENET_ROWS, ("--trace", "--time", "layer", "--delay", "gpu_a:300")),
                ("lenet5", ["conv_1..pool_2=gpu_a+gpu_b+gpu_c:rows", "dense_1=gpu_b+gpu_c"], ("--block", 3)),
                ("lenet5_int8", ["conv_2=gpu_b+gpu_c", "dense_4=gpu_b"], ("--random-delay", "200:3")),
            )
        ),
    ],
)
def test_parts_are_joined_on_the_gpu(
    model: str, split: list[str], options: Sequence[object], host: Profile, objects: Path, tmp_path: Path
) -> None:
    """By rows with halos, and by channels: no part is brought together by the processor."""
    net = networks.load(ROOT / "models" / f"{model}.onnx")
    planned = plan_of(net, host, split, items=["cuda:layerwise", "cuda:fused", "cuda:fused"])
    generated = codegen.generate(planned)
    joins = [stage.name for code in generated.tasks for stage in code.stages if stage.part is StageKind.MERGE]
    on_host = [name for forward in generated.forwards for name, _ in forward.merges]
    read_of_input = [name for name in on_host if name.startswith(("conv_1_", "quantize_input"))]
    assert len(joins) > len(on_host)
    assert on_host == read_of_input
    program = build_patched(planned, host, tmp_path / "bundle", flags=FLAGS, objects=objects)
    assert_identical(program, uniform_vectors(net, 37, seed=8), tmp_path / "out", *options)


@st.composite
def allocations(draw: st.DrawFn, net: Network) -> list[str]:
    """Words that give every layer to one item, or its columns to two."""
    words = []
    for layer in net.layers:
        chosen = draw(st.permutations(ITEMS))
        pieces = layer.division.pieces("channels")
        count = draw(st.sampled_from([1, 1, 2] if pieces and pieces.count > 1 else [1]))
        words.append(f"{layer.name}={'+'.join(chosen[:count])}")
    return words


@pytest.mark.campaign
@settings(COMPILED, max_examples=12)
@given(data=st.data(), seed=st.integers(0, 10_000))
def test_any_network_on_any_items_is_identical_and_its_trace_conforms(
    data: st.DataObject, seed: int, host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two items or three on the GPU, whichever stream is early; the third item may be the processor's."""
    net = parse(dags.random_dag(np.random.default_rng(seed), data.draw(st.integers(3, 9))))
    kinds = st.sampled_from(["cuda:layerwise", "cuda:fused"])
    targets = [data.draw(kinds), data.draw(kinds), data.draw(st.one_of(kinds, st.just("c")))]
    sync = data.draw(st.sampled_from(["barrier", "flag"]))
    planned = plan_of(net, host, data.draw(allocations(net)), targets=targets, sync=sync)
    folder, vectors = tmp_path_factory.mktemp("any"), uniform_vectors(net, 70, seed)
    program = build_patched(planned, host, folder / "bundle", flags=FLAGS, objects=objects)
    np.save(folder / "vectors.npy", vectors)
    options = ["--vectors", folder / "vectors.npy", "--out", folder, "--random-delay", "50:1"]
    expected = SpecificationReference(net).activations(vectors)
    for more, setting in (
        ([], {}),
        (["--trace"], {}),
        ([], {"EAGER": "2"}),
        ([], {"EAGER": "5"}),
        ([], {"STREAMS": "1"}),
    ):
        done = program.run(*options, *more, **{f"HARNESS_SIMULATED_{name}": value for name, value in setting.items()})
        assert (done.returncode, done.stderr) == (0, "")
        assert_same(program.read_dumps(folder), expected)
    trace = conformance.arrange(planned, conformance.read(folder / "trace.jsonl"), 5)
    assert conformance.replay(planned, trace).violations == ()


def test_nothing_waits_for_the_gpu_but_what_its_results_are_for(host: Profile) -> None:
    """Items hand over in the memory of the GPU; only the item with the results waits for it in its tasks."""
    program = codegen.generate(plan_of(parse(dags.listing_2()), host, LISTING_3))
    assert {name: set(others) for code in program.items for name, others in code.awaited.items()} == {
        "e1_launch": {"o2_launch", "o4_launch"},
        "o2_launch": {"e1_launch", "o6_launch"},
        "o4_launch": {"e1_launch", "o6_launch"},
        "o6_launch": {"o2_launch", "o4_launch"},
    }
    forwards = [code.forward for code in program.tasks]
    assert ["gpu_get" in forward for forward in forwards] == [False] * 6 + [True] * 4
    assert all("gpu_put" in forwards[head] for head in (0, 2, 4, 6))  # by which the proof gives a launch its sources


def test_a_pipeline_hands_over_in_buffers(host: Profile) -> None:
    """Its blocks stay in copies from one execution to the next, when no work of the GPU is left."""
    program = codegen.generate(plan_of(parse(dags.listing_2()), host, [*LISTING_3, "pipeline"]))
    assert not any(others for code in program.items for others in code.awaited.values())
    assert not any(code.finish for code in program.items)


CHAIN = ["e1..o1=gpu_a", "o2..advisory=gpu_b"]
GPU = "kernels/cuda/gpu.c"
RECORD = "        CUDA(cuEventRecord, launch->name, launch->ended, launch->stream);\n    launch->ran"
CREATE = "    CUDA(cuEventCreate, launch->name, &launch->ended, CU_EVENT_DISABLE_TIMING);"
WRONG = {
    "no record": (CHAIN, Patch(GPU, RECORD, "        (void)launch->ended;\n    launch->ran")),
    "wrong stream": (CHAIN, Patch(GPU, RECORD, RECORD.replace(" launch->stream", " (*launch->awaited)->stream"))),
    "shared event": (
        LISTING_3,  # of the two whose results the last item adds
        Patch(
            GPU,
            CREATE,
            f"    static CUevent shared;\n    const bool shares = launch->name[1] == '2' || launch->name[1] == '4';\n"
            f"    if (shares && shared)\n        launch->ended = shared;\n    else\n    {CREATE}\n"
            "    shared = shares ? launch->ended : shared;",
        ),
    ),
    "no wait": (CHAIN, Patch("network.c", "o2_launch_awaited[] = {&e1_launch, NULL}", "o2_launch_awaited[] = {NULL}")),
    "no wait for the reader": (
        CHAIN,
        Patch("network.c", "e1_launch_awaited[] = {&o2_launch, NULL}", "e1_launch_awaited[] = {NULL}"),
    ),
}


@pytest.mark.campaign
@pytest.mark.parametrize("execution", range(5))
def test_a_wait_that_is_missing_gives_wrong_activations_every_time(
    execution: int, host: Profile, objects: Path, tmp_path: Path
) -> None:
    """The item that does not wait is the only one whose stream begins early."""
    net = parse(dags.listing_2())
    patch = Patch("network.c", "o2_launch_awaited[] = {&e1_launch, ", "o2_launch_awaited[] = {")
    program = build_patched(plan_of(net, host, LISTING_3), host, tmp_path / "b", [patch], flags=FLAGS, objects=objects)
    np.save(tmp_path / "vectors.npy", uniform_vectors(net, 70, seed=execution))
    stand_in = {"HARNESS_SIMULATED_UNORDERED": "1", "HARNESS_SIMULATED_EAGER": "2"}
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path, **stand_in)
    assert (done.returncode, done.stderr) == (0, "")
    expected = SpecificationReference(net).activations(np.load(tmp_path / "vectors.npy"))
    found = zip(net.layers, program.read_dumps(tmp_path), expected, strict=True)
    wrong = {layer.name for layer, made, right in found if not np.array_equal(made, right)}
    assert {"o2", "o3", "o6"} <= wrong
    assert not wrong & {"e1", "o1", "o4", "o5"}


UNORDERED = re.compile(
    r"o\d_\w+ (reads|writes) memory of the GPU that o\d_\w+ (reads|writes) on another stream, and neither"
)


def run_wrong(wrong: str, host: Profile, objects: Path, folder: Path) -> tuple[BoardProgram, plan.Plan, str]:
    """The program, its plan, and what it says on stderr before it gives up; nothing if it does not."""
    split, patch = WRONG[wrong]
    net = parse(dags.listing_2())
    planned = plan_of(net, host, split)
    program = build_patched(planned, host, folder / "bundle", [patch], flags=FLAGS, objects=objects)
    np.save(folder / "vectors.npy", uniform_vectors(net, 70, seed=8))
    done = program.run("--vectors", folder / "vectors.npy", "--out", folder)
    return program, planned, done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    "wrong", [pytest.param(each, marks=[] if "wait" in each else pytest.mark.campaign) for each in WRONG]
)
def test_a_hand_over_without_its_events_is_found(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    """While it runs, whatever the activations are; where a launch does not wait, also in the program's file."""
    program, made, said = run_wrong(wrong, host, objects, tmp_path)
    [accesses] = {match.groups() for match in UNORDERED.finditer(said)}
    assert accesses == (("writes", "reads") if wrong == "no wait for the reader" else ("reads", "writes"))
    if WRONG[wrong][1].file != GPU:
        asked = structure.questions(codegen.generate(made), (program.path, file_sha256(program.path)))
        found = [claim.counterexample for claim in (question.ask() for question in asked) if not claim.holds]
        [first, second] = ("e1", "o2") if "reader" in wrong else ("o2", "e1")
        assert found == [f"{first}_launch does not wait for {second}_launch, which uses the same memory of the device"]
