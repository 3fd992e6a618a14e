"""The program that computes functions of definitions in C, and models of one node with them."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.model import parse
from harness.model.network import Network
from harness.operators import by_onnx_name
from harness.operators.exact import functions, trigonometric
from harness.operators.exact.expression import Function as Definition
from harness.operators.pointwise import Pointwise
from harness.operators.pow import POWERS
from harness.operators.tensor import LARGEST
from harness.targets.c import code, expression
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.support.builders import make_model

DEFINED = {**vars(trigonometric), **vars(functions)}.values()
FUNCTIONS = [function for function in DEFINED if isinstance(function, Definition)]
FOLDER = Path(__file__).parent
WIDTH = 21
"""A whole vector of every processor, and a rest."""
KERNELS = FOLDER.parents[2] / "kernels/c"
Nodes: TypeAlias = list[onnx.NodeProto]
Compiled: TypeAlias = Callable[..., bytes]
"""Function from the program's arguments to what it writes."""


class Build(NamedTuple):
    """A compiler with its flags, the words that start what it makes, and a change of a function: old and new text."""

    compiler: tuple[str, ...]
    start: tuple[str, ...] = ()
    change: tuple[str, str] = ("", "")


NATIVE, PLAIN = Build(("gcc", "-O3", "-march=native")), Build(("gcc", "-O0"))
FUSED = ("-mfma",) if platform.machine() == "x86_64" else ()
CONTRACTING = Build(("gcc", "-O2", *FUSED, "-ffp-contract=fast"))
CROSS = (
    Build(("aarch64-linux-gnu-gcc", "-O3", "-static"), ("qemu-aarch64",))
    if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64")
    else None
)


def compiled(build: Build, folder: Path) -> Compiled:
    """Return the program as this compiler makes it in `folder`."""
    shutil.copytree(KERNELS, folder, dirs_exist_ok=True)
    definitions = "".join(['#include "elementary.h"\n\n', *map(definition, FUNCTIONS)])
    assert build.change[0] in definitions
    (folder / "definitions.h").write_text(
        '#include "elementary.h"\n\n' + definitions.replace(*build.change), encoding="utf-8"
    )
    program, source = folder / "functions", FOLDER / "functions.c"
    flags = ["-std=gnu11", *EXACTNESS_FLAGS, "-I", str(folder)]
    subprocess.run(
        [*build.compiler[:1], *flags, *build.compiler[1:], str(source), "-o", str(program), "-lm"], check=True
    )

    def run(*arguments: object) -> bytes:
        words = [*build.start, str(program), *map(str, arguments)]
        return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout

    return run


def definition(function: Definition) -> str:
    """Return the C function of a definition, and `<name>_values` from `width` numbers x to y."""
    limits = expression.limits(function.root)
    variables = "".join(f"    {code.not_known('float', name, number)}\n" for number, name in limits.items())
    arguments = ", ".join(["x[i]", *limits.values()])
    text = expression.function(f"{function.name}_of", function.root, {function.argument.name: function.argument.dtype})
    head = f"static void {function.name}_values(size_t width, const float *restrict x, float *restrict y)"
    loop = f"for (size_t i = 0; i < width; ++i)\n        y[i] = {function.name}_of({arguments});"
    return f"{text}\n\n{head}\n{{\n{variables}    {loop}\n}}\n\n"


DOMAINS = {"Acos": (-1, 1), "Acosh": (1, 1e30), "Asin": (-1, 1), "Atanh": (-0.9999, 0.9999)}
"""The numbers of which an operator has a result, where these are not all numbers."""


