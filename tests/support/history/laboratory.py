"""A simulated laboratory: run folders and nights as the commands leave them, with numbers of a generator's making.

Nothing of it was measured.  The tests and benchmarks/laboratory_site.py share it.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from harness import report
from harness.core.outcome import Ending, Outcome
from harness.nightly import record
from harness.nightly.record import Attempt, Begun, Entry, Health, Result
from harness.runs.folder import content_sha256
from tests.support.measurement import documents

FIRST = datetime(2026, 10, 24, 2, tzinfo=UTC)
MODELS = ("acas_coc", "acas_wl", "acas_wr", "acas_sl", "acas_sr")
MEASURED = ("acas_sl", "acas_sr")
WIDTHS = {"quantize_input": 5, **{f"dense_{index}": 50 for index in range(1, 9)}, "dense_9": 5, "select_advisory": 1}
EMULATED = "emulated-cpu (qemu neoverse-n1)"
VECTORS = 100_000


@dataclass(frozen=True)
class Board:
    """A simulated board; `wrong`, `slow` and `sick` are the nights from which on it is so."""

    name: str
    kind: str = "hardware"
    wrong: int | None = None
    slow: int | None = None
    sick: int | None = None
    flaky: float = 0.0

    @property
    def ran_on(self) -> str:
        return EMULATED if self.kind == "emulated" else "hardware"


def boards(count: int, nights: int) -> tuple[Board, ...]:
    """Every third is emulated, one in ten flaky; of the others one becomes wrong, one slow, one sick at the end."""
    found = [
        Board(f"board{index:02}", "emulated" if index % 3 == 2 else "hardware", flaky=0.2 if index % 10 == 4 else 0.0)
        for index in range(count)
    ]
    for index, fate in enumerate(("wrong", "slow", "sick")):
        if 3 * index < count:
            found[3 * index] = Board(f"board{3 * index:02}", "hardware", **{fate: nights - 1})
    return tuple(found)


def make(
    runs: Path, lab: tuple[Board, ...], nights: int, *, models: tuple[str, ...] = MODELS, running: bool = False
) -> None:
    """So many nights of these boards and models, each with one entry; of the last, if it is `running`, a half."""
    chance = random.Random(1)  # noqa: S311 - a simulation
    papers = _papers()
    for night in range(nights):
        began = FIRST + timedelta(days=night)
        folder = runs / "nights" / f"{began:%Y%m%d-%H%M%S}"
        entries = tuple(_entries(lab, models))
        record.create(folder, began.timestamp(), "simulation.yaml", "ab", entries)
        half = len(entries) // 2 if running and night == nights - 1 else len(entries)
        for board in lab:
            ill = board.sick is not None and night >= board.sick
            reason = "no answer on port 22, also after a power cycle" if ill else ""
            _write(folder / "boards" / f"{board.name}.json", asdict(Health(board.name, began.timestamp(), reason)))
        by_name = {board.name: board for board in lab}
        for entry in entries[:half]:
            result = _Simulated(runs, folder.name, night, began, entry, by_name[entry.board], papers).result(chance)
            _write(folder / "entries" / f"{entry.number:05}.json", asdict(result))
        if half < len(entries):
            record.keep_begun(folder, Begun(half, (), began.timestamp() + 9.0))
        else:
            record.end(folder, began.timestamp() + 60.0 * len(models))


def _entries(lab: tuple[Board, ...], models: tuple[str, ...]) -> Iterator[Entry]:
    for number, (board, model) in enumerate((board, model) for board in lab for model in models):
        measured = model in MEASURED
        expect = Outcome.MEASURED if measured else Outcome.IDENTICAL
        yield Entry(number, board.name, model, "", "measure" if measured else "run", expect, 600.0)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1))


@dataclass(frozen=True)
class _Papers:
    """What is the same in all runs: documents of times and of counts, and real reports of these and of a run."""

    times: dict[str, Any]
    counts: dict[str, Any]
    reports: dict[str, dict[str, str]]


@cache
def _papers() -> _Papers:
    times, counts = documents.timed(documents.gumbel(2000)), documents.counted()
    plain = run_document("xavier", "acas_coc")
    reports = {
        "run": {"report.html": report.html(plain), "junit.xml": report.junit(plain)},
        "measure": report.measurement(times),
        "count": report.measurement(counts),
    }
    return _Papers(times, counts, reports)


@dataclass(frozen=True)
class _Simulated:
    """An entry of a night."""

    runs: Path
    night_name: str
    night: int
    began: datetime
    entry: Entry
    board: Board
    papers: _Papers

    def result(self, chance: random.Random) -> Result:
        began_s = self.began.timestamp() + 60.0 * (self.entry.number % 5)
        if self.board.sick is not None and self.night >= self.board.sick:
            return Result(self.entry.number, Ending(Outcome.NOT_RUN, f"board {self.board.name} is quarantined"))
        lost = Ending(Outcome.INCONCLUSIVE, f"{self.board.name}: the connection was cut", "network")
        failures = [Attempt(began_s, began_s + 8, lost)] if chance.random() < self.board.flaky else []
        if failures and chance.random() < 0.3:
            return Result(self.entry.number, lost, (*failures, Attempt(began_s + 8, began_s + 20, lost)))
        stem = f"{self.night_name}-{self.entry.number:03}_{self.board.name}_{self.entry.model}"
        name = re.sub(r"[^A-Za-z0-9._-]", "_", stem)[:200]
        ending = self._run(name, chance)
        last = Attempt(began_s + 8 * len(failures), began_s + 8 * len(failures) + 20 + 10 * chance.random(), ending)
        return Result(self.entry.number, ending, (*failures, last), name)

    def _run(self, name: str, chance: random.Random) -> Ending:
        """Leave a run folder."""
        folder = self.runs / name
        folder.mkdir(parents=True)
        document, reports = self._measured(chance) if self.entry.action == "measure" else self._compared()
        document["started"] = f"{self.began + timedelta(seconds=self.entry.number):%Y-%m-%dT%H:%M:%SZ}"
        document["files"] = document.get("files", {}) | {"stimuli.npy": f"{self.entry.number:064x}"}
        document["content_sha256"] = content_sha256(document["files"])
        _write(folder / "run.json", document)
        for file, text in reports.items():
            if file != "table.tex":
                (folder / file).write_text(text)
        return Ending(Outcome(document["verdict"]), document["reason"])

    def _compared(self) -> tuple[dict[str, Any], dict[str, str]]:
        wrong = self.board.wrong is not None and self.night >= self.board.wrong and self.entry.model == "acas_wl"
        document = run_document(self.board.name, self.entry.model, kind=self.board.kind, ran_on=self.board.ran_on)
        if wrong:
            make_wrong(document)
        return document, self.papers.reports["run"]

    def _measured(self, chance: random.Random) -> tuple[dict[str, Any], dict[str, str]]:
        emulated = self.board.kind == "emulated"
        document = copy.copy(self.papers.counts if emulated else self.papers.times)
        document["board"] = document["board"] | {"name": self.board.name, "kind": self.board.kind}
        document["model"] = document["model"] | {"name": self.entry.model}
        if emulated:
            return document, self.papers.reports["count"]
        slow = self.board.slow is not None and self.night >= self.board.slow and self.entry.model == "acas_sl"
        factor = (1.2 if slow else 1.0) * chance.gauss(1.0, 0.003)
        scaled = scaled_part(document["parts"][0], factor, worst=chance.uniform(1.0, 1.08))
        document["parts"] = [scaled]
        median = scaled["summary"]["median_ns"]
        document["reason"] = f"{self.entry.model}: median {median:,.0f} ns"
        if slow:
            document |= {"verdict": "regressed", "reason": f"slower than the night before: median {median:,.0f} ns"}
        return document, self.papers.reports["measure"]


def scaled_part(part: dict[str, Any], factor: float, *, worst: float = 1.0) -> dict[str, Any]:
    """The part with other numbers in its summary: all times `factor`, the maximum also times `worst`."""
    summary = part["summary"]
    quantiles = [
        one | {"value_ns": one["value_ns"] and round(one["value_ns"] * factor)} for one in summary["quantiles"]
    ]
    numbers = {key: round(summary[key] * factor) for key in ("min_ns", "median_ns")}
    numbers["max_ns"] = round(summary["max_ns"] * factor * worst)
    return part | {"summary": summary | numbers | {"quantiles": quantiles}}


def run_document(board: str, model: str, *, kind: str = "hardware", ran_on: str = "hardware") -> dict[str, Any]:
    """The document of a run in which nothing differs."""
    items = [
        {"name": name, "target": "c", "core": core, "ran_on": ran_on, "tasks": []}
        for core, name in enumerate(("prepost", "network"))
    ]
    document: dict[str, Any] = {
        "schema": 1,
        "harness": {"version": "0.1.0", "revision": "5f70f162ab40"},
        "started": "2026-11-22T02:00:00Z",
        "finished": "2026-11-22T02:00:21Z",
        "wall_s": 21.9,
        "attempts": [{"began": "2026-11-22T02:00:00Z", "part": "", "reason": ""}],
        "command": ["harness", "run", "--board", board, "--model", model],
        "board": {
            "name": board,
            "soc": "NVIDIA Xavier (8x Carmel, Volta GPU sm_72)",
            "kind": kind,
            "environment": {"kernel": "Linux version 5.10.104-tegra", "memory": "MemTotal: 983032 kB"},
            "setup": [],
        },
        "model": {"name": model, "sha256": f"{hash_of(model)}", "input": {}, "metadata": {}},
        "plan": {
            "board": board, "model": model, "block": 1000, "sync": "barrier", "depth": 1, "items": items,
            "tasks": [_task(name, width) for name, width in WIDTHS.items()],
            "hand_overs": [{"name": "dense_9", "items": ["prepost", "network"]}],
        },
        "bundle": {
            "sha256": hash_of(f"bundle {model}"), "compiler": "aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0",
            "flags": ["-O3", "-mcpu=carmel", "-ffp-contract=off"], "reused": True,
        },
        "reference": {"onnxruntime": "1.31.1", "isa": "avx512_vnni", "agreement": "they agreed on every byte"},
        "host": {"platform": "Linux-6.1", "python": "3.11.7", "numpy": "2.4.6"},
        "stimuli": {
            "count": VECTORS, "seed": 1, "source": "seed 1", "classes": {"uniform over the input box": VECTORS},
            "sha256": hash_of("stimuli"),
        },
        "chunk": 10_000,
        "fetch": "all",
        "layers": [_layer(index, name, width, ran_on) for index, (name, width) in enumerate(WIDTHS.items())],
        "coverage": {"text": "the vectors met 9.1 % of the reachable accumulators"} | _covered(97_534),
        "proof": None,
        "conformance": None,
        "verdict": "identical",
        "reason": f"all activations of {len(WIDTHS)} layers over {VECTORS:,} vectors are those of the reference",
        "diagnosis": None, "diagnoses": [], "failing": None, "pictures": [], "vectors_per_s": 9112.0,
        "files": {
            f"{side}/{chunk:05}/{index:02}_{name}.npy": hash_of(f"{name}{chunk}")
            for side in ("reference", "target") for chunk in range(10) for index, name in enumerate(WIDTHS)
        },
    }  # fmt: skip
    return document


def make_wrong(document: dict[str, Any], layer: int = 3, count: int = 7) -> None:
    """So that activations of that layer differ."""
    first = {"vector": 17, "unit": 3, "expected": 188, "actual": 189}
    document["layers"][layer] |= {"differing": count, "own": count, "first_difference": first}
    name = document["layers"][layer]["name"]
    document |= {"verdict": "differs", "reason": f"{count} of 4,110,000 activations differ, first in layer {name}"}


def hash_of(text: str) -> str:
    """Sixty-four digits that are the text's own."""
    return f"{random.Random(text).getrandbits(256):064x}"  # noqa: S311 - no secret


def _task(name: str, width: int) -> dict[str, Any]:
    return {"name": name, "layer": name, "item": _item(name), "columns": [0, width], "stage": 0, "buffers": 1}


def _item(name: str) -> str:
    return "network" if name.startswith("dense") else "prepost"


def _covered(met: int) -> dict[str, Any]:
    kinds = ("codes", "ties", "saturated_low", "saturated_high", "accumulators")
    return {kind: {"met": met, "reachable": 2 * met, "activations": 3 * met} for kind in kinds}


def _layer(index: int, name: str, width: int, ran_on: str) -> dict[str, Any]:
    return {
        "index": index, "name": name, "operator": "QGemm", "reads": list(WIDTHS)[max(index - 1, 0) : index],
        "items": [_item(name)], "item": _item(name), "target": "c", "ran_on": ran_on, "compared": width * VECTORS,
        "differing": 0, "own": 0, "first_difference": None, "coverage": _covered(width * 50),
    }  # fmt: skip
