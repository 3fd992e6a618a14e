"""`Plan` -> bundle: the folder that is deployed, named by the hash of what it was built from, and cached.

A bundle holds the program `inference`, the sources that it was built from (the fixed kernels and the generated
`network.c`), and `manifest.json` with the SHA-256 of every file.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import targets, toolchain
from harness.errors import RequestError
from harness.network import Layer
from harness.plan import Compute, Item, Plan, Step
from harness.profile import Profile
from harness.targets import C_TYPES, KERNELS, LayerCode, Stage, Table
from harness.toolchain import Compiler

PROGRAM = "inference"
PROTOCOL = 2  # PROTOCOL in kernels/common/inference.c


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
    check_targets(plan)
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


def check_targets(plan: Plan) -> None:
    """RequestError if an item's target cannot compute one of its layers exactly."""
    for layer, owner in zip(plan.network.layers, plan.owner, strict=True):
        item = plan.items[owner]
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
    return sources | {"network.c": network_source(plan).encode()}


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


def network_source(plan: Plan) -> str:
    """The generated `network.c`: constants, buffers and schedule; its comments name the ONNX node of every table."""
    network = plan.network
    includes = sorted({header for item in plan.items for header in targets.find(item.target).headers()})
    codes = layer_codes(plan)
    parts = [
        f"/* The network {_printable(network.name)}, generated from its ONNX file (SHA-256 {network.sha256}). */",
        '#include "network.h"\n\n' + "\n".join(f'#include "{header}"' for header in includes),
        f"enum {{ BLOCK = {plan.block} }};",
        f"static float input[BLOCK][{network.input_width}]; /* tensor {_printable(network.input_name)} */",
        *(
            _layer_text(index, layer, code)
            for index, (layer, code) in enumerate(zip(network.layers, codes, strict=True))
        ),
        _layer_table(network.layers),
        *(_item_text(plan, index, item, codes) for index, item in enumerate(plan.items)),
        _barrier_table(plan),
        _constant_table([table for code in codes for table in code.tables]),
        _stage_table([(stage, owner) for code, owner in zip(codes, plan.owner, strict=True) for stage in code.stages]),
        _network_table(plan, codes),
    ]
    return "\n\n".join(parts) + "\n"


def _printable(name: str) -> str:
    """`name` without what could end a C comment or string."""
    return re.sub(r"[^A-Za-z0-9_./:+-]", "_", name)


def layer_codes(plan: Plan) -> list[LayerCode]:
    """What the items' targets generate for every layer."""
    writer = {plan.network.input_name: "input"} | {
        layer.output: f"{layer.name}_output" for layer in plan.network.layers
    }
    return [
        targets.find(plan.items[owner].target).generate(layer, [writer[source] for source in layer.sources])
        for layer, owner in zip(plan.network.layers, plan.owner, strict=True)
    ]


def _layer_text(index: int, layer: Layer, code: LayerCode) -> str:
    tensors = f"reads {' and '.join(map(_printable, layer.sources))}, writes {_printable(layer.output)}"
    lines = [
        f"/* Layer {index}, {layer.operator}: node {_printable(layer.node)}, {tensors}. */",
        f"static {C_TYPES[layer.dtype.name]} {layer.name}_output[BLOCK][{layer.width}] __attribute__((aligned(64)));",
        *([code.definitions] if code.definitions else []),
        f"\nstatic void {layer.name}_forward(size_t vectors)\n{{\n{code.forward}\n}}",
    ]
    return "\n".join(lines)


def _layer_table(layers: tuple[Layer, ...]) -> str:
    rows = [
        f'    {{"{layer.name}", "{layer.dtype.str}", {layer.width}, {layer.dtype.itemsize}, '
        f"{layer.name}_output, {layer.name}_forward}},"
        for layer in layers
    ]
    return "static const struct layer layers[] = {\n" + "\n".join(rows) + "\n};"


def _item_text(plan: Plan, index: int, item: Item, codes: list[LayerCode]) -> str:
    own = [code.initialise for code, owner in zip(codes, plan.owner, strict=True) if owner == index and code.initialise]
    body = "\n".join(own)
    steps = "\n".join(_step_row(plan, step) for step in plan.schedules[index])
    return (
        f"/* Item {item.name}, target {item.target}. */\n"
        f"static void {item.name}_init(void)\n{{\n{body}\n}}\n\n"
        f"static void {item.name}_close(void)\n{{\n}}\n\n"
        f"static const struct step {item.name}_steps[] = {{\n{steps}\n}};"
    )


def _step_row(plan: Plan, step: Step) -> str:
    if isinstance(step, Compute):
        return f"    {{STEP_LAYER, {step.layer}}}, /* {plan.network.layers[step.layer].name} */"
    return f"    {{STEP_BARRIER, {step.barrier}}}, /* {plan.barriers[step.barrier].name} */"


def _barrier_table(plan: Plan) -> str:
    rows = [f'    {{"{barrier.name}", {len(barrier.items)}}},' for barrier in plan.barriers] or ["    {NULL, 0},"]
    return "static const struct barrier barriers[] = {\n" + "\n".join(rows) + "\n};"


def _constant_table(tables: list[Table]) -> str:
    """The constants by their names, for the proof."""
    rows = [
        f'    {{"{table.name}", "{table.values.dtype.str}", {rows}, {columns}, {table.values.dtype.itemsize}, '
        f"{table.name}}},"
        for table in tables
        for rows, columns in [np.atleast_2d(table.values).shape]
    ]
    return "static const struct table tables[] = {\n" + "\n".join(rows or ["    {NULL, NULL, 0, 0, 0, NULL},"]) + "\n};"


def _stage_table(stages: list[tuple[Stage, int]]) -> str:
    """The stages, each with the item that it belongs to."""
    rows = [
        f'    {{"{stage.name}", {item}, "{stage.input_dtype.str}", {stage.input_width}, {stage.input_dtype.itemsize}, '
        f'"{stage.output_dtype.str}", {stage.output_width}, {stage.output_dtype.itemsize}, {stage.name}_stage}},'
        for stage, item in stages
    ]
    return "static const struct stage stages[] = {\n" + "\n".join(rows) + "\n};"


def _network_table(plan: Plan, codes: list[LayerCode]) -> str:
    network = plan.network
    tables, stages = (sum(map(len, parts)) for parts in zip(*((c.tables, c.stages) for c in codes), strict=True))
    items = "\n".join(
        f'    {{"{item.name}", "{item.target}", {item.name}_init, {item.name}_close, {item.name}_steps, '
        f"{len(schedule)}}},"
        for item, schedule in zip(plan.items, plan.schedules, strict=True)
    )
    name = _printable(network.name)
    return (
        f"static const struct item items[] = {{\n{items}\n}};\n\n"
        f'const struct network network = {{\n    "{name}", BLOCK, {network.input_width}, &input[0][0],\n'
        f"    layers, {len(network.layers)}, items, {len(plan.items)}, barriers, {len(plan.barriers)},\n"
        f"    tables, {tables}, stages, {stages},\n}};"
    )
