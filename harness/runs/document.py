"""The document of a run, the content of `run.json`, from all finished chunks, the proof and the traces."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from harness import __version__, targets
from harness.analysis.compare import NOTHING, Comparison, Difference, difference_map
from harness.analysis.diagnosis import Diagnosis, DifferenceSummary, Hypothesis, common, map_shape, merge, named
from harness.analysis.local import LocalResult
from harness.analysis.proof import Side
from harness.analysis.proof_document import ProofDocument
from harness.boards.identity import EMULATED, HARDWARE, THIS_MACHINE, VIRTUAL
from harness.boards.profile import Profile
from harness.boards.tuning.identify import this_boot_id
from harness.build.bundle import BuildInputs
from harness.build.codegen import Program
from harness.core.errors import BoardError, InfrastructureError
from harness.core.file_digest import file_sha256
from harness.core.installation import revision
from harness.core.outcome import Outcome
from harness.core.text import plural, shortened
from harness.execution import dumps
from harness.model import stream as streams
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.counters import LayerCoverage, Met
from harness.operators.exact.onnx_functions import RUNTIME_DOMAINS
from harness.operators.tensor import Tensor
from harness.plan import claims, memory, plan_check
from harness.plan.launches import planned_launches
from harness.plan.plan import Plan, Task, buffer_bytes
from harness.reference import coverage, engines, max_ratio
from harness.reference.whole_network import NOTHING as NO_WHOLE
from harness.runs import entries
from harness.runs import folder as run_folder
from harness.runs.entries import SCHEMA, ConformanceEntry, Provenance, Results, RunDocument
from harness.runs.folder import ChunkRecord
from harness.runs.job import ACCEPT_BOUND, Job, Request, command_line


def conclude(
    job: Job,
    environment: dict[str, str],
    setup: list[dict[str, Any]],
    failing: dict[str, Any] | None,
    covered: Sequence[LayerCoverage],
    observed: dict[str, Any] | None,
) -> RunDocument:
    """Return the whole run; BoardError if any activation was not compared.

    `failing` is the smallest failing case, `covered` the coverage of every layer, `observed` the result of the traces
    (see harness.plan.conformance.document).
    """
    provenance, ran_on, records = origin(job, environment, setup), where_of(job), list(job.folder.chunks())
    changed = changed_vectors(job.folder.path, job.network, records)
    shown = Shown(records, covered, job.folder.read_proof(), observed, changed)
    found = _results(job.plan, ran_on, job.stimuli.count, shown)
    content = dict(found)
    if not found.network_outputs:  # every layer is exact
        del content["network_outputs"]
    return RunDocument(
        **dict(provenance),
        chunk=job.chunk,
        fetch=job.fetch,
        **accepted(job.request.accept, found.verdict),
        **content,
        failing=None if failing is None else entries.FailingEntry(**failing),
        vectors_per_s=round(job.stimuli.count / provenance.wall_s, 1),
    )


def accepted(accept: str | None, verdict: str) -> dict[str, Any]:
    """Return the entry for a verdict that a request accepts, as one with which the run is good; else no entry."""
    return {"accepted": verdict} if accept == ACCEPT_BOUND and Outcome(verdict) is Outcome.WITHIN_BOUND else {}


AGREEMENT = {
    False: "ONNX Runtime and the exact specification agreed on every byte",
    True: "ONNX Runtime computed each layer on the specified inputs: layers with one value agreed on every byte, float "
    "sums and functions lay within their bound (layers, reference_ratio), and the whole model within the bounds of the "
    "errors of all layers (whole_network)",
}
"""The agreement of ONNX Runtime and the specification, by whether the network has layers with a tolerance."""


def agreement(network: Network, versions: Mapping[str, str]) -> str:
    """Return on what the engines of the reference agreed."""
    bounded = any(layer.errors.has_tolerance for layer in network.layers)
    parts = [AGREEMENT[bounded]]
    names = [name for name in versions if name not in engines.ALWAYS]
    if names:
        where = "under the same conditions" if bounded else "on every byte"
        parts.append(f"{', '.join(names)} on its standard form agreed with both {where}")
    functions = sorted({layer.operator for layer in network.layers if _is_function(layer)})
    if functions:
        parts.append(
            f"ONNX Runtime executed the functions that the file defines for {', '.join(functions)}: it confirms their "
            "arithmetic, not their meaning"
        )
    return "; ".join(parts)


def _is_function(layer: Layer) -> bool:
    """Return whether ONNX Runtime does not know the operator of a layer."""
    return not any((domain, layer.operator) in type(layer).ONNX for domain in RUNTIME_DOMAINS)


@dataclass(frozen=True)
class Shown:
    """The observations of a run: its chunks, the coverage, and its proof and traces if requested.

    `changed` is the number of vectors with a wrong output of the network.
    """

    records: Sequence[ChunkRecord]
    covered: Sequence[LayerCoverage]
    proof: Mapping[str, Any] | None
    observed: Mapping[str, Any] | None
    changed: int


def changed_vectors(folder: Path, network: Network, records: Sequence[ChunkRecord]) -> int:
    """Return the number of vectors for which a value of the last layer differs, from the dumps in a run's folder.

    BoardError if a dump is not the one that was compared.
    """
    last, changed = network.layers[-1], 0
    for record in (record for record in records if record.layers[-1].differing):
        if last.size == 1:
            changed += record.layers[-1].differing
            continue
        sides = {"reference": record.reference_sha256[-1], "target": record.target_sha256[-1]}
        name = f"{record.index:05}/{dumps.file_name(len(network.layers) - 1, last)}"
        expected, actual = (
            dumps.read(folder / kind / name, last, record.stop - record.start, sha256) for kind, sha256 in sides.items()
        )
        changed += int(np.count_nonzero(difference_map(expected, actual).any(axis=1)))
    return changed


def results(plan: Plan, ran_on: Sequence[str], count: int, shown: Shown) -> dict[str, Any]:
    """Return the verdict on `count` vectors and its grounds as JSON types: a function of the observations.

    `ran_on` states where each item really ran.  BoardError if any activation was not compared.
    """
    found = _results(plan, ran_on, count, shown).to_json()
    return found | {"proof": shown.proof, "conformance": shown.observed}


def _results(plan: Plan, ran_on: Sequence[str], count: int, shown: Shown) -> Results:
    network, records = plan.network, shown.records
    proof = None if shown.proof is None else ProofDocument.view(shown.proof)
    observed = None if shown.observed is None else ConformanceEntry.view(shown.observed)
    totals = _totals(plan, count, [record.layers for record in records])
    differing = [layer.name for layer, total in zip(network.layers, totals, strict=True) if total.differing]
    deployed, found = _deployed(records), merge(d for record in records for d in record.diagnoses)
    wrong = [layer.name for layer, total in zip(network.layers, totals, strict=True) if total.own]
    refuted, strayed = proof is not None and not proof.holds, observed is not None and not observed.conforms
    near = _near(plan, records)
    differs = differing or (deployed and deployed.differing) or refuted or strayed
    layers = enumerate(zip(totals, shown.covered, strict=True))
    ratios = [max_ratio(record.ratios[i] for record in records if record.ratios) for i in range(len(totals))]
    whole = sum((record.whole for record in records), NO_WHOLE)
    ratios_of_layers = zip(ratios, whole.ratios or (None,) * len(totals), strict=True)
    of_layers: list[dict[str, Any]] = [
        {"reference_ratio": alone} | ({} if of_whole is None else {"whole_ratio": of_whole})
        for alone, of_whole in ratios_of_layers
    ]
    for index, bounded in enumerate(near.bounded if near else ()):
        of_layers[index] |= {"bounded": entries.BoundedEntry(**dataclasses.asdict(bounded))} if bounded else {}
    outputs: dict[str, Any] = {}
    if whole.outputs:
        outputs["whole_network"] = [entries.WholeOutputEntry(**dataclasses.asdict(output)) for output in whole.outputs]
    if near:
        outputs["network_outputs"] = _output_differences(network, count, near)
    return Results(
        layers=[_layer(plan, ran_on, index, total, covered, of_layers[index]) for index, (total, covered) in layers],
        coverage={"text": coverage.describe(network, shown.covered), **_counts(coverage.total(shown.covered))},
        **outputs,
        deployed=None if deployed is None else entries.ComparisonEntry(**dataclasses.asdict(deployed)),
        proof=proof,
        conformance=observed,
        verdict="differs" if differs else "within bound" if near else "identical",
        reason="; ".join(
            [
                *_proved(proof),
                _reason(plan, count, differing, totals, near),
                *_in_deployment(deployed),
                *_strayed(observed),
            ]
        ),
        effect=_effect(network, count, shown.changed) if differing and not near else None,
        diagnosis=_headline(network, found, wrong),
        diagnoses=[_diagnosis(network, diagnosis) for diagnosis in found],
        pictures=[
            _picture(network, count, summary) for summary in merge(p for record in records for p in record.portraits)
        ],
    )


def _near(plan: Plan, records: Sequence[ChunkRecord]) -> LocalResult | None:
    """Return how near the bounded layers are to their bounds over all chunks; None if every layer is exact.

    BoardError if a chunk was not compared as the claims of the plan's targets require.
    """
    bounded, found = bool(claims.bounded(plan)), [record.local for record in records if record.local]
    if len(found) != bounded * len(records):
        raise BoardError(f"{len(found)} of {len(records)} chunks were compared within bounds", "start a new run")
    return reduce(LocalResult.__add__, found) if found else None


def _deployed(records: Sequence[ChunkRecord]) -> Comparison | None:
    """Return the last layer's result in deployment mode over all chunks; None if it was not requested."""
    found = [record.deployed.result for record in records if record.deployed]
    return reduce(Comparison.__add__, found, NOTHING) if found else None


