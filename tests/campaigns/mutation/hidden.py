"""Programs that are wrong where no vector of a run shows it, each tried by the whole of `harness prove`.

A mutant of mutants.py is wrong for some inputs, whenever it runs. A program of hidden_programs.py is wrong only in
some state, in some mode, on some thread, at some address or for some combination of inputs. It is built in place of
the right one, and the command itself decides: nothing of the proof is left out but the questions to the reference,
whose answers do not depend on the program.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx

from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.build.bundle import Recipe
from harness.build.codegen import Program
from harness.cli.main import cli
from harness.operators import quantize_linear
from harness.plan.plan import Plan
from harness.reference import exhaustive
from tests.support import builders
from tests.support.codes import node
from tests.support.objects import kept
from tests.support.programs.board_program import Patch

VECTORS = 2000
SPREAD_VALUES = 1 << 16
"""Evenly spread inputs of QuantizeLinear between its thresholds, of which none is left out."""
RUN = "run"
"""The name of the run among what can find a program; the others are the steps of the argument."""
REFUSED = "refused"
"""The command ends with an error before it comes to a verdict."""


class Kind(enum.Enum):
    """Why the vectors of a run do not show that the program is wrong."""

    STATE = "state"
    NOT_PROBED = "the probed code is not the executed code"
    TOGETHER = "inputs that act together"
    ARGMAX = "ArgMax"
    CONCURRENCY = "concurrency"
    FLOATING_POINT = "floating-point environment"
    TABLES = "tables"
    SUMS = "orders of sums and rare operands"


@dataclass(frozen=True)
class Net:
    """A network: the widths of its layers and the options of `builders.random_network`."""

    widths: Sequence[int]
    options: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write the network as an ONNX file."""
        onnx.save_model(builders.random_network(np.random.default_rng(3), self.widths, **self.options), path)


@dataclass(frozen=True)
class Sums(Net):
    """A network of sums in a stated order and of windows: of codes, and of float32."""

    def write(self, path: Path) -> None:
        rng, [width, dense] = np.random.default_rng(3), self.widths
        numbers = {
            "sx": 0.03,
            "se": 0.02,
            "sy": 1 / 256,
            "w": rng.normal(size=self.widths),
            "b": rng.normal(size=dense),
        }
        constants = {name: np.asarray(value, np.float32) for name, value in numbers.items()}
        constants |= {"zx": np.uint8(120), "zy": np.uint8(0), "image": np.array([-1, 2, 4, 6])}
        window = {"kernel_shape": [2, 3]}
        nodes = [
            node("Reshape", "x", "image", output="images"),
            node("QuantizeLinear", "images", "sx", "zx", output="q"),
            node("MaxPool", "q", output="windows", **window),
            node("Flatten", "windows", output="largest"),
            node("QLinearAveragePool", "q", "sx", "zx", "se", "zx", output="mean_windows", **window),
            node("Flatten", "mean_windows", output="means"),
            node("QLinearSoftmax", "means", "se", "zx", "sy", "zy", output="shares", axis=-1, opset=13),
            node("Gemm", "x", "w", "b", output="dense"),
            node("Softmax", "dense", output="soft"),
        ]
        outputs = {"largest": ("uint8", 24), "shares": ("uint8", 24), "soft": ("float32", dense)}
        onnx.save_model(builders.make_model(nodes, constants, outputs, width=width), path)


NETS: Mapping[str, Net] = {
    "scores": Net((5, 12, 12, 5), {"weights": "uint8", "zero_points": True, "dequantize": True, "argmax": True}),
    "plain": Net((5, 24, 24, 22, 5), {"argmax": True}),
    "codes": Net((5, 12, 12, 5), {"per_column": True, "zero_points": True, "argmax": True}),
    "sums": Sums((48, 9), {}),
    "residual": Net((5, 10, 4), {"residual": 2, "per_column": True, "zero_points": True}),
}


@dataclass(frozen=True)
class Excluded:
    """The program is not found: the proof states an assumption, which contains `text`, that it does not have."""

    text: str


