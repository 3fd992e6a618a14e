"""`Plan` -> bundle: the folder that is deployed, named by the hash of what it was built from, and cached.

A bundle holds the program `inference`, the sources that it was built from (the fixed kernels and the generated
`network.c`), the objects of `network.c` and of what it calls, as they were linked into the program, and
`manifest.json` with the SHA-256 of every file.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import targets
from harness.boards.profile import BareMetal, Profile, Serial
from harness.build.codegen import Program
from harness.core.document import Document, Entries, write_json
from harness.core.errors import RequestError
from harness.core.locking import exclusive
from harness.core.text import plural
from harness.plan import launches
from harness.plan.plan import Plan, buffer_bytes
from harness.targets import compiler_flags, strip, toolchain
from harness.targets.base import COMPILED, KERNELS, KernelCompiler, Target
from harness.targets.generated import Launch
from harness.targets.toolchain import Compiler

PROGRAM = "inference"
NETWORK = "network.c"
CALLED = ("kernels/program/copy_padded.c", "kernels/bare/math.c", "kernels/bare/memory.c")
"""Sources of the functions that the code of a network calls, where a bundle has them."""
MANIFEST = "manifest.json"
UNIT_DEPTH = 3  # kernels/c/file.c
PROTOCOL = 7  # PROTOCOL in kernels/program/inference.c
LINKER_SCRIPT = "kernels/bare/program.ld"
CODE_BYTES = 96 << 10  # about what the board program and libgcc take; the linker finds the rest
FILE_BYTES = 1 << 10  # of an open file: kernels/bare/stdio.c


class BuildInputs(Entries):
    """The inputs that shape the program besides sources, the compiler's identity and flags."""

    command: Sequence[str]
    definitions: Sequence[str]
    tools: Mapping[str, str]
    headers: Mapping[str, str]
    kernel_compilers: Sequence[str]
    method: str


class Manifest(Document):
    """The content of `manifest.json`: what a bundle was built from, and the SHA-256 of every file of it."""

    bundle: str
    compiler: str
    flags: Sequence[str]
    inputs: BuildInputs
    files: Mapping[str, str]


@dataclass(frozen=True)
class Bundle:
    """A built bundle: `files` maps every path below `folder` to its SHA-256, but for what the program holds already.

    `sha256` is the bundle's name.  It follows from the sources, `compiler`, `flags` and `inputs`: see `name_of`.
    """

    folder: Path
    sha256: str
    files: dict[str, str]
    compiler: str
    flags: tuple[str, ...]
    reused: bool
    inputs: Mapping[str, Any] = field(default_factory=dict)


def build(program: Program, profile: Profile, cache: Path) -> Bundle:
    """Compile the bundle of `program` for the board of `profile`, or take it from `cache` if nothing changed.

    Raises RequestError if the board lacks resources or settings, ToolError if the compiler is missing or fails.
    """
    check_targets(program.plan, profile)
    check_memory(program, profile)
    recipe = recipe_of(program, profile)
    sha256 = recipe.sha256
    folder = cache / "bundles" / sha256[:16]
    reused = _intact(folder, sha256)
    if not reused:
        _build(recipe, sha256, folder)
    files = Manifest.read(folder / MANIFEST).files
    deployed = {path: file_sha256 for path, file_sha256 in files.items() if not path.startswith(f"{COMPILED}/")}
    compiler = recipe.compiler
    return Bundle(folder, sha256, deployed, compiler.identity, compiler.flags, reused, recipe.inputs)


def built_folder(program: Program, profile: Profile, cache: Path) -> Path | None:
    """Return the folder of the bundle of `program` if an earlier command built it; ToolError without a compiler."""
    sha256 = recipe_of(program, profile).sha256
    folder = cache / "bundles" / sha256[:16]
    return folder if _intact(folder, sha256) else None


def with_debug_data(program: Program, profile: Profile, built: Bundle, cache: Path) -> Path:
    """Return the program of `built`, compiled once more with debug data; from `cache` if it is there.

    The caller checks that its code is that of the bundle's program.  ToolError if the compiler fails.
    """
    path = cache / "debug" / built.sha256[:16] / PROGRAM
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent.parent, prefix=".building-") as temporary:
            work, recipe = Path(temporary) / "bundle", recipe_of(program, profile)
            recipe.write(work)
            recipe.compile(work, built.sha256, "-g")
            (work / PROGRAM).replace(path)
    return path