def _in_deployment(result: Comparison | None) -> list[str]:
    """Return the clause of the reason on deployment mode, as a list; empty if it was not requested."""
    if result is None:
        return []
    if not result.differing or not result.first:
        return [f"in deployment mode all {result.compared:,} outputs are the same"]
    first, scope = result.first, f"{result.differing:,} of {result.compared:,} outputs"
    where = f"column {first.unit} of vector {first.vector}: {first.actual}, expected {first.expected}"
    return [f"in deployment mode (--dump last, with or without times) {scope} differ, first {where}"]


def origin(job: Job, environment: dict[str, str], setup: list[dict[str, Any]]) -> Provenance:
    """Return the request, the place and the versions of the run so far."""
    finished, host, bundle = run_folder.now(), job.reference.host, job.bundle
    return Provenance(
        schema=SCHEMA,
        harness=entries.HarnessEntry(version=__version__, revision=revision()),
        started=f"{job.started:%Y-%m-%dT%H:%M:%SZ}",
        finished=f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        wall_s=round((finished - job.started).total_seconds(), 3),
        attempts=[entries.AttemptEntry.from_json(attempt) for attempt in job.folder.attempts()],
        command=command_line(),
        board=entries.BoardEntry(
            **job.identity.document(),
            soc=job.profile.soc,
            environment=environment,
            setup=[entries.SetupEntry(**done) for done in setup],
        ),
        model=entries.ModelEntry(**model_document(job.network)),
        plan=entries.PlanEntry(**plan_document(job.plan, where_of(job))),
        assessment=entries.AssessmentEntry.from_json(plan_check.document(job.assessment)),
        bundle=entries.BundleEntry(
            sha256=bundle.sha256,
            compiler=bundle.compiler,
            flags=bundle.flags,
            reused=bundle.reused,
            files=bundle.files,
            inputs=BuildInputs(**bundle.inputs),
        ),
        reference=entries.ReferenceEntry(
            onnxruntime=host.onnxruntime,
            isa=host.instruction_set,
            agreement=agreement(job.network, job.reference.versions),
            engines=[entries.EngineEntry(name=name, version=found) for name, found in job.reference.versions.items()],
        ),
        host=entries.HostEntry(
            platform=platform.platform(), python=platform.python_version(), numpy=np.__version__, boot_id=this_boot_id()
        ),
        stimuli=entries.StimuliEntry(
            count=job.stimuli.count,
            seed=job.request.seed,
            source=job.stimuli.origin,
            classes=job.stimuli.describe(),
            sha256=file_sha256(job.folder.stimuli),
        ),
        graph=[entries.NodeEntry(**node) for node in graph_document(job.network)],
        launches=launches_document(job.plan),
        memory=entries.MemoryEntry(**memory_document(job.program)),
    )


