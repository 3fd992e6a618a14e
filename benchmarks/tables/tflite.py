"""The tables of a thesis on a converter from ONNX to TFLite, each of its numbers beside ours.

Martin Pavella, "Conversion between models of machine learning frameworks for mobile platforms", bachelor's thesis in
Slovak, Brno University of Technology, 2023: tables 6.1 to 6.4, and the times of section 6.2.  Its models are public;
ours have their shapes and seeded weights.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import NamedTuple

import numpy as np

from benchmarks.tables.document import NOT_MEASURED, CellEntry, Sources, TableEntry, label, table
from harness.analysis.imported import uniform_vectors
from harness.applications.convert import check
from harness.core.arrays import Array
from harness.model.network import Network
from harness.model.onnx_runtime import sessions
from harness.model.tflite.file import encode
from harness.model.tflite.interpreter import Interpreter
from harness.reference.runtime import with_free_batch
from harness.targets.litert.convert import convert_network

PAPER = (
    "Pavella: Conversion between models of machine learning frameworks for mobile platforms, "
    "bachelor's thesis, Brno University of Technology, 2023"
)
NETWORKS: Mapping[str, str] = {
    "alexnet": "Alexnet",
    "tiny_yolo_v2": "Tiny YOLO v2",
    "duc": "DUC",
    "speech": "Speech Classifier",
    "lenet5": "",
    "cifarnet": "",
    "acas_coc": "",
    "lenet5_int8": "",
    "ds_cnn_int8": "",
    "resnet8_int8": "",
}
"""Our networks, by the names that the thesis gives theirs."""
MODELS = tuple(NETWORKS)
INPUTS, SEED = 100, 1
RECIPES: Mapping[str, str] = {"alexnet": "floats", "tiny_yolo_v2": "tflite", "duc": "tflite", "speech": "tflite"}
LAYER_VECTORS = 2
STATISTICS = (
    ("largest", "6.1", "largest |difference|", "largest |difference| / |ONNX Runtime|, %"),
    ("mean", "6.2", "mean |difference|", "mean |difference| / |ONNX Runtime|, %"),
)
PUBLISHED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "alexnet": {"largest": (1.173466e-8, 2.602906e-4), "mean": (4.642541e-10, 3.993724e-5)},
    "tiny_yolo_v2": {"largest": (2.083778e-5, 3.710334), "mean": (1.823265e-6, 1.063845e-3)},
    "duc": {"largest": (1.800101e-8, 3.212610), "mean": (3.262347e-10, 9.271910e-2)},
    "speech": {"largest": (3.552436e-6, 1.308060e-4), "mean": (5.922135e-7, 1.503717e-5)},
}
MOMENTS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "alexnet": {"mean": (3.492459e-10, 2.328306e-10), "std": (4.074536e-10, 1.455191e-10)},
    "tiny_yolo_v2": {"mean": (5.960464e-8, 2.384185e-8), "std": (4.768371e-7, 2.384185e-7)},
    "duc": {"mean": (9.720225e-12, 8.168399e-12), "std": (3.173284e-11, 2.036415e-11)},
    "speech": {"mean": (9.536743e-7, 9.536743e-8), "std": (2.384185e-7, 5.960464e-8)},
}
"""Largest and mean absolute error of the outputs' mean and standard deviation."""


class Latency(NamedTuple):
    """The least and the median time of an inference, ns."""

    minimum: int
    median: int
    inferences: int


@dataclass(frozen=True, eq=False)
class Compared:
    """A network in ONNX Runtime and in LiteRT: what differs over all inputs, times by threads, sizes of the files.

    `largest` and `mean` are means over the inputs, absolute and relative, as in the thesis; `moments` has the largest
    and the mean error of the outputs' mean and standard deviation.  `wrong` names layers beyond their bounds.
    """

    model: str
    is_float: bool
    wrong: tuple[str, ...]
    largest: tuple[float, float]
    mean: tuple[float, float]
    moments: Mapping[str, tuple[float, float]]
    differing: int
    values: int
    same_decision: int
    onnx_bytes: int
    tflite_bytes: int
    operators: int
    own: int
    times: Mapping[tuple[str, int], Latency] = field(default_factory=dict)


def absent(model: str) -> str:
    """Return how to make a model that is absent."""
    return f"models/{model}.onnx is absent; make it: .venv/bin/python -m models.{RECIPES.get(model, 'floats')} {model}"


