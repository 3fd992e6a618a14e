"""Small domains of random networks, and their decisions by brute force through ONNX Runtime."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import yaml
from onnx import numpy_helper

from tests.support.builders import random_network

CODES = np.arange(256)


@dataclass(frozen=True)
class Domain:
    """A network with `axes` cuts in the units of its inputs."""

    model: onnx.ModelProto
    cuts: tuple[npt.NDArray[np.float64], ...]

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
        session = onnxruntime.InferenceSession(self.model.SerializeToString())
        constants = {each.name: numpy_helper.to_array(each) for each in self.model.graph.initializer}
        scale, zero_point = constants["x_scale"], constants["x_zero_point"].astype(np.int64)
        lowest = int(np.iinfo(constants["x_zero_point"].dtype).min)
        inputs = ((codes + lowest - zero_point) * scale).astype(np.float32)
        found: npt.NDArray[np.float32] = session.run([self.model.graph.output[0].name], {"x": inputs})[0]
        return found

    def codes_of_interval(self, axis: int, interval: int) -> npt.NDArray[np.int64]:
        """The codes that inputs of an interval can have, from 0 to 255: those of its ends and all between them."""
        constants = {each.name: numpy_helper.to_array(each) for each in self.model.graph.initializer}
        ends = self.cuts[axis][interval : interval + 2].astype(np.float32)
        zero_point = constants["x_zero_point"].astype(np.float32)
        limits = np.iinfo(constants["x_zero_point"].dtype)
        codes = np.clip(np.rint(ends / constants["x_scale"]) + zero_point, limits.min, limits.max).astype(np.int64)
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
    cuts = []
    for _ in range(axes):
        start = int(random.integers(0, 256 - codes))
        places = np.unique(np.concatenate([[0, codes - 1], random.uniform(0, codes - 1, 3), random.integers(0, codes, 1)]))
        cuts.append((start + places + lowest - zero_point) * scale)
    return Domain(model, tuple(cuts))