def summary(document: RunDocument, folder: str) -> dict[str, Any]:
    """Return the part of the document that `--json` prints."""
    kept = (
        "verdict",
        "reason",
        "effect",
        "layers",
        "coverage",
        "diagnosis",
        "diagnoses",
        "failing",
        "proof",
        "conformance",
        "wall_s",
    )
    content = document.to_json()
    stream = {"stream": content["model"]["stream"]} if "stream" in content["model"] else {}
    optional = [key for key in ("whole_network", "network_outputs", "accepted") if key in content]
    return (
        {key: content[key] for key in (*kept, *optional)}
        | stream
        | {
            "engines": content["reference"]["engines"],
            "board": document.board.name,
            "board_kind": document.board.kind,
            "model": document.model.name,
            "vectors": document.stimuli.count,
            "run": folder,
        }
    )


def inconclusive(request: Request, error: InfrastructureError) -> dict[str, Any]:
    """Return the JSON output after a failure of a required component."""
    folder = error.run
    return {
        "verdict": "inconclusive",
        "reason": f"{error.part}: {error.message}",
        "part": error.part,
        "hint": error.hint,
        "layers": [],
        "board": request.board,
        "model": request.model,
        "vectors": 0,
        "differs_so_far": folder is not None and run_folder.differs_so_far(folder),
        "run": str(folder) if folder else None,
    } | error.details


