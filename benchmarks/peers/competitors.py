"""Who takes part: for every contender how it is built and started.  One that cannot be is refused by name.

A command raises HarnessError or Unavailable where the contender cannot be built; whoever starts it makes a row of that.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from inference import runtime_library, write_source

from harness import targets
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.arrays import Array
from harness.core.errors import RequestError, unknown_name
from harness.core.installation import ROOT
from harness.plan import planner
from harness.targets import KERNELS
from harness.targets.toolchain import Compiler
from peers.case import Case, float_constants, naive_header
from peers.worker import Failed, NotInstalled, Unavailable, telling

BENCHMARKS = Path(__file__).parents[1]
WORKERS = Path(__file__).parent / "workers"
ENVIRONMENTS = ROOT / "build" / "peers"
COMMON = (WORKERS / "worker.c", *(KERNELS / "program" / name for name in ("npy.c", "fail.c", "copy_padded.c")))
DEFINITIONS = ("TIME_SOURCE=CLOCK_MONOTONIC",)  # which headers of the board program ask for
INCLUDE = (BENCHMARKS, WORKERS, *(KERNELS / name for name in ("program", "c", "iree")))
ACETONE_PACKAGES = "acetone-nnet==1.0.post1 tensorflow==2.12.*"
FAST = ("-O3", "-march=native", "-ffast-math")  # the last changes the order of sums, and so a float's last bits
GENERATION_S = 600.0  # at most, for the C of ACETONE
PYTHONS = ("litert", "iree", "tract", "acetone")  # peers that come with packages of their own


@dataclass(frozen=True)
class Workshop:
    """What contenders are built with: the network, the board `host`, its compiler, a Python for some peers."""

    case: Case
    host: Profile
    compiler: Compiler
    pythons: Mapping[str, Path]

    def python(self, peer: str) -> str:
        """Return the Python of a peer: as asked for, or of build/peers/<peer>, or of build/peers, or this one."""
        folders = (ENVIRONMENTS / peer, ENVIRONMENTS)
        found = [path for path in (folder / "bin/python" for folder in folders) if path.exists()]
        return str(self.pythons.get(peer) or next(iter(found), sys.executable))

    def folder(self, name: str) -> Path:
        """Return a new folder for what one contender needs."""
        folder = self.case.folder / re.sub(r"\W+", "-", name)
        folder.mkdir()
        return folder


@dataclass(frozen=True)
class Peer:
    """One contender: its name in the table, and what makes the command of its worker."""

    name: str
    command: Callable[[Workshop], Sequence[str]]
    is_ours: bool = False


def roster(target_names: Sequence[str], own: Mapping[str, Sequence[str]], form: str = "dense") -> list[Peer]:
    """Return all contenders: ours by target, the peers, the yardstick, and workers of the user's `own` by name.

    `form` is that of the case; a float network has no contender of codes and none that may change its sums.
    RequestError where two have the same name.
    """
    partial = functools.partial
    ours = [Peer(f"harness, {name}", partial(_generated, name), is_ours=True) for name in target_names]
    of_codes = [
        Peer("LiteRT/XNNPACK, int8", partial(_python, "litert", ["int8"])),
        Peer("onnxruntime, QGemm", partial(_onnxruntime, "model")),
        Peer("IREE, QGemm", partial(_python, "iree", ["model"])),
        Peer("tract, QGemm", partial(_python, "tract", ["model"])),
        Peer("naive C, -O2", _naive),
    ]
    peers = [
        Peer("LiteRT/XNNPACK, float", partial(_python, "litert", ["float"])),
        Peer("onnxruntime, float", partial(_onnxruntime, "float")),
        Peer("IREE, float", partial(_python, "iree", ["float"])),
        Peer("tract, float", partial(_python, "tract", ["float"])),
    ]
    all_flags = (FAST[:2], FAST[:1]) if form == "float" else (FAST, FAST[:2], ("-O2",))
    peers += [Peer(f"ACETONE, {' '.join(flags)}", partial(_acetone, flags)) for flags in all_flags]
    peers += [] if form == "float" else of_codes
    everybody = ours + peers + [Peer(name, partial(_own, command)) for name, command in own.items()]
    for name, count in Counter(peer.name for peer in everybody).items():
        if count > 1:
            raise RequestError(f"{count} contenders are called {name!r}", "name every target and every worker once")
    return everybody


def _generated(name: str, shop: Workshop) -> list[str]:
    """Return the network.c of a bundle for blocks of one vector, with the flags of boards.yaml."""
    if name not in targets.names():
        raise unknown_name("target", name, targets.names())
    folder, source = _new_source(shop, name, "network.c")
    plan = planner.make(shop.case.network, shop.host, items=[name] * len(shop.host.items), block=1)
    generated = codegen.generate(plan)
    write_source(generated, source)
    units = [source, WORKERS / "generated_worker.c", *_of_kernel_compilers(generated, shop, folder)]
    program = _built(shop.compiler, folder, units)
    return _worker(shop, program, _identity(shop.compiler), "model")


def _of_kernel_compilers(generated: codegen.Program, shop: Workshop, folder: Path) -> list[Path]:
    """Return what a target's own compiler adds to a program: its C files and objects, written below `folder`."""
    found: list[Path] = []
    for compiler, kernels in bundle.recipe_of(generated, shop.host).kernels:
        for path, content in compiler.sources(kernels, shop.host).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
            found += [folder / path] if path.endswith(".c") else []
        found += [folder / path for path in compiler.build(folder, kernels, shop.host, shop.compiler.build)]
    return [*found, *((KERNELS / "iree").glob("*.c") if found else ())]