@dataclass(frozen=True)
class Recipe:
    """The inputs of a build: sources by their paths in the bundle, e.g. kernels/c/qgemm.h, and their compilers.

    `kernels` pairs a compiler that is not C's with what all items together give it.  `headers` are the SHA-256 of the
    system's headers that the sources include, see toolchain.headers.  `of_network` are flags for network.c alone.
    """

    profile: Profile
    sources: dict[str, bytes]
    compiler: Compiler
    kernels: tuple[tuple[KernelCompiler, tuple[Any, ...]], ...]
    headers: Mapping[str, str]
    of_network: tuple[str, ...] = ()

    @property
    def definitions(self) -> tuple[str, ...]:
        """The definitions for the C preprocessor, without the hash."""
        return definitions_of(self.profile)

    @functools.cached_property
    def inputs(self) -> dict[str, Any]:
        """Return the inputs that shape the program besides sources, compiler's identity and flags, as JSON types."""
        return {
            "command": list(compiler_flags.command(self.profile.toolchain)),
            "definitions": list(self.definitions),
            "tools": dict(self.compiler.parts),
            "headers": dict(self.headers),
            "kernel_compilers": [compiler.identity(self.profile) for compiler, _ in self.kernels],
            "method": method(),
        }

    @property
    def sha256(self) -> str:
        """The bundle's name."""
        hashes = {path: _sha256(content) for path, content in self.sources.items()}
        return name_of(hashes, self.compiler.identity, self.compiler.flags, self.inputs)

    def write(self, folder: Path) -> None:
        """Write the sources."""
        for path, content in self.sources.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)

    def compile(self, folder: Path, sha256: str, *more_flags: str) -> None:
        """Compile the program, which reports this hash, and its other files from the sources in `folder`.

        `more_flags` are for every call of the C compiler.
        """
        units = dict.fromkeys(Path(path) for path in self.sources if _is_unit(Path(path)))
        include = sorted({Path(path).parent for path in self.sources if path.startswith(("kernels/", "simulators/"))})
        definitions = (*self.definitions, f'BUNDLE_HASH="{sha256}"')

        def compile_c(sources: Sequence[Path], output: Path, *flags: str) -> None:
            self.compiler.build(folder, sources, include, definitions, output, (*flags, *more_flags))
            toolchain.check_glibc(output, self.profile.toolchain)

        flags: list[str] = []
        for compiler, kernels in self.kernels:
            units |= dict.fromkeys(compiler.build(folder, kernels, self.profile, compile_c))
            flags.extend(compiler.flags(self.profile))
        (folder / COMPILED).mkdir(exist_ok=True)
        objects = {Path(path): Path(object_of(path)) for path in (NETWORK, *CALLED) if path in self.sources}
        for source, output in objects.items():
            of_network = self.of_network if source == Path(NETWORK) else ()
            compile_c([source], folder / output, *flags, *of_network, "-c", "-g0")  # zig's -g is a default
        if self.profile.bare_metal:
            flags.append(f"-Wl,-T,{LINKER_SCRIPT}")
        compile_c([objects.get(unit, unit) for unit in units], folder / PROGRAM, *flags)


def object_of(source: str) -> str:
    """Return the path in a bundle of the object that the program is linked with, for a source that has its own."""
    return f"{COMPILED}/{Path(source).stem}.o"


def _is_unit(path: Path) -> bool:
    """Return whether it is always compiled; of files in subfolders of a target its kernel compiler decides."""
    return path.suffix == ".c" and len(path.parts) <= UNIT_DEPTH and path.parts[0] != "simulators"


def recipe_of(program: Program, profile: Profile) -> Recipe:
    """Return the recipe of a bundle; raise ToolError without a compiler, RequestError if a setting is missing."""
    compiler, sources = toolchain.find(profile), sources_of(program, profile)
    headers = toolchain.headers(compiler, sources)
    return Recipe(profile, sources, compiler, _kernels(program), headers, _flags_of_network(program.plan, profile))