def kind(board: Profile) -> str:
    """Return the kind of board expected from the profile; the actual kind is that of `BoardIdentity`."""
    return EMULATED if board.emulated else THIS_MACHINE if board.local else HARDWARE


def where(made: Plan, board: Profile, found_kind: str) -> tuple[str, ...]:
    """Return where every item really ran, on a board of this kind."""
    found = (targets.find(item.target).environment(board) for item in made.items)
    no_hardware = {EMULATED: "emulated-cpu", VIRTUAL: VIRTUAL}
    return tuple(no_hardware.get(found_kind, place) if place == targets.HARDWARE else place for place in found)


def where_of(job: Job) -> tuple[str, ...]:
    """Return where every item of a job really ran; ValueError before its board was reached."""
    return where(job.plan, job.profile, job.identity.kind)


def plan_document(made: Plan, ran_on: Sequence[str]) -> dict[str, Any]:
    """Return the plan as JSON types; `ran_on` states where each item really runs."""
    items = [
        entries.ItemEntry(
            name=item.name,
            target=item.target,
            core=item.core,
            ran_on=ran_on[index],
            tasks=[task.name for task in made.tasks if task.item == index],
        )
        for index, item in enumerate(made.items)
    ]
    stated = bool(claims.bounded(made))
    tasks = [
        entries.TaskEntry(
            name=task.name,
            layer=made.network.layers[task.layer].name,
            item=made.items[task.item].name,
            columns=[task.start, task.stop, *([task.runs] if task.runs > 1 else [])],
            stage=task.stage,
            buffers=task.buffers,
            **_optional(made, task, claim if stated else None),
        )
        for task, claim in zip(made.tasks, claims.claims(made), strict=True)
    ]
    return entries.PlanEntry(
        board=made.board,
        model=made.network.name,
        block=made.block,
        sync=made.sync,
        depth=made.depth,
        **({"arena": made.arena * made.block} if made.arena else {}),
        items=items,
        tasks=tasks,
        hand_overs=[
            entries.HandOverEntry(name=h.name, items=[made.items[i].name for i in h.items]) for h in made.hand_overs
        ],
    ).to_json()


def _optional(made: Plan, task: Task, claim: targets.Claim | None) -> dict[str, Any]:
    """Return the entries that only some tasks have."""
    offset = {} if task.offset is None else {"offset": task.offset * made.block}
    return {**offset, **({} if claim is None else {"claim": claim.value})}


def launches_document(made: Plan) -> list[list[str]]:
    """Return the names of the tasks of every launch that computes several tasks."""
    return [[task.name for task in launch.tasks] for launch in planned_launches(made) if len(launch.tasks) > 1]


