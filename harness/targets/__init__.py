"""Targets: one package each, with its settings, its capabilities, and one lowering per operator or family.

A target is found by its name: a package `harness.targets.<name>`, or an entry point of the group `harness.targets`
that third parties register.  No list is edited.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from pydantic import BaseModel

from harness.boards import profile
from harness.boards.profile import BoardProfiles
from harness.core.entry_points import load
from harness.core.errors import RequestError, unknown_name
from harness.operators.base import Layer
from harness.targets.base import (
    COMPILED,
    HARDWARE,
    KERNELS,
    SIMULATORS,
    STAND_INS,
    Claim,
    CompileC,
    KernelCompiler,
    Lowering,
    Settings,
    Target,
)
from harness.targets.generated import C_TYPES, ItemCode, Launch, LayerCode, Stage, Table, TaskView

__all__ = [
    "COMPILED",
    "C_TYPES",
    "HARDWARE",
    "KERNELS",
    "SIMULATORS",
    "STAND_INS",
    "Claim",
    "CompileC",
    "ItemCode",
    "KernelCompiler",
    "Launch",
    "LayerCode",
    "Lowering",
    "Settings",
    "Stage",
    "Table",
    "Target",
    "TaskView",
    "find",
    "load_boards",
    "names",
    "shares_buffers",
    "supports",
]

GROUP = "harness.targets"


def names() -> list[str]:
    """Return all targets that a profile can name, those with variants as `<target>:<variant>`.

    A target that cannot be loaded is listed without its variants.
    """
    return sorted(name for target in _targets() for name in _known_variants(target))


def _known_variants(target: str) -> list[str]:
    try:
        return list(_variants(target))
    except RequestError:
        return [target]


def _targets() -> set[str]:
    return {*_packages(), *_points(tuple(sys.path))}


@functools.cache
def _packages() -> frozenset[str]:
    """Return the targets of this package."""
    return frozenset(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


@functools.cache
def _points(path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001 - the folders that are searched
    """Return the targets of third parties; installed packages do not change while the program runs."""
    return {point.name: point for point in entry_points(group=GROUP)}


def _variants(target: str) -> dict[str, str]:
    """Return the variants of a target by their full names."""
    return {f"{target}:{variant}" if variant else target: variant for variant in _load(target).variants}


def _load(target: str) -> type[Target] | Target:
    """Return the class of a target, or the object that a third party registers in its place."""
    point = _points(tuple(sys.path)).get(target)
    if point is None:
        return _load_package(target)
    found = load(point, "target")
    if isinstance(found, Target):
        return found
    if not (inspect.isclass(found) and issubclass(found, Target)):
        raise RequestError(
            f"target {target}: {point.value} is not a Target", "docs/add-a-target.md explains what it is"
        )
    missing = sorted({*found.__abstractmethods__, *({"name"} - set(dir(found)))})
    if missing:
        raise RequestError(
            f"target {target} does not have {', '.join(missing)}", "docs/add-a-target.md explains what each is"
        )
    return found


@functools.cache
def _load_package(target: str) -> type[Target]:
    """Return the class of a target of this package."""
    module = importlib.import_module(f"{__name__}.{target}")
    classes = (found for _, found in inspect.getmembers(module, inspect.isclass))
    return next(found for found in classes if issubclass(found, Target) and found.__module__ == module.__name__)


def find(name: str) -> Target:
    """Return the target called `name`; only this one is loaded.

    Raises RequestError with the nearest names if there is none, or if it cannot be loaded or is incomplete.
    """
    target = name.partition(":")[0]
    if target not in _targets() or name not in _variants(target):
        raise unknown_name("target", name, names())
    found = _load(target)
    return found if isinstance(found, Target) else found(_variants(target)[name])


def supports(name: str, layer: Layer) -> bool:
    """Return whether the target called `name` can compute `layer`; raise RequestError if there is no such target."""
    return find(name).unsupported(layer) is None


def shares_buffers(name: str) -> bool:
    """Return whether buffers of the target's tasks can share bytes: the C code of a task touches them while it runs.

    Another device reads and writes them when its driver does.
    """
    return find(name).compiler() is None


def load_boards(path: Path, environment: Mapping[str, str] = os.environ) -> BoardProfiles:
    """Read board profiles, with the sections of targets checked against their settings."""
    return profile.load(path, environment, {target: functools.partial(_settings, target) for target in _targets()})


def _settings(target: str) -> type[BaseModel]:
    return _load(target).Settings
