"""A target: it computes the items assigned to it; each operator that it supports has a lowering in a file of its own.

`find` of this package loads a target by its name.  docs/add-a-target.md explains each part.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from harness import operators
from harness.boards.profile import Profile
from harness.core.entry_points import load
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.operators.base import Layer
from harness.targets.generated import ItemCode, Launch

LOWERINGS = "harness.lowerings"
"""Entry point group: names are `<target>:<anything>`, values are classes of lowerings."""

KERNELS = ROOT / "kernels"
SIMULATORS = ROOT / "simulators"
HARDWARE = "hardware"
"""The environment of an item for which no simulator is used."""
COMPILED = "device"
"""A bundle's folder for the output of kernel compilers; the program contains it, so it is not deployed."""
STAND_INS = "stand-in"
"""A bundle's folder for libraries that simulate those of a board."""


class Claim(StrEnum):
    """The equality with the specification that a target promises for a layer."""

    EXACT = "exact"
    """Every bit."""
    BOUNDED = "bounded"
    """Within `Layer.tolerance` for the inputs that the layer had: a float sum in another order, or contracted."""


class KernelCompiler(Protocol):
    """A compiler for kernels that the C compiler does not compile; one for all items of a bundle."""

    def sources(self, kernels: Sequence[Any], profile: Profile) -> dict[str, bytes]:
        """Return its source files by their paths in the bundle; `kernels` are those of every item.

        Raises RequestError if the profile lacks a setting.
        """

    def identity(self, profile: Profile) -> str:
        """Return its version and options; raise RequestError if the profile lacks a setting."""

    def flags(self, profile: Profile) -> tuple[str, ...]:
        """Return flags for the C compiler of the program, in addition to the profile's."""

    def deployed(self, profile: Profile) -> tuple[str, ...]:
        """Return the paths of built files that are copied to the board, such as simulators."""

    def build(self, bundle: Path, kernels: Sequence[Any], profile: Profile, compile_c: CompileC) -> tuple[Path, ...]:
        """Build everything that the program needs below `bundle`, which contains the sources.

        Return the files to compile and link with the program: .c files and libraries.  Of the sources in folders below
        a target's own, only these are compiled.  Raises ToolError if a compiler fails or its output is not exact.
        """


class CompileC(Protocol):
    """The profile's C compiler, for additional outputs of a kernel compiler."""

    def __call__(self, sources: Sequence[Path], output: Path, *flags: str) -> None:
        """Compile and link `sources`, relative to the bundle."""


L = TypeVar("L", bound=Layer)


class Lowering(ABC, Generic[L]):
    """The code of operators for one target; each target has a subclass with the methods that it calls."""

    operator: ClassVar[type[Layer] | tuple[type[Layer], ...]]
    """The class of layers that it implements, several, or a family: all operators that are derived from this class."""
    excluded: ClassVar[tuple[type[Layer], ...]] = ()
    """Members of the family with a lowering of their own, or none."""
    headers: ClassVar[tuple[str, ...]] = ()
    """Headers that its C code includes, in addition to those of the target."""
    folders: ClassVar[tuple[Path, ...]] = ()
    """Folders with these headers and their .c files."""

    def unsupported(self, layer: L, variant: str) -> str | None:  # noqa: ARG002 - lowerings override it
        """Return why `variant` of the target cannot compute `layer` exactly; None if it can."""
        return None


