"""Programs with IREE's object code: bits, proof, interface, refusals, and contraction, which is found and named."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from harness import targets
from harness.analysis.diagnosis import cases, diagnose
from harness.boards.profile import BoardProfiles, Profile
from harness.build import codegen
from harness.core.errors import RequestError, ToolError
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.plan import claims, planner
from harness.reference.specification import SpecificationReference
from harness.targets import toolchain
from harness.targets.iree import build, calls, compiler, schedule
from harness.targets.iree.builder import Block, Scalar
from harness.targets.iree.module import module_text
from harness.targets.iree.objects import Object
from harness.targets.iree.schedule import Copy, Dispatch, Place, Schedule
from harness.targets.iree.static import Kernel
from tests.integration.analysis.proof.test_structure import counterexamples
from tests.support import codes, float_images, functions, images
from tests.support.mlir import SMALL
from tests.support.programs.board_program import Patch, assert_same, build_patched, references, refusal, uniform_vectors
from tests.support.programs.c_variants import of_variant
from tests.support.proof.trials import Workshop

pytest.importorskip("iree.compiler", reason="the extra iree is not installed")

STATIC = "iree:static"
ARM = compiler.Processor("aarch64-linux-gnu", "cortex-a53")
NETWORKS: dict[str, Callable[[], Network]] = {
    "dense": SMALL["codes"],
    "float sums": SMALL["floats"],
    "codes": lambda: codes.every_operator("uint8", 23),
    "images": lambda: images.every_operator("int8"),
    "float images": float_images.every_operator,
    "functions": functions.every_function,
    "definitions": functions.every_definition,
}
IN_TEST = ("dense", "float sums", "definitions")


@pytest.fixture
def board(host: Profile) -> Profile:
    return of_variant(host, STATIC)


def supported(net: Network) -> Network:
    target = targets.find(STATIC)
    refused = [layer.name for layer in net.layers if target.unsupported(layer)]
    assert refused == [], refused
    return net


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in IN_TEST else pytest.mark.campaign) for n in NETWORKS]
)
def test_programs_have_the_bits_of_the_specification(name: str, board: Profile, objects: Path, tmp_path: Path) -> None:
    net = supported(NETWORKS[name]())
    trial = Workshop(board, objects, tmp_path).trial(net, block=7)
    vectors = uniform_vectors(net, 40, seed=1)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), SpecificationReference(net).activations(vectors))
    assert claims.bounded(trial.made) == ()


ON_BOARDS = ["host", *(pytest.param(name, marks=pytest.mark.campaign) for name in ("kv260", "xavier", "tda4vm"))]


@pytest.mark.parametrize("name", ON_BOARDS)
def test_the_machine_code_is_understood_and_a_kept_value_found(
    name: str, laboratory: BoardProfiles, objects: Path, tmp_path: Path
) -> None:
    shipped = laboratory.board(name)
    try:
        toolchain.find(shipped)
    except ToolError as error:
        pytest.skip(error.message)
    plan = planner.make(SMALL["codes"](), shipped, [STATIC] * len(shipped.items), block=7)
    kept = None if "zig" in shipped.toolchain.compiler else objects  # zig compiles and links at once
    right = build_patched(plan, shipped, tmp_path / "right", objects=kept)
    assert counterexamples(plan, right.path) == []
    environment = "const struct iree_environment environment"
    patches = [Patch("iree/calls.c", environment, f"static volatile int kept;\n    ++kept;\n    {environment}")]
    wrong = build_patched(plan, shipped, tmp_path / "wrong", patches, objects=kept)
    assert any("kept" in each for each in counterexamples(plan, wrong.path))


@pytest.mark.campaign
def test_the_proof_holds(board: Profile, objects: Path, tmp_path: Path) -> None:
    trial = Workshop(board, objects, tmp_path).trial(SMALL["codes"](), block=7)
    assert trial.refuted() == {}


def _bare(block: Block, a: Scalar, b: Scalar, name: str = "product") -> Scalar:
    return block("arith.mulf", a, b, name=name)


def test_contraction_is_found_when_the_program_is_built_and_named_when_it_runs(
    board: Profile, objects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "fma" not in Path("/proc/cpuinfo").read_text() and "asimd" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor does not fuse")
    net = SMALL["floats"]()
    plan = planner.make(net, board, block=40)
    monkeypatch.setattr(Block, "product", _bare)
    named = f"layer {net.layers[0].name}: IREE has contracted products and sums in {net.layers[0].name}_compute"
    with pytest.raises(ToolError, match=re.escape(named)):
        build_patched(plan, board, tmp_path / "refused", objects=objects)
    monkeypatch.setattr(build, "require_uncontracted", lambda *_: None)
    program = build_patched(plan, board, tmp_path / "fused", objects=objects)
    vectors = uniform_vectors(net, 40, seed=1)
    right, actual = references(net, vectors), program.activations(vectors, tmp_path / "run")
    assert (right[0] != actual[0]).any()
    first = next(cases(net, vectors, right, dict(enumerate(actual))))
    assert "multiplications and additions are contracted (FMA)" in str(diagnose(first))


@pytest.mark.campaign
@pytest.mark.parametrize("name", SMALL)
def test_ptx_of_the_documentation_is_not_contracted(name: str, tmp_path: Path) -> None:
    cuda = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_72", *compiler.ORDER)
    dump = "--iree-hal-dump-executable-files-to=ptx"
    compiler.run(module_text(SMALL[name]().layers), "net.mlir", "a test", tmp_path, *cuda, dump)
    [ptx] = (tmp_path / "ptx").glob("*.ptx")
    operations = re.findall(r"(?m)^\s+((?:fma|mul|div)[.\w]*\.f32)", ptx.read_text())
    assert ".target sm_72" in ptx.read_text()
    assert operations
    assert {each.split(".")[0] for each in operations} <= {"mul", "div"}


def _compiled(text: str, processor: compiler.Processor = ARM) -> tuple[bytes, str, str]:
    return compiler.compiled(text, "iree/one.mlir", "layer one", processor)


ONE = """\
module @one {
func.func @one(%x: tensor<1x5xf32>, %y: tensor<1x5xf32>) -> tensor<1x5xf32> {
  %z = arith.addf %x, %y : tensor<1x5xf32>
  return %z : tensor<1x5xf32>
}
}
"""


def test_the_same_module_gives_the_same_object_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _compiled(ONE)
    monkeypatch.setattr(compiler, "kept", lambda _, make: make())
    assert _compiled(ONE) == kept


def test_the_structures_are_those_of_the_compiled_object(tmp_path: Path) -> None:
    """The symbols of an object have the sizes of ours, and the loader stores addresses where our pointers are."""
    fields = ("header", "functions", "attributes", "names")
    lines = [f'printf("%zu\\n", offsetof(struct iree_library, {field}));' for field in fields]
    lines += [f'printf("%zu\\n", sizeof(struct iree_{name}));' for name in ("library", "header", "attributes")]
    (tmp_path / "sizes.c").write_text(
        f'#include <stdio.h>\n#include "iree.h"\nint main(void)\n{{\n{"".join(lines)}return 0;\n}}\n'
    )
    subprocess.run(["gcc", f"-I{ROOT}/kernels/iree", "sizes.c", "-o", "sizes"], cwd=tmp_path, check=True)
    ours = [int(each) for each in subprocess.run([tmp_path / "sizes"], capture_output=True, check=True).stdout.split()]
    content, _, _ = _compiled(ONE)
    (tmp_path / "one.o").write_bytes(content)
    with (tmp_path / "one.o").open("rb") as file:
        elf = ELFFile(file)
        symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
        name = f"{Object(content, 'one').library}_library_query_v0"
        sizes = {each.name.removeprefix(name): each["st_size"] for each in symbols if each.name.startswith(name)}
        places = {
            elf.get_section(symbols[each["r_info_sym"]]["st_shndx"]).name.rpartition(name)[2]: each["r_offset"]
            for each in elf.get_section_by_name(f".rela.data.rel.ro.{name}").iter_relocations()
        }
        version = elf.get_section_by_name(f".data.rel.ro.{name}_header").data()[:4]
    assert ours == [
        *(places[part] for part in ("_header", "_funcs", "_attrs", "_names")),
        *(sizes[part] for part in ("", "_header", "_attrs")),
    ]
    assert version == (6).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (Patch("kernels/iree/iree.h", "IREE_VERSION = 6", "IREE_VERSION = 5"), "does not have version 5"),
        (Patch("kernels/iree/iree.h", "uint8_t constants, bindings;", "uint8_t bindings, constants;"), "dispatch 0"),
        (
            Patch("iree/calls.c", '_library_query, "', '_library_query, "x'),
            "not the one that the program was built for",
        ),
    ],
)
def test_a_library_with_another_interface_is_refused(
    patch: Patch, message: str, board: Profile, objects: Path, tmp_path: Path
) -> None:
    net = SMALL["codes"]()
    program = build_patched(planner.make(net, board, block=7), board, tmp_path / "bundle", [patch], objects=objects)
    np.save(tmp_path / "v.npy", uniform_vectors(net, 1, seed=1))
    assert message in refusal(program.run("--vectors", tmp_path / "v.npy", "--out", tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("int counted(void) { static int n; return ++n; }", "has variables, in .bss"),
        ("#include <time.h>\nlong counted(void) { return (long)time(0); }", "calls time"),
    ],
)
def test_an_object_that_keeps_or_asks_for_something_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text(content)
    subprocess.run(["gcc", "-O2", "-c", "one.c"], cwd=tmp_path, check=True)
    with pytest.raises(ToolError, match=re.escape(f"IREE's object for layer one {message}")):
        Object((tmp_path / "one.o").read_bytes(), "layer one").require_pure()


def test_contraction_in_a_called_function_counts(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text(
        "static float __attribute__((noinline)) inner(float a, float b) { return __builtin_fmaf(a, b, a); }\n"
        "float outer(float a, float b) { return inner(a, b) * 2; }\nfloat alone(float a, float b) { return a * b; }\n"
    )
    command = ["gcc", "-O2", "-ffunction-sections", "-c", "one.c", "-mfma"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = Object((tmp_path / "one.o").read_bytes(), "layer one")
    assert [text.split()[0][:6] for text in found.fused(["outer"])] == ["vfmadd"]
    assert found.fused(["alone"]) == []


def test_programs_that_are_not_understood_are_refused() -> None:
    dynamic = ONE.replace("1x5xf32", "?xf32")
    _, host, executables = _compiled(dynamic)
    with pytest.raises(ToolError, match=r"layer one: IREE's host program has the operation hal.buffer_view.dim"):
        schedule.read(host, executables, "one", "layer one")
    with pytest.raises(ToolError, match="has no function other"):
        schedule.read(host, executables, "other", "layer one")


@pytest.mark.parametrize("by_copy", [False, True])
def test_a_result_in_the_place_of_a_constant_is_refused(by_copy: bool) -> None:
    table, fresh = Place(fresh=False, number=1, offset=0, size=20), Place(fresh=True, number=0, offset=0, size=20)
    dispatch = Dispatch("f", (1, 1, 1), (), (fresh, table), (True, not by_copy))
    steps = (dispatch, Copy(fresh, table)) if by_copy else (dispatch,)
    kernel = Kernel("one_compute", "one", "", (20, 20), 1, 20)
    with pytest.raises(ToolError, match="layer one: one_compute writes results in the place of a constant"):
        calls.text([calls.Compiled(kernel, Schedule(steps, (20,), fresh), "one", b"")])


@pytest.mark.parametrize(
    ("place", "message", "bytes_"),
    [
        (Place(fresh=False, number=0, offset=4, size=20), "uses bytes 4 to 24 of a buffer of 20", 20),
        (Place(fresh=True, number=0, offset=0, size=16), "has a result of 16 bytes, not 20", 20),
        (Place(fresh=True, number=0, offset=0, size=20), "takes 2,000,000 bytes of a stack", 2_000_000),
    ],
)
def test_parts_that_do_not_fit_are_refused(place: Place, message: str, bytes_: int) -> None:
    dispatch = Dispatch("f", (1, 1, 1), (), (place,), (True,))
    kernel = Kernel("one_compute", "one", "", (20, 20), 1, 20)
    with pytest.raises(ToolError, match=f"layer one: one_compute {message}"):
        calls.text([calls.Compiled(kernel, Schedule((dispatch,), (bytes_,), place), "one", b"")])


@pytest.mark.parametrize(
    ("found", "message"), [(None, "which is not installed"), ("3.12.0", "needs iree-base-compiler 3.13.0, not 3.12.0")]
)
def test_a_missing_or_other_compiler_is_refused(
    found: str | None, message: str, board: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(compiler, "version", version)
    with pytest.raises(RequestError, match=message) as raised:
        targets.find(STATIC).check_profile(board)
    assert "make setup" in raised.value.hint


def test_activations_too_large_for_a_stack_are_refused(board: Profile) -> None:
    net = codes.every_operator("uint8", 1 << 17)
    with pytest.raises(RequestError, match=r"target iree:static cannot compute layer .*: its activations take"):
        codegen.generate(planner.make(net, board))
