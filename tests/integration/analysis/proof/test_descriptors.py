"""Descriptors name the functions of the plan, and init computes the same tables in every mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import Profile
from harness.plan import planner
from tests.integration.analysis.proof.test_structure import (
    CHAIN,
    asked,
    board_with,
    build,
    counterexamples,
    in_campaign,
)
from tests.support.programs.board_program import Patch

TASKS, ITEMS, STAGES = (f"static const struct {name} {name}s[] = {{" for name in ("task", "item", "stage"))
LAYER_0 = '{"layer_0", 6, 1, layer_0_output, 1, 0, 1, layer_0_forward}'
ITEM = "network_init, network_close, NULL, NULL, NULL, network_steps"
INIT = "\n}\n\nstatic void network_close(void)"
OFFSET = "layer_0_offset[3] += 1;"
STAGE = "layer_0_accumulate_stage}"
RARELY = "in[0] == 250 && in[1] == 3 && in[2] == 249 && in[3] == 7 && in[4] == 77"
MENDING = f"""static void mended(size_t vectors, const void *inputs, void *outputs)
{{
    layer_0_accumulate_stage(vectors, inputs, outputs);
    for (size_t v = 0; v < vectors; ++v) {{
        const uint8_t *in = (const uint8_t *)inputs + 5 * v;
        if ({RARELY})
            ((int32_t *)outputs)[6 * v] -= 1000;
    }}
}}"""


def before(place: str, text: str) -> Patch:
    return Patch("network.c", place, f"{text}\n{place}")


def task(condition: str, header: str) -> tuple[Patch, ...]:
    """A task that names a forward which leaves the layer out under a condition."""
    skipping = (
        f"#include <{header}>\nstatic void layer_0_skipping(size_t vectors, uint64_t execution)\n"
        f"{{\n    if (!({condition}))\n        layer_0_forward(vectors, execution);\n}}"
    )
    return before(TASKS, skipping), Patch("network.c", LAYER_0, LAYER_0.replace("forward", "skipping"))


def init(statement: str, declarations: str = "") -> tuple[Patch, ...]:
    """An init with one more statement, behind what it does."""
    return before(TASKS, declarations), Patch("network.c", INIT, f"\n    {statement}{INIT}")


def item(old: str, name: str, function: str) -> tuple[Patch, ...]:
    """A descriptor of the item that names a function in the place of another, or of none."""
    return before(ITEMS, function), Patch("network.c", ITEM, ITEM.replace(old, name, 1))


FINISH = "static void mend(size_t vectors)\n{\n    ((uint8_t *)network.tasks[1].buffer)[0] ^= vectors == 7;\n}"
CHANGED = "((uint8_t *)network.tasks[1].buffer)[0] ^= network.tasks[0].width == 77;"
DESCRIPTORS = {
    "a task that looks at bits of a clock": (
        "is layer_0_skipping, the plan says",
        task("(clock() & 0xfffff) == 77", "time.h"),
    ),
    "a task that looks at the date": ("is layer_0_skipping, the plan says", task("time(NULL) > 4000000000", "time.h")),
    "a task that looks at the environment": (
        "is layer_0_skipping, the plan says",
        task('getenv("IN_SERVICE")', "stdlib.h"),
    ),
    "an item that changes outputs when an execution ends": (
        "is mend, the plan says NULL",
        item("NULL, NULL, NULL", "mend, NULL, NULL", FINISH),
    ),
    "an item with another init": (
        "is prepare, the plan says network_init",
        item(
            "network_init",
            "prepare",
            "static void prepare(const struct options *options)\n{\n    network_init(options);\n}",
        ),
    ),
    "an item with a device of its own": (
        "is named, the plan says NULL",
        item("NULL, network", "named, network", 'static const char *named(void)\n{\n    return "";\n}'),
    ),
    "a stage whose wrapper mends what it did wrong": (
        "is mended, the plan says layer_0_accumulate_stage",
        (before(STAGES, MENDING), Patch("network.c", STAGE, "mended}")),
    ),
    "a launch that is asked of another task": (
        "word 0 of launch_1_tasks is 0, the plan says 1",
        (Patch("network.c", "launch_1_tasks[] = {{1, 1}}", "launch_1_tasks[] = {{0, 1}}"),),
    ),
    "a launch with another source": (
        "word 0 of launch_1_sources is 99, the plan says 0",
        (Patch("network.c", "launch_1_sources[] = {0}", "launch_1_sources[] = {99}"),),
    ),
    "a stage that belongs to another layer": (
        "the plan says",
        (Patch("network.c", '{"layer_0_finish", 1, "<i4"', '{"layer_1_finish", 1, "<i4"'),),
    ),
    "a table that is not the one of the code": (
        "is layer_1_multiplier, the plan says layer_0_multiplier",
        (Patch("network.c", ", 4, layer_0_multiplier}", ", 4, layer_1_multiplier}"),),
    ),
    "a step of another kind": (
        "is 3, the plan says STEP_TASK",
        (Patch("network.c", "{STEP_TASK, 1}", "{STEP_MEET, 1}"),),
    ),
    "a function that a constant names": (
        "kept holds the address of layer_0_forward",
        (
            before(
                TASKS,
                "void (*const kept)(size_t, size_t);\n"
                "void (*const kept)(size_t, size_t) __attribute__((used)) = layer_0_forward;",
            ),
        ),
    ),
    "a function in the place of a library's": (
        "sched_yield of the program takes the place of a library's function",
        (before(TASKS, f"int sched_yield(void);\nint sched_yield(void)\n{{\n    {CHANGED}\n    return 0;\n}}"),),
    ),
}
OPTIONS = '#include "options.h"'
INIT_OF_MODES = {
    "an init that looks at the date": (
        "network_init calls time",
        init(f"if (time(NULL) > 4000000000) {OFFSET}", "#include <time.h>"),
    ),
    "an init that looks at the environment": (
        "network_init calls getenv",
        init(f'if (getenv("IN_SERVICE")) {OFFSET}', "#include <stdlib.h>"),
    ),
    "an init that looks at --fifo": ("its argument 1", init(f"if (options->fifo) {OFFSET}", OPTIONS)),
    "an init that looks at --repeat": ("its argument 1", init(f"if (options->repeat > 1) {OFFSET}", OPTIONS)),
    "an init that looks at --warmup": (
        "its argument 1",
        init(f"layer_0_offset[3] += options->warmup != 0; {OFFSET}", OPTIONS),
    ),
    "an init that looks at the name of the program": (
        "program_invocation_name",
        init(f"if (program_invocation_name[0] == 'i') {OFFSET}", "extern char *program_invocation_name;"),
    ),
    "an init that looks at the place of a table": (
        "network_init uses layer_0_offset",
        init(f"if ((uintptr_t)layer_0_offset & 4096) {OFFSET}"),
    ),
    "an init that looks at the time stamp counter": ("rdtsc", init(f"if (__builtin_ia32_rdtsc() & 1) {OFFSET}")),
    "an init with a helper that looks at the date": (
        "network_init calls time",
        init(f"if (date()) {OFFSET}", "#include <time.h>\nstatic ONE_CODE int date(void)\n{\n    return !time(0);\n}"),
    ),
    "an init that computes another layer's buffer": (
        "network_init writes layer_0_output",
        init("layer_0_output[15][5] = 1;"),
    ),
    "a close that calls a library": (
        "network_close calls time",
        (
            Patch(
                "network.c",
                CLOSE := "static void network_close(void)\n{\n",
                f"#include <time.h>\n{CLOSE}    if (time(NULL) > 4000000000)\n        {CHANGED}\n",
            ),
        ),
    ),
}
WRONG = DESCRIPTORS | INIT_OF_MODES
IN_TEST = {
    "a task that looks at bits of a clock",
    "a stage whose wrapper mends what it did wrong",
    "a function that a constant names",
    "a function in the place of a library's",
    "an init that looks at --repeat",
    "an init with a helper that looks at the date",
    "an init that looks at the name of the program",
    "a close that calls a library",
}
"""One of each kind."""


@pytest.mark.parametrize(
    ("name", "toolchain"),
    [
        (name, on) if name in IN_TEST and on == "gcc" else in_campaign(name, on)
        for name, (said, _) in WRONG.items()
        for on in ("gcc", "clang", "gcc at a fixed place", "gcc for Arm")
        if said != "rdtsc" or on != "gcc for Arm"
    ],
)
def test_a_wrong_descriptor_or_init_is_found(
    host: Profile, name: str, toolchain: str, tmp_path: Path, objects: Path
) -> None:
    said, patches = WRONG[name]
    board = board_with(host, toolchain)
    plan = planner.make(CHAIN, board, block=16)
    claims = asked(plan, build(plan, board, tmp_path / "bundle", objects, patches))
    assert any(said in claim.counterexample for claim in claims if not claim.holds)


@pytest.mark.parametrize("device", ["cuda:layerwise", in_campaign("vitis")])
def test_a_launch_that_names_another_kernel_is_found(host: Profile, device: str, tmp_path: Path, objects: Path) -> None:
    plan = planner.make(CHAIN, host, ("c", device), block=16)
    old, new = {
        "cuda:layerwise": ('{"layer_0_forward", 6', '{"layer_1_forward", 6'),
        "vitis": ('.kernel = "', '.kernel = "other_'),
    }[device]
    program = build(plan, host, tmp_path / "bundle", objects, [Patch("network.c", old, new)])
    assert any("the name of kernel 0 in" in said for said in counterexamples(plan, program))