class Settings(BaseModel):
    """A target's section of a board profile; without fields, the target has no settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


ANSWER_S, SIMULATED_ANSWER_S = 20, 200
"""Seconds that a program waits for an accelerator, and for a simulated one, which may share a busy machine."""


def answer_timeout_s(asked_s: int | None, *, simulated: bool) -> int:
    """Return how long a program waits for an answer of an accelerator, in seconds; `asked_s` is that of the profile."""
    return asked_s or (SIMULATED_ANSWER_S if simulated else ANSWER_S)


class Target(ABC):
    """A way to implement items.  Third parties register a subclass in the entry point group `harness.targets`.

    An instance is one variant.  `find("<name>:<variant>")` makes it; the empty variant has the bare name.
    """

    name: ClassVar[str]
    """Its name in profiles, and the key of its settings there."""
    variants: ClassVar[tuple[str, ...]] = ("",)
    Settings: ClassVar[type[BaseModel]] = Settings
    """The type of its section of a board profile."""
    lowering: ClassVar[type[Lowering[Any]]] = Lowering
    """The base class of its lowerings."""
    freestanding: ClassVar[bool] = False
    """True if its code needs no operating system and no C library, so that it runs on boards with `bare_metal`."""
    restriction: ClassVar[str] = ""
    """Reason for the missing lowerings, shown to users."""

    hardware_checklist: tuple[str, ...] = ()
    """Facts never observed on hardware; the first run there asks a person to check them."""
    assumptions: str = ""
    """Assumptions of a proof about items of this target, in whole sentences, beyond those about all items."""
    device_memory: str = ""
    """The memory in which items of targets with the same one leave activations to each other; empty: in buffers."""
    fuses_tasks: bool = False
    """True if the forward of a launch's first task may compute the whole launch; otherwise each task is a launch."""

    has_stages: bool = True
    """False if a proof cannot query the parts of its layers."""

    @property
    def reports_times(self) -> bool:
        """True if the program writes the times of its device, as `device_times.h` says."""
        return self.compiler() is not None

    def __init__(self, variant: str = "") -> None:
        self.variant = variant

    @cached_property
    def lowerings(self) -> Mapping[type[Layer], Lowering[Any]]:
        """The supported operators: by default those with a module in its package, and those of third parties.

        A target inherits the lowerings of the target from which its class is derived.
        """
        found: dict[type[Layer], Lowering[Any]] = {}
        for target in reversed(type(self).__mro__):
            if issubclass(target, Target) and target is not Target:
                found |= _lowerings(target.name, target.__module__, self.lowering, tuple(sys.path))
        return found

    def lowering_of(self, layer: Layer) -> Any:
        """Return the lowering of a supported layer; its type is that of the target's lowerings."""
        return self.lowerings[type(layer)]

    def used(self, launches: Sequence[Launch]) -> tuple[Lowering[Any], ...]:
        """Return the lowerings of these tasks, each once, in the order of first use."""
        return tuple(dict.fromkeys(self.lowerings[type(task.layer)] for launch in launches for task in launch))

    def unsupported(self, layer: Layer) -> str | None:
        """Return why this target cannot compute `layer` exactly; None if it can."""
        if type(layer) in self.lowerings:
            return self.lowerings[type(layer)].unsupported(layer, self.variant)
        kernels = sorted({name for operator in self.lowerings for _, name in operator.ONNX})
        return "; ".join(filter(None, (f"it has kernels for {' and '.join(kernels)} only", self.restriction)))

    def claim(self, layer: Layer) -> Claim:  # noqa: ARG002 - targets override it
        """Return the equality with the specification that this target promises for `layer`.

        BOUNDED is refused for a layer without a tolerance, because it has one right value.
        """
        return Claim.EXACT

    @abstractmethod
    def folders(self) -> tuple[Path, ...]:
        """Return folders of fixed sources: their .c files are compiled, their headers can be included."""

    @abstractmethod
    def headers(self) -> tuple[str, ...]:
        """Return the headers that the generated code includes."""

    @abstractmethod
    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """Return the code of the item called `item`."""

    @abstractmethod
    def environment(self, profile: Profile) -> str:
        """Return where an item really runs on the board of `profile`: HARDWARE, or the name of the simulator.

        Targets that run on the item's own core return `core_environment`.
        """

    def kernels_of(self, code: ItemCode) -> Mapping[str, Sequence[str]]:  # noqa: ARG002 - targets override it
        """Return the names of an item's kernels for another processor, each with the layers that it computes."""
        return {}

    def compiler(self) -> KernelCompiler | None:
        """Return the compiler of its kernels; None if the C compiler compiles them."""
        return None

    def check_profile(self, profile: Profile) -> None:
        """Raise RequestError if the board lacks what the target needs, or its profile says too little."""
        compiler = self.compiler()
        if compiler is not None:
            compiler.identity(profile)

    def check_device(self, profile: Profile, device: str) -> str | None:  # noqa: ARG002 - targets override it
        """Return why `environment` is wrong for an item whose function `device` returns this name; None if right."""
        return None

    def written(self, sources: Mapping[str, bytes], profile: Profile) -> dict[str, bytes]:  # noqa: ARG002
        """Return a bundle's sources, by their paths, in the form that the target's settings ask for.

        RequestError names the file and the construct that has no such form.
        """
        return dict(sources)

    def flags(self, profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - targets override it
        """Return the compiler's flags for `network.c` alone, such as its standard; empty without any."""
        return ()

    def resource_shortage(self, launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG002
        """Return the resources of the board that these launches, all of this target, exceed together.

        The text is `needs ...`, with counts; None if the resources suffice.  It rejects no layer.
        """
        return None

    def device_bytes(self, launches: Sequence[Launch]) -> int:  # noqa: ARG002 - targets override it
        """Return the bytes of the board's memory for a vector of a block, beside the program's own buffers."""
        return 0

    def estimate(self, launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:  # noqa: ARG002
        """Return lines about these launches that are known before they run: resources and predicted times."""
        return ()


@functools.cache
def _lowerings(
    target: str,
    package: str,
    base: type[Lowering[Any]],
    path: tuple[str, ...],  # noqa: ARG001 - the folders that are searched for packages
) -> Mapping[type[Layer], Lowering[Any]]:
    found: dict[type[Layer], Lowering[Any]] = {}
    for lowering in (*_built_in(package), *_of_third_parties(target, base)):
        one = lowering()
        for operator in _implemented(lowering):
            if operator in found:
                other = type(found[operator])
                raise RequestError(
                    f"target {target}: {operator.__name__} has two lowerings, in {other.__module__} and "
                    f"{lowering.__module__}",
                    "remove one of the two packages",
                )
            found[operator] = one
    return found


def _implemented(lowering: type[Lowering[Any]]) -> Iterator[type[Layer]]:
    """Yield the operators of a lowering: for a family, which reads no nodes itself, its members."""
    operators.by_onnx_name()  # loads all members
    for operator in lowering.operator if isinstance(lowering.operator, tuple) else (lowering.operator,):
        members = [operator] if hasattr(operator, "ONNX") else list(dict.fromkeys(_members(operator))) or [operator]
        yield from (member for member in members if member not in lowering.excluded)


def _members(family: type[Layer]) -> Iterator[type[Layer]]:
    """Yield the operators that are derived from a family, also by way of families within it."""
    for member in family.__subclasses__():
        if hasattr(member, "ONNX"):
            yield member
        yield from _members(member)


def _built_in(package: str) -> Iterator[type[Lowering[Any]]]:
    """Yield the lowerings in the modules of `package` with the name of the module of an operator, or of its family."""
    classes = {each for operator in operators.by_onnx_name().values() for each in operator.__mro__}
    files = {each.__module__.rpartition(".")[2] for each in classes if issubclass(each, Layer)}
    for info in pkgutil.iter_modules(getattr(importlib.import_module(package), "__path__", [])):
        if info.name in files:
            module = importlib.import_module(f"{package}.{info.name}")
            for _, lowering in inspect.getmembers(module, inspect.isclass):
                is_own = lowering.__module__ == module.__name__ and hasattr(lowering, "operator")
                if is_own and issubclass(lowering, Lowering):
                    yield lowering


def _of_third_parties(target: str, base: type[Lowering[Any]]) -> Iterator[type[Lowering[Any]]]:
    for point in entry_points(group=LOWERINGS):
        if point.name.partition(":")[0] == target:
            lowering = load(point, "lowering")
            if not (inspect.isclass(lowering) and issubclass(lowering, base) and hasattr(lowering, "operator")):
                raise RequestError(
                    f"lowering {point.name}: {point.value} is not a subclass of {base.__module__}.{base.__name__} with "
                    "an operator",
                    "docs/add-a-target.md explains both",
                )
            yield lowering


def method(folder: Path, *modules: Path) -> str:
    """Return a hash of the harness's own part in a build: the modules in `folder` and others."""
    texts = [path.read_bytes() for path in (*sorted(folder.glob("*.py")), *modules)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


def core_environment(profile: Profile) -> str:
    """Return where code for the cores of a board runs: HARDWARE, or the emulated CPU."""
    if profile.bare_metal and profile.emulated:
        return f"emulated-cpu (qemu {profile.bare_metal.cpu}, bare metal)"
    if profile.emulated and profile.emulator:
        return f"emulated-cpu (qemu {profile.emulator.cpu})"
    return HARDWARE