def nodes_of(operator: str, source: str = "x", name: str = "y", **attributes: Any) -> tuple[Nodes, dict[str, Array]]:
    """Return the node of a function, and constants: a Pow has an exponent, 2 if it is not given.

    An Abs is before a function of numbers that are not negative, a Clip before one of other numbers.
    """
    exponent, constants = np.float32(attributes.pop("exponent", 2)), {}
    read, nodes = [source], []
    kind = POWERS[float(exponent)] if operator == "Pow" else by_onnx_name()["", operator]
    if getattr(kind, "least", -np.inf) == 0:
        read = [f"{name}_magnitude"]
        nodes.append(helper.make_node("Abs", [source], read, name=read[0]))
    if operator in DOMAINS:
        limits = {
            f"{name}_{end}": np.float32(limit) for end, limit in zip(("low", "high"), DOMAINS[operator], strict=True)
        }
        read, constants = [f"{name}_within"], dict(limits)
        nodes.append(helper.make_node("Clip", [source, *limits], read, name=read[0]))
    if operator == "Pow":
        read.append(f"{name}_exponent")
        constants[read[-1]] = exponent
    return [*nodes, helper.make_node(operator, read, [name], name=name, **attributes)], constants


def layer_of(operator: str, width: int = 1, **attributes: Any) -> tuple[Pointwise, bytes]:
    """Return the layer of a network of one node, see `nodes_of`, and its model for any number of vectors."""
    nodes, constants = nodes_of(operator, **attributes)
    content = make_model(nodes, constants, {"y": ("float32", width)}, width=width).SerializeToString()
    layer = parse(content, "one").layers[-1]
    assert isinstance(layer, Pointwise)
    return layer, content


def every_function(width: int = WIDTH) -> Network:
    """A network with all functions of float32; the width is a multiple of 3."""
    nodes = [
        helper.make_node("Exp", ["x"], ["powers"], name="powers"),
        helper.make_node("Tanh", ["x"], ["bent"], name="bent"),
        helper.make_node("Sigmoid", ["x"], ["logistic"], name="logistic"),
        helper.make_node("Elu", ["x"], ["elu"], name="elu", alpha=0.3),
        helper.make_node("HardSigmoid", ["x"], ["hard"], name="hard", alpha=0.3, beta=0.4),
        helper.make_node("HardSwish", ["x"], ["swish"], name="swish"),
        helper.make_node("Softmax", ["x"], ["soft"], name="soft", axis=1),
        helper.make_node("Reshape", ["x", "shape"], ["rows"], name="rows"),
        helper.make_node("Softmax", ["rows"], ["soft_rows"], name="soft_rows", axis=2),
    ]
    outputs = {node.output[0]: ("float32", width) for node in nodes[:7]}
    model = make_model(nodes, {"shape": np.array([-1, 3, width // 3])}, outputs, width=width)
    model.graph.output.append(helper.make_tensor_value_info("soft_rows", 1, ["vectors", 3, width // 3]))
    return parse(model.SerializeToString(), "functions")


def every_definition(width: int = WIDTH, without: Collection[str] = ()) -> Network:
    """Return a network with all operators that are defined by an expression, with the attributes of the standard."""
    names = sorted(
        name
        for (domain, name), kind in by_onnx_name().items()
        if not domain and issubclass(kind, Pointwise) and name not in without
    )
    groups = [nodes_of(name, name=name.lower()) for name in names]
    groups.append(nodes_of("Gelu", name="gelu_tanh", approximate="tanh"))
    groups += [nodes_of("Pow", name=f"power_{at}", exponent=exponent) for at, exponent in enumerate(POWERS)]
    nodes = [node for group, _ in groups for node in group]
    constants = {name: value for _, numbers in groups for name, value in numbers.items()}
    outputs = {node.output[0]: ("float32", width) for node in nodes}
    return parse(make_model(nodes, constants, outputs, width=width).SerializeToString(), "definitions")


def inputs(width: int = WIDTH, count: int = 300) -> Array:
    """Vectors of the size of activations, of all magnitudes, and special ones."""
    rng = np.random.default_rng(1)
    near, wide = rng.normal(0, 2, (count, width)), rng.normal(0, 60, (count, width))
    bits = rng.integers(0, 1 << 32, (count, width), dtype=np.uint64).astype(np.uint32).view(np.float32)
    any_ = np.where(np.isfinite(bits), bits, np.float32(-0.0))
    special = rng.choice(np.float32([0, -0.0, 1e-45, -1e-45, LARGEST, -LARGEST, 88.72284, -103.9721]), (20, width))
    return np.concatenate([near.astype(np.float32), wide.astype(np.float32), any_, special])
