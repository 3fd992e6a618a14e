"""The inspection passes what the compiler makes of the kernels, and nothing that rounds otherwise than they say."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from harness.core.errors import RequestError, ToolError
from harness.targets.cuda import ptx
from harness.targets.cuda.nvrtc import compile_for

ARCHITECTURES = ["sm_72", "sm_87", "sm_90"]
EXACT = "__float2int_rn(__fadd_rn(__fmul_rn(x[i], y[i]), __fdiv_rn(__int2float_rn(i), y[i])))"


@cache
def compiled(expression: str, arch: str = "sm_72") -> str:
    source = f"""
extern "C" __device__ __noinline__ int value(const float *x, const float *y, int i) {{ return (int)({expression}); }}
extern "C" __global__ void fill(const float *x, const float *y, int *out)
{{
    out[threadIdx.x] = value(x, y, threadIdx.x);
}}
"""
    return compile_for(arch, "sample.cu", source.encode(), {}).ptx


def refused(action: Callable[[], object]) -> ToolError:
    with pytest.raises(ToolError) as raised:
        action()
    return raised.value


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_exact_operations_pass(arch: str) -> None:
    text = compiled(EXACT, arch)
    ptx.inspect(text)
    for opcode in ("mul.rn.f32", "add.rn.f32", "div.rn.f32", "cvt.rn.f32.s32", "cvt.rni.s32.f32"):
        assert text.count(f"\t{opcode} ") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "opcode", "consequence"),
    [
        ("__fmaf_rn(x[i], y[i], 1.5f)", "fma.rn.f32", "rounds a product and a sum once"),
        ("__fdividef(x[i], y[i])", "div.approx.f32", "gives an approximation"),
        ("__sinf(x[i])", "sin.approx.f32", "gives an approximation"),
        ("__fsqrt_rz(x[i])", "sqrt.rz.f32", "rounds another way"),
        ("roundf(x[i])", "add.rz.f32", "rounds another way"),
        ("__float2int_ru(x[i])", "cvt.rpi.s32.f32", "rounds another way"),
        ("__float2int_rd(x[i])", "cvt.rmi.s32.f32", "rounds another way"),
        ("__fmul_rz(x[i], y[i])", "mul.rz.f32", "rounds another way"),
        ("__fadd_ru(x[i], y[i])", "add.rp.f32", "rounds another way"),
        ("__fsub_rd(x[i], y[i])", "sub.rm.f32", "rounds another way"),
        ("__saturatef(x[i])", "cvt.sat.f32.f32", "clamps"),
        ("__dadd_rn(x[i], y[i])", "cvt.f64.f32", "computes in another precision"),
        ("__int2float_rz(i)", "cvt.rz.f32.s32", "rounds another way"),
        ("__float2uint_rn(x[i])", "cvt.rni.u32.f32", "is no operation of the specification"),
        ("__float2ll_rn(x[i])", "cvt.rni.s64.f32", "is no operation of the specification"),
    ],
)
def test_every_other_operation_fails_the_build(expression: str, opcode: str, consequence: str) -> None:
    wrapped = f"__float2int_rn((float)({expression}))" if "float2" not in expression else expression
    text = compiled(wrapped)
    error = refused(lambda: ptx.inspect(text))
    line = next(n for n, code in enumerate(text.splitlines(), start=1) if f"\t{opcode} " in code)
    assert error.message.startswith(f"value, PTX line {line}: '{opcode} ")
    assert consequence in error.message
    assert "rounding.cuh" in error.hint


@pytest.mark.parametrize(
    ("old", "new", "consequence"),
    [
        ("mul.rn.f32", "mul.f32", "fuse it with another"),
        ("add.rn.f32", "add.f32", "fuse it with another"),
        ("mul.rn.f32", "mul.rn.ftz.f32", "subnormal numbers zero"),
        ("div.rn.f32", "div.full.f32", "an approximation"),
        ("div.rn.f32", "div.rn.ftz.f32", "subnormal numbers zero"),
        ("add.rn.f32", "add.rn.sat.f32", "clamps"),
        ("add.rn.f32", "add.rn.f16x2", "another precision"),
        ("add.rn.f32", "add.rn.f64", "another precision"),
        ("cvt.rni.s32.f32", "cvt.rpi.s32.f32", "another way"),
        ("cvt.rni.s32.f32", "cvt.rni.ftz.s32.f32", "subnormal numbers zero"),
    ],
)
def test_each_suffix_counts(old: str, new: str, consequence: str) -> None:
    text = compiled(EXACT)
    assert text.count(f"\t{old} ") == 1
    error = refused(lambda: ptx.inspect(text.replace(f"\t{old} ", f"\t{new} ")))
    assert f"'{new} " in error.message
    assert consequence in error.message


def test_a_product_and_a_sum_that_were_joined() -> None:
    joined = re.sub(r"mul\.rn\.f32 (.*);", r"mad.rn.f32 \1, %f1;", compiled(EXACT))
    assert "rounds a product and a sum once" in refused(lambda: ptx.inspect(joined)).message


@pytest.mark.parametrize(
    "expression", ["__popc(i)", "__clz(i)", "__brev(i)", "__sad(i, 3, 4)", "__funnelshift_l(i, 5, i)"]
)
def test_integer_instructions_that_are_not_known(expression: str) -> None:
    error = refused(lambda: ptx.inspect(compiled(expression)))
    assert "is not known, nor which drivers read it" in error.message
    assert "harness/targets/cuda/ptx.py" in error.hint


@pytest.mark.parametrize(("expression", "name"), [("clock()", "%clock64"), ("warpSize + i", "WARP_SZ")])
def test_special_registers_that_are_not_known(expression: str, name: str) -> None:
    error = refused(lambda: ptx.inspect(compiled(expression)))
    assert f"{name} is not known" in error.message


def test_assembly_of_the_source_is_inspected() -> None:
    source = b"""
