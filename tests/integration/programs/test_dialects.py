"""The generated code in C99 and C89, with hexadecimal and decimal floats: the same machine code, the same bits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import BoardProfiles, Profile
from harness.build import bundle, codegen
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.plan import planner
from harness.reference import SpecificationReference
from harness.targets.c import dialect
from tests.integration.programs.test_bare_metal import activations
from tests.support import codes, float_images, functions, images
from tests.support.programs.board_program import assert_same, build
from tests.support.programs.c_variants import of_variant

C89 = {"standard": "c89", "floats": "decimal"}
NETWORKS: dict[str, Callable[[], Network]] = {
    "float operators": float_images.every_operator,
    "functions": functions.every_function,
    "images of codes": lambda: images.every_operator("int8"),
    "codes": lambda: codes.every_operator("uint8", 21),
}
"""Together they have every operator of target c."""
VARIANTS = ("c", pytest.param("c:inlined", marks=pytest.mark.campaign))


def in_form(board: Profile, target: str = "c", **settings: str) -> Profile:
    """The profile with every item on this variant, in this standard and with these floats."""
    return of_variant(board, target).model_copy(update={"c": settings} if settings else {})


def machine_code(net: Network, board: Profile, folder: Path) -> dict[str, bytes]:
    """Code and constants of network.c as the bundle's compiler makes them."""
    recipe = bundle.recipe_of(codegen.generate(planner.make(net, board, block=7)), board)
    recipe.write(folder)
    include = sorted({Path(path).parent for path in recipe.sources if path.startswith("kernels/")})
    flags = (*(recipe.of_network or ("-std=gnu11",)), "-Werror", "-c")
    recipe.compiler.build(folder, [Path("network.c")], include, recipe.definitions, folder / "network.o", flags)
    found = {}
    for section in (".text", ".rodata", ".data"):
        words = ["objcopy", "-O", "binary", "-j", section, str(folder / "network.o"), str(folder / section)]
        subprocess.run(words, check=True)
        found[section] = (folder / section).read_bytes() if (folder / section).exists() else b""
    return found


@pytest.mark.parametrize("target", VARIANTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_form_is_the_same_machine_code(name: str, target: str, host: Profile, tmp_path: Path) -> None:
    """No warning, no construct that the standard lacks, and byte for byte what gcc makes of the usual form."""
    net = NETWORKS[name]()
    usual = machine_code(net, in_form(host, target), tmp_path / "usual")
    assert len(usual[".text"]) > 1000
    for standard, floats in (("c99", "decimal"), ("c89", "decimal")):
        form = in_form(host, target, standard=standard, floats=floats)
        assert machine_code(net, form, tmp_path / standard) == usual, standard


@pytest.mark.parametrize(
    ("board", "name", "target"),
    [
        ("cortex-r5", "functions", "c"),
        ("cortex-m4", "codes", "c:generic"),  # without a unit for double, which additions of codes need
        *(
            pytest.param(board, name, target, marks=pytest.mark.campaign)
            for board in ("host", "cortex-r5", "cortex-m7")
            for name in NETWORKS
            for target in ("c", "c:generic")
        ),
    ],
)
def test_c89_computes_the_bits_of_the_reference(
    board: str, name: str, target: str, laboratory: BoardProfiles, cache: Path, tmp_path: Path
) -> None:
    net = NETWORKS[name]()
    profile = in_form(laboratory.board(board), target, **C89)
    vectors = np.random.default_rng(1).normal(0, 3, (12, net.vector.size)).astype(np.float32)
    vectors[:4] = np.random.default_rng(2).choice(np.float32([0, -0.0, -1, 1e-39]), (4, net.vector.size))
    built = build(net, profile, cache, block=5)
    found = built.activations(vectors, tmp_path) if board == "host" else activations(built, profile, vectors, tmp_path)
    assert_same(found, SpecificationReference(net).activations(vectors))


def test_decimal_floats_have_the_bits_of_the_hexadecimal_ones(tmp_path: Path) -> None:
    """Every exponent, both limits of the subnormal numbers, and random significands, as gcc reads them."""
    bits = np.random.default_rng(1).integers(0, 0x7F800000, 3000, np.uint32)
    bits = np.concatenate([bits, np.arange(0, 0x7F800000, 1 << 23, np.uint32), [1, 2, 0x7FFFFF, 0x7F7FFFFF]]).astype(
        np.uint32
    )
    texts = [dialect.decimal(f"{float(value).hex()}f") for value in bits.view(np.float32)]
    assert max(len(text.partition("e")[0]) for text in texts) == 10, "9 digits and the point"
    (tmp_path / "floats.c").write_text(f"const float values[] = {{{', '.join(texts)}}};\n")
    words = ["gcc", "-std=c89", "-pedantic-errors", "-c", "floats.c", "-o", "floats.o"]
    subprocess.run(words, cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".rodata", "floats.o", "bytes"], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "bytes", np.uint32), bits)
    assert dialect.decimal("0x1.999999999999ap-4") == "1.0e-01"
    assert dialect.decimal("12f") == "12f"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{ f(); int a = 1; g(a); }", "{ f(); { int a = 1; g(a); } }"),
        ("{ int a; a = 1; T *b = &a; T c = *b; h(c); }", "{ int a; a = 1; { T *b = &a; T c = *b; h(c); } }"),
        ("{ for (size_t i = 0; i < n; ++i) f(i); }", "{ { size_t i = 0; for (; i < n; ++i) f(i); } }"),
        (
            "{ if (a) for (int i = 0; i < 2; ++i) { f(); const int b = 1; } else g(); }",
            "{ if (a) { int i = 0; for (; i < 2; ++i) { f(); { const int b = 1; } } } else g(); }",
        ),
        ("{ do f(); while (a); A##_t x = 1; a * b; }", "{ do f(); while (a); { A##_t x = 1; a * b; } }"),
        (
            "{ switch (a) { case 1: f(); break; default: g(); } }",
            "{ switch (a) { case 1: f(); break; default: g(); } }",
        ),
    ],
)
def test_declarations_begin_blocks_in_c89(source: str, expected: str) -> None:
    sources = {"kernels/c/a.h": f"void k(void) {source}\n#define M(A) void k_##A(void) \\\n {source}\n".encode()}
    found = dialect.written(sources, dialect.Settings(**C89))["kernels/c/a.h"].decode()  # type: ignore[arg-type]
    assert " ".join(found.split()) == f"void k(void) {expected} #define M(A) void k_##A(void) \\ {expected}"
    assert found.count("\n") == 3, "lines stay lines"


def test_what_has_no_form_is_refused(host: Profile) -> None:
    with pytest.raises(ValueError, match=r"kernels/c/a.h:2 has a compound literal, which c89 does not have"):
        dialect.written({"kernels/c/a.h": b"\nint f(void) { return g((T){1}); }"}, dialect.Settings(**C89))  # type: ignore[arg-type]
    program = codegen.generate(planner.make(NETWORKS["functions"](), in_form(host, "c:vector")))
    with pytest.raises(RequestError, match="the kernels of c:vector use vectors of the compiler"):
        bundle.recipe_of(program, in_form(host, "c:vector", standard="c99"))
    with pytest.raises(RequestError, match="c89 has no hexadecimal floats: give floats: decimal"):
        bundle.recipe_of(program, in_form(host, "c:vector", standard="c89"))
