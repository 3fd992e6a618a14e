"""The entries of `run.json` that describe the network and the plan: model, graph, plan, launches, memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness import targets
from harness.build.codegen import Program
from harness.model import stream as streams
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.tensor import Tensor
from harness.plan import claims, memory
from harness.plan.launches import planned_launches
from harness.plan.plan import Plan, Task, buffer_bytes
from harness.reference import coverage
from harness.runs import entries


def plan_entry(plan: Plan, ran_on: Sequence[str]) -> entries.PlanEntry:
    """Return the plan; `ran_on` states where each item really runs."""
    items = [
        entries.ItemEntry(
            name=item.name,
            target=item.target,
            core=item.core,
            ran_on=ran_on[index],
            tasks=[task.name for task in plan.tasks if task.item == index],
        )
        for index, item in enumerate(plan.items)
    ]
    stated = bool(claims.bounded(plan))
    tasks = [
        entries.TaskEntry(
            name=task.name,
            layer=plan.network.layers[task.layer].name,
            item=plan.items[task.item].name,
            columns=[task.start, task.stop, *([task.runs] if task.runs > 1 else [])],
            stage=task.stage,
            buffers=task.buffers,
            **_optional(plan, task, claim if stated else None),
        )
        for task, claim in zip(plan.tasks, claims.claims(plan), strict=True)
    ]
    return entries.PlanEntry(
        board=plan.board,
        model=plan.network.name,
        block=plan.block,
        sync=plan.sync,
        depth=plan.depth,
        **({"arena": plan.arena * plan.block} if plan.arena else {}),
        items=items,
        tasks=tasks,
        hand_overs=[
            entries.HandOverEntry(name=h.name, items=[plan.items[i].name for i in h.items]) for h in plan.hand_overs
        ],
    )


def _optional(plan: Plan, task: Task, claim: targets.Claim | None) -> dict[str, Any]:
    """Return the entries that only some tasks have."""
    offset = {} if task.offset is None else {"offset": task.offset * plan.block}
    return {**offset, **({} if claim is None else {"claim": claim.value})}


def launches(plan: Plan) -> list[list[str]]:
    """Return the names of the tasks of every launch that computes several tasks."""
    return [[task.name for task in launch.tasks] for launch in planned_launches(plan) if len(launch.tasks) > 1]


def memory_entry(program: Program) -> entries.MemoryEntry:
    """Return the bytes that a program needs, and those of other schemes."""
    plan = program.plan
    return entries.MemoryEntry(
        constants=sum(table.values.nbytes for table in program.tables),
        buffers=plan.block * buffer_bytes(plan.network, plan.tasks),
        **dataclasses.asdict(memory.of(plan)),
    )


def model_entry(network: Network) -> entries.ModelEntry:
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
    )


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
    entry = entries.StreamEntry(
        **stream.settings,
        window=stream.window,
        windows=stream.windows,
        whole=stream.whole.sha256,
        history_bytes=stream.history_bytes,
        operations=network.operations,
        operations_of_whole=stream.whole.operations,
        layers=layers,
    )
    return {"stream": entry}


def graph(network: Network) -> list[entries.NodeEntry]:
    """Return the inputs of a network and its layers."""
    box = network.values(network.box)
    tensors = [*network.inputs, *(layer.output for layer in network.layers)]
    positions = {tensor.name: position for position, tensor in enumerate(tensors)}
    nodes = []
    for tensor in network.inputs:
        values = box[tensor.name]
        nodes.append(_node(tensor.name, "", tensor, (), (float(values.min()), float(values.max()))))
    for layer in network.layers:
        reads = [positions[name] for name in dict.fromkeys(layer.sources)]
        nodes.append(_node(layer.name, layer.operator, layer.output, reads, _value_range(layer)))
    return nodes


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
        reachable = np.flatnonzero(codes.any(axis=0)) + np.iinfo(layer.dtype).min
        return int(reachable[0]), int(reachable[-1])
    if not np.isfinite(bound):
        return None, None
    return (0 if layer.dtype == np.int64 else -bound), bound