def memory_document(program: Program) -> dict[str, Any]:
    """Return the bytes that a program needs, and those of other schemes; see `MemoryEntry`."""
    plan = program.plan
    return {
        "constants": sum(table.values.nbytes for table in program.tables),
        "buffers": plan.block * buffer_bytes(plan.network, plan.tasks),
        **dataclasses.asdict(memory.of(plan)),
    }


def _strayed(observed: ConformanceEntry | None) -> list[str]:
    """Return the clause on traces that contradict the plan, as a list; empty if there are none."""
    if observed is None or observed.conforms:
        return []
    count = sum(condition.violations for condition in observed.conditions)
    where = f"traces of {observed.executions:,} executions"
    return [f"{count:,} steps in {where} were not in order, first {observed.violations[0]}"]


def _totals(plan: Plan, count: int, chunks: Sequence[tuple[Comparison, ...]]) -> list[Comparison]:
    """Return each layer's result over all chunks; BoardError for activations that were kept and not compared."""
    totals = [reduce(Comparison.__add__, column, NOTHING) for column in zip(*chunks, strict=True)]
    for layer, total, is_kept in zip(plan.network.layers, totals, plan.kept, strict=True):
        expected = count * layer.size * is_kept
        if total.compared != expected:
            raise BoardError(f"layer {layer.name}: {total.compared} activations were compared, not {expected}")
    return totals


def model_document(network: Network) -> dict[str, Any]:
    """Return the model, its input box in physical units if its normalisation is known."""
    normalisation, box = network.normalisation, network.numbers(network.box)
    if normalisation:
        box = box * normalisation.range + normalisation.mean
    return entries.ModelEntry(
        name=network.name,
        sha256=network.sha256,
        input=entries.InputEntry(
            names=normalisation.names if normalisation else _names_of_values(network),
            units=normalisation.units if normalisation else [],
            box_low=box[0].tolist(),
            box_high=box[1].tolist(),
        ),
        metadata={
            key: value for key, value in network.metadata.items() if key not in (streams.SETTINGS, streams.WHOLE)
        },
        **_stream_entry(network),
    ).to_json()


def _names_of_values(network: Network) -> list[str]:
    """Return the input that each value of a vector belongs to; none if there is one input."""
    return [name for name, _ in network.places] if len(network.inputs) > 1 else []


def _stream_entry(network: Network) -> dict[str, Any]:
    """Return the entry of the stream whose steps a network computes; empty for another network."""
    stream = streams.of(network)
    if stream is None:
        return {}
    layers = [
        entries.StreamedEntry(name=layer.name, **dataclasses.asdict(stream.flows[layer.output.name]))
        for layer in stream.whole.layers
    ]
    found = entries.StreamEntry(
        **stream.settings,
        window=stream.window,
        windows=stream.windows,
        whole=stream.whole.sha256,
        history_bytes=stream.history_bytes,
        operations=network.operations,
        operations_of_whole=stream.whole.operations,
        layers=layers,
    )
    return {"stream": found}


def graph_document(network: Network) -> list[dict[str, Any]]:
    """Return the inputs of a network and its layers as JSON types; see `NodeEntry`."""
    box = network.values(network.box)
    tensors = [*network.inputs, *(layer.output for layer in network.layers)]
    written = {tensor.name: position for position, tensor in enumerate(tensors)}
    nodes = [
        _node(tensor.name, "", tensor, (), (float(box[tensor.name].min()), float(box[tensor.name].max())))
        for tensor in network.inputs
    ]
    for layer in network.layers:
        reads = [written[name] for name in dict.fromkeys(layer.sources)]
        nodes.append(_node(layer.name, layer.operator, layer.output, reads, _value_range(layer)))
    return [node.to_json() for node in nodes]


def _node(
    name: str, operator: str, tensor: Tensor, reads: Sequence[int], limits: tuple[float | None, float | None]
) -> entries.NodeEntry:
    low, high = limits
    return entries.NodeEntry(
        name=name, operator=operator, reads=reads, shape=tensor.shape, dtype=str(tensor.dtype), low=low, high=high
    )


