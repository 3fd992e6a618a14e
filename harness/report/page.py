"""Templates and filters that all pages share, and the commands that check a page."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from jinja2 import ChainableUndefined, Environment, PackageLoader

from harness.core.strict_json import number
from harness.operators.counters import percent
from harness.runs.facts import place, value_text

NOT_RECORDED = "not recorded"

CHECK_FILES = """\
import json
for path, sha256 in json.load(open("run.json"))["files"].items():
    print(f"{sha256}  {path}")
"""


@dataclass(frozen=True)
class Check:
    """A command that checks one property, and a description of the property."""

    shows: str
    command: str


@functools.cache
def environment() -> Environment:
    """Return the templates, which escape every text; values that a document lacks are undefined."""
    found = Environment(
        loader=PackageLoader("harness.report"),
        autoescape=True,
        undefined=ChainableUndefined,  # optional parts of the document end up in `recorded`
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"count": "{:,}".format, "recorded": _recorded, "place": place, "value": value_text}
    found.filters |= {
        "percent": percent,
        "single": _single,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    return found


def _recorded(value: Any) -> Any:
    """Return the value, or a text if it is missing: a gap in the evidence must be visible."""
    return NOT_RECORDED if value is None or not str(value) else value


def _single(value: float | str) -> str:
    """Return a float32 in the digits that identify it."""
    return str(np.float32(number(value)))


def inputs(model_input: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return (index, name, unit, lowest, highest) of every input of the network; missing values are None."""
    texts = (model_input.get(key, []) for key in ("names", "units"))
    bounds = ([str(np.float32(bound)) for bound in model_input.get(key, [])] for key in ("box_low", "box_high"))
    return [(index, *row) for index, row in enumerate(zip_longest(*texts, *bounds))]


def origin_checks(run: Mapping[str, Any]) -> list[Check]:
    """Return the commands that repeat the run and check its files; the later ones need the run's folder."""
    files = sha256sum(("model.onnx", run["model"].get("sha256")), ("stimuli.npy", run["stimuli"].get("sha256")))
    return [
        Check("Repeat the run.", shlex.join(run["command"])),
        *([Check("The model and the vectors are those of this report.", files)] if files else []),
        Check("No file of the run's folder was changed since.", f"{python(CHECK_FILES)} | sha256sum --check --quiet"),
    ]


def sha256sum(*files: tuple[str, str | None]) -> str:
    """Return a command that checks files, (name, hash) each; empty if no hash is known."""
    lines = [f"{sha256}  {name}" for name, sha256 in files if sha256]
    return f"printf '%s\\n' {shlex.join(lines)} | sha256sum --check" if lines else ""


def python(script: str) -> str:
    """Return a command that runs a script."""
    return f"python3 -c {shlex.quote(script.strip())}"
