"""Reader of a run folder: the facts of `run.json`, or of the failure of the run, for a line in a table.

The program that wrote the folder may have been killed, and names come from untrusted files.  Invalid content gives an
unreadable record with the reason, never an exception.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.core.document import Content
from harness.core.errors import HarnessError
from harness.core.outcome import PARTS, Outcome
from harness.core.safe_io import read_document
from harness.core.strict_json import number
from harness.core.text import plural
from harness.runs import DOCUMENT, REQUEST
from harness.runs.entries import AnyDocument, PartEntry
from harness.runs.folder import RunFolder, content_sha256, differs_so_far
from harness.runs.history.run_record import Part, Run, State
from harness.runs.measurement.headline import numbers
from harness.targets import HARDWARE

LONGEST = 2000  # characters of a stored text
HIGH = {0.99: "p99", 0.999: "p999", 0.9999: "p9999"}
DAMAGES = (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, HarnessError)


def read(folder: Path) -> Run:
    """Return the record of a run folder, finished or not."""
    try:
        if os.path.lexists(folder / DOCUMENT):
            return _finished(folder, load(folder))
        return _unfinished(folder)
    except DAMAGES as error:
        reason = f"{type(error).__name__}: {error}"
        return Run(_plain(folder.name), State.UNREADABLE, State.UNREADABLE.value, _plain(reason))


def _finished(folder: Path, document: AnyDocument) -> Run:
    """Return the record; ValueError if its document contradicts its files, as far as a quick check can find."""
    found = digest(folder.name, document)
    if found.content_sha256 and found.content_sha256 != content_sha256(document.files):
        raise ValueError("its content_sha256 is not that of its files")
    if Outcome(found.verdict).sound and differs_so_far(folder):
        raise ValueError(f"its verdict is {found.verdict}, but a chunk, a proof or an output differs")
    return found


def load(folder: Path) -> AnyDocument:
    """Return the whole document of a finished run; OSError or ValueError if it cannot be read."""
    return AnyDocument.view(read_document(folder / DOCUMENT))


def digest(name: str, content: Content) -> Run:
    """Return the record of a finished run's document; one of DAMAGES if it is invalid."""
    document = AnyDocument.view(content)
    board, model, bundle = document.board, document.model, document.bundle
    measured = document.measured
    verdict = Outcome(document.verdict)
    if verdict.sound and (why := ", ".join(_speaks_against(document))):
        raise ValueError(f"its verdict is {verdict}, but {why}")
    return Run(
        name=_plain(name),
        state=State.FINISHED,
        verdict=verdict.value,
        reason=_text(document.reason),
        action="measure" if measured else "prove" if document.proof else "run",
        board=_text(board.name),
        kind=_text(board.kind),
        soc=_text(board.soc),
        model=_text(model.name),
        model_sha256=_text(model.sha256),
        targets=",".join(_text(item.target) for item in document.plan.items),
        items="; ".join(
            f"{_text(item.name)}: {_text(item.target)} on {_text(item.ran_on)}" for item in document.plan.items
        ),
        differing=", ".join(_text(one.name) for one in document.layers if one.differing),
        vectors=_whole(document.stimuli.count),
        compiler=_text(bundle.compiler),
        flags=" ".join(map(_text, bundle.flags)),
        bundle_sha256=_text(bundle.sha256),
        stimuli_sha256=_text(document.stimuli.sha256),
        content_sha256=_text(document.content_sha256),
        harness=f"{_text(document.harness.version)} {_text(document.harness.revision)}".strip(),
        onnxruntime=_text(document.reference.onnxruntime),
        kernel=_text(board.environment.get("kernel")),
        started=_text(document.started),
        wall_s=_number(document.wall_s),
        attempts=len(document.attempts) or 1,
        **(_measured(document) if measured else {}),
    )


def _speaks_against(document: AnyDocument) -> Iterator[str]:
    """Yield the statements of a document that contradict a good verdict."""
    against, outputs = document.against, document.outputs
    if outputs and outputs.differing:
        yield f"{outputs.differing} outputs differ"
    if against and (against.regressed or against.slower):
        yield "slower than before"
    if against and against.too_noisy:
        yield "its base was too noisy"
    if not document.measured:
        yield from _unlike_the_reference(document)


