"""Search for data races between items, with ThreadSanitizer.

The sources of the deployed program are compiled once more, for this machine and with `-fsanitize=thread`, and run.
ThreadSanitizer reports two accesses to one object, at least one of them a write, that no barrier, flag or thread
start orders.  It does not depend on which item is faster, so a race that delays hide is reported, too.  The simulator
of a GPU's driver, which is no part of that build, reports launches that share memory and that no event orders.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.analysis.proof.claims import Note, Question, Side
from harness.boards.profile import Profile, Toolchain
from harness.build import bundle
from harness.build.bundle import PROGRAM
from harness.build.codegen import Program
from harness.core.errors import ToolError
from harness.execution import dumps
from harness.execution import program as board_program
from harness.operators.obligations import ProofStep
from harness.plan.plan import Plan
from harness.reference.stimuli import stimuli
from harness.targets import STAND_INS
from harness.targets.toolchain import Compiler

VECTORS = 512
"""Ticks of each run; a tick takes about 0.1 ms."""
BLOCKS = (1, 7)
RANDOM_DELAY_US = 50
DATA_RACE = 66
"""Exit status of a program in which ThreadSanitizer has found a race."""
FLAGS = ("-O1", "-g", "-fsanitize=thread")
_UNORDERED = re.compile(r"^[^:\n]+: (.+, and neither an event nor a wait orders the two)$", re.MULTILINE)
"""The message of a simulated driver about the launches of two streams."""
_SUMMARY = re.compile(r"^SUMMARY: ThreadSanitizer: (.+)$", re.MULTILINE)
_LINE = re.compile(r"\S*/((?:kernels/|network\.c)\S*)")


@dataclass(frozen=True)
class _SanitizingCompiler(Compiler):
    """Instrument the program, not the libraries that simulate accelerators: their fibres confuse ThreadSanitizer."""

    def build(
        self,
        folder: Path,
        sources: Sequence[Path],
        include: Sequence[Path],
        definitions: Sequence[str],
        output: Path,
        more_flags: Sequence[str] = (),
    ) -> None:
        """Compile and link as `Compiler.build` does, with FLAGS if the output is the program or one of its objects."""
        is_instrumented = output.name == PROGRAM or output.suffix == ".o"
        flags = (*more_flags, *FLAGS) if is_instrumented else more_flags
        super().build(folder, sources, include, definitions, output, flags)


def question(generated: Program, program: tuple[Profile, Path] | None) -> Question:
    """Ask whether two items access one object without synchronisation.

    `program` is the board's profile and the folder of the bundle with its sources; without it the claim is assumed to
    hold, as there is nothing to run.
    """
    blocks = " and ".join(map(str, _blocks(generated.plan)))
    return Question(
        ProofStep.COMPOSITION,
        Side.SANITIZER,
        None,
        "no two items access the same object without a barrier or flag between them",
        f"the program's sources, compiled for this machine with {' '.join(FLAGS)}, run {VECTORS:,} vectors in blocks "
        f"of {blocks} with random delays up to {RANDOM_DELAY_US} µs; ThreadSanitizer "
        "reports unordered accesses whichever item is faster",
        VECTORS * len(_blocks(generated.plan)),
        complete=False,
        answer=lambda note: find_race(generated, *program, note) if program else "",
    )


def find_race(generated: Program, profile: Profile, sources: Path, note: Note) -> str:
    """Return ThreadSanitizer's summary of the first race, or nothing without a race.

    `sources` is a bundle's folder.  Raises ToolError if the build or the run fails for another reason.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _build(generated, profile, sources, folder)
        vectors = folder / "vectors.npy"
        dumps.write(vectors, stimuli(generated.plan.network, VECTORS, 1).chunk(0, VECTORS))
        for block in _blocks(generated.plan):
            race = _run(folder, vectors, block, profile.timeout_s)
            if race:
                return race
        note("no race")
    return ""


def _blocks(plan: Plan) -> list[int]:
    return sorted({min(block, plan.block) for block in BLOCKS})


def _build(generated: Program, profile: Profile, sources: Path, folder: Path) -> None:
    """Compile the bundle's sources for this machine; accelerators are simulated."""
    here = profile.model_copy(
        update={
            "toolchain": Toolchain(compiler="gcc"),
            "local": True,
            "address": None,
            "emulator": None,
            "stand_ins": True,
        }
    )
    recipe = bundle.recipe_of(generated, here)
    given = {path: (sources / path).read_bytes() for path in recipe.sources if (sources / path).is_file()}
    found = recipe.compiler
    compiler = _SanitizingCompiler(found.command, found.identity, found.flags)
    recipe = dataclasses.replace(recipe, compiler=compiler, sources=recipe.sources | given)
    recipe.write(folder)
    recipe.compile(folder, "thread-sanitizer")


def _run(folder: Path, vectors: Path, block: int, timeout_s: float) -> str:
    """Return the summary of the first race of one run."""
    out = folder / f"out{block}"
    out.mkdir()
    program = board_program.start_command(PurePosixPath(folder), stand_ins=(folder / STAND_INS).exists())
    options = ["--vectors", vectors, "--out", out, "--block", block, "--random-delay", f"{RANDOM_DELAY_US}:{block}"]
    # Older versions of ThreadSanitizer refuse the address randomisation of newer kernels.
    fixed = ("setarch", "-R") if shutil.which("setarch") else ()
    environment = os.environ | {"TSAN_OPTIONS": f"halt_on_error=1 exitcode={DATA_RACE}"}
    try:
        done = subprocess.run(
            [*fixed, *program, *map(str, options)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"the ThreadSanitizer build of {PROGRAM} did not end within {timeout_s:g} s and was stopped",
            "raise timeout_s in the board's profile",
        ) from error
    unordered = _UNORDERED.search(done.stderr)
    if unordered:
        return unordered[1]
    summary = _SUMMARY.search(done.stderr)
    if done.returncode == DATA_RACE and summary:
        return _LINE.sub(r"\1", summary[1])
    if done.returncode != 0:
        raise ToolError(
            f"the ThreadSanitizer build of {PROGRAM} failed (exit status {done.returncode}): {done.stderr[-500:]}",
            "this machine must be able to run programs of gcc -fsanitize=thread",
        )
    return ""
