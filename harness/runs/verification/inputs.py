"""Inputs of a run: its model, plan and vectors, read from its folder and made again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from harness.build import codegen
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256, folder_sha256
from harness.core.safe_io import require_keys
from harness.model import stream as streams
from harness.model.network import Network
from harness.plan import folder as plan_folder
from harness.plan import plan_check
from harness.plan.plan import Plan
from harness.reference import engines
from harness.reference.coverage_search import Search
from harness.reference.stimuli import Stimuli, stimuli
from harness.reference.vector_files import from_file
from harness.runs import description as descriptions
from harness.runs.chunks import cut
from harness.runs.document import accepted, where
from harness.runs.folder import RunFolder
from harness.runs.job import Request
from harness.runs.verification.board import profile_of
from harness.runs.verification.claims import ContradictionError, Progress, UncheckedError, listed, require_equal
from harness.runs.verification.folder import RUN, Evidence
from harness.runs.verification.revisions import SLACK, require_possible_time

COMPARED_AT_ONCE = 100_000


def read(evidence: Evidence) -> tuple[Plan, Stimuli]:
    """Return the plan with its network, and the vectors, as the folder has them.

    RequestError, or one of MALFORMED, if one of them cannot be read, or what was asked.
    """
    folder = RunFolder(evidence.path)
    require_keys(evidence.request, [field.name for field in dataclasses.fields(Request)], "request.json, request")
    if not evidence.request:
        raise RequestError("request.json asks for nothing")
    plan = plan_folder.read(folder.plan)
    return plan, from_file(folder.stimuli, plan.network)


def model(evidence: Evidence, network: Network) -> str:
    """Check that the model is that of the plan and of run.json."""
    sha256 = file_sha256(RunFolder(evidence.path).model)
    if sha256 != network.sha256:
        raise ContradictionError(f"model.onnx is {sha256}, the plan's is {network.sha256}")
    require_equal(f"{RUN}, model,", evidence.run["model"], descriptions.model_entry(network))
    if "graph" in evidence.run:  # earlier versions did not write it
        require_equal(f"{RUN}, graph,", evidence.run["graph"], descriptions.graph(network))
    _require_asked(evidence, network)
    return f"{network.name}, {sha256}"


def _require_asked(evidence: Evidence, network: Network) -> None:
    """Require the stream that was asked for, of a network that its whole network gives; a plan has its own."""
    stream, asked = streams.of(network), evidence.request
    made = stream.settings if stream else dict.fromkeys(("axis", "pulse", "steps"))
    wanted = {name: asked.get("stream" if name == "axis" else name) for name in made}
    if not asked.get("plan") or wanted["axis"] is not None:
        require_equal("request.json, stream,", wanted, made)


def request(evidence: Evidence, made: Plan) -> str:
    """Check that request, board and attempts agree with run.json."""
    kept, run = RunFolder(evidence.path), evidence.run
    document = kept.read_request()
    said = {"kind": run.get("kind", "run"), "board": run["board"]["name"], "bundle": run["bundle"]["sha256"]}
    asked = {"kind": document["kind"], "board": evidence.request["board"], "bundle": document["bundle"]}
    said["attempts"], asked["attempts"] = run.get("attempts", []), kept.attempts()
    if not evidence.measured:
        said["accepted"] = run.get("accepted")
        asked["accepted"] = accepted(evidence.request.get("accept"), run["verdict"]).get("accepted")
        said |= {key: run[key] for key in ("chunk", "fetch")}
        asked |= {key: evidence.request[key] for key in ("chunk", "fetch")}
    if "engines" in run["reference"] or "reference" in evidence.request:  # earlier versions did not write it
        said["engines"] = sorted(engine["name"] for engine in run["reference"].get("engines", ()))
        asked["engines"] = sorted(evidence.request.get("reference", engines.ALWAYS))
    require_equal(RUN, said, asked)
    require_equal("request.json, board,", asked["board"], made.board)
    _require_possible_times(run)
    require_possible_time(evidence, run["started"])
    tried = max(1, len(said["attempts"]))
    return f"board {made.board}, tried {tried} x: request.json, attempts.jsonl, plan and {RUN} agree"


def _require_possible_times(run: Mapping[str, Any]) -> None:
    """Require times that fit each other and have passed; attempts began in order, the last between begin and end."""
    started, finished = (datetime.strptime(run[key], "%Y-%m-%dT%H:%M:%S%z") for key in ("started", "finished"))
    if not abs((finished - started).total_seconds() - run["wall_s"]) <= 1:  # each is of a whole second
        raise ContradictionError(f"{RUN} says {run['wall_s']} s from {run['started']} to {run['finished']}")
    if not run.get("attempts"):
        raise UncheckedError(f"{RUN} lists no attempt: written by an older version")
    began = [attempt["began"] for attempt in run["attempts"]]
    if began != sorted(began) or not run["started"] <= began[-1] <= run["finished"]:
        raise UncheckedError(
            f"{RUN}: attempts began {', '.join(began[-3:])}, out of order or the last not within {run['started']} to "
            f"{run['finished']}: a clock was set during the run, or the file was edited"
        )
    if finished > datetime.now(UTC) + SLACK:
        raise ContradictionError(f"{RUN} has the finish time {run['finished']}, which is in the future")
    if run["wall_s"] and "vectors_per_s" in run:
        rate = round(run["stimuli"]["count"] / run["wall_s"], 1)
        require_equal(f"{RUN}, vectors_per_s,", run["vectors_per_s"], rate)


def plan(evidence: Evidence, made: Plan) -> str:
    """Check that the plan is sound and that of run.json, and where each item ran."""
    ran_on = where(made, profile_of(evidence), evidence.run["board"]["kind"])
    require_equal(f"{RUN}, plan,", evidence.run["plan"], descriptions.plan_entry(made, ran_on))
    if "launches" in evidence.run:  # earlier versions did not write it
        require_equal(f"{RUN}, launches,", evidence.run["launches"], descriptions.launches(made))
    if "memory" in evidence.run:
        require_equal(f"{RUN}, memory,", evidence.run["memory"], descriptions.memory_entry(codegen.generate(made)))
    found = plan_check.document(plan_check.assess(made)).to_json()
    require_equal(f"{RUN}, assessment,", _timeless(evidence.run["assessment"]), _timeless(found))
    return f"{len(made.items)} items, {len(made.tasks)} tasks: text, net and {RUN} agree, and it is sound"


def description(evidence: Evidence, written: Path) -> str:
    """Check that the folder of the plan is as it was `written` again from the plan, its net and picture included."""
    found, wanted = (folder_sha256(folder) for folder in (RunFolder(evidence.path).plan, written))
    others = {name for name, _ in found.items() ^ wanted.items()}
    if others:
        raise ContradictionError(f"plan/ has what the plan does not give, or lacks it: {listed(others)}")
    return f"{len(wanted)} files in plan/ are those that the plan gives"


def _timeless(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "wall_s"}


def vectors(evidence: Evidence, kept: Stimuli, network: Network, progress: Progress) -> str:
    """Check that model and seed give the vectors."""
    recorded, asked = evidence.run["stimuli"], evidence.request
    sha256 = file_sha256(RunFolder(evidence.path).stimuli)
    require_equal(f"{RUN}, stimuli,", [recorded["count"], recorded["sha256"]], [kept.count, sha256])
    if not asked["vectors"].isdecimal():
        sources = (str(Path(source)) for source in (recorded["source"], asked["vectors"]))
        require_equal(f"{RUN}, stimuli.source,", *sources)
        require_equal(f"{RUN}, stimuli.classes,", recorded["classes"], kept.describe())
        raise UncheckedError(f"{kept.count:,} vectors came from the file {asked['vectors']}, {sha256}")
    made = _made_again(asked, kept, network, progress)
    require_equal(
        f"{RUN}, stimuli,",
        [recorded["seed"], recorded["source"], recorded["classes"]],
        [asked["seed"], made.origin, made.describe()],
    )
    _require_same(kept, made, progress)
    return f"{kept.count:,} vectors are those that the model gives: {made.origin}"


def _made_again(asked: Mapping[str, Any], kept: Stimuli, network: Network, progress: Progress) -> Stimuli:
    if asked.get("cover") is None:
        _require_count(kept.count, int(asked["vectors"]))
        return stimuli(network, int(asked["vectors"]), asked["seed"])
    search = Search(network, int(asked["vectors"]), asked["seed"], asked["cover"])
    with progress("searching vectors again, codes met", search.needed) as bar:
        for met in search.blocks():
            bar.advance(met)
    return search.result()


def _require_count(kept: int, made: int) -> None:
    if kept != made:
        raise ContradictionError(f"stimuli.npy has {kept:,} vectors, the model gives {made:,}")


def _require_same(kept: Stimuli, made: Stimuli, progress: Progress) -> None:
    """Require that both are equal, bit for bit."""
    _require_count(kept.count, made.count)
    with progress("making vectors again", kept.count) as bar:
        for chunk in cut(kept.count, COMPARED_AT_ONCE):
            pair = [each.chunk(chunk.start, chunk.stop).view(np.uint8) for each in (kept, made)]
            differing = np.flatnonzero((pair[0] != pair[1]).any(axis=1))
            if differing.size:
                raise ContradictionError(f"vector {chunk.start + differing[0]:,} of stimuli.npy is another")
            bar.advance(chunk.size)