def _flags_of_network(plan: Plan, profile: Profile) -> tuple[str, ...]:
    """Return the flags for network.c; raise RequestError if not all targets write it in one standard."""
    asked = {item.target: targets.find(item.target).flags(profile) for item in plan.items}
    first, flags = next(iter(asked.items()))
    other = next((name for name, found in asked.items() if found != flags), None)
    if other is not None:
        raise RequestError(
            f"board {profile.name}: items of targets {first} and {other} share network.c, and their settings ask for "
            f"different standards of C ({' '.join(flags) or 'none'}; {' '.join(asked[other]) or 'none'})",
            "choose targets of one standard with --items, or take `standard` out of the section in the profile",
        )
    return flags


def sources_of(program: Program, profile: Profile) -> dict[str, bytes]:
    """Return all sources of a program's bundle, fixed and generated, by their paths in it."""
    made = [each.sources(given, profile) for each, given in _kernels(program)]
    fixed = _sources(program, profile)
    written: dict[str, bytes] = {}
    for target in {item.target: targets.find(item.target) for item in program.plan.items}.values():
        written |= {path: content for path, content in target.written(fixed, profile).items() if content != fixed[path]}
    return functools.reduce(operator.or_, made, fixed | written)


def compiled(program: Program, profile: Profile) -> set[str]:
    """Return the paths of the deployed files other than sources: the program, and the libraries that it loads."""
    return {PROGRAM, *(path for compiler, _ in _kernels(program) for path in compiler.deployed(profile))}


def name_of(sources: Mapping[str, str], compiler: str, flags: Sequence[str], inputs: Mapping[str, Any]) -> str:
    """Return a bundle's name; `sources` are the SHA-256 of its sources by their paths."""
    described = {"sources": dict(sources), "compiler": compiler, "flags": list(flags), "inputs": dict(inputs)}
    return _sha256(json.dumps(described, sort_keys=True).encode())


def definitions_of(profile: Profile) -> tuple[str, ...]:
    """Return the definitions for the C preprocessor, without the bundle's name."""
    return (f"TIME_SOURCE={profile.time_source}",)


def method() -> str:
    """Return a hash of the modules that decide how a bundle is compiled, which no source of it shows."""
    return _sha256(b"".join(Path(module).read_bytes() for module in (toolchain.__file__, strip.__file__, __file__)))


def require_stages(plan: Plan, action: str) -> None:
    """Raise RequestError, which says what `action` is impossible, if a library computes the layers of an item."""
    for item in plan.items:
        if not targets.find(item.target).has_stages:
            raise RequestError(
                f"item {item.name}: {action} the layers that target {item.target} computes, because a library "
                "computes them",
                "use harness run, or another target for the item: --items",
            )


def check_targets(plan: Plan, profile: Profile) -> None:
    """Raise RequestError if the board lacks what items need, or a target cannot compute one of their layers exactly."""
    for item in plan.items:
        if item.core is not None and item.core >= profile.cores:
            raise RequestError(
                f"item {item.name} is to run on core {item.core}, but board {profile.name} has {profile.cores} cores",
                f"choose one of 0 to {profile.cores - 1}, or none",
            )
        if profile.bare_metal and not targets.find(item.target).freestanding:
            raise RequestError(
                f"board {profile.name} has no operating system, which target {item.target} of item {item.name} needs",
                f"choose {' or '.join(sorted(name for name in targets.names() if targets.find(name).freestanding))}",
            )
        targets.find(item.target).check_profile(profile)
    launches.require_lowerings(plan)
    _check_memory(plan, profile)
    _check_resources(plan, profile)