def _unlike_the_reference(document: AnyDocument) -> Iterator[str]:
    layers, proof, traces = document.layers, document.proof, document.conformance
    if document.verdict not in {Outcome.IDENTICAL, Outcome.WITHIN_BOUND} or not layers:
        yield "nothing was compared"
    bounded = [(layer.name, number(layer.bounded.ratio)) for layer in layers if layer.bounded]
    if bool(bounded) is (document.verdict == Outcome.IDENTICAL):
        yield f"it has {plural(len(bounded), 'bounded layer')}"
    yield from (f"layer {_text(name)} is beyond its bound" for name, ratio in bounded if not ratio <= 1)
    yield from (f"layer {_text(layer.name)} differs" for layer in layers if layer.differing)
    yield from (f"layer {_text(layer.name)} was not compared" for layer in layers if layer.kept and not layer.compared)
    if proof and not proof.holds:
        yield "its proof fails"
    if document.deployed and document.deployed.differing:
        yield "it differs in deployment mode"
    if traces and not traces.conforms:
        yield "its traces are out of order"


def _measured(document: AnyDocument) -> dict[str, Any]:
    measured, outputs = document.measured, document.outputs
    not_met = _text(measured.not_met_because)
    if outputs.differing:
        not_met = f"{_whole(outputs.differing)} outputs are not the reference's"
    counted, emulated = measured.unit != "ns", document.board.kind == "emulated"
    stand_in = any(item.ran_on != HARDWARE for item in document.plan.items)
    met = not (not_met or counted or emulated or stand_in)  # a contradictory document is not trusted
    return {
        "quantity": _text(measured.quantity),
        "unit": _text(measured.unit),
        "scope": _text(measured.scope),
        "load": _text(document.load.name),
        "samples": _whole(measured.samples),
        "met": met,
        "not_met": not_met if not_met or met else "no times of the board's hardware",
        "headline": _text(numbers(document)),
        "parts": tuple(_counts(document.parts) if counted else _times(document.parts)),
    }


def _times(parts: Sequence[PartEntry]) -> list[Part]:
    """Return the parts in ns, the largest median first."""
    return sorted(map(_timed, parts), key=lambda part: -(part.median or 0.0))


def _timed(part: PartEntry) -> Part:
    summary = part.summary
    quantiles = {HIGH.get(one.probability, ""): _number(one.value_ns) for one in summary.quantiles}
    low, median, high = map(_needed, (summary.min_ns, summary.median_ns, summary.max_ns))
    p99, p999, p9999 = (quantiles.get(name) for name in HIGH.values())
    return Part(_text(part.name), low, median, p99, p999, p9999, high)


def _counts(parts: Sequence[PartEntry]) -> Iterator[Part]:
    """Yield the sum of all parts that describe the network, then each part."""
    each = [_counted(part.name, _needed(part.min), _needed(part.max)) for part in parts]
    alone = [one for one, part in zip(each, parts, strict=True) if part.alone]
    yield _counted("all parts", sum(one.minimum for one in alone), sum(one.maximum for one in alone))
    yield from each


def _counted(name: Any, least: float, most: float) -> Part:
    return Part(_text(name), least, None, None, None, None, most)


def _unfinished(folder: Path) -> Run:
    """Return the record of an unfinished run: the request and the failure."""
    asked = read_document(folder / REQUEST) if (folder / REQUEST).exists() else {}
    request = asked.get("request", {})
    attempts = RunFolder(folder).attempts()
    last = attempts[-1] if attempts else {"part": "", "reason": "", "began": ""}
    failed = last["part"] in PARTS
    prove = "prove" if request.get("floats") else "run"
    return Run(
        name=_plain(folder.name),
        state=State.UNFINISHED,
        verdict=Outcome.INCONCLUSIVE.value if failed else State.UNFINISHED.value,
        reason=_text(last["reason"]),
        part=_text(last["part"]),
        differs_so_far=differs_so_far(folder) is True,
        action="measure" if asked.get("kind") == "measure" else prove,
        board=_text(request.get("board")),
        model=_text(asked.get("name")) or _text(request.get("model")),
        bundle_sha256=_text(asked.get("bundle")),
        started=_text(attempts[0]["began"]) if attempts else "",
        attempts=len(attempts),
    )


def _plain(text: str) -> str:
    """Return the text without characters that files and databases cannot store, shortened to LONGEST."""
    return text.encode("utf-8", "backslashreplace").decode()[:LONGEST]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | int | float):
        raise TypeError(f"{str(value)[:40]!r} is not a text")
    return _plain(str(value))


def _number(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number


def _needed(value: Any) -> float:
    number = _number(value)
    if number is None:
        raise ValueError("a number is missing")
    return number


def _whole(value: Any) -> int:
    """Return the count if a database can store it."""
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"{str(value)[:40]} is not a count")
    return value
