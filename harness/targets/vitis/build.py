"""Build of an item in the fabric with XRT, or with its simulator that contains the kernels as C++.

The tables in the place of formulas are tried before anything is built with them.  What is in the FPGA itself is built
and loaded by `harness firmware`: the program finds it by the digest of the kernels' sources, and refuses any other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.targets import threshold_check, toolchain
from harness.targets.base import COMPILED, KERNELS, SIMULATORS, STAND_INS, CompileC, method
from harness.targets.vitis import kernel, resources, xclbin, xrt
from harness.targets.vitis.circuit import Circuit
from harness.targets.vitis.fabric import resource_shortage
from harness.targets.vitis.kernel import Fabric, Kernel
from harness.targets.vitis.settings import VitisSettings
from harness.targets.vitis.signature import ARGUMENTS

HERE = Path(__file__).parent
ROOM = Path("kernels/vitis")
SIMULATOR = Path("simulators/vitis")
SETTINGS = "network_fabric.c"
REGISTRY = "network_simulated.cpp"
HOST = "xrt.cpp"
ENDING = "ending.hpp"
STAND_IN = f"{STAND_INS}/libxrt_coreutil.so.2"
METADATA = f"{STAND_INS}/network.xclbin"
TRIED = f"{COMPILED}/thresholds.json"
RUNTIME = ("libstdc++.so.6", "libgcc_s.so.1")  # a Kria has them, an emulated board only what is brought
INSTALLED = "/lib/firmware/xilinx"
CPP = ("-x", "c++", "-std=c++17")
LINKED = ("-Wl,--no-as-needed", "-lstdc++")


class _Vitis:
    """See KernelCompiler."""

    def sources(self, kernels: Sequence[Sequence[Kernel]], profile: Profile) -> dict[str, bytes]:
        """Return the kernels, identified by their digest, and the code for XRT; for a simulation also the simulator."""
        fabric = fabric_of(kernels)
        _check_room(kernels, profile)
        made = {kernel.path_of(name): text for name, text in fabric.sources.items()}
        made |= {f"{ROOM}/{name}": (KERNELS / "vitis" / name).read_bytes() for name in (HOST, ENDING)}
        made[SETTINGS] = _settings(fabric, profile).encode()
        if profile.simulated:
            made[REGISTRY] = _registry(fabric.kernels).encode()
            paths = [path for path in sorted((SIMULATORS / "vitis").rglob("*")) if path.is_file()]
            made |= {str(path.relative_to(SIMULATORS.parent)): path.read_bytes() for path in paths}
        return made

    def identity(self, profile: Profile) -> str:
        """Return the version of XRT; raise RequestError or ToolError if there is none to build with."""
        if profile.toolchain.static:
            raise RequestError(
                f"board {profile.name}: a static program cannot load XRT", "set static: false in its toolchain"
            )
        if "zig" in profile.toolchain.compiler:
            raise RequestError(
                f"board {profile.name}: XRT needs GNU's C++ library, which zig does not link with",
                "name a gcc in its toolchain, for example: compiler: aarch64-linux-gnu-gcc",
            )
        found = "double" if profile.simulated else xrt.find(profile).digest
        return f"XRT {found} [{method(HERE, Path(threshold_check.__file__))}]"

    def flags(self, profile: Profile) -> tuple[str, ...]:
        """Return the C++ library, and where XRT's lies."""
        if profile.simulated:
            return LINKED
        return (*LINKED, *xrt.find(profile).link_flags)

    def deployed(self, profile: Profile) -> tuple[str, ...]:
        """Return the simulator with its metadata and dependencies, if the board is simulated."""
        if not profile.simulated:
            return ()
        return (STAND_IN, METADATA, *(f"{STAND_INS}/{name}" for name in RUNTIME if profile.emulated))

    def build(
        self, bundle: Path, kernels: Sequence[Sequence[Kernel]], profile: Profile, compile_c: CompileC
    ) -> tuple[Path, ...]:
        """Check the tables; build the code for XRT, and the simulator if the board is simulated."""
        fabric, compiled = fabric_of(kernels), Path(COMPILED) / "xrt.o"
        (bundle / COMPILED).mkdir(exist_ok=True)
        tried = _tried([of for item in kernels for each in item for of in each.circuits])
        (bundle / TRIED).write_text(json.dumps(tried, indent=1) + "\n", encoding="utf-8")
        headers = (f"-I{SIMULATOR}",) if profile.simulated else xrt.find(profile).compile_flags
        compile_c([ROOM / HOST], bundle / compiled, "-c", *CPP, *headers)
        units = [Path(SETTINGS), compiled]
        if profile.simulated:
            _build_double(bundle, fabric, profile, compile_c)
            units.append(Path(STAND_IN))
        return tuple(units)


