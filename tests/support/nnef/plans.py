"""Plans for the tests of this room, and whether two are the same."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import onnx

from harness.boards import profile
from harness.boards.profile import ItemProfile, Profile
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.plan import planner
from harness.plan.plan import Plan, Sync
from tests.support import builders, dags
from tests.support.programs.board_program import parse

PREPOST = ("QuantizeLinear", "DequantizeLinear", "ArgMax", "ArgMin", "Add")


@cache
def board(*names: str) -> Profile:
    """This machine as a board, with an item for codes, one for floats, and further ones without work of their own."""
    operators = [PREPOST, ("QGemm",), *((),) * len(names)]
    items = {
        name: ItemProfile(target="c", core=core, operators=what)
        for name, core, what in zip(
            ("prepost", "network", *names), (0, 1, *[None] * len(names)), operators, strict=True
        )
    }
    return profile.load(ROOT / "boards.yaml", {}).board("host").model_copy(update={"items": items})


def random_model(seed: int, *widths: int, **options: Any) -> onnx.ModelProto:
    return builders.random_network(np.random.default_rng(seed), widths, **options)


MODELS = {
    "plain": lambda: random_model(1, 5, 7, 6, 4),
    "int8": lambda: random_model(2, 5, 7, 4, activations="int8", zero_points=True),
    "uint8": lambda: random_model(9, 5, 7, 4, weights="uint8", zero_points=True),
    "per_column": lambda: random_model(3, 5, 8, 4, per_column=True, zero_points=True, transposed=True, alpha=0.7),
    "ties": lambda: random_model(4, 6, 8, 4, power_of_two=True),
    "float_output": lambda: random_model(5, 5, 6, 4, float_output=True),
    "argmax": lambda: random_model(6, 5, 6, 4, dequantize=True, argmax=True),
    "codes_argmax": lambda: random_model(7, 5, 6, 3, power_of_two=True, argmax=True),
    "residual": lambda: random_model(8, 5, 6, 4, residual=3, argmax=True),
    "branches": dags.listing_2,
}
"""Networks with all operators and types, by name."""

SPLITS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "int8": ("layer_1=prepost",),
    "uint8": ("layer_0=third", "layer_1=third"),
    "per_column": ("parallel",),
    "ties": ("pipeline",),
    "float_output": ("parallel=network+prepost", "pipeline"),
    "argmax": (),
    "codes_argmax": ("layer_1=network+third",),
    "residual": ("parallel",),
    "branches": ("o1=prepost", "out=prepost", "o4..o5=third"),  # the paper's example 5
}


@cache
def network(name: str) -> Network:
    return parse(MODELS[name]())


def make(name: str, *, split: tuple[str, ...] | None = None, sync: Sync = "barrier") -> Plan:
    """The plan of a network of this file with its split, or another one."""
    words = SPLITS[name] if split is None else split
    return planner.make(network(name), board("third"), block=17, split=words, sync=sync)


def same(one: Plan, other: Plan) -> bool:
    """All fields of two plans are equal, of their networks the names, the bytes and the layers."""
    return _fields(one) == _fields(other) and _network(one.network) == _network(other.network)


def _fields(made: Any) -> dict[str, Any]:
    return {field.name: getattr(made, field.name) for field in dataclasses.fields(made) if field.name != "network"}


def _network(net: Network) -> tuple[Any, ...]:
    layers = [repr(_bits(layer)) for layer in net.layers]
    return net.name, net.sha256, net.onnx_bytes, net.box.tobytes(), layers


def _bits(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return {name: _bits(each) for name, each in _fields(value).items()} if dataclasses.is_dataclass(value) else value
