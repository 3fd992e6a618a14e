"""AMD's tools: found, and made to turn the kernels into an application for Kria's manager of the fabric.

    v++ -c      each kernel by HLS, for the platform, at the clock
    v++ -l      all of them with the platform into one design, routed: about an hour
    bootgen     its bitstream as Linux loads it               <app>.bit.bin
    xclbinutil  what XRT must know, without the bitstream     <app>.xclbin
    dtc         what Linux must know (overlay.py)             <app>.dtbo

A package is named by the hash of all that it was made of, and kept: the same kernels are never linked twice.  A design
that misses its timing is refused, as what it computes depends on temperature and luck.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.boards.profile import Profile
from harness.core import subprocesses
from harness.core.errors import ToolError
from harness.core.subprocesses import Notify, ToolCall
from harness.targets.vitis import overlay, reports, xclbin
from harness.targets.vitis.kernel import SOURCE, Fabric
from harness.targets.vitis.overlay import Hardware
from harness.targets.vitis.reports import Synthesis, Timing
from harness.targets.vitis.settings import VitisSettings
from harness.targets.vitis.signature import ARGUMENTS

GUIDE = "docs/boards/kv260.md says where it comes from"
MODULES = ("vendor.py", "overlay.py", "reports.py")  # what the harness itself puts into a package, or refuses one by
PLATFORM_PARTS = (".xpfm", ".xsa", ".spfm")
COMPILE_TIMEOUT_S = 2 * 3600.0
LINK_TIMEOUT_S = 12 * 3600.0
SHORT_TIMEOUT_S = 600.0
VERSION_TIMEOUT_S = 120.0
TELL_EVERY_S = 60.0


@dataclass(frozen=True)
class Tools:
    """The tools of a build.  `version` is that of v++, `platform_sha256` that of the platform's files."""

    root: Path
    compiler: Path
    bootgen: Path
    xclbinutil: Path
    dtc: Path
    platform: Path
    version: str
    platform_sha256: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables of AMD's settings64.sh with which v++ finds HLS and Vivado."""
        folders = [folder for folder in _neighbours(self.root) if (folder / "bin").is_dir()]
        names = {"Vitis": "XILINX_VITIS", "Vivado": "XILINX_VIVADO", "Vitis_HLS": "XILINX_HLS"}
        found = {names[kind]: str(folder) for folder in folders if (kind := _kind(folder)) in names}
        path = os.pathsep.join([*(str(folder / "bin") for folder in folders), os.environ.get("PATH", "")])
        return {**found, "XILINX_VITIS": str(self.root), "PATH": path}


def find(profile: Profile, environment: Mapping[str, str] = os.environ) -> Tools:
    """Return the tools named by the profile or the environment; raise ToolError with what is missing and its origin."""
    root = _root(profile, environment)
    platform = _platform(profile, environment)
    compiler = _compiler(root)
    near = list(_neighbours(root))
    return Tools(
        root=root,
        compiler=compiler,
        bootgen=_tool("bootgen", near),
        xclbinutil=_tool("xclbinutil", [*near, *_xrt(environment)]),
        dtc=_tool("dtc", near, "install device-tree-compiler"),
        platform=platform,
        version=_version(compiler),
        platform_sha256=_platform_sha256(platform),
    )


def _root(profile: Profile, environment: Mapping[str, str]) -> Path:
    given = (
        profile.settings("vitis", VitisSettings).vitis or environment.get("VITIS") or environment.get("XILINX_VITIS")
    )
    if not given:
        raise ToolError(
            f"board {profile.name}: no Vitis to build its fabric with",
            f"name its folder, which has bin/v++, by vitis.vitis of the profile, or by VITIS; {GUIDE}",
        )
    return Path(given).expanduser().absolute()


def _platform(profile: Profile, environment: Mapping[str, str]) -> Path:
    given = profile.settings("vitis", VitisSettings).platform or environment.get("PLATFORM")
    if not given:
        raise ToolError(
            f"board {profile.name}: no platform to build its fabric for",
            f"name a .xpfm for the KV260 by vitis.platform of the profile, or by PLATFORM; {GUIDE}",
        )
    path = Path(given).expanduser().absolute()
    if path.suffix != ".xpfm" or not path.is_file():
        raise ToolError(f"{path} is no platform: it is no file that ends in .xpfm", GUIDE)
    return path