def _check_memory(plan: Plan, profile: Profile) -> None:
    """Raise RequestError if the buffers of a block, and their copies for devices, exceed the budget of the board."""
    a_vector, budget = launches.vector_bytes(plan), profile.memory_budget_mib << 20
    if plan.block * a_vector > budget:
        fits = budget // a_vector
        smaller = f"use --block {fits} or less, or " if fits else ""
        copies = ", with their copies for devices," if a_vector > buffer_bytes(plan.network, plan.tasks) else ""
        raise RequestError(
            f"{plan.network.name} on board {profile.name}: the buffers of a block of {plan.block:,} vectors{copies} "
            f"take {-(-plan.block * a_vector >> 20):,} MiB, and the memory budget is {profile.memory_budget_mib:,} MiB",
            f"{smaller}raise memory_budget_mib of the board in boards.yaml if the board has more memory",
        )


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of a network in a memory of a processor, and those `beside` them: of the board program, or of the stack."""

    name: str
    size: int
    beside: int
    limit: int

    @property
    def room(self) -> int:
        """The bytes that are left for the network."""
        return max(self.limit - self.beside, 0)


def memory_needs(program: Program, board: BareMetal) -> tuple[MemoryNeed, MemoryNeed]:
    """Return the need of code memory, in which about CODE_BYTES are the board program's, and that of data memory."""
    constants = sum(table.values.nbytes for table in program.tables if not table.computed)
    buffers = sum(storage.size for storage in program.storage if storage.offset is None) - constants
    files = FILE_BYTES * len(program.plan.network.layers)
    of_block = f"buffers of a block of {plural(program.plan.block, 'vector')}"
    return (
        MemoryNeed("constants", constants, CODE_BYTES, board.code.kib << 10),
        MemoryNeed(of_block, buffers, stack_bytes(program.plan, board) + files, board.data.kib << 10),
    )


def check_memory(program: Program, profile: Profile) -> None:
    """Raise RequestError if constants or buffers exceed the memory of a processor without an operating system."""
    for need in memory_needs(program, profile.bare_metal) if profile.bare_metal else ():
        if need.size > need.room:
            raise RequestError(
                f"{program.plan.network.name} on board {profile.name}: the {need.name} take {need.size:,} bytes, and "
                f"of the {need.limit:,} bytes of its memory {need.room:,} are left beside the board program",
                "use a smaller --block or --buffers reuse for buffers, or a smaller network, or describe a larger "
                "memory in bare_metal",
            )


def _check_resources(plan: Plan, profile: Profile) -> None:
    """Raise RequestError if all items of a target together need more than the board has."""
    for name, target, of_target in _launches(plan):
        reason = target.resource_shortage(of_target, profile)
        if reason:
            raise RequestError(
                f"{plan.network.name} on board {profile.name}: target {name} {reason}",
                "give some layers to another item with --split, choose another target for the item with --items, "
                "or take a smaller network",
            )


def estimate(plan: Plan, profile: Profile) -> tuple[str, ...]:
    """Return the lines of all targets about the plan: resources and predicted times."""
    return tuple(line for _, target, tasks in _launches(plan) for line in target.estimate(tasks, profile))


def _launches(plan: Plan) -> list[tuple[str, Target, list[Launch]]]:
    """Return for every target, whatever the variant: its name, one variant, and the launches of all its items."""
    found: dict[str, tuple[str, Target, list[Launch]]] = {}
    for item, of_item in zip(plan.items, launches.item_views(plan), strict=True):
        name, _, _ = item.target.partition(":")
        found.setdefault(name, (name, targets.find(item.target), []))[2].extend(of_item)
    return list(found.values())


def _kernels(program: Program) -> tuple[tuple[KernelCompiler, tuple[Any, ...]], ...]:
    """Return the kernels of all items for compilers other than C's, once per compiler."""
    given: dict[KernelCompiler, list[Any]] = {}
    for item, code in zip(program.plan.items, program.items, strict=True):
        compiler = targets.find(item.target).compiler()
        if compiler is not None:
            given.setdefault(compiler, []).append(code.kernels)
    return tuple((compiler, tuple(kernels)) for compiler, kernels in given.items())


def _sources(program: Program, profile: Profile) -> dict[str, bytes]:
    """Return the fixed sources and the generated ones.

    Without an operating system a file of kernels/bare takes the place of the one of its name in kernels/program.
    """
    folders = {KERNELS / "program": None}
    for item, views in zip(program.plan.items, launches.item_views(program.plan), strict=True):
        target = targets.find(item.target)
        folders.update(dict.fromkeys(target.folders()))
        folders.update((folder, None) for lowering in target.used(views) for folder in lowering.folders)
    sources = {
        f"kernels/{folder.name}/{path.name}": path.read_bytes()
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.suffix in {".c", ".h", ".cuh"}
    }
    if profile.bare_metal is None:
        return sources | program.files
    link = KERNELS / "bare" / ("serial" if profile.bare_metal.serial else "semihosting")
    paths = [path for folder in (link.parent, link) for path in sorted(folder.iterdir()) if path.is_file()]
    bare = {path.name: path.read_bytes() for path in paths}
    kept = {path: content for path, content in sources.items() if path.removeprefix("kernels/program/") not in bare}
    described = {
        "memory.ld": _memory_regions(program.plan, profile.bare_metal).encode(),
        "kernels/bare/board.h": board_header(profile.bare_metal.serial, profile.toolchain.flags).encode(),
    }
    return kept | {f"kernels/bare/{name}": content for name, content in bare.items()} | described | program.files


