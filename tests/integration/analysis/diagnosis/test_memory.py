"""Wrong programs with a cache, a counter, shared scratch memory, equal neighbours or reciprocals, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.diagnosis import Diagnosis, cases, diagnose, memory
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.plan import planner
from harness.reference.stimuli import stimuli
from tests.campaigns.mutation.hidden import Rewritten
from tests.campaigns.mutation.hidden_programs import ENDS, NETWORK, SUMS, declared, first, in_place_of, last
from tests.support.diagnosis.layers import case, causes, codes, found, network, qgemm, quantize
from tests.support.programs.board_program import Patch, build_patched, references, uniform_vectors, with_flags

NET = network((5, 12, 12, 5), 3, weights="uint8", zero_points=True, dequantize=True, argmax=True)
VECTORS = stimuli(NET, 10_000, 1).chunk(0, 10_000)
RIGHT = references(NET, VECTORS)
SPLIT = ["layer_1=prepost+network"]


def cache(key: str) -> list[Patch]:
    """Return patches that give the sums of layer_1 from a cache of 64 entries, whatever is not in the key."""
    there = "cache[key % 64].full && cache[key % 64].key == key"
    return [
        declared("static struct { uint32_t full, key; int32_t sums[12]; } cache[64];"),
        first(
            SUMS,
            f"{key}\n    if ({there}) {{\n        memcpy(out, cache[key % 64].sums, sizeof cache->sums);\n"
            "        return;\n    }",
        ),
        last(
            SUMS,
            "cache[key % 64].full = 1;\n    cache[key % 64].key = key;\n"
            "    memcpy(cache[key % 64].sums, out, sizeof cache->sums);",
        ),
    ]


def counter(kind: str, condition: str) -> list[Patch]:
    """Return a patch that spoils a sum where the number of the vector, of this type, meets the condition."""
    return [last(SUMS, f"static {kind} calls;\n    ++calls;\n    if ({condition})\n        out[0] += 5000;")]


WAIT = """#include <sched.h>
#include <stdatomic.h>
static int32_t acc[6];
static atomic_size_t summed, finished;
static void wait_until(atomic_size_t *done, size_t count)
{
    while (atomic_load(done) < count)
        sched_yield();
}
"""
# Item prepost finishes its columns when item network has put the sums of its own into the same array.
ONE_ARRAY_OF_TWO_ITEMS = [
    declared(WAIT),
    Patch(NETWORK, "        int32_t acc[6];\n", ""),
    in_place_of(
        "        layer_1_0_finish(acc,",
        "        atomic_fetch_add(&summed, 1);\n        wait_until(&finished, atomic_load(&summed));\n"
        "        layer_1_0_finish(acc,",
    ),
    Rewritten(
        NETWORK,
        r"(        layer_1_1_accumulate\([^;]*;\n)",
        r"        wait_until(&summed, atomic_load(&finished) + 1);\n\g<1>",
    ),
    in_place_of(
        "layer_1_1_finish(acc, layer_1_1_output[v]);",
        "layer_1_1_finish(acc, layer_1_1_output[v]);\n        atomic_fetch_add(&finished, 1);",
    ),
]
ONE_ARRAY_OF_FOUR_VECTORS = [
    in_place_of(
        "        int32_t acc[12];\n        layer_1_accumulate(layer_0_output[v], acc);\n"
        "        layer_1_finish(acc, layer_1_output[v]);",
        "        (void)v;\n    }\n    static int32_t acc[4][12];\n    for (size_t v = 0; v < vectors; ++v)\n"
        "        layer_1_accumulate(layer_0_output[v], acc[v % 4]);\n    for (size_t v = 0; v < vectors; ++v) {\n"
        "        layer_1_finish(acc[v % 4], layer_1_output[v]);",
    )
]
NOT_WRITTEN_ANEW = [
    in_place_of(
        "        int32_t acc[12];\n        layer_1_accumulate",
        "        static int32_t acc[12];\n        if (v % 7 != 6 && v % 5 != 2)\n            layer_1_accumulate",
    )
]
RECIPROCAL = [
    last(
        "quantize_compute",
        "float v = in[2] * (1 / quantize_scale[0]);\n    v = v > -169 ? v : -169;\n    v = v < 86 ? v : 86;\n"
        "    out[2] = (uint8_t)((int32_t)rintf(v) + 169);",
    )
]
HASH = """uint32_t key = 1;
    for (size_t k = 0; k < 12; ++k)
        key = key * 16777619u ^ in[k];
    key &= 0xfff;"""
NEIGHBOURS = """for (size_t k = 0; k + 1 < 12; ++k)
        if (in[k] == in[k + 1]) {{
            {};
            break;
        }}"""
PROGRAMS: dict[str, tuple[Sequence[Patch], Sequence[str], str, str]] = {
    "cache keyed by two inputs": (cache("const uint32_t key = in[0] | in[1] << 8;"), (), "layer_1", memory.CACHE),
    "cache keyed by a hash of 12 bits": (cache(HASH), (), "layer_1", memory.CACHE),
    "uint8 counter": (counter("uint8_t", "calls == 0"), (), "layer_1", memory.AGAIN_AND_AGAIN),
    "int8 counter": (counter("int8_t", "calls < 0"), (), "layer_1", memory.AGAIN_AND_AGAIN),
    "every 1,000th": (counter("uint32_t", "calls % 1000 == 0"), (), "layer_1", memory.AGAIN_AND_AGAIN),
    "limit of 5,000": (counter("uint16_t", "calls > 5000"), (), "layer_1", memory.FROM_THEN_ON),
    "equal inputs of a sum": (
        [last(SUMS, NEIGHBOURS.format("out[4] += 9000"))], (), "layer_1", memory.EQUAL.format("inputs"),
    ),
    "equal sums": (
        [last(ENDS, NEIGHBOURS.format("out[k] ^= 1"))], (), "layer_1", memory.EQUAL.format("accumulators"),
    ),
    "equal scores": (
        [last("dequantize_compute", "if (in[1] == in[2])\n        out[2] += 1;")], (), "dequantize",
        memory.EQUAL.format("inputs"),
    ),
    "scratch that is not written anew": (NOT_WRITTEN_ANEW, (), "layer_1", memory.BEFORE),
    "scratch of four vectors": (ONE_ARRAY_OF_FOUR_VECTORS, (), "layer_1", memory.OTHER_VECTOR),
    "scratch of two items": (ONE_ARRAY_OF_TWO_ITEMS, SPLIT, "layer_1", memory.OTHER_ITEM),
    "reciprocal in one column": (
        RECIPROCAL, (), "quantize", "multiplication by 1 / scale instead of division, in some columns only",
    ),
}  # fmt: skip


def diagnoses(
    patches: Sequence[Patch], split: Sequence[str], host: Profile, objects: Path, to: Path
) -> list[Diagnosis]:
    """Return what is said of each layer that the program gets wrong itself."""
    board = with_flags(host, "-O1", "-march=native")
    plan = planner.make(NET, board, split=split, block=1000)
    program = build_patched(plan, board, to / "program", patches, objects=objects)
    dumps = dict(enumerate(program.activations(VECTORS, to / "out", "--block", 1000)))
    starts = [tuple(task.start for task in plan.tasks_of(index)) for index in range(len(RIGHT))]
    return [diagnose(each) for each in cases(NET, VECTORS, RIGHT, dumps, 0, 1000, starts) if each.own]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_mistake_of_a_program_is_named_alone(name: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    patches, split, layer, cause = PROGRAMS[name]
    [diagnosis] = diagnoses(patches, split, host, objects, tmp_path)
    assert NET.layers[diagnosis.layer].name == layer
    assert causes(diagnosis) == [cause]


# What the right values, or chance, speak against.

LAYER = qgemm(network((7, 10)))
INPUTS = codes(LAYER, 3000)
OUTPUTS = LAYER.prepare()(INPUTS)
NAMES = {getattr(memory, name) for name in ("CACHE", "BEFORE", "OTHER_VECTOR", "FROM_THEN_ON", "AGAIN_AND_AGAIN")}
NAMES |= {memory.EQUAL.format(what) for what in ("inputs", "accumulators")} | {memory.OTHER_ITEM}


def named(actual: Array, block: int = 100) -> set[str]:
    return NAMES.intersection(causes(found(LAYER, INPUTS, actual, block=block)))


def test_nothing_of_the_kind_is_said_of_noise() -> None:
    actual = OUTPUTS.copy()
    rows = np.random.default_rng(1).choice(3000, 200, replace=False)
    actual[rows] = np.random.default_rng(2).integers(0, 256, (200, 10))
    assert named(actual) == set()


def test_a_cache_is_not_named_for_a_value_that_no_vector_has() -> None:
    actual = OUTPUTS.copy()
    rows = np.arange(1000, 3000, 50)
    actual[rows] = OUTPUTS[rows % 997]
    assert named(actual) == {memory.CACHE}
    actual[1500, 3] ^= 1
    assert named(actual) == set()


def test_the_result_of_a_later_vector_is_in_no_cache() -> None:
    actual = OUTPUTS.copy()
    rows = np.sort(np.random.default_rng(5).choice(2950, 60, replace=False))
    rows = rows[rows % 100 < 60]
    actual[rows] = OUTPUTS[rows + 1 + rows % 37]  # of the same block of 100
    assert named(actual) == {memory.OTHER_VECTOR}
    assert named(actual, block=10) == set(), "of other blocks"


def test_a_choice_of_five_says_little_of_other_vectors() -> None:
    """Each wrong answer is the right one of some vector before."""
    layer = NET.layers[-1]
    values = np.random.default_rng(3).normal(0, 1, (3000, 5)).astype(np.float32)
    actual = layer.prepare()(values)
    rows = np.random.default_rng(4).choice(3000, 60, replace=False)
    actual[rows] = (actual[rows] + 1) % 5
    assert NAMES.isdisjoint(causes(found(layer, values, actual, block=100)))


def test_a_counter_is_not_named_where_right_vectors_contradict() -> None:
    actual = OUTPUTS.copy()
    actual[1000:] = OUTPUTS[1000:] ^ 0x40
    assert named(actual) == {memory.FROM_THEN_ON}
    actual[1500:2500] = OUTPUTS[1500:2500]
    assert named(actual) == set()


def test_a_period_is_not_named_where_right_vectors_contradict() -> None:
    actual = OUTPUTS.copy()
    actual[127::128] ^= 0x40
    assert named(actual) == {memory.AGAIN_AND_AGAIN}
    actual[127::256] = OUTPUTS[127::256]
    assert named(actual) == {memory.AGAIN_AND_AGAIN}, "of 256"
    actual[:1500] = OUTPUTS[:1500]
    assert named(actual) == set()


def test_equal_neighbours_are_not_named_where_a_right_value_has_them() -> None:
    equal = INPUTS[:, 2] == INPUTS[:, 3]
    assert equal.sum() > 5
    actual = OUTPUTS.copy()
    actual[equal, 4] = np.where(OUTPUTS[equal, 4] > 128, 3, 250)
    assert named(actual) == {memory.EQUAL.format("inputs")}
    inside = np.flatnonzero(equal & (OUTPUTS[:, 4] > 0) & (OUTPUTS[:, 4] < 255))[0]
    actual[inside, 4] = OUTPUTS[inside, 4]
    assert named(actual) == set()


def test_sums_of_other_columns_are_named_for_items_that_have_them_alone() -> None:
    acc = LAYER.accumulate()(INPUTS)
    taken = acc.copy()
    taken[::3, :5] = acc[::3, 5:]
    actual = LAYER.finish()(taken)
    of_two_items = diagnose(case(LAYER, INPUTS, actual, block=100, starts=(0, 5)))
    assert memory.OTHER_ITEM in causes(of_two_items)
    for starts in ((0,), (0, 4)):
        assert memory.OTHER_ITEM not in causes(diagnose(case(LAYER, INPUTS, actual, block=100, starts=starts)))


def test_a_mistake_in_some_columns_is_named_so_and_one_in_all_columns_is_not() -> None:
    layer = quantize(network((7, 10)))
    values = uniform_vectors(network((7, 10)), 20_000, 5)
    right = layer.prepare()(values)
    up = "rounding is up (ceil)"
    wrong = np.clip(np.ceil(values / layer.scale) + layer.zero_point, 0, 255).astype(np.uint8)
    some = right.copy()
    some[:, [1, 4]] = wrong[:, [1, 4]]
    assert causes(found(layer, values, wrong)) == [up]
    assert causes(found(layer, values, some)) == [f"{up}, in some columns only"]
    some[7, 1] = right[7, 1]
    assert causes(found(layer, values, some)) == []
