"""Plan to program to bundle; one package a target: what it can compute, its sources, what it generates.

A target is found by its name: a package `harness.targets.<name>`, or an entry point of the group
`harness.targets` that third parties register.  There is no list to edit.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.core.errors import RequestError, unknown_name
from harness.operators.base import Layer
from harness.operators.obligations import Part
from harness.operators.qgemm import QGemm

KERNELS = Path(__file__).parents[2] / "kernels"
SIMULATORS = KERNELS.parent / "simulators"
HARDWARE = "hardware"  # where an item ran that no stand-in played
COMPILED = "device"  # a bundle's folder of what other compilers made: the program has it, so that it is not deployed
STAND_INS = "stand-in"  # a bundle's folder of libraries that play those of a board


C_TYPES = {
    "float32": "float", "int64": "int64_t", "int32": "int32_t", "uint32": "uint32_t", "uint8": "uint8_t",
    "int8": "int8_t",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Table:
    """A constant of a layer's code: the C name of its array, and the values that it must hold on the board.

    `values` has one dimension or two, in the order in which the code reads them.  One that is `computed` is filled
    by the item's init.  `comment` says where it comes from.
    """

    name: str
    values: Array
    comment: str = ""
    computed: bool = False


@dataclass(frozen=True)
class Stage:
    """A part of a layer that the proof calls by itself: the C function `name`, one vector in, one vector out.

    `forward` must call the very same function, which is declared ONE_CODE (kernels/program/network.h).
    """

    part: Part
    name: str
    input_dtype: np.dtype[Any]
    input_width: int
    output_dtype: np.dtype[Any]
    output_width: int


@dataclass(frozen=True)
class LayerCode:
    """What a target generates for one layer, as C text.

    `definitions` holds buffers and functions of the layer; `forward` is the body of
    `void <stem>_forward(size_t vectors)`.  `tables` and `stages` are what the proof checks; for each stage
    `definitions` has `<name>_stage`, see DEFINE_STAGE in network.h.  `driver` names the functions by which `forward`
    has another device compute; where there are none, the stages are functions of the program.  `target` is the name of
    the item's target, which network_c fills in.
    """

    definitions: str
    forward: str
    tables: tuple[Table, ...]
    stages: tuple[Stage, ...]
    driver: tuple[str, ...] = ()
    target: str = ""


@dataclass(frozen=True)
class Work:
    """A task as its target sees it: `layer` reads the buffers `sources`, one for each of the layer's.

    `wanted` is whether anybody reads its output beside the launch that it belongs to.
    """

    layer: Layer
    sources: tuple[str, ...]
    wanted: bool


Launch: TypeAlias = Sequence[Work]
"""Tasks that may be computed together: side by side in their item's schedule, nobody waits for one of them."""


@dataclass(frozen=True, eq=False)
class ItemCode:
    """What a target generates for an item: the code of its tasks, in their order, and what they share, as C text.

    `definitions` come behind those of the tasks; `initialise` and `close` are bodies of functions, the first of which
    knows `options` (kernels/program/options.h); `device` names a function that tells in words what the item runs on,
    NULL if that is the processor.  `reread` names one that reads the item's tables again from where its code reads
    them, NULL if the code reads them itself.  `kernels` is for the target's own compiler.  `objects` gives the bytes of
    the variables that `definitions` and the tasks define beside tables and buffers, on processors of 64 bits.
    """

    tasks: tuple[LayerCode, ...]
    definitions: str = ""
    initialise: str = ""
    close: str = ""
    device: str = "NULL"
    reread: str = "NULL"
    kernels: Any = None
    objects: Mapping[str, int] = field(default_factory=dict)


class KernelCompiler(Protocol):
    """What compiles the kernels of targets that a C compiler does not; the same for all items of a bundle."""

    def sources(self, kernels: Sequence[Any], profile: Profile) -> dict[str, bytes]:
        """The files that it is given, by their paths in the bundle; `kernels` are those of every item.

        RequestError if the profile does not say what it needs.
        """

    def identity(self, profile: Profile) -> str:
        """Its version, and what it is told beside the sources; RequestError if the profile says too little."""

    def flags(self, profile: Profile) -> tuple[str, ...]:
        """What the C compiler of the program is told beside the profile's flags."""

    def deployed(self, profile: Profile) -> tuple[str, ...]:
        """Return the paths of the files that `build` makes and that the board is given, such as stand-ins."""

    def build(self, bundle: Path, kernels: Sequence[Any], profile: Profile, compile_c: CompileC) -> tuple[Path, ...]:
        """Write what the program needs below `bundle`, where the sources are.

        Returns what is to be compiled and linked with it: .c files, libraries.  Of the sources in folders below a
        target's own only those.  ToolError if a compiler fails or what it makes is not exact.
        """


class CompileC(Protocol):
    """The profile's compiler, for what a kernels' compiler makes besides."""

    def __call__(self, sources: Sequence[Path], output: Path, *flags: str) -> None:
        """Compile and link `sources`, relative to the bundle."""