def compared(network: Network, seconds: float, advance: Callable[[int], None]) -> Compared:
    """Convert a network, compare its outputs on seeded inputs, and time both engines for `seconds` each."""
    outputs = check.outputs_of(network)
    file = convert_network(network, outputs)
    checked = check.check(network, file, LAYER_VECTORS, SEED, lambda _: None)
    content, batched = encode(file.file), with_free_batch(network).SerializeToString()
    vectors = uniform_vectors(network, INPUTS, SEED)
    session, engine = sessions.session(batched, 1), Interpreter(content)
    last = next(layer for layer in network.layers if layer.output.name == outputs[0])
    value = file.layers[last.name]
    name = session.get_inputs()[0].name
    left: list[Array] = []
    right: list[Array] = []
    for vector in vectors:
        [output] = session.run([outputs[0]], {name: vector.reshape(1, *network.vector.shape)})
        left.append(output.reshape(1, -1))
        codes = {each.tensor: check.encoded(vector, each) for each in file.inputs.values()}
        found = {number: values[None] for number, values in engine.run(codes).items()}
        right.append(check.decoded(found, value, last.dtype))
        advance(1)
    expected, actual = (np.concatenate(each).astype(np.float64) for each in (left, right))
    return Compared(
        network.name,
        all(layer.dtype.itemsize != 1 for layer in network.layers),
        tuple(each.layer.name for each in checked.layers if not each.holds),
        *_differences(expected, actual),
        moments=_moments(expected, actual),
        differing=int((expected != actual).sum()),
        values=expected.size,
        same_decision=int((expected.argmax(axis=1) == actual.argmax(axis=1)).sum()),
        onnx_bytes=len(network.onnx_bytes),
        tflite_bytes=len(content),
        operators=len(file.file.operators),
        own=len(checked.own),
        times=_times(network, batched, content, vectors[0], seconds) if seconds else {},
    )


def _differences(expected: Array, actual: Array) -> tuple[tuple[float, float], tuple[float, float]]:
    distance = np.abs(expected - actual)
    with np.errstate(all="ignore"):
        relative = np.where(distance == 0, 0, distance / np.abs(expected)) * 100
    finite = np.where(np.isfinite(relative), relative, 0)
    most = float(distance.max(axis=1).mean()), float(finite.max(axis=1).mean())
    return most, (float(distance.mean()), float(finite.mean()))


def _moments(expected: Array, actual: Array) -> dict[str, tuple[float, float]]:
    found = {}
    for name in ("mean", "std"):
        errors = np.abs(getattr(expected, name)(axis=1) - getattr(actual, name)(axis=1))
        found[name] = float(errors.max()), float(errors.mean())
    return found


def _times(
    network: Network, model: bytes, content: bytes, vector: Array, seconds: float
) -> dict[tuple[str, int], Latency]:
    """Return the times of one vector by engine and threads, from 1 to the processors of this machine."""
    latencies = {}
    batch = vector.reshape(1, *network.vector.shape)
    for threads in range(1, (os.cpu_count() or 1) + 1):
        session = sessions.session(model, threads)
        name = session.get_inputs()[0].name
        latencies["ONNX Runtime", threads] = _timed(lambda: session.run(None, {name: batch}), seconds)  # noqa: B023
        engine = Interpreter(content, threads=threads)
        latencies["LiteRT", threads] = _timed(engine.invoke, seconds)
    return latencies


def _timed(call: Callable[[], object], seconds: float) -> Latency:
    call()
    times: list[int] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begun = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begun)
    return Latency(min(times), statistics.median_low(times), len(times))


Cells = dict[str, CellEntry]


def tables(networks: Sequence[Compared], models: Sequence[str], sources: Sources) -> tuple[TableEntry, ...]:
    """Return all tables; `sources` collects where their numbers come from."""
    found = {each.model: each for each in networks}
    origin = (
        f"ONNX Runtime {version('onnxruntime')} and LiteRT {version('ai-edge-litert')} on {platform.machine()}, "
        f"{INPUTS} uniform inputs of seed {SEED}"
    )
    return (
        *(_errors(found, models, statistic, origin, sources) for statistic in STATISTICS),
        _errors_of_moments(found, models, origin, sources),
        _agreement(found, models, origin, sources),
        _latencies(found, models, sources),
    )


def _row(model: str) -> Cells:
    return {"network": label(model), "name_paper": label(NETWORKS[model])}


def _errors(
    found: Mapping[str, Compared], models: Sequence[str], statistic: Sequence[str], origin: str, sources: Sources
) -> TableEntry:
    key, number, absolute, relative = statistic
    rows = []
    for model in models:
        own = getattr(found[model], key) if model in found else (None, None)
        published = PUBLISHED.get(model, {}).get(key, (None, None))
        rows.append(_row(model) | {
            "absolute": sources.cell(own[0], origin, absent(model)),
            "paper_absolute": sources.cell(published[0], f"the thesis, table {number}", "not in the thesis"),
            "relative": sources.cell(own[1], origin, absent(model)),
            "paper_relative": sources.cell(published[1], f"the thesis, table {number}", "not in the thesis"),
        })  # fmt: skip
    return table(
        f"errors_{key}",
        f"Table {number}: {absolute} of outputs",
        "Mean over the inputs. The seeded weights and inputs are not those of the thesis, so only magnitudes can be "
        "compared: a network that ends with Softmax has small outputs. float32 differs by other orders of sums.",
        (*NAMES, f"absolute={absolute}", f"paper_absolute={absolute}", f"relative={relative}",
         f"paper_relative={relative}"),
        rows,
        ("network", "name_paper"),
    )  # fmt: skip


