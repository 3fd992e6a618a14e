"""Build of an item under TIOVX with TI's headers and library, or with the simulator in their place.

The tables in the place of formulas are tried before anything is built with them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.targets import threshold_check
from harness.targets.base import COMPILED, KERNELS, SIMULATORS, STAND_INS, CompileC, method
from harness.targets.tiovx import sdk, sources
from harness.targets.tiovx.code import CoreItem
from harness.targets.tiovx.settings import TiovxSettings

HERE = Path(__file__).parent
ROOM = Path("kernels/tiovx")
SIMULATOR = Path("simulators/tiovx")
OWN_KERNELS = "network_kernels.c"
STAND_IN = f"{STAND_INS}/libtivision_apps.so"
MPU, C7X = "TIVX_TARGET_MPU_0", "TIVX_TARGET_DSP_C7_1"
TRIED = f"{COMPILED}/thresholds.json"


class _Tiovx:
    """See KernelCompiler."""

    def sources(self, kernels: Sequence[CoreItem], profile: Profile) -> dict[str, bytes]:
        """Return the kernels of the cores; for a simulated board also the simulator."""
        made = {OWN_KERNELS: _own_kernels(kernels, profile), str(ROOM / "target/identity.h"): sources.identity_header()}
        folders = [KERNELS / "tiovx" / "target", KERNELS / "c" / "integer"]
        if profile.simulated:
            folders.append(SIMULATORS / "tiovx")
        paths = [path for folder in folders for path in sorted(folder.rglob("*.[ch]"))]
        fixed = {str(path.relative_to(KERNELS.parent)): path.read_bytes() for path in paths}
        return fixed | {path: text.encode() for path, text in made.items()}

    def identity(self, profile: Profile) -> str:
        """Return TIOVX and its version; raise RequestError or ToolError if there is none to build with."""
        if profile.toolchain.static:
            raise RequestError(
                f"board {profile.name}: a static program cannot load TIOVX",
                "set static: false in its toolchain, and a compiler that links for the board's glibc",
            )
        tiovx = "double" if profile.simulated else sdk.find(profile).digest
        return f"TIOVX {tiovx}, kernels {sources.kernels_digest()} [{method(HERE, Path(threshold_check.__file__))}]"

    def flags(self, profile: Profile) -> tuple[str, ...]:
        """Return flags for headers and library; no name of ours may replace one of the library's own."""
        if profile.simulated:
            return ("-fvisibility=hidden", f"-I{SIMULATOR}", "-Wl,--no-as-needed")
        found = sdk.find(profile)
        headers = [f"-I{folder}" for folder in found.include]
        library = ["-Wl,--no-as-needed", str(found.library), "-Wl,--allow-shlib-undefined"]
        return ("-fvisibility=hidden", "-DSOC_J721E", *headers, *library)

    def deployed(self, profile: Profile) -> tuple[str, ...]:
        """Return the simulator, if the board is simulated."""
        return (STAND_IN,) if profile.simulated else ()

    def build(
        self, bundle: Path, kernels: Sequence[CoreItem], profile: Profile, compile_c: CompileC
    ) -> tuple[Path, ...]:
        """Check the tables; for a simulated board build the simulator with the kernels of a firmware."""
        cores = {item.core for item in kernels}
        (bundle / COMPILED).mkdir(exist_ok=True)
        (bundle / TRIED).write_text(json.dumps(_tried(kernels), indent=1) + "\n", encoding="utf-8")
        target = _c_files(bundle, ROOM / "target")
        units = [Path(OWN_KERNELS), *(target if MPU in cores else [])]
        if profile.simulated:
            _build_double(bundle, target if C7X in cores else [], compile_c)
            units.append(Path(STAND_IN))
        return tuple(units)


COMPILER = _Tiovx()


def _own_kernels(kernels: Sequence[CoreItem], profile: Profile) -> str:
    """Return the kernels that the program itself registers, and how long it waits for a core."""
    settings = profile.settings("tiovx", TiovxSettings)
    own = any(item.core == MPU for item in kernels)
    functions = "{harness_kernels_register, harness_kernels_unregister}" if own else "{0, 0}"
    return (
        "/* What the program brings for the core that it runs on itself; how long it waits for any. */\n"
        '#include "harness_kernels.h"\n#include "tiovx.h"\n\n'
        f"const struct tiovx_kernels tiovx_own_kernels = {functions};\n"
        f"const unsigned tiovx_timeout_s = {settings.waited_s(simulated=profile.simulated)};\n"
    )


def _tried(kernels: Sequence[CoreItem]) -> list[dict[str, object]]:
    layers = [layer for item in kernels for layer, _ in item.layers]
    parts = {layer.name: held.parts for item in kernels for layer, held in item.layers}
    tables = {name: held[part].values for name, held in parts.items() for part in ("TABLE", "CODES") if part in held}
    return [asdict(tried) for tried in threshold_check.all_layers(layers, tables)]


def _c_files(bundle: Path, folder: Path) -> list[Path]:
    return [path.relative_to(bundle) for path in sorted((bundle / folder).glob("*.c"))]


def _build_double(bundle: Path, firmware: Sequence[Path], compile_c: CompileC) -> None:
    """Build libtivision_apps.so, which identifies itself as a simulator, with the kernels of a firmware."""
    output = bundle / STAND_IN
    output.parent.mkdir(exist_ok=True)
    registers = ("-DFIRMWARE_KERNELS",) if firmware else ()
    compile_c(
        [*_c_files(bundle, SIMULATOR), *firmware],
        output,
        *("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libtivision_apps.so", "-Wl,-z,defs"),
        *(f"-I{SIMULATOR}", *registers),
    )
