"""The violations that cppcheck's addon finds in a generated program, and the deviations that explain them.

The addon has the numbers of the rules only; their texts are not free.  cppcheck preprocesses for one configuration:
gcc on x86-64 without vector instructions, so that kernels/c/lanes.h is checked in its portable form.
"""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import yaml

from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.model.network import Network
from harness.model.stream import stream
from harness.plan import planner
from tests.support import codes, float_images, images, integers
from tests.support.builders import random_network
from tests.support.decide.hybrids import small
from tests.support.functions import every_definition
from tests.support.programs.board_program import parse
from tests.support.programs.c_variants import of_variant
from tests.support.programs.chains import Node, chain, quantize
from tests.support.recurrent import every_recurrence
from tests.support.streams import recurrent_stream, small_stream

CPPCHECK = shutil.which("cppcheck")
DEVIATIONS = Path(__file__).with_name("deviations.yaml")
CHECKED = ("network.c", "kernels/c/*", "kernels/program/network.h", "kernels/program/blocks.h")
"""The files whose violations count: the code of items, and what its text uses of the board program."""
OPTIONS = (
    "--addon=misra", "--std=c11", "--platform=unix64", "--enable=style", "--quiet", "-Ikernels/c", "-Ikernels/program",
    "-D__GNUC__=12", "-D__STDC_VERSION__=201112L", "-D__x86_64__", "-DTIME_SOURCE=CLOCK_MONOTONIC_RAW",
    "-DBUNDLE_HASH=0", "--template={file}:{line}:{id}",
)  # fmt: skip
FOUND = re.compile(r"(.+):(\d+):misra-c2012-(\d+\.\d+)")
LONGEST_S = 1500.0
FIRST = 4
"""Statements in a row that are checked of those that differ in their numbers only."""
CARRIED = ("LSTM", "GRU", "RNN")
"""Recurrences whose states carry over from step to step."""
NETWORKS = (
    "dense",
    "codes",
    "images",
    "floats",
    "functions",
    "definitions",
    "hybrid",
    "streams",
    "choices",
    "arithmetic",
    "recurrences",
    "selections",
    *CARRIED,
)
FUNCTIONS = ("Relu", "LeakyRelu", "HardSigmoid", "Elu", "HardSwish", "Exp", "Tanh", "Sigmoid", "Dropout")


@dataclass(frozen=True)
class Violation:
    """A rule that a line violates; `text` is the line, in a macro the line that uses it."""

    rule: str
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Deviation:
    """Accepted violations: of a rule, in files of a pattern, in lines in which the regular expression occurs."""

    rule: str
    files: str
    lines: str
    justification: str

    def covers(self, violation: Violation) -> bool:
        return (
            violation.rule == self.rule
            and fnmatch.fnmatchcase(violation.file, self.files)
            and re.search(self.lines, violation.text) is not None
        )


def deviations(path: Path = DEVIATIONS) -> list[Deviation]:
    """The accepted deviations."""
    return [
        Deviation(**{key: str(value) for key, value in entry.items()}) for entry in yaml.safe_load(path.read_text())
    ]


def network(name: str) -> Network:
    """A network with many operators; together they have every operator of target c."""
    if name == "dense":
        options = {"per_column": True, "zero_points": True, "float_output": True, "argmax": True}
        return parse(random_network(np.random.default_rng(3), (5, 8, 4), **options))
    if name == "codes":
        return codes.every_operator("uint8", 6)
    if name == "functions":
        codes_of = {"scale": np.float32(0.1), "zero_point": np.uint8(7)}
        chained = [quantize(0.1, 7, "uint8"), Node("DequantizeLinear", codes_of), *map(Node, FUNCTIONS)]
        return chain([*chained, Node("ArgMin", attributes={"axis": 1})], ("int64", 1), 6)
    networks: dict[str, Callable[[], Network]] = {
        "definitions": lambda: every_definition(6),
        "hybrid": lambda: small().network,
        "streams": lambda: stream(small_stream(), 2).network,
        "images": lambda: images.every_operator("int8"),
        "floats": float_images.every_operator,
        "recurrences": lambda: parse(every_recurrence()),
        **{operator: partial(_carried, operator) for operator in CARRIED},
        **integers.NETWORKS,
    }
    return networks[name]()


def _carried(operator: str) -> Network:
    return stream(recurrent_stream(operator), 2).network


def write(of: Network, target: str, host: Profile, folder: Path) -> None:
    """Write all sources of a program whose items have this target."""
    board = of_variant(host, target)
    program = codegen.generate(planner.make(of, board))
    for path, content in bundle.sources_of(program, board).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(_shortened(content) if path == "network.c" else content)


def _shortened(content: bytes) -> bytes:
    """The text with the first statements of unrolled functions only, and the first rows of tables: all are alike."""
    kept, alike = [], 0
    for line in content.splitlines(keepends=True):
        repeats = re.match(rb"    (out\[\d+\] = .*;|\{.*\},)$", line) is not None
        alike = alike + 1 if repeats else 0
        if alike <= FIRST:
            kept.append(line)
    return b"".join(kept)


def violations(folder: Path) -> set[Violation]:
    """All violations in network.c and what it includes."""
    done = subprocess.run(
        [str(CPPCHECK), *OPTIONS, "network.c"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    if done.returncode != 0 or "misra" not in done.stderr:
        raise RuntimeError(f"cppcheck failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    found = set()
    for line in done.stderr.splitlines():
        match = FOUND.fullmatch(line.strip())
        if match and any(fnmatch.fnmatchcase(match[1], pattern) for pattern in CHECKED):
            text = (folder / match[1]).read_text().splitlines()[int(match[2]) - 1]
            found.add(Violation(match[3], match[1], int(match[2]), text.strip(" \\")))
    return found


def unlisted(found: Iterable[Violation], listed: Sequence[Deviation]) -> list[Violation]:
    """The violations without a deviation."""
    return [one for one in found if not any(deviation.covers(one) for deviation in listed)]


def counts(found: Iterable[Violation], listed: Sequence[Deviation]) -> Mapping[Deviation, int]:
    """The number of violations of each deviation; 0 for one that no longer occurs."""
    all_found = list(found)
    return {deviation: sum(map(deviation.covers, all_found)) for deviation in listed}
