"""Build of a program with IREE's object code: compile each stage, check the object, and link it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.boards.profile import Profile
from harness.core.errors import ToolError
from harness.core.text import plural
from harness.targets.base import CompileC
from harness.targets.iree import calls, compiler, schedule
from harness.targets.iree.calls import Compiled
from harness.targets.iree.compiler import Processor
from harness.targets.iree.objects import Object
from harness.targets.iree.static import FOLDER, Kernel, path_of

CALLS = f"{FOLDER}/calls.c"
AT_ONCE = 2  # compilers


class _Iree:
    """See KernelCompiler."""

    def sources(self, kernels: Sequence[Sequence[Kernel]], profile: Profile) -> dict[str, bytes]:
        """Return the modules, their object files, and the C code that calls them."""
        made = compiled([kernel for of_item in kernels for kernel in of_item], compiler.processor_of(profile))
        found = {path_of(each.kernel.name): each.kernel.text.encode() for each in made}
        found |= {object_path(each.kernel.name): each.content for each in made if each.content}
        return found | {CALLS: calls.text(made).encode()}

    def identity(self, profile: Profile) -> str:
        """Return the version and the hash of the compiler, and the processor."""
        return f"{compiler.identity()} {' '.join(compiler.processor_of(profile).flags)}"

    def flags(self, profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - the same for all boards
        """Return the flag without which each object would bring its own copies of memcpy and others."""
        return ("-Wl,--gc-sections",)

    def deployed(self, profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - the same for all boards
        """Return nothing: the program contains the objects."""
        return ()

    def build(
        self,
        bundle: Path,
        kernels: Sequence[Sequence[Kernel]],
        profile: Profile,  # noqa: ARG002 - the sources are for it
        compile_c: CompileC,  # noqa: ARG002 - nothing is compiled
    ) -> tuple[Path, ...]:
        """Return the objects, which are sources of the bundle."""
        paths = (Path(object_path(kernel.name)) for of_item in kernels for kernel in of_item)
        return tuple(path for path in paths if (bundle / path).is_file())


COMPILER = _Iree()


def object_path(name: str) -> str:
    """Return the path of a stage's object in the bundle."""
    return f"{FOLDER}/{name}.o"


def compiled(kernels: Sequence[Kernel], processor: Processor) -> list[Compiled]:
    """Return the stages compiled and checked; raise ToolError for one that cannot be used."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda kernel: _compiled(kernel, processor), kernels))


def _compiled(kernel: Kernel, processor: Processor) -> Compiled:
    what = f"layer {kernel.layer} ({kernel.name})"
    content, host, executables = compiler.compiled(kernel.text, path_of(kernel.name), what, processor)
    found = schedule.read(host, executables, kernel.name, what)
    if found.result.size == schedule.WHOLE:
        whole = dataclasses.replace(found.result, size=kernel.arguments[found.result.number])
        found = dataclasses.replace(found, result=whole)
    functions = calls.functions(found)
    if not functions:
        return Compiled(kernel, found, "", b"")
    made = Object(content, what)
    made.require_pure()
    require_uncontracted(made, functions, kernel)
    return Compiled(kernel, found, made.library, made.published(functions))


def require_uncontracted(made: Object, functions: Sequence[str], kernel: Kernel) -> None:
    """Raise ToolError if the code of a layer multiplies and adds with one rounding."""
    fused = made.fused(functions)
    if fused:
        raise ToolError(
            f"layer {kernel.layer}: IREE has contracted products and sums in {kernel.name}: "
            f"{plural(len(fused), 'instruction')} with one rounding, the first is {fused[0]!r}",
            "use another target for this layer, or on x86-64 `iree: features: -fma` in the profile",
        )
