"""The page of one run: one file, nothing loaded from elsewhere, readable without scripts and on paper."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from jinja2 import ChainableUndefined, Environment, PackageLoader

from harness.coverage import percent
from harness.report.argument import parts
from harness.report.drawing import draw
from harness.report.facts import clean, gather, place, value_text
from harness.report.pictures import Picture
from harness.report.pictures import draw as draw_differences
from harness.report.swimlanes import Swimlanes
from harness.report.swimlanes import draw as draw_swimlanes

NOT_RECORDED = "not recorded"
SHOWN_PICTURES = 3  # the others are folded away

# With `python3 -c`.  A run keeps either all dumps of the board, or only those that differ; hashes of all of them.
_COUNT_DIFFERING = """\
import numpy, pathlib
for target in sorted(pathlib.Path("target").rglob("*.npy")):
    a, b = numpy.load(pathlib.Path("reference", *target.parts[1:])), numpy.load(target)
    bits = f"u{a.itemsize}"
    print(target, (a.view(bits) != b.view(bits)).sum(), "of", a.size, "differ")
"""
_COMPARE_HASHES = """\
import json, pathlib
for path in sorted(pathlib.Path("chunks").glob("*.json")):
    chunk = json.loads(path.read_text())
    pairs = zip(chunk["reference_sha256"], chunk["target_sha256"])
    print(path, "differing layers:", [index for index, (a, b) in enumerate(pairs) if a != b])
"""
_CHECK_FILES = """\
import json
for path, sha256 in json.load(open("run.json"))["files"].items():
    print(f"{sha256}  {path}")
"""


@dataclass(frozen=True)
class Check:
    """A command by which a reader confirms one thing, and what it shows."""

    shows: str
    command: str


def html(run: Mapping[str, Any]) -> str:
    """The page of a run document; ValueError if its verdict contradicts its layers, or they its plan."""
    run = clean(run)
    page = _environment().get_template("run.html.jinja")
    return page.render(
        run=run,
        facts=gather(run),
        drawing=draw(run["plan"], run["layers"]),
        pictures=_pictures(run),
        shown_pictures=SHOWN_PICTURES,
        inputs=_inputs(run["model"].get("input", {})),
        checks=_checks(run),
        proof=parts(run.get("proof")),
        swimlanes=_swimlanes(run.get("conformance")),
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report"),
        autoescape=True,
        undefined=ChainableUndefined,  # optional parts of the document end up in `recorded`
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": "{:,}".format, "recorded": _recorded, "place": place, "value": value_text}
    environment.filters |= {
        "percent": percent,
        "single": _single,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    return environment


def _recorded(value: Any) -> Any:
    """What the document says, or that it says nothing: a gap in the evidence must be seen."""
    return NOT_RECORDED if value is None or not str(value) else value


def _pictures(run: Mapping[str, Any]) -> list[Picture]:
    """Of every layer that differs, those that are wrong themselves first."""
    own = {layer["name"]: layer["own"] for layer in run["layers"]}
    return [draw_differences(found) for found in sorted(run["pictures"], key=lambda found: not own[found["layer"]])]


def _swimlanes(observed: Mapping[str, Any] | None) -> Swimlanes | None:
    """One execution as it was traced; None if none was, or its trace has gaps."""
    return draw_swimlanes(observed["picture"]) if observed and observed["picture"] else None


def _single(value: float) -> str:
    """A float32 in as many digits as tell it apart."""
    return str(np.float32(value))


def _inputs(model_input: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """(index, name, unit, lowest, highest) of every input of the network; what is missing is None."""
    texts = (model_input.get(key, []) for key in ("names", "units"))
    bounds = ([str(np.float32(bound)) for bound in model_input.get(key, [])] for key in ("box_low", "box_high"))
    return [(index, *row) for index, row in enumerate(zip_longest(*texts, *bounds))]


def _checks(run: Mapping[str, Any]) -> list[Check]:
    """From repeating the run to recounting its result; the later ones belong into the run's folder."""
    files = _sha256sum(("model.onnx", run["model"].get("sha256")), ("stimuli.npy", run["stimuli"].get("sha256")))
    return [
        Check("Repeat the run.", shlex.join(run["command"])),
        *([Check("The model and the vectors are those of this report.", files)] if files else []),
        Check("No file of the run's folder was changed since.", f"{_python(_CHECK_FILES)} | sha256sum --check --quiet"),
        Check("For every chunk, the layers whose dumps differ by their SHA-256.", _python(_COMPARE_HASHES)),
        Check("Recount the differing activations in the dumps that are kept here.", _python(_COUNT_DIFFERING)),
        *_first_input(run),
    ]


def _first_input(run: Mapping[str, Any]) -> list[Check]:
    first = next((layer["first_difference"] for layer in run["layers"] if layer["first_difference"]), None)
    if first is None:
        return []
    script = f'import numpy; print(numpy.load("stimuli.npy")[{int(first["vector"])}])'
    return [Check("The input that shows the first difference.", _python(script))]


def _sha256sum(*files: tuple[str, str | None]) -> str:
    lines = [f"{sha256}  {name}" for name, sha256 in files if sha256]
    return f"printf '%s\\n' {shlex.join(lines)} | sha256sum --check" if lines else ""


def _python(script: str) -> str:
    return f"python3 -c {shlex.quote(script.strip())}"