@dataclass(frozen=True)
class Wrong:
    """A wrong program, or the right one where nothing is changed.

    `patches` change its sources; `generator` changes the plan from which both the program and the tables that the
    proof expects are generated. `options` are those of `harness prove`. `found` is what must find it: the run, or one
    of the steps of the argument. `before` says whether the proof found it when the program was written.
    """

    name: str
    kind: Kind
    patches: Sequence[Patch]
    found: str | Excluded
    net: str = "scores"
    options: Sequence[str] = ("--items", "c,c")
    board: str = "host"
    generator: Callable[[Plan], Plan] | None = None
    before: bool = False


@dataclass(frozen=True)
class Outcome:
    """What the command says of a program.

    It is `found` by these: the run, steps of the argument. `text` is its reason, and `assumptions` are those of the
    proof.
    """

    code: int
    found: tuple[str, ...]
    text: str
    assumptions: tuple[str, ...] = ()

    @property
    def unnoticed(self) -> bool:
        """Whether the command calls it identical."""
        return self.code == 0

    def meets(self, wanted: str | Excluded) -> bool:
        """Whether it is found as expected, or excluded by an assumption that the proof states."""
        if isinstance(wanted, Excluded):
            return self.unnoticed and any(wanted.text in sentence for sentence in self.assumptions)
        return wanted in self.found


@dataclass(frozen=True)
class Rewritten(Patch):
    """A change of the only place that the regular expression `old` matches; `new` is a template for it."""

    def apply(self, sources: dict[str, bytes]) -> dict[str, bytes]:
        text, count = re.subn(self.old, self.new, sources[self.file].decode(), flags=re.DOTALL)
        assert count == 1, f"{self.file} has changed: {self.old!r} matches {count} places"
        return sources | {self.file: text.encode()}


def prove(wrong: Wrong, folder: Path, objects: Path) -> Outcome:
    """Try the program by `harness prove`, with everything that it writes in `folder`."""
    model = folder / "model.onnx"
    NETS[wrong.net].write(model)
    asked = ["prove", "--board", wrong.board, "--model", str(model), "--vectors", str(VECTORS), "--json"]
    arguments = ["--runs", str(folder / "runs"), *asked, "--floats", "thresholds", *wrong.options]
    own = {"HARNESS_CACHE": str(folder / "cache"), "HARNESS_LOCKS": str(folder / "locks")}
    (folder / "locks").mkdir()
    with (
        mock.patch.dict(os.environ, own),
        mock.patch.object(exhaustive, "confirm"),
        mock.patch.object(quantize_linear, "SPREAD_VALUES", SPREAD_VALUES),
        kept(objects),
        _built(wrong),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        code = cli.main(arguments, standalone_mode=False)
    assert "Traceback" not in err.getvalue(), err.getvalue()
    assert not re.search(r"(gcc|g\+\+|cc) failed|in the compilation of", f"{err.getvalue()}{out.getvalue()}"), (
        err.getvalue()
    )
    return outcome(code, json.loads(out.getvalue()) if out.getvalue() else {"reason": err.getvalue()})


def outcome(code: int, document: Mapping[str, Any]) -> Outcome:
    """What the command's document says."""
    proof = document.get("proof") or {"claims": [], "assumptions": []}
    by_run = [RUN] if any(layer["differing"] for layer in document.get("layers", [])) else []
    by_trace = ["trace"] if not (document.get("conformance") or {"conforms": True})["conforms"] else []
    steps = dict.fromkeys(claim["step"] for claim in proof["claims"] if not claim["holds"])
    refused = [REFUSED] if code not in {0, 1} else []
    found = (*by_run, *steps, *by_trace, *refused)
    return Outcome(code, found, document.get("reason", ""), tuple(proof["assumptions"]))


@contextmanager
def _built(wrong: Wrong) -> Iterator[None]:
    """Until it ends, the wrong program is built in place of the right one."""
    recipe_of = bundle.recipe_of

    def patched(program: Program, profile: Profile) -> Recipe:
        recipe = recipe_of(program, profile)
        sources = functools.reduce(lambda changed, patch: patch.apply(changed), wrong.patches, recipe.sources)
        return dataclasses.replace(recipe, sources=sources)

    generate = codegen.generate
    generator = wrong.generator or (lambda plan: plan)
    with (
        mock.patch.object(bundle, "recipe_of", patched),
        mock.patch.object(codegen, "generate", lambda plan: generate(generator(plan))),
    ):
        yield
