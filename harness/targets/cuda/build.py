"""Compilation of the generated device code to a cubin for each GPU of the profile, and PTX.

The compiler's output is inspected: a build whose PTX fuses or approximates an operation fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.boards.profile import Profile
from harness.core.errors import RequestError, unknown_name
from harness.targets.base import COMPILED, SIMULATORS, STAND_INS, CompileC, method
from harness.targets.cuda import nvrtc, ptx, tensor
from harness.targets.cuda.code import DeviceCode
from harness.targets.cuda.settings import CudaSettings

HERE = Path(__file__).parent
SOURCE = "network.cu"
IMAGES = "network_images.c"
REGISTRY = "network_simulated.cpp"
PTX = f"{COMPILED}/network.ptx"
SIMULATION = Path("simulators/cuda")
STAND_IN = f"{STAND_INS}/libcuda.so.1"
OLDEST = 61  # the first with dp4a
WAITS = {"spin": "CU_CTX_SCHED_SPIN", "yield": "CU_CTX_SCHED_YIELD", "block": "CU_CTX_SCHED_BLOCKING_SYNC"}


class _Nvrtc:
    """The compiler of CUDA kernels, see KernelCompiler."""

    def sources(self, kernels: Sequence[DeviceCode], profile: Profile) -> dict[str, bytes]:
        """Return the device code of all items as one text; for a simulation also that, and the list of its kernels."""
        settings = _settings(profile, kernels)
        made = {SOURCE: source(kernels), IMAGES: _images(settings, kernels)}
        if profile.simulated:
            made[REGISTRY] = _registry(kernels)
            fixed = sorted((SIMULATORS / "cuda").iterdir())
            made |= {f"{SIMULATION}/{path.name}": path.read_text(encoding="utf-8") for path in fixed}
        return {path: text.encode() for path, text in made.items()}

    def identity(self, profile: Profile) -> str:
        """Return version and flags, and a hash of compiler and inspection: an older inspection gives another bundle."""
        settings = _settings(profile)
        read = f"PTX {settings.ptx or 'as compiled'}"
        return " ".join([nvrtc.identity(), *nvrtc.FLAGS, *settings.archs, read, f"[{method(HERE)}]"])

    def flags(self, profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - of the interface
        """Return no flags: the program loads the driver."""
        return ()

    def deployed(self, profile: Profile) -> tuple[str, ...]:
        """Return the simulator of the driver, for a simulation."""
        return (STAND_IN,) if profile.simulated else ()

    def build(
        self,
        bundle: Path,
        kernels: Sequence[DeviceCode],
        profile: Profile,
        compile_c: CompileC,
    ) -> tuple[Path, ...]:
        """Build cubins and PTX; for a simulation the simulator of the driver."""
        settings = _settings(profile, kernels)
        text, headers = (bundle / SOURCE).read_bytes(), headers_in(bundle / "kernels" / "cuda")
        compiled = {arch: nvrtc.compile_for(arch, SOURCE, text, headers) for arch in settings.archs}
        (bundle / COMPILED).mkdir(exist_ok=True)
        for arch, output in compiled.items():
            ptx.inspect(output.ptx, fusing(kernels))
            (bundle / _cubin(arch)).write_bytes(output.cubin)
        fallback = compiled[_oldest(settings)].ptx
        if settings.ptx:
            fallback = ptx.for_version(fallback, settings.ptx, fusing(kernels))
        (bundle / PTX).write_text(fallback, encoding="ascii")
        if profile.simulated:
            _build_stand_in(bundle, settings, compile_c)
        return (Path(IMAGES),)


COMPILER = _Nvrtc()


def _settings(profile: Profile, kernels: Sequence[DeviceCode] = ()) -> CudaSettings:
    """Return the profile's settings of the GPU, with the architectures that have the instructions of `kernels`.

    RequestError if there are none, or no compiler supports them.
    """
    if not profile.section("cuda"):
        raise RequestError(
            f"board {profile.name}: target cuda needs to know the GPU",
            "add to its block in boards.yaml, for example: cuda: {archs: [sm_72]}",
        )
    if profile.toolchain.static:
        raise RequestError(
            f"board {profile.name}: a static program cannot load the NVIDIA driver",
            "set static: false in its toolchain, and a compiler that links for the board's glibc",
        )
    settings = profile.settings("cuda", CudaSettings)
    choices = [arch for arch in nvrtc.supported() if int(arch[3:]) >= OLDEST]
    for arch in settings.archs:
        if arch not in choices:
            raise unknown_name("GPU architecture", arch, choices)
    if any(code.header == tensor.HEADER for code in kernels):
        return settings.model_copy(update={"archs": with_tensor_cores(profile, settings)})
    return settings


def with_tensor_cores(profile: Profile, settings: CudaSettings) -> tuple[str, ...]:
    """Return the profile's architectures for which cuda:tensor can be compiled; RequestError if it has none."""
    found = tuple(arch for arch in settings.archs if int(arch[3:]) >= tensor.OLDEST)
    if not found:
        raise RequestError(
            f"board {profile.name}: cuda:tensor needs tensor cores for int8, which sm_{tensor.OLDEST} and later have, "
            f"and the board's GPU is {', '.join(settings.archs)}",
            "choose cuda:layerwise or cuda:fused with --items, or in boards.yaml",
        )
    return found