def _neighbours(root: Path) -> Iterator[Path]:
    """Yield Vitis itself, and its siblings: <top>/Vivado/<version> until 2024, <top>/<version>/Vivado after."""
    yield root
    for kind in ("Vitis_HLS", "Vivado"):
        yield root.parent.parent / kind / root.name
        yield root.parent / kind


def _kind(folder: Path) -> str:
    """Return the folder of Vitis, Vivado or Vitis_HLS, in either of the two layouts."""
    return next((name for name in (folder.name, folder.parent.name) if name in {"Vitis", "Vivado", "Vitis_HLS"}), "")


def _xrt(environment: Mapping[str, str]) -> list[Path]:
    given = environment.get("XILINX_XRT")
    return [Path(given)] if given else []


def _compiler(root: Path) -> Path:
    """Return v++ of the folder that was named, and of no other version."""
    path = root / "bin" / "v++"
    if not os.access(path, os.X_OK):
        raise ToolError(f"{root} is no folder of Vitis: no bin/v++ in it", f"name the one that has it; {GUIDE}")
    return path


def _tool(name: str, folders: Sequence[Path], hint: str = GUIDE) -> Path:
    """Return the program in one of the folders' bin, or on the PATH."""
    looked = [folder / "bin" / name for folder in folders]
    found = next((path for path in looked if path.is_file() and os.access(path, os.X_OK)), None) or shutil.which(name)
    if found is None:
        raise ToolError(f"no {name}: it is not on the PATH, and none of {', '.join(map(str, looked))}", hint)
    return Path(found)


def _version(compiler: Path) -> str:
    """Return the version of v++ with its build, e.g. `2022.2 (SW Build 3671529)`."""
    try:
        done = subprocess.run(
            [compiler, "--version"],
            capture_output=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"cannot run {compiler}: {error}", GUIDE) from error
    said = done.stdout + done.stderr
    version = re.search(r"v\+\+ v(\d{4}\.\d+\S*)", said)
    build = re.search(r"SW Build (\d+)", said)
    if done.returncode != 0 or version is None:
        raise ToolError(
            f"{compiler} does not tell its version: {said.strip()[-200:] or 'it says nothing'}",
            "is Vitis wholly installed? run it by hand",
        )
    return f"{version[1]} (SW Build {build[1]})" if build else version[1]


def _platform_sha256(platform: Path) -> str:
    """Return a hash of the platform's description and design, without its software, which has gigabytes."""
    digest = hashlib.sha256()
    folder = platform.parent
    parts = (path for path in folder.rglob("*") if path.suffix in PLATFORM_PARTS and path.is_file())
    for path in sorted({platform, *parts}):
        digest.update(f"{path.relative_to(folder)}\0{_sha256(path)}\0".encode())
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Package:
    """A built application: `files` maps the names of what the board is given to their SHA-256.

    `timing` and `synthesis` are what the tools reported, in words; `reused` is whether it was built before.
    """

    folder: Path
    app: str
    sha256: str
    files: dict[str, str]
    timing: str
    synthesis: tuple[str, ...]
    log: Path
    reused: bool