def _value_range(layer: Layer) -> tuple[float | None, float | None]:
    """Return bounds of the values that a layer writes: of its codes if it writes codes; None without a bound."""
    codes, bound = coverage.reachable_codes(layer), layer.output.bound
    if codes is not None:
        found = np.flatnonzero(codes.any(axis=0)) + np.iinfo(layer.dtype).min
        return int(found[0]), int(found[-1])
    if not np.isfinite(bound):
        return None, None
    return (0 if layer.dtype == np.int64 else -bound), bound


def _layer(
    plan: Plan, ran_on: Sequence[str], index: int, total: Comparison, covered: LayerCoverage, ratios: Mapping[str, Any]
) -> entries.LayerEntry:
    layers, tasks = plan.network.layers, plan.tasks_of(index)
    layer, items = layers[index], [plan.items[task.item] for task in tasks]
    first = (
        entries.DifferenceEntry(**dataclasses.asdict(total.first), **_part(plan, index, total.first))
        if total.first
        else None
    )
    return entries.LayerEntry(
        index=index,
        name=layer.name,
        operator=layer.operator,
        reads=[other.name for other in layers if other.output.name in layer.sources],
        items=[item.name for item in items],
        item=_each(item.name for item in items),
        target=_each(item.target for item in items),
        ran_on=_each(ran_on[task.item] for task in tasks),
        compared=total.compared,
        differing=total.differing,
        own=total.own,
        first_difference=first,
        coverage=_counts(covered),
        **(dict(ratios) if plan.kept[index] else {**ratios, "kept": False}),
    )


def _part(plan: Plan, layer: int, difference: Difference) -> dict[str, Any]:
    """Return the part of a split layer that contains a column."""
    tasks = plan.tasks_of(layer)
    if len(tasks) == 1:
        return {}
    width = plan.network.layers[layer].size
    task = next(task for task in tasks if task.region.has(difference.unit, width))
    return {"part": f"{task.name} of {plan.items[task.item].name}"}


def _each(texts: Iterable[str]) -> str:
    """Return every different text once."""
    return " + ".join(dict.fromkeys(texts))


def _counts(covered: LayerCoverage) -> dict[str, Met]:
    return {quantity.value: met for quantity, met in covered.items()}


def _output_differences(network: Network, count: int, near: LocalResult) -> list[entries.OutputDifferenceEntry]:
    """Return the outputs of the network over `count` vectors, compared with the reference."""
    return [
        entries.OutputDifferenceEntry(
            layer=network.layers[output.layer].name,
            values=count * network.layers[output.layer].size,
            unequal=output.unequal,
            largest=output.largest,
        )
        for output in near.outputs
    ]


def _reason(
    plan: Plan, vectors: int, differing: Sequence[str], totals: Sequence[Comparison], near: LocalResult | None
) -> str:
    compared, kept = sum(total.compared for total in totals), sum(plan.kept)
    layers = str(kept) if kept == len(totals) else f"{kept} of {len(totals)}"
    scope = f"{compared:,} activations of {layers} layers over {vectors:,} vectors"
    lost = [layer.name for layer, is_kept in zip(plan.network.layers, plan.kept, strict=True) if not is_kept]
    unknown = (
        f"; those of {shortened(', '.join(lost))} were overwritten, as buffers are reused: run without "
        "--buffers reuse to compare every layer"
        if lost
        else ""
    )
    if near:
        return f"{_near_text(plan, scope, differing, totals, near)}, each for the inputs that the board computed"
    if not differing:
        return f"all {scope} are bit for bit those of the reference{unknown}"
    return f"{sum(total.differing for total in totals):,} of {scope} differ, first in layer {differing[0]}{unknown}"


def _near_text(
    plan: Plan, scope: str, differing: Sequence[str], totals: Sequence[Comparison], near: LocalResult
) -> str:
    """Return the clause on layers that were compared with the specification for their own inputs."""
    if differing:
        wrong = sum(total.differing for total in totals)
        return f"{wrong:,} of {scope} differ or are beyond their bound, first in layer {differing[0]}"
    names = [layer.name for layer, found in zip(plan.network.layers, near.bounded, strict=True) if found]
    largest = max(found.ratio for found in near.bounded if found)
    exact = len(near.bounded) - len(names)
    others = f"{plural(exact, 'other layer')} bit for bit, " if exact else ""
    return (
        f"all {scope} hold: {others}those of {shortened(', '.join(names))} within {100 * largest:.3g} % of their bound"
    )