def _oldest(settings: CudaSettings) -> str:
    """Return the architecture whose PTX every listed GPU can run."""
    return min(settings.archs, key=lambda arch: int(arch[3:]))


def _cubin(arch: str) -> str:
    return f"{COMPILED}/network_{arch}.cubin"


def headers_in(folder: Path) -> dict[str, bytes]:
    """Return the headers that the device code includes, by name: those of kernels/cuda, and one for every processor."""
    paths = sorted([*folder.glob("*.cuh"), *folder.glob("*.h"), folder.parent / "c" / "elementary.h"])
    return {path.name: path.read_bytes() for path in paths}


def fusing(kernels: Sequence[DeviceCode]) -> frozenset[str]:
    """Return the functions with multiply-adds that round once: those of the specification, and the self-test."""
    return frozenset({"self_test"}.union(*(code.fusing for code in kernels)))


def _carried(kernels: Sequence[DeviceCode]) -> int:
    return min(code.carried for code in kernels)


def source(kernels: Sequence[DeviceCode]) -> str:
    """Return the text that the compiler is given, of all items together."""
    headers = sorted({"self_test.cuh", *(code.header for code in kernels)})
    includes = "\n".join(f'#include "{header}"' for header in headers)
    head = "/* The network's device code; network.c names the ONNX node of every layer. */"
    return (
        "\n\n".join([head, f"#define VECTORS {_carried(kernels)}", includes, *(code.text for code in kernels)]) + "\n"
    )


def _images(settings: CudaSettings, kernels: Sequence[DeviceCode]) -> str:
    """Return the compiled code as part of the program; PTX is last and ends with a zero."""
    files = [*(_cubin(arch) for arch in settings.archs), PTX]
    blobs = "\n".join(
        f'__asm__(".section .rodata\\n.balign 64\\nimage_{index}:\\n.incbin \\"{file}\\"\\n.byte 0\\n.previous\\n");\n'
        f"extern const char image_{index}[];"
        for index, file in enumerate(files)
    )
    archs = [*settings.archs, _oldest(settings)]
    rows = "\n".join(
        f"    {{{arch[3:]}, {str(file.endswith('ptx')).lower()}, image_{index}}},"
        for index, (arch, file) in enumerate(zip(archs, files, strict=True))
    )
    return (
        f'/* The code for the GPU, as compiled from {SOURCE}. */\n#include "gpu.h"\n\n{blobs}\n\n'
        f"const struct gpu_image gpu_images[] = {{\n{rows}\n}};\n"
        f"const size_t gpu_image_count = {len(files)};\n"
        f"const unsigned gpu_wait = {WAITS[settings.wait]};\n"
        f"const unsigned gpu_carried = {_carried(kernels)};\n"
    )


def _registry(kernels: Sequence[DeviceCode]) -> str:
    """Return the tables in which the driver's simulator finds kernels and tables by name."""
    functions = [(kernel.name, kernel.has_barriers) for code in kernels for kernel in code.kernels]
    rows = [
        f"    SIMULATED_KERNEL({name}, {str(barriers).lower()}),"
        for name, barriers in [("self_test", False), *functions]
    ]
    tables = [f"    SIMULATED_TABLE({table.name})," for code in kernels for table in code.tables]
    return (
        f'#include "cuda_on_cpu.h"\n\n#include "{SOURCE}"\n#include "registry.h"\n\n'
        "const struct simulated_kernel simulated_kernels[] = {\n" + "\n".join(rows) + "\n};\n"
        f"const size_t simulated_kernel_count = {len(rows)};\n"
        "const struct simulated_table simulated_tables[] = {\n"
        + "\n".join(tables or ["    {nullptr, nullptr, 0},"])
        + f"\n}};\nconst size_t simulated_table_count = {len(tables)};\n"
    )


def _build_stand_in(bundle: Path, settings: CudaSettings, compile_c: CompileC) -> None:
    """Build libcuda.so.1 with the same source, which identifies itself as a simulator."""
    output = bundle / STAND_IN
    output.parent.mkdir(exist_ok=True)
    sources = [Path(REGISTRY), *(path.relative_to(bundle) for path in sorted((bundle / SIMULATION).glob("*.cpp")))]
    compile_c(
        sources,
        output,
        *("-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing"),
        *("-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", "-Wl,-z,defs"),
        *(f"-I{SIMULATION}", "-I.", f"-DSIMULATED_ARCH={_oldest(settings)[3:]}"),
    )