COMPILER = _Vitis()


def fabric_of(kernels: Iterable[Iterable[Kernel]]) -> Fabric:
    """Return all kernels of a bundle, of whatever item, as one application for the FPGA."""
    return kernel.fabric_of([each for item in kernels for each in item])


def _check_room(kernels: Sequence[Sequence[Kernel]], profile: Profile) -> None:
    """Raise RequestError if the kernels of all items, each with its own folding, do not fit into the fabric."""
    needed = resources.total(of.resources for item in kernels for each in item for of in each.circuits)
    short = resource_shortage(needed)
    if short:
        raise RequestError(
            f"board {profile.name}: the fabric {short}", "give items a target that folds more, such as vitis:fold4"
        )


def _settings(fabric: Fabric, profile: Profile) -> str:
    """Return the C text of the settings by which the program finds the kernels in the fabric."""
    settings = profile.settings("vitis", VitisSettings)
    path = METADATA if profile.simulated else f"{INSTALLED}/{fabric.app}/{fabric.app}.xclbin"
    names = ", ".join(f'"{name}"' for name in fabric.kernels)
    return (
        "/* What must be in the fabric, and where its metadata lie; how long the program waits for it. */\n"
        '#include "vitis.h"\n\n'
        f"static const char *const kernels[] = {{{names}}};\n"
        f'const struct fabric_settings fabric_settings = {{"{path}", kernels, {len(fabric.kernels)}, '
        f"{settings.waited_s(simulated=profile.simulated)}}};\n"
        f"const uint32_t vitis_identity[IDENTITY_WORDS] = {{{', '.join(kernel.words(fabric.digest))}}};\n"
    )


def _registry(kernels: Sequence[str]) -> str:
    """Return the table in which the simulator of XRT finds kernels by name."""
    types = ", ".join(argument.c_type for argument in ARGUMENTS)
    values = ", ".join(_value(index, argument.c_type) for index, argument in enumerate(ARGUMENTS))
    callers = [
        f'extern "C" void {name}({types});\n'
        f"static void call_{name}(const uint64_t *arguments)\n{{\n    {name}({values});\n}}\n"
        for name in kernels
    ]
    rows = "\n".join(f'    {{"{name}", call_{name}, {len(ARGUMENTS)}}},' for name in kernels)
    return "\n".join(
        [
            '/* The kernels, for the double of XRT. */\n#include "registry.hpp"\n',
            *callers,
            f"const struct simulated_kernel simulated_kernels[] = {{\n{rows}\n}};",
            f"const size_t simulated_kernel_count = {len(kernels)};\n",
        ]
    )


def _value(index: int, c_type: str) -> str:
    """Return an argument as the kernel takes it."""
    cast = f"({c_type})(uintptr_t)" if c_type.endswith("*") else f"({c_type})"
    return f"{cast}arguments[{index}]"


def _tried(circuits: Sequence[Circuit[Any]]) -> list[dict[str, object]]:
    """Return for every layer with a table in the place of its formula the number of inputs that were tried."""
    tables = {of.name: table for of in circuits if (table := of.replaced()) is not None}
    return [asdict(tried) for tried in threshold_check.all_layers([of.layer for of in circuits], tables)]


def _build_double(bundle: Path, fabric: Fabric, profile: Profile, compile_c: CompileC) -> None:
    """Build libxrt_coreutil.so.2, which identifies itself as a simulator, with kernels, metadata and dependencies."""
    output = bundle / STAND_IN
    output.parent.mkdir(exist_ok=True)
    own = [path.relative_to(bundle) for path in sorted((bundle / SIMULATOR).glob("*.cpp"))]
    compile_c(
        [Path(kernel.SOURCE), Path(REGISTRY), *own],
        output,
        *(*CPP, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libxrt_coreutil.so.2", "-Wl,-z,defs"),
        *(f"-I{SIMULATOR}", "-I.", *LINKED),
    )
    (bundle / METADATA).write_bytes(xclbin.write(fabric.kernels, fabric.digest))
    if profile.emulated:
        for name in RUNTIME:
            shutil.copy(toolchain.library(profile, name), bundle / STAND_INS / name)