extern "C" __global__ void fill(float *x)
{
    asm("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x[0]));
}
"""
    text = compile_for("sm_72", "sample.cu", source, {}).ptx
    assert "rounds a product and a sum once" in refused(lambda: ptx.inspect(text)).message


def test_a_library_function_is_refused() -> None:
    text = compiled(EXACT).replace("\tvalue, ", "\tvprintf, ")
    assert "vprintf is not known" in refused(lambda: ptx.inspect(text)).message


def test_a_register_that_is_not_declared_is_refused() -> None:
    text = compiled(EXACT).replace("mul.rn.f32 \t%f", "mul.rn.f32 \t%g")
    assert re.search(r"%g\d+ is not known", refused(lambda: ptx.inspect(text)).message)
    text = compiled(EXACT).replace("\tret;", "\t@!%p3 ret;")
    assert "%p3 is not known" in refused(lambda: ptx.inspect(text)).message


def test_an_unknown_target_is_refused() -> None:
    text = compiled(EXACT).replace(".target sm_72", ".target sm_72a")
    assert "a target that is not known here" in refused(lambda: ptx.inspect(text)).message


def test_the_version_is_lowered_and_nothing_else() -> None:
    text = compiled(EXACT)
    lowered = ptx.for_version(text, "7.4")
    assert lowered == text.replace(".version 7.8", ".version 7.4")
    assert lowered != text
    assert ptx.for_version(lowered, "6.1") == text.replace(".version 7.8", ".version 6.1")


@pytest.mark.parametrize("version", ["7.8", "8.0", "13.0"])
def test_the_version_is_never_raised(version: str) -> None:
    text = compiled(EXACT)
    assert ptx.for_version(text, version) == text


@pytest.mark.parametrize(
    ("arch", "version", "introduced"),
    [("sm_72", "6.0", "6.1"), ("sm_87", "7.3", "7.4"), ("sm_90", "7.7", "7.8"), ("sm_90", "7.4", "7.8")],
)
def test_a_version_without_the_target_is_refused(arch: str, version: str, introduced: str) -> None:
    text = compiled(EXACT, arch)
    error = refused(lambda: ptx.for_version(text, version))
    assert error.message == f"PTX {version} has no target {arch}: it came with PTX {introduced}"
    assert ptx.for_version(text, introduced) == text.replace(".version 7.8", f".version {introduced}")


def test_a_version_without_an_instruction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the kernels use is older than any target; so one of them is said to be younger here."""
    monkeypatch.setitem(ptx.KNOWN, "div.rn.f32", "7.5")
    error = refused(lambda: ptx.for_version(compiled(EXACT), "7.4"))
    assert error.message == "PTX 7.4 has no div.rn.f32, which value uses: it came with PTX 7.5"
    assert "7.5 or later" in error.hint
    assert ".version 7.5" in ptx.for_version(compiled(EXACT), "7.5")
    monkeypatch.setitem(ptx.KNOWN, "div.rn.f32", "10.0")
    assert "it came with PTX 10.0" in refused(lambda: ptx.for_version(compiled(EXACT), "7.5")).message


def test_ptx_that_is_not_exact_has_no_lower_version() -> None:
    text = compiled("__fmaf_rn(x[i], y[i], 1.5f)")
    assert "fma.rn.f32" in refused(lambda: ptx.for_version(text, "7.4")).message


@pytest.mark.parametrize("version", ["7", "", "7.4.1", "new", "7.x"])
def test_versions_that_are_none(version: str) -> None:
    with pytest.raises(RequestError, match="is no version"):
        ptx.for_version(compiled(EXACT), version)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("ret;", "ret", "word expected, not '}'"),
        ("ret;", "ret 1 2;", "',' expected, not '2'"),
        ("ret;", "ret;;", "word expected, not ';'"),
        (".address_size 64", ".address_size 32", "addresses of 32 bits"),
        (".version 7.8", ".versions 7.8", "'.version' expected"),
        (".visible .entry", ".extern .entry", "'.shared' expected, not '.entry'"),
        (".visible .entry", ".extern .shared .b8 x[4]; .visible .entry", "']' expected, not '4'"),
        (
            ".visible .entry",
            ".visible .extern .shared .b8 x[]; .visible .entry",
            "'.visible .extern' outside of functions",
        ),
        (".reg .f32", ".reg .f128", "unknown type .f128"),
        (".reg .f32", ".sreg .f32", "word expected, not '.sreg'"),
        ("mul.rn.f32", "%mul.rn.f32", "is no instruction"),
        ("\tret;", "\t.loc 1 2 3;\n\tret;", "word expected, not '.loc'"),
        ("\tret;", "\tbra nowhere;\n\tret;", "'bra nowhere' goes nowhere"),
        ("\tret;", "\tret; ?", "cannot read '?"),
        ("\tret;", "\tret;\n\t.reg .f32 %f<3>;", "is declared twice"),
        ("\tret;", "a: a: ret;", "label a stands twice"),
        ("\tret;", "{ a: ret; }", "label a stands twice, or in an inner block"),
    ],
)
def test_what_the_parser_does_not_understand(old: str, new: str, what: str) -> None:
    text = compiled(EXACT)
    error = refused(lambda: ptx.inspect(text.replace(old, new, 1)))
    assert re.match(r"PTX line \d+: ", error.message)
    assert what in error.message


def test_a_text_that_ends_too_early() -> None:
    text = compiled(EXACT)
    assert "expected, not 'the end'" in refused(lambda: ptx.inspect(text[: text.rindex("ret")])).message
    assert "'.version' expected, not 'the end'" in refused(lambda: ptx.inspect("")).message