NAMES = ("network", "name_paper=network")
AGREEMENT: Mapping[str, str] = {
    "layers": "layers against the specification",
    "values": "output values",
    "differing": "of these with other bits",
    "decisions": "same largest output",
    "onnx": "ONNX, bytes",
    "tflite": "TFLite, bytes",
    "operators": "operators of TFLite",
    "own": "of these not by XNNPACK",
}


def _errors_of_moments(
    found: Mapping[str, Compared], models: Sequence[str], origin: str, sources: Sources
) -> TableEntry:
    rows = []
    for model in models:
        cells = _row(model)
        for moment, number in (("mean", "6.3"), ("std", "6.4")):
            own = found[model].moments[moment] if model in found else (None, None)
            published = MOMENTS.get(model, {}).get(moment, (None, None))
            for at, which in enumerate(("largest", "mean")):
                cells[f"{moment}_{which}"] = sources.cell(own[at], origin, absent(model))
                cells[f"paper_{moment}_{which}"] = sources.cell(
                    published[at], f"the thesis, table {number}", "not in the thesis"
                )
        rows.append(cells)
    heads = [
        f"{prefix}{moment}_{which}={which} error of the {title}"
        for moment, title in (("mean", "mean"), ("std", "standard deviation"))
        for which in ("largest", "mean")
        for prefix in ("", "paper_")
    ]
    title = "Tables 6.3 and 6.4: mean and standard deviation of outputs"
    return table("moments", title, "Errors of the mean and the standard deviation of each output vector.",
                 (*NAMES, *heads), rows, ("network", "name_paper"))  # fmt: skip


def _agreement(found: Mapping[str, Compared], models: Sequence[str], origin: str, sources: Sources) -> TableEntry:
    rows = []
    for model in models:
        each = found.get(model)
        if each is None:
            rows.append(_row(model) | dict.fromkeys(AGREEMENT, CellEntry(missing=absent(model))))
            continue
        layers = "differs" if each.wrong else "within bound" if each.is_float else "identical"
        by_layer = f"every layer on {LAYER_VECTORS} inputs, as harness models convert compares them"
        cells = {
            "layers": sources.cell(layers, by_layer),
            "values": sources.cell(each.values, origin),
            "differing": sources.cell(each.differing, origin),
            "decisions": sources.cell(f"{each.same_decision} of {INPUTS}", origin),
            "onnx": sources.cell(each.onnx_bytes, "the files"),
            "tflite": sources.cell(each.tflite_bytes, "the files"),
            "operators": sources.cell(each.operators, "the files"),
            "own": sources.cell(each.own, "LiteRT on this machine"),
        }
        rows.append(_row(model) | cells)
    return table(
        "agreement",
        "Agreement of outputs, and sizes of the files",
        "The thesis compares the index of the largest output on real data; these inputs are random.",
        (*NAMES, *(f"{key}={heading}" for key, heading in AGREEMENT.items())),
        rows,
        ("network", "name_paper"),
    )  # fmt: skip


def _latencies(found: Mapping[str, Compared], models: Sequence[str], sources: Sources) -> TableEntry:
    threads = range(1, (os.cpu_count() or 1) + 1)
    rows = []
    for model in models:
        cells = _row(model)
        for count in threads:
            for engine in ("ONNX Runtime", "LiteRT"):
                latency = found[model].times.get((engine, count)) if model in found else None
                text = f"minimum of {latency.inferences:,} inferences here, Python's interface" if latency else ""
                reason = NOT_MEASURED if model in found else absent(model)
                key = f"{engine.split()[0].lower()}_{count}"
                cells[key] = sources.cell(latency.minimum / 1000 if latency else None, text, reason)
        rows.append(cells)
    heads = [
        f"{engine.split()[0].lower()}_{count}={engine}, {count} thread{'s' if count > 1 else ''}, us"
        for count in threads
        for engine in ("ONNX Runtime", "LiteRT")
    ]
    return table(
        "latency",
        "Section 6.2: times of an inference",
        "The thesis draws 1 to 6 threads of an i.MX 8QuadMax and gives no numbers: LiteRT took up to 38 % less time, "
        "but more for the speech classifier, because of Transpose and Reshape that are not needed here.",
        (*NAMES, *heads),
        rows,
        ("network", "name_paper"),
    )