def package_sha256(fabric: Fabric, tools: Tools, clock_mhz: float) -> str:
    """Return the package's name: of all that decides what is in it."""
    described = {
        "sources": {name: hashlib.sha256(text).hexdigest() for name, text in fabric.sources.items()},
        "kernels": fabric.kernels,
        "app": fabric.app,
        "platform": tools.platform_sha256,
        "version": tools.version,
        "clock_mhz": float(clock_mhz),
        "method": [_sha256(Path(__file__).with_name(name)) for name in MODULES],
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def find_package(fabric: Fabric, tools: Tools, clock_mhz: float, cache: Path) -> Package | None:
    """Return the package if it was built before and is whole."""
    sha256 = package_sha256(fabric, tools, clock_mhz)
    return _read(cache / "fabric" / sha256[:16], sha256, reused=True)


def build(fabric: Fabric, tools: Tools, clock_mhz: float, cache: Path, notify: Notify) -> Package:
    """Compile, link and pack the kernels, or take the package from `cache` if nothing changed.

    `notify` hears of every tool, and every minute how far it is.  ToolError if one fails, with its last words and the
    log of all; if the design misses its timing, or its timing is unknown.
    """
    found = find_package(fabric, tools, clock_mhz, cache)
    if found is not None:
        notify(f"taken from {found.folder}: it was built from the same before")
        return found
    sha256 = package_sha256(fabric, tools, clock_mhz)
    folder = cache / "fabric" / sha256[:16]
    notify(
        f"{len(fabric.kernels)} kernels to compile and link: this takes an hour or more, all of it in {_log(folder)}"
    )
    try:
        _build(fabric, tools, clock_mhz, folder, sha256, notify)
    except OSError as error:
        raise ToolError(
            f"cannot write {error.filename or folder}: {error.strerror}",
            "check rights and free space: a link needs gigabytes",
        ) from error
    made = _read(folder, sha256, reused=False)
    if made is None:
        raise ToolError(f"{folder}: the package is not what was built", "is the disk full or failing?")
    return made


def _build(fabric: Fabric, tools: Tools, clock_mhz: float, folder: Path, sha256: str, notify: Notify) -> None:
    """Build in a temporary folder, then rename it to `folder`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as temporary:
        work = _Work(Path(temporary), fabric, tools, clock_mhz, _log(folder), notify)
        with _reports_kept(work.reports, folder.with_name(f"{folder.name}.reports")):
            _make(work)
        _write_manifest(work, sha256)
        _put_in_place(work.package, folder, sha256)


def _log(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


class _Work:
    """A build under way: its folders, and what it has found out."""

    def __init__(self, folder: Path, fabric: Fabric, tools: Tools, clock_mhz: float, log: Path, notify: Notify) -> None:
        self.fabric, self.tools, self.log, self.notify = fabric, tools, log, notify
        self.hertz = round(clock_mhz * 1_000_000)
        self.sources, self.reports = folder / "sources", folder / "reports"
        self.compiled, self.linked, self.package = folder / "compiled", folder / "linked", folder / "package"
        for each in (self.sources, self.reports, self.compiled, self.linked, self.package):
            each.mkdir()
        for name, text in fabric.sources.items():
            (self.sources / name).write_bytes(text)
        self.synthesis: list[Synthesis | None] = []
        self.timing: Timing | None = None

    def run(self, doing: str, command: Sequence[str | Path], folder: Path, timeout_s: float) -> None:
        """Run a tool in `folder`; ToolError as slow_tool.run."""
        words = tuple(map(str, command))
        self.notify(doing)
        with self.log.open("ab") as file:
            file.write(f"\n$ cd {folder} && {' '.join(words)}\n".encode())
        call = ToolCall(
            words,
            doing=doing,
            noun=f"{Path(words[0]).name} ({doing})",
            log=self.log,
            timeout_s=timeout_s,
            tell_every_s=TELL_EVERY_S,
            if_missing=GUIDE,
            folder=folder,
            environment=self.tools.environment,
        )
        subprocesses.run(call, self.notify)


@contextmanager
def _reports_kept(made: Path, kept: Path) -> Iterator[None]:
    """Keep the reports of the tools, also after a failure, whose cause they can show."""
    try:
        yield
    finally:
        shutil.rmtree(kept, ignore_errors=True)
        made.replace(kept)


def _make(work: _Work) -> None:
    objects = [_compile(work, kernel) for kernel in work.fabric.kernels]
    linked = _link(work, objects)
    work.timing = reports.find_timing(work.reports, work.linked)
    work.notify(str(work.timing))
    if not work.timing.met:
        raise ToolError(
            f"the design is too slow for {work.hertz / 1e6:g} MHz: {work.timing}; what it would compute is not to be "
            "trusted, so it is refused",
            f"lower vitis.clock_mhz of the profile and build again; all reports: {work.log.with_suffix('.reports')}",
        )
    _pack(work, linked)


def _compile(work: _Work, kernel: str) -> Path:
    """Return a kernel by HLS; the object that v++ links."""
    temporary, made = work.compiled / kernel, work.compiled / f"{kernel}.xo"
    temporary.mkdir()
    command = [
        *_vpp(work, temporary, work.reports / kernel),
        *("-c", "-k", kernel, "--hls.clock", f"{work.hertz}:{kernel}", "-I", str(work.sources)),
        *("-o", str(made), str(work.sources / SOURCE)),
    ]
    work.run(f"compiling {kernel} by HLS", command, temporary, COMPILE_TIMEOUT_S)
    _expect(made, "v++ -c")
    reported = reports.find_synthesis(kernel, temporary) or reports.find_synthesis(kernel, work.reports / kernel)
    work.synthesis.append(reported)
    work.notify(f"{kernel}: HLS left no csynth.xml where one is looked for" if reported is None else str(reported))
    return made


def _vpp(work: _Work, temporary: Path, report: Path) -> list[str]:
    """Return the beginning of every command line of v++."""
    report.mkdir()
    return [
        *(str(work.tools.compiler), "-t", "hw", "--platform", str(work.tools.platform), "--save-temps"),
        *("--temp_dir", str(temporary), "--log_dir", str(report / "logs"), "--report_dir", str(report)),
    ]


def _link(work: _Work, objects: Sequence[Path]) -> Path:
    """Return all kernels and the platform, placed and routed; the xclbin with its bitstream."""
    config, made = work.linked / "link.cfg", work.linked / f"{work.fabric.app}.xclbin"
    config.write_text(link_config(work.fabric.kernels, work.hertz, _memory_ports(work)), encoding="utf-8")
    command = [
        *_vpp(work, work.linked / "temporary", work.reports / "link"),
        *("-l", "--config", str(config), "-o", str(made), *map(str, objects)),
    ]
    work.run("linking", command, work.linked, LINK_TIMEOUT_S)
    _expect(made, "v++ -l")
    return made


def _memory_ports(work: _Work) -> tuple[str, ...]:
    """Return the platform's memory ports by their tags, from platforminfo; without any v++ chooses."""
    try:
        done = subprocess.run(
            [work.tools.compiler.with_name("platforminfo"), work.tools.platform],
            capture_output=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
            env={**os.environ, **work.tools.environment},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return memory_ports(done.stdout) if done.returncode == 0 else ()


def memory_ports(platforminfo: str) -> tuple[str, ...]:
    """Return the tags of high performance ports, HP0 to HP3, from platforminfo; the coherent ones without others.

    XRT writes caches back and invalidates them, so that a port need not be coherent.
    """
    tags = re.findall(r"Bus SP Tag:\s*(HPC?\d)\b", platforminfo)
    return tuple(sorted(tag for tag in tags if not tag.startswith("HPC")) or sorted(tags))


def link_config(kernels: Sequence[str], hertz: int, ports: Sequence[str]) -> str:
    """Return the configuration of v++ -l: one of each kernel, its clock, its buffers on the ports in turn."""
    buffers = [argument.name for argument in ARGUMENTS if argument.is_buffer]
    places = [f"{kernel}_1.{buffer}" for kernel in kernels for buffer in buffers]
    used = [f"sp={place}:{ports[at % len(ports)]}" for at, place in enumerate(places)] if ports else []
    lines = [
        *("[clock]", *(f"freqHz={hertz}:{kernel}_1.ap_clk" for kernel in kernels), ""),
        *("[connectivity]", *(f"nk={kernel}:1:{kernel}_1" for kernel in kernels), *used, ""),
        *("[advanced]", "param=compiler.addOutputTypes=hw_export"),
    ]
    return "\n".join(lines) + "\n"


def _pack(work: _Work, linked: Path) -> None:
    """Pack the four files for the board."""
    app, tools = work.fabric.app, work.tools
    shutil.copy(_bitstream(work), work.linked / f"{app}.bit")
    (work.linked / f"{app}.bif").write_text(overlay.image_description(f"{app}.bit"), encoding="utf-8")
    command: list[str | Path] = [tools.bootgen, "-image", f"{app}.bif", "-arch", "zynqmp"]
    work.run("packing the bitstream", [*command, "-process_bitstream", "bin", "-w"], work.linked, SHORT_TIMEOUT_S)
    _expect(work.linked / f"{app}.bit.bin", "bootgen")
    (work.linked / f"{app}.bit.bin").replace(work.package / f"{app}.bit.bin")
    metadata, tree = work.package / f"{app}.xclbin", work.package / f"{app}.dtbo"
    command = [tools.xclbinutil, "--remove-section", "BITSTREAM", "--force", "--input", linked, "--output", metadata]
    work.run("taking the bitstream out of the xclbin", command, work.linked, SHORT_TIMEOUT_S)
    _expect(metadata, "xclbinutil")
    _tell_doubts(work, metadata)
    source = work.linked / f"{app}.dtso"
    source.write_text(overlay.device_tree(app, _hardware(work)), encoding="utf-8")
    command = [tools.dtc, "-@", "-I", "dts", "-O", "dtb", "-o", tree, source]
    work.run("compiling the overlay", command, work.linked, SHORT_TIMEOUT_S)
    _expect(tree, "dtc")
    (work.package / "shell.json").write_text(overlay.shell(), encoding="utf-8")


def _tell_doubts(work: _Work, metadata: Path) -> None:
    """Note what the program would refuse; not an error, as a link takes an hour and real output was not seen yet."""
    try:
        xclbin.check(xclbin.read(metadata.read_bytes()), work.fabric.kernels)
    except ToolError as doubt:
        work.notify(f"{metadata.name}: {doubt.message}: the program on the board may refuse it")


def _bitstream(work: _Work) -> Path:
    """Return the bitstream of the whole design, from the folder where v++ writes it."""
    temporary = work.linked / "temporary"
    found = [*temporary.rglob("int/system.bit"), *temporary.rglob("impl_1/*.bit")]
    if not found:
        raise ToolError(f"v++ -l ended well, but left no bitstream in {temporary}", f"its log: {work.log}")
    return found[0]


def _hardware(work: _Work) -> Hardware:
    """Read the handoff of the design that contains the processor; others describe its parts.

    The platform's own, from before the kernels were in it, is there as well: it counts if there is no other.
    """
    paths = sorted(work.linked.rglob("*.hwh"))
    of_project = [path for path in paths if {"prj", "hw_handoff"} <= set(path.parts)]
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in of_project or paths)
    found = [each for each in map(overlay.hardware, texts) if each is not None]
    if not found:
        raise ToolError(
            "v++ -l left no hardware handoff (.hwh) of the design with the processor: the overlay cannot be written",
            f"its log: {work.log}",
        )
    if any(each != found[0] for each in found):
        raise ToolError(
            "v++ -l left hardware handoffs of the design that contradict each other: the overlay cannot be written",
            f"please report it; the log: {work.log}",
        )
    return found[0]


def _expect(path: Path, tool: str) -> None:
    if not path.is_file() or path.stat().st_size == 0:
        raise ToolError(f"{tool} ended well, but made no {path.name}", "its log shows what it made")


def _write_manifest(work: _Work, sha256: str) -> None:
    manifest = {
        "package": sha256,
        "app": work.fabric.app,
        "kernels": list(work.fabric.kernels),
        "digest": work.fabric.digest,
        "vitis": work.tools.version,
        "platform": work.tools.platform.name,
        "clock_hz": work.hertz,
        "timing": str(work.timing),
        "synthesis": [str(each) for each in work.synthesis if each is not None],
        "files": {path.name: _sha256(path) for path in sorted(work.package.iterdir())},
    }
    (work.package / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _put_in_place(made: Path, folder: Path, sha256: str) -> None:
    """Rename `made` to `folder`, unless another process was faster, whose package may be in use already."""
    if _read(folder, sha256, reused=True) is None:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        made.replace(folder)
    except OSError:
        if _read(folder, sha256, reused=True) is None:
            raise


def _read(folder: Path, sha256: str, *, reused: bool) -> Package | None:
    """Return the package in `folder` if it is complete and unmodified."""
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        files = {str(name): str(expected) for name, expected in manifest["files"].items()}
        if manifest["package"] != sha256 or any(_sha256(folder / name) != files[name] for name in files):
            return None
        app, timing, synthesis = str(manifest["app"]), str(manifest["timing"]), tuple(manifest["synthesis"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, no JSON, or JSON of another shape
        return None
    return Package(folder, app, sha256, files, timing, synthesis, _log(folder), reused)
