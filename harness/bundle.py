"""`Plan` -> bundle: the folder that is deployed, named by the hash of what it was built from, and cached.

A bundle holds the program `inference`, the sources that it was built from (the fixed kernels and the generated
`network.c`), and `manifest.json` with the SHA-256 of every file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import network_c, targets, toolchain
from harness.errors import RequestError
from harness.plan import Plan
from harness.profile import Profile
from harness.targets import KERNELS
from harness.toolchain import Compiler

PROGRAM = "inference"
PROTOCOL = 3  # PROTOCOL in kernels/common/inference.c


@dataclass(frozen=True)
class Bundle:
    """A built bundle: `files` maps every path below `folder` to its SHA-256; `sha256` is the bundle's name."""

    folder: Path
    sha256: str
    files: dict[str, str]
    compiler: str
    flags: tuple[str, ...]
    reused: bool


def build(plan: Plan, profile: Profile, cache: Path) -> Bundle:
    """Compile the bundle of `plan` for the board of `profile`, or take it from `cache` if nothing changed.

    RequestError if a target refuses a layer; ToolError if the compiler is missing or fails.
    """
    check_targets(plan, profile)
    compiler = toolchain.find(profile)
    sources = _sources(plan)
    definitions = (f"TIME_SOURCE={profile.time_source}",)
    sha256 = _identity(sources, compiler, definitions)
    folder = cache / "bundles" / sha256[:16]
    reused = _intact(folder, sha256)
    if not reused:
        _compile(sources, compiler, (*definitions, f'BUNDLE_HASH="{sha256}"'), sha256, profile, folder)
    files: dict[str, str] = json.loads((folder / "manifest.json").read_text())["files"]
    return Bundle(folder, sha256, files, compiler.identity, compiler.flags, reused)


def check_targets(plan: Plan, profile: Profile) -> None:
    """RequestError if the board lacks an item's core, or its target cannot compute one of its layers exactly."""
    for item in plan.items:
        if item.core is not None and item.core >= profile.cores:
            raise RequestError(
                f"item {item.name} is to run on core {item.core}, but board {profile.name} has {profile.cores} cores",
                f"choose one of 0 to {profile.cores - 1}, or none",
            )
    for task in plan.tasks:
        item, layer = plan.items[task.item], plan.part(task)
        reason = targets.find(item.target).refusal(layer)
        if reason:
            raise RequestError(
                f"target {item.target} cannot compute layer {layer.name} ({layer.operator}): {reason}",
                "choose another target for that item with --items",
            )


def _sources(plan: Plan) -> dict[str, bytes]:
    """Every source by its path in the bundle, e.g. kernels/c/qgemm.h."""
    folders = {KERNELS / "common": None}
    for item in plan.items:
        folders.update(dict.fromkeys(targets.find(item.target).folders()))
    sources = {
        f"kernels/{folder.name}/{path.name}": path.read_bytes()
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix in {".c", ".h"}
    }
    return sources | {"network.c": network_c.source(plan).encode()}


def _identity(sources: dict[str, bytes], compiler: Compiler, definitions: tuple[str, ...]) -> str:
    described = {
        "sources": {path: _sha256(content) for path, content in sources.items()},
        "compiler": compiler.identity,
        "flags": compiler.flags,
        "definitions": definitions,
    }
    return _sha256(json.dumps(described, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _intact(folder: Path, sha256: str) -> bool:
    """Whether the cached bundle is complete and unmodified."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        hashes = {path: _sha256((folder / path).read_bytes()) for path in manifest["files"]}
        return bool(manifest["bundle"] == sha256 and hashes == manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):  # not there, no JSON, or JSON of another shape
        return False


def _compile(
    sources: dict[str, bytes],
    compiler: Compiler,
    definitions: tuple[str, ...],
    sha256: str,
    profile: Profile,
    folder: Path,
) -> None:
    """Build in a folder beside `folder`, then put it in place at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as temporary:
        work = Path(temporary) / "bundle"
        for path, content in sources.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content)
        units = [Path(path) for path in sources if path.endswith(".c")]
        include = sorted({Path(path).parent for path in sources if path.startswith("kernels/")})
        compiler.build(units, include, definitions, work / PROGRAM)
        toolchain.check_glibc(work / PROGRAM, profile.toolchain)
        _write_manifest(work, [*sources, PROGRAM], compiler, definitions, sha256)
        _put_in_place(work, folder, sha256)


def _put_in_place(work: Path, folder: Path, sha256: str) -> None:
    """Unless another process has been faster, whose bundle is the same and may be in use already."""
    if not _intact(folder, sha256):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        work.replace(folder)
    except OSError:
        if not _intact(folder, sha256):
            raise


def _write_manifest(
    work: Path, paths: list[str], compiler: Compiler, definitions: tuple[str, ...], sha256: str
) -> None:
    manifest = {
        "bundle": sha256,
        "compiler": compiler.identity,
        "flags": compiler.flags,
        "definitions": definitions,
        "files": {path: _sha256((work / path).read_bytes()) for path in sorted(paths)},
    }
    (work / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