def stack_bytes(plan: Plan, board: BareMetal) -> int:
    """Return the size of the stack: what the profile gives, and the accumulators of a vector of the largest layer."""
    accumulators = max(4 * layer.size for layer in plan.network.layers)
    return (board.stack_kib << 10) + (accumulators + 7) // 8 * 8


def _memory_regions(plan: Plan, board: BareMetal) -> str:
    """Return what kernels/bare/program.ld includes: the processor's memory."""
    regions = (("code (rx)", board.code), ("data (rw)", board.data))
    lines = [f"    {name} : ORIGIN = {region.origin:#x}, LENGTH = {region.kib}K" for name, region in regions]
    return "\n".join(["MEMORY", "{", *lines, "}", f"STACK_BYTES = {stack_bytes(plan, board)};"]) + "\n"


def board_header(port: Serial | None, flags: Sequence[str]) -> str:
    """Return what kernels/bare includes of the board's profile: its floating-point unit and its serial port.

    GCC defines no macro that tells FPv5 from FPv4.
    """
    lines = ["/* The board, as its profile describes it. */", "#ifndef BOARD_H", "#define BOARD_H", ""]
    if any(flag.startswith("-mfpu=fpv5") for flag in flags):
        lines.append("#define FPV5")
    if port is not None:
        lines += [f"#define UART_{port.uart.upper()}", f"#define UART_REGISTERS {port.registers:#x}u"]
        lines += [] if port.interrupt is None else [f"#define UART_INTERRUPT {port.interrupt}"]
        count = 1 if port.interrupt is None else port.interrupt + 1
        lines += [f"#define INTERRUPTS {count}", f"#define CLOCK_HZ {port.clock_hz}u", f"#define BAUD {port.baud}u"]
        writes = "".join(f"{{{address:#x}u, {word:#x}u}}, " for address, word in port.setup)
        lines.append(f"#define SETUP {writes}")
    return "\n".join([*lines, "", "#endif", ""])


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _intact(folder: Path, sha256: str) -> bool:
    """Return whether the cached bundle is complete and unmodified."""
    try:
        manifest = Manifest.read(folder / MANIFEST)
        hashes = {path: _sha256((folder / path).read_bytes()) for path in manifest.files}
    except (OSError, RequestError):
        return False
    return manifest.bundle == sha256 and hashes == manifest.files


def _build(recipe: Recipe, sha256: str, folder: Path) -> None:
    """Build in a temporary folder, then rename it to `folder`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as temporary:
        work = Path(temporary) / "bundle"
        recipe.write(work)
        recipe.compile(work, sha256)
        _write_manifest(work, recipe, sha256)
        _put_in_place(work, folder, sha256)


def _put_in_place(work: Path, folder: Path, sha256: str) -> None:
    """Rename `work` to `folder`, unless another process was faster, whose equal bundle may be in use already."""
    with exclusive(folder.parent.resolve().with_suffix(".lock")):  # the same by whatever way the cache is reached
        if not _intact(folder, sha256):
            shutil.rmtree(folder, ignore_errors=True)
            work.replace(folder)


def _write_manifest(work: Path, recipe: Recipe, sha256: str) -> None:
    paths = [path.relative_to(work) for path in work.rglob("*") if path.is_file()]
    manifest = Manifest(
        bundle=sha256,
        compiler=recipe.compiler.identity,
        flags=recipe.compiler.flags,
        inputs=BuildInputs(**recipe.inputs),
        files={str(path): _sha256((work / path).read_bytes()) for path in sorted(paths)},
    )
    write_json(work / MANIFEST, manifest)
