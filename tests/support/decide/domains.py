"""Small domains of random networks, and their decisions by brute force through ONNX Runtime."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import yaml
from onnx import numpy_helper

from tests.support.builders import random_network


@dataclass
class Domain:
    """A network with `axes` cuts in the units of its inputs."""

    model: onnx.ModelProto
    cuts: tuple[npt.NDArray[np.float64], ...]

    @cached_property
    def constants(self) -> dict[str, npt.NDArray[np.generic]]:
        """The constants of the model by name."""
        return {each.name: numpy_helper.to_array(each) for each in self.model.graph.initializer}

    @cached_property
    def session(self) -> onnxruntime.InferenceSession:
        """The model in ONNX Runtime."""
        return onnxruntime.InferenceSession(self.model.SerializeToString())

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of intervals of each axis."""
        return tuple(len(cuts) - 1 for cuts in self.cuts)

    def write(self, folder: Path, **entries: object) -> tuple[Path, Path]:
        """Write model and property; return their paths."""
        model, stated = folder / "net.onnx", folder / "property.yaml"
        onnx.save(self.model, model)
        stated.write_text(yaml.safe_dump(entries))
        return model, stated

    def axes(self) -> list[dict[str, object]]:
        """The axes as a property states them."""
        return [{"name": f"x{index}", "cuts": [float(cut) for cut in cuts]} for index, cuts in enumerate(self.cuts)]

    def scores(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The scores of code vectors (n, axes): ONNX Runtime computes the model for an input with these codes."""
        scale, zero_point = self.constants["x_scale"], self.constants["x_zero_point"].astype(np.int64)
        lowest = int(np.iinfo(self.constants["x_zero_point"].dtype).min)
        inputs = ((codes + lowest - zero_point) * scale).astype(np.float32)
        found: npt.NDArray[np.float32] = self.session.run([self.model.graph.output[0].name], {"x": inputs})[0]
        return found

    def codes_of_interval(self, axis: int, interval: int) -> npt.NDArray[np.int64]:
        """The codes that inputs of an interval can have, from 0 to 255: those of its ends and all between them."""
        ends = self.cuts[axis][interval : interval + 2].astype(np.float32)
        zero_point = self.constants["x_zero_point"].astype(np.float32)
        limits = np.iinfo(self.constants["x_zero_point"].dtype)
        codes = np.clip(np.rint(ends / self.constants["x_scale"]) + zero_point, limits.min, limits.max).astype(np.int64)
        low, high = codes - limits.min
        return np.arange(low, high + 1)

    def scores_by_box(self) -> dict[tuple[int, ...], npt.NDArray[np.float32]]:
        """The scores of all code vectors of each box."""
        found = {}
        for box in itertools.product(*map(range, self.shape)):
            ranges = [self.codes_of_interval(axis, interval) for axis, interval in enumerate(box)]
            grid = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))
            found[box] = self.scores(grid)
        return found


def random_domain(seed: int, *, axes: int = 3, outputs: int = 3, codes: int = 12, **network: object) -> Domain:
    """A domain of about `codes` codes along each axis; cuts lie on codes, between two, and several in one code."""
    random = np.random.default_rng(seed)
    model = random_network(random, (axes, 9, 7, outputs), **network)  # type: ignore[arg-type]
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    scale, zero_point = float(constants["x_scale"]), int(constants["x_zero_point"])
    lowest = int(np.iinfo(constants["x_zero_point"].dtype).min)
    starts = random.integers(0, 256 - codes, axes)
    places = [
        np.unique(np.concatenate([[0, codes - 1], random.uniform(0, codes - 1, 3), random.integers(0, codes, 1)]))
        for _ in range(axes)
    ]
    cuts = tuple((start + place + lowest - zero_point) * scale for start, place in zip(starts, places, strict=True))
    domain = Domain(model, cuts)
    samples = random.integers(starts, starts + codes, (500, axes))
    return Domain(_balanced(domain, samples), cuts)


def write_table(folder: Path, domain: Domain, sets: npt.NDArray[np.uint8]) -> None:
    """Write the table of these sets at the cuts of a domain, as table.npz."""
    arrays = {f"cuts_{axis}": cuts for axis, cuts in enumerate(domain.cuts)}
    axes = len(domain.cuts)
    np.savez(
        folder / "table.npz",
        allow_pickle=False,
        axes=np.array([f"x{axis}" for axis in range(axes)]),
        units=np.array([""] * axes),
        wraps=np.zeros(axes, np.bool_),
        advisories=sets,
        names=np.array(["output 0", "output 1", "output 2"]),
        **arrays,
    )


def _balanced(domain: Domain, codes: npt.NDArray[np.int64]) -> onnx.ModelProto:
    """Return the model with another bias of its last layer, so that every score is the greatest for some codes."""
    model = onnx.ModelProto()
    model.CopyFrom(domain.model)
    constants = {each.name: each for each in model.graph.initializer}
    values = {name: numpy_helper.to_array(each) for name, each in constants.items()}
    last = next(each.name for each in reversed(model.graph.node) if each.op_type == "QGemm")
    step = values[f"{last}_a_scale"] * values[f"{last}_b_scale"]
    scores = domain.scores(codes).astype(np.float64)
    if f"{last}_y_scale" in values and "score_scale" not in values:
        scores *= values[f"{last}_y_scale"]
    excess = np.median(scores, axis=0) - np.median(scores)
    bias = constants[f"{last}_bias"]
    moved = values[bias.name] - np.rint(excess / step).astype(np.int32)
    bias.CopyFrom(numpy_helper.from_array(moved.astype(np.int32), bias.name))
    return model