def _proved(proof: ProofDocument | None) -> list[str]:
    """Return the clause of the reason on the proof, as a list."""
    if proof is None:
        return []
    failed = [claim for claim in proof.claims if not claim.holds]
    if failed:
        where = f", layer {failed[0].layer}" if failed[0].layer else ""
        return [f"the proof fails{where}: {shortened(str(failed[0].counterexample))}"]
    board = [claim for claim in proof.claims if claim.answered_by == Side.BOARD.value]
    cases = sum(claim.cases for claim in board if claim.complete)
    sampled = list(dict.fromkeys(claim.layer for claim in proof.claims if claim.layer and not claim.complete))
    scope = f"for every input, but for samples of layer {', '.join(sampled)}" if sampled else "for every input"
    return [f"shown {scope}, by {cases:,} cases on the board, under {len(proof.assumptions)} stated assumptions"]


def _effect(network: Network, count: int, changed: int) -> entries.EffectEntry:
    """Return how many of `count` vectors have a wrong output of the network."""
    last = network.layers[-1]
    what = "decisions" if last.dtype == np.int64 else "outputs"  # ArgMax and ArgMin write int64
    return entries.EffectEntry(layer=last.name, what=what, changed=changed, of=count)


def _headline(network: Network, found: Sequence[Diagnosis], wrong: Sequence[str]) -> entries.HeadlineEntry | None:
    """Return the one diagnosis to read first: the cause that explains all wrong layers, or that of the first layer.

    `layers` are those that `cause` explains; `cause` is None if no known cause explains everything.
    """
    if not found:
        return None
    layers, shared = [network.layers[diagnosis.layer].name for diagnosis in found], common(found)
    first = found[0]
    if not shared:
        cause = first.complete[0].cause if first.complete else None
        return entries.HeadlineEntry(layer=layers[0], layers=layers[:1], cause=cause, text=first.text)
    values = sum(diagnosis.differing for diagnosis in found)
    rest = [layer for layer in wrong if layer not in layers]
    note = f"; not looked at, but wrong themselves: {', '.join(rest)}" if rest else ""
    scope = f"all {values:,} differing values looked at in {len(layers)} layers"
    text = f"one cause explains {scope}: {named(shared)}{note}"
    return entries.HeadlineEntry(layer=layers[0], layers=layers, cause=shared[0].cause, text=text)


def _diagnosis(network: Network, found: Diagnosis) -> entries.DiagnosisEntry:
    """Return the sentence, and the hypotheses: all that explain everything, and the nearest."""
    shown = found.ranked[: max(len(found.complete), 5)]
    return entries.DiagnosisEntry(
        layer=network.layers[found.layer].name,
        text=found.text,
        differing=found.total,
        looked_at=found.differing,
        hypotheses=[_hypothesis(hypothesis, found) for hypothesis in shown],
    )


def _hypothesis(hypothesis: Hypothesis, found: Diagnosis) -> entries.HypothesisEntry:
    return entries.HypothesisEntry(
        cause=hypothesis.cause,
        right=hypothesis.right,
        explains_all=hypothesis in found.complete,
        explained=hypothesis.explained,
        of=found.differing,
        contradicted=hypothesis.contradicted,
        example=entries.DifferenceEntry(**dataclasses.asdict(hypothesis.example)) if hypothesis.example else None,
    )


def _picture(network: Network, count: int, summary: DifferenceSummary) -> entries.PictureEntry:
    """Summarize the differences of a layer; a row of the map is one line, which is shorter than a list of numbers."""
    layer = network.layers[summary.layer]
    columns, rows = map_shape(count, layer.size)
    empty = (0,) * rows
    lines = zip(*(summary.cells.get(column, empty) for column in range(columns)), strict=True)
    return entries.PictureEntry(
        layer=layer.name,
        vectors=count,
        units=layer.size,
        map=[" ".join(map(str, line)) for line in lines],
        steps=summary.steps,
        tie_distances=summary.tie_distances,
    )
