"""The engine of `harness decide` against the formulas, with every kernel that can be compiled and run here."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core import installation
from harness.model import load
from harness.operators.qgemm import QGemm
from tests.support.programs.c_variants import SATURATING, disassembled
from tests.support.programs.decide_jobs import (
    ALL,
    CODES,
    FIRST,
    KINDS,
    LAST,
    SIMULATED_GPU,
    Comparison,
    Dense,
    Job,
    compile_engine,
    random_job,
    run_jobs,
)

OTHERS = ("portable with AVX-512", "NEON")  # left to the campaigns
MARKED = [pytest.param(kind, marks=[pytest.mark.campaign] * (kind in OTHERS)) for kind in KINDS]


@pytest.fixture(scope="module", params=MARKED)
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The compiled program and the kind of its kernel."""
    return compile_engine(request.param, tmp_path_factory.mktemp("engine")), request.param


def in_batch_order(job: Job) -> np.ndarray[Any, Any]:
    """Indices of the codes of a box, batch after batch."""
    codes = job.codes().astype(np.int64)
    batches = (codes - job.low) // job.batch
    return np.lexsort([*codes.T[::-1], *batches.T[::-1]])


def check(program: Path, kind: str, jobs: list[Job], threads: int = 1) -> None:
    """Every result of every job is that of the formulas."""
    for job, result in zip(jobs, run_jobs(program, kind, jobs, threads), strict=True):
        codes, sets = job.expected
        assert result.count == len(codes)
        np.testing.assert_array_equal(result.sets, sets, err_msg=f"decide_each: {job}")
        np.testing.assert_array_equal(result.regions, job.regions(sets), err_msg=f"decide_box: {job}")
        order = in_batch_order(job)
        wanted = order[(sets[order] & job.wanted) != 0]
        assert result.found == (len(wanted) > 0), job
        assert not len(wanted) or result.codes == tuple(codes[wanted[0]]), job