class Target(Protocol):
    """A way to implement an item (a module with these names serves)."""

    unconfirmed: tuple[str, ...]
    """What nobody has seen on hardware yet, for a person to look at when it runs there for the first time."""

    taken_for_granted: str
    """What a proof takes for granted of each item of it, beside what it does of all: whole sentences, or none."""

    together: bool
    """Whether all tasks of a launch may be computed by the forward of its first; otherwise each is a launch."""

    def refusal(self, layer: Layer) -> str | None:
        """Why this target cannot compute `layer` exactly; None if it can."""

    def folders(self) -> tuple[Path, ...]:
        """Folders of fixed sources: their .c files are compiled, their headers can be included."""

    def headers(self) -> tuple[str, ...]:
        """The headers that the generated code needs."""

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """The code of the item called `item`."""

    def compiler(self) -> KernelCompiler | None:
        """What compiles its kernels, if the C compiler does not."""

    def ran_on(self, profile: Profile) -> str:
        """Where an item of this target really runs on the board of `profile`: `hardware`, or what stands in."""

    def contradiction(self, profile: Profile, device: str) -> str | None:
        """Why `ran_on` cannot be true of an item whose function `device` tells these words; None if it can."""

    def shortage(self, launches: Sequence[Launch], profile: Profile) -> str | None:
        """What these launches, all that have a target of its module, need together and the board does not have.

        `needs ...`, with counts; None if it has all.  It refuses none of their layers.
        """

    def forecast(self, launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:
        """What is known of these launches before they run, a line each: what they take of the board, how long."""


_WANTED = [name for name in (*Target.__annotations__, *vars(Target)) if not name.startswith("_")]


def names() -> list[str]:
    """All targets that can be named in a profile, those with variants as `<target>:<variant>`.

    The variant of the empty name, if there is one, has that of the target alone.  Of one that cannot be loaded only its
    own name is known.
    """
    return sorted(name for module in _modules() for name in _known_variants(module))


def _known_variants(module: str) -> list[str]:
    try:
        return _variants(module)
    except RequestError:
        return [module]


def _modules() -> set[str]:
    return {*(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg), *_points(tuple(sys.path))}


@functools.cache
def _points(path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001 - where packages are looked for
    """The targets of third parties; what is installed does not change while the program runs."""
    return {point.name: point for point in entry_points(group="harness.targets")}


def _variants(module: str) -> list[str]:
    variants = getattr(_load(module), "VARIANTS", None)
    return [f"{module}:{variant}" if variant else module for variant in variants] if variants else [module]


def _load(module: str) -> Any:
    point = _points(tuple(sys.path)).get(module)
    if point is None:
        return importlib.import_module(f"{__name__}.{module}")
    try:
        return point.load()
    except Exception as error:  # whatever the module of a third party raises
        reason = f"{type(error).__name__}: {error}"
        raise RequestError(
            f"target {module} cannot be loaded: {point.value}: {reason}",
            "mend the package that brings it, or remove it",
        ) from error


def find(name: str) -> Target:
    """The target called `name`, which alone is loaded.

    RequestError with the nearest names if there is none, if it cannot be loaded, or lacks what a target has.
    """
    module, _, variant = name.partition(":")
    if module not in _modules() or name not in _variants(module):
        raise unknown_name("target", name, names())
    loaded = _load(module)
    found = loaded.VARIANTS[variant] if hasattr(loaded, "VARIANTS") else loaded
    lacking = [wanted for wanted in _WANTED if not hasattr(found, wanted)]
    if lacking:
        raise RequestError(
            f"target {name} does not have {', '.join(lacking)}", "docs/add-a-target.md says what each is"
        )
    return cast("Target", found)


def stage(
    layer: Layer, part: Part, input_dtype: np.dtype[Any], input_width: int, dtype: np.dtype[Any], width: int
) -> Stage:
    """A stage of `layer`, under the name that all targets give it."""
    return Stage(part, f"{layer.name}_{part.value}", input_dtype, input_width, dtype, width)


def offset(layer: QGemm) -> Array:
    """acc[n] without its sums over a: bias[n] - za * sum_k b[n][k] + depth * za * zb[n], modulo 2^32, uint32 (N,)."""
    centered = layer.weights.astype(np.int64) - layer.weights_zero_point
    constant: Array = (layer.bias - layer.a_zero_point * centered.sum(axis=0)).astype(np.uint32)
    return constant


DEPTH_LIMIT = 33025  # QGEMM_DEPTH_LIMIT in kernels/c/qgemm.h: 33025 * 255 * 255 < 2^31


def too_deep(layer: Layer) -> str | None:
    """Why the sums of a QGemm, codes and stored weights without their zero points, could leave int32; None if not."""
    if isinstance(layer, QGemm) and layer.input.size > DEPTH_LIMIT:
        return f"{layer.input.size} inputs, but the kernel's sums stay inside int32 for at most {DEPTH_LIMIT}"
    return None


def signed_weights(layer: QGemm) -> tuple[Array, Array]:
    """int8 (K, N) and their zero points, int32 (N,): of uint8 weights both are 128 less, which leaves b - zb."""
    shift = 128 if layer.weights.dtype == np.uint8 else 0
    return (layer.weights.astype(np.int32) - shift).astype(np.int8), layer.weights_zero_point - shift


def origin_of_weights(layer: QGemm) -> str:
    """Where `signed_weights` come from, for a comment."""
    less = ", less 128" if layer.weights.dtype == np.uint8 else ""
    return f"{layer.weights.dtype} weights of node {layer.name}{less}"


def method(folder: Path, *modules: Path) -> str:
    """Of the harness's own part in a build, the modules in `folder` and others, which no source of the bundle shows."""
    texts = [path.read_bytes() for path in (*sorted(folder.glob("*.py")), *modules)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


def initialiser(values: Array) -> str:
    """The exact values of an array with one dimension or two, as C and C++ write them."""
    if values.ndim == 1:
        return "{" + ", ".join(literal(value) for value in values) + "}"
    return "{\n" + ",\n".join("    " + initialiser(row) for row in values) + "\n}"


def literal(value: np.generic) -> str:
    """The exact value of a number, as C and C++ write it."""
    return f"{float(value).hex()}f" if isinstance(value, np.floating) else str(int(value))