def _onnxruntime(kind: str, shop: Workshop) -> list[str]:
    """Return the installed package's library behind the same C as in inference.py."""
    folder = shop.folder(f"onnxruntime-{kind}")
    program = _built(shop.compiler, folder, [BENCHMARKS / "onnxruntime.c", WORKERS / "onnxruntime_worker.c"])
    net = shop.case.network
    names = (net.vector.name, net.layers[-1].output.name) if kind == "model" else ("x", "y")
    widths = (str(net.vector.size), str(net.layers[-1].size))
    arguments = [str(runtime_library()), str(shop.case.folder / f"{kind}.onnx"), *names, *widths]
    return _worker(shop, program, f"onnxruntime {version('onnxruntime')}", kind, *arguments)


def _naive(shop: Workshop) -> list[str]:
    """Exact, but with none of the flags that let a compiler do more than -O2."""
    _require_dense(shop)
    folder, header = _new_source(shop, "naive", "naive.h")
    header.write_text(naive_header(shop.case.network))
    compiler = dataclasses.replace(shop.compiler, flags=("-O2", "-ffp-contract=off"))
    return _worker(shop, _built(compiler, folder, [WORKERS / "naive_worker.c"]), _identity(compiler), "model")


def _acetone(flags: tuple[str, ...], shop: Workshop) -> list[str]:
    """Return the C that ACETONE generates for Keras's form of a float network, for an NNET file of a dense one."""
    is_float = shop.case.form == "float"
    folder, source = _new_source(shop, f"acetone{''.join(flags)}", "network.nnet")
    if is_float:
        source = shop.case.folder / "network.json"
    else:
        _require_dense(shop)
        source.write_text(nnet(float_constants(shop.case.network)))
    generator = f"acetone-nnet {_acetone_generate(shop.python('acetone'), source, folder)}"
    compiler = dataclasses.replace(shop.compiler, flags=flags)
    sources = [folder / "inference.c", folder / "global_vars.c", WORKERS / "acetone_worker.c"]
    widths = (str(shop.case.network.vector.size), str(shop.case.network.layers[-1].size))
    vectors = "channels_last.npy" if is_float else "vectors.npy"
    return _worker(shop, _built(compiler, folder, sources), generator, "float", *widths, vectors=vectors)


def _require_dense(shop: Workshop) -> None:
    if shop.case.form != "dense":
        raise Unavailable("dense networks only here")


def _acetone_generate(python: str, source: Path, folder: Path) -> str:
    """Write inference.c and global_vars.c to `folder`; ACETONE's version."""
    command = [python, str(WORKERS / "acetone_generate.py"), str(source), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GENERATION_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"generated no C within {GENERATION_S:g} s") from None
    if done.returncode == 0:
        return done.stdout.splitlines()[-1]
    words = done.stderr.strip().splitlines() or ["not a word"]
    if "No module named 'acetone_nnet'" in words[-1]:
        raise NotInstalled(ACETONE_PACKAGES)
    raise Failed(telling(words))


def nnet(constants: Sequence[tuple[Array, Array]]) -> str:
    """Return an NNET file of all weights (K, N) and biases (N,), ReLU between layers, inputs not normalised."""
    widths = [len(constants[0][0]), *(len(bias) for _, bias in constants)]
    head = [[len(constants), widths[0], widths[-1], max(widths)], widths, [0]]
    unused = [[0] * widths[0], [1] * widths[0], [0] * (widths[0] + 1), [1] * (widths[0] + 1)]  # of a normalisation
    tables = [row for weights, bias in constants for row in (*weights.T, *bias[:, None])]
    return "".join("".join(f"{value:.9g}," for value in row) + "\n" for row in (*head, *unused, *tables))


def _python(peer: str, arguments: Sequence[str], shop: Workshop) -> list[str]:
    return [shop.python(peer), str(WORKERS / f"{peer}_worker.py"), str(shop.case.folder), *arguments]


def _own(command: Sequence[str], shop: Workshop) -> list[str]:
    """Return a worker of the user, which finds what is computed in {folder}."""
    return [word.replace("{folder}", str(shop.case.folder)) for word in command]


def _new_source(shop: Workshop, name: str, file: str) -> tuple[Path, Path]:
    folder = shop.folder(name)
    return folder, folder / file


def _built(compiler: Compiler, folder: Path, sources: Sequence[Path]) -> Path:
    program = folder / "worker"
    compiler.build(folder, [*sources, *COMMON], (folder, *INCLUDE), DEFINITIONS, program)
    return program


def _worker(
    shop: Workshop, program: Path, identity: str, computes: str, *arguments: str, vectors: str = "vectors.npy"
) -> list[str]:
    return [str(program), str(shop.case.folder / vectors), identity, computes, *arguments]


def _identity(compiler: Compiler) -> str:
    """Return the compiler's name and version, with the flags that matter here."""
    name = re.sub(r" \[\w+\]$", "", compiler.identity)
    return f"{name} {' '.join(flag for flag in compiler.flags if re.match(r'-O|-m', flag))}"