def acas(low: tuple[int, ...], extent: tuple[int, ...]) -> Job:
    """A box of acas_coc."""
    dense = [layer for layer in load(installation.ROOT / "models" / "acas_coc.onnx").layers if isinstance(layer, QGemm)]
    layers = []
    for each in dense:
        weights = each.weights.astype(np.int64) - each.weights_zero_point
        layers.append(Dense(weights, each.bias - each.a_zero_point * weights.sum(0), each.multiplier))
    segments = np.array(
        [(np.arange(CODES) - first).clip(0, size - 1) // 3 for first, size in zip(low, extent, strict=True)]
    )
    return Job(tuple(layers), low, extent, (1, 4, 6, 7, 5), segments, wanted=2)


@pytest.mark.half_of_cases
def test_the_kernel_is_the_one_compiled(kernel: tuple[Path, str]) -> None:
    program, kind = kernel
    name = "decide_batches" if kind == SIMULATED_GPU else kind.removesuffix(" with AVX-512")
    assert name.encode() + b"\0" in program.read_bytes()
    text = disassembled(program)
    assert not [name for name in SATURATING if name in text]


@cache
def random_jobs() -> list[Job]:
    """Return jobs whose expected results are computed once for all kernels."""
    return [random_job(np.random.default_rng(seed)) for seed in range(150)]


def test_random_networks_have_the_decisions_of_the_formulas(kernel: tuple[Path, str]) -> None:
    jobs = random_jobs()
    assert sum(len(np.unique(job.expected[1])) > 1 for job in jobs) > 75, "most networks decide more than one way"
    assert {(job.greatest, job.ties, job.float_scores) for job in jobs if not job.comparisons} == {
        (greatest, ties, scores)
        for greatest in (False, True)
        for ties in (FIRST, LAST, ALL)
        for scores in (False, True)
    }
    assert any(abs(layer.weights).max() > 128 for job in jobs for layer in job.layers)
    assert any(1 in job.extent and CODES in job.extent for job in jobs)
    check(*kernel, jobs)


@pytest.mark.half_of_cases
def test_threads_do_not_share_anything(kernel: tuple[Path, str]) -> None:
    check(*kernel, [random_job(np.random.default_rng(seed)) for seed in range(200, 210)], threads=4)


@pytest.mark.half_of_cases
def test_boxes_of_acas(kernel: tuple[Path, str]) -> None:
    jobs = [acas((13, 166, 91, 60, 148), (2, 6, 7, 8, 7)), acas((18, 109, 119, 167, 168), (2, 6, 7, 8, 7))]
    assert all(len(np.unique(job.sets(job.scores(job.codes())))) == 4 for job in jobs)
    check(*kernel, jobs)


def test_the_decisions_of_acas_are_those_of_its_operators() -> None:
    net = load(installation.ROOT / "models" / "acas_coc.onnx")
    job = acas((13, 166, 91, 60, 148), (2, 6, 7, 8, 7))
    values = job.codes()
    for layer in net.layers[1:]:
        values = layer.prepare()(values)
    np.testing.assert_array_equal(1 << values[:, 0], job.sets(job.scores(job.codes())))


@pytest.mark.half_of_cases
def test_a_changed_weight_changes_the_result_as_the_formulas_say(kernel: tuple[Path, str]) -> None:
    job = acas((13, 166, 91, 60, 148), (2, 6, 7, 8, 7))
    changed = [job.with_weight(layer, place, 1) for layer, place in ((0, (0, 6)), (4, (5, 36)), (8, (16, 1)))]
    before, *after = run_jobs(*kernel, [job, *changed])
    assert all((before.regions != each.regions).any() for each in after)
    check(*kernel, changed)


def test_pairs_of_products_beyond_int16(kernel: tuple[Path, str]) -> None:
    """255 * 127 + 255 * 127 > 32767: processors that add two products in int16 would never reach the other score."""
    scores = Dense(np.array([[127, 0], [127, 0]]), np.array([0, 40_000]), np.ones(2, np.float32))
    job = Job((scores,), (0, 0), (256, 256), (32, 32), np.tile(np.arange(CODES) // 8, (2, 1)))
    hidden = Dense(np.array([[-127, 127], [-127, 127]]), np.array([64_700, -40_000]), np.full(2, 0.003, np.float32))
    deeper = replace(job, layers=(hidden, Dense(np.array([[1, 0], [0, 1]]), np.array([0, 0]), np.ones(2, np.float32))))
    codes = job.codes().astype(np.int64)
    assert (job.sets(job.scores(job.codes())) != 1 << (np.minimum(codes.sum(1) * 127, 32_767) < 40_000)).any()
    check(*kernel, [job, deeper])


@pytest.mark.half_of_cases
def test_what_is_beyond_the_limits_is_refused(kernel: tuple[Path, str]) -> None:
    job = acas((0, 0, 0, 0, 0), (2, 8, 8, 8, 9))
    cube = Dense(np.ones((8, 2)), np.zeros(2), np.ones(2))
    layer = Dense(job.layers[0].weights[:, :4], np.zeros(4), np.ones(4))
    first = replace(job, layers=(layer,), batch=(1, 1, 1, 1, 1), extent=(1, 1, 1, 1, 1))

    def other(**fields: Any) -> Job:
        return replace(first, layers=(replace(layer, **fields),))

    allowed = [
        replace(job, batch=(1, 8, 8, 8, 9)),
        other(offset=np.array([0, 0, 0, 2**31 - 170_000])),
        replace(first, comparisons=(Comparison(6, 3, 3),)),
    ]
    refused = [
        replace(job, batch=job.extent),
        Job((cube,), (0,) * 8, (256,) * 8, (256,) * 8, np.zeros((8, CODES))),
        other(offset=np.array([0, 0, 0, 2**31 - 10])),
        other(offset=np.array([0, 0, 0, -(2**31)])),
        other(weights=np.full((5, 4), 256)),
        other(multiplier=np.array([1, 1, 0, 1])),
        other(multiplier=np.array([1, 1, -1, 1])),
        other(multiplier=np.array([1, 1, np.nan, 1])),
        other(multiplier=np.array([1, 1, 1e29, 1])),
        replace(first, comparisons=(Comparison(7, 3, 3),)),
        replace(first, comparisons=(Comparison(0, 3, 4),)),
        replace(first, comparisons=(Comparison(0, 4, 3),)),
        replace(first, extent=(1, 1, 1, 1, 257)),
        replace(first, low=(0, 0, 0, 0, 256)),
        replace(first, batch=(1, 1, 1, 1, 0)),
    ]
    results = run_jobs(*kernel, [*allowed, *refused])
    assert [each.count for each in results[:3]] == [9216, 1, 1]
    assert [(each.count, each.found) for each in results[3:]] == [(0, -1)] * len(refused)


def test_lacking_memory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "none.c").write_text(
        "#include <stdlib.h>\nvoid *aligned_alloc(size_t alignment, size_t size)\n"
        "{\n    return alignment == size ? malloc(size) : NULL;\n}\n"
    )
    program = compile_engine("portable", tmp_path, str(tmp_path / "none.c"))
    [result] = run_jobs(program, "portable", [acas((0, 0, 0, 0, 0), (1, 2, 2, 2, 2))])
    assert (result.count, result.found) == (0, -1)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_threads_of_the_gpu_kernel_do_not_race(tmp_path: Path) -> None:
    """Every thread is a thread of the processor: ThreadSanitizer finds a missing barrier."""
    program = compile_engine(SIMULATED_GPU, tmp_path, "-fsanitize=thread", "-DSIMULATION_THREADS", "-g")
    check(program, SIMULATED_GPU, [random_job(np.random.default_rng(seed)) for seed in range(6)])
