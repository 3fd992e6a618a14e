"""The inspection of the compiler's output: PTX that computes what the kernels say, operation by operation.

A build fails unless every floating-point instruction is one IEEE 754 operation of the specification, rounded to
nearest, half to even.  Every other instruction must be known too, so that the sufficient driver version is known.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from harness.core.errors import RequestError, ToolError
from harness.targets.cuda.ptx_syntax import Address, Function, Instruction, Module, Name, Operand, Vector, parse

Version = tuple[int, int]

# The PTX version that introduced each instruction known here, from the "PTX ISA Notes" that end its section in NVIDIA's
# "Parallel Thread Execution ISA", chapter 9.  {a,b} stands for either.  Names are whole: add.s32 says nothing of
# add.s32.sat.  Every target below came with 5.0 or later, so that of what is older only "before 5.0" counts; ptxas 11.8
# agrees: of all loads, stores and computing instructions here it takes each at 5.0, and each but dp4a at 4.3.
_INTRODUCED = {
    "1.0": """
        {add,sub,div,rem,min,max}.{s,u}{16,32,64} mul.{lo,hi}.{s,u}{16,32,64} mul.wide.{s,u}{16,32}
        mad.lo.{s,u}{16,32,64} mad.wide.{s,u}{16,32} {neg,abs}.s{16,32,64}
        {and,or,xor,not}.{pred,b16,b32,b64} shl.b{16,32,64} shr.{b,s,u}{16,32,64}
        setp.{eq,ne,lt,le,gt,ge}.{s,u}{16,32,64} setp.{eq,ne}.b{16,32,64}
        selp.{b,s,u}{16,32,64} mov.pred mov.{b,s,u}{16,32,64} cvt.{s,u}{8,16,32,64}.{s,u}{8,16,32,64}
        {ld,st}.{global,shared,local,param}.{b,s,u}{8,16,32,64}
        {ld,st}.{global,shared,local,param}.{v2,v4}.{b,s,u}{8,16,32} {ld,st}.{global,shared,local,param}.v2.{b,s,u}64
        bra bra.uni call call.uni ret bar.sync
    """,
    "2.0": """
        prmt.b32 bfe.{s,u}32 bfi.b{32,64} cvta.{global,shared,local}.u64 cvta.to.{global,shared,local}.u64
        {ld,st}.{b,s,u}{8,16,32,64} {ld,st}.{v2,v4}.{b,s,u}{8,16,32} {ld,st}.v2.{b,s,u}64
    """,
    "3.1": "ld.global.nc.{b,s,u}{8,16,32,64} ld.global.nc.{v2,v4}.{b,s,u}{8,16,32} ld.global.nc.v2.{b,s,u}64",
    "5.0": "dp4a.{s32,u32}.{s32,u32}",
    "6.3": """
        wmma.load.a.sync.aligned.row.m16n16k16.s8 wmma.load.b.sync.aligned.col.m16n16k16.s8
        wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 wmma.store.d.sync.aligned.row.m16n16k16.s32
    """,
    "6.5": "mma.sync.aligned.m8n8k16.row.col.s32.{u8,s8}.s8.s32",
    "7.0": "mma.sync.aligned.m16n8k32.row.col.s32.{u8,s8}.s8.s32",
}

# The same of every floating-point instruction that rounds once, to nearest even, or not at all, and keeps subnormals.
_EXACT = {
    "1.0": """
        {mul,add,sub}.rn.f32 cvt.rn.f32.{s,u}{8,16,32,64} cvt.rni.s32.f32 cvt.{rni,rmi,rpi,rzi}.f32.f32
        cvt.rzi.{s,u}{8,16,32,64}.f32
        {neg,abs,min,max,selp,mov}.f32 setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f32
        {ld,st}.{global,shared,local,param}.f32 {ld,st}.{global,shared,local,param}.{v2,v4}.f32
    """,
    "2.0": "{div,sqrt,rcp}.rn.f32 {ld,st}.f32 {ld,st}.{v2,v4}.f32",
    "3.1": "ld.global.nc.f32 ld.global.nc.{v2,v4}.f32",
}

# Special registers, all of version 1.0, of 32 bits since 2.0.
_SPECIAL = frozenset(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz")

# The version that introduced each target, from the notes on .target, chapter 11.  ptxas 11.8 takes sm_72, sm_87 and
# sm_90 one version earlier; the documentation counts.
_TARGETS = {
    "sm_61": "5.0",
    "sm_62": "5.0",
    "sm_70": "6.0",
    "sm_72": "6.1",
    "sm_75": "6.3",
    "sm_80": "7.0",
    "sm_86": "7.1",
    "sm_87": "7.4",
    "sm_89": "7.8",
    "sm_90": "7.8",
}

# What a floating-point instruction that is not exact would do; the first that fits its full name.
_CONSEQUENCES = (
    (r"fma\.|mad\..*f\d\d$", "rounds a product and a sum once, where the specification rounds each"),
    (r".*\.(f64|f16|f16x2|bf16|bf16x2|tf32)\b", "computes in another precision than float32"),
    (r".*\.approx\b|.*\.full\b", "gives an approximation, not the rounded result"),
    (r".*\.ftz\b", "makes subnormal numbers zero"),
    (r".*\.sat\b", "clamps to the range from 0 to 1"),
    (r".*\.(rz|rm|rp|rna|rzi|rmi|rpi)\b", "rounds another way than to nearest, half to even"),
    (r"(add|sub|mul)\.f32$", "lets the driver's compiler fuse it with another operation, which then rounds once"),
    (r"", "is no operation of the specification"),
)
_FLOATING = re.compile(r"\.(f16|f16x2|bf16|bf16x2|tf32|f32|f64)\b")
_WRITTEN_EXACTLY = (
    "write it with the intrinsics of kernels/cuda/rounding.cuh and floats.cuh (__fmul_rn, __fadd_rn, __fdiv_rn, "
    "__int2float_rn, __float2int_rn, ...) and compile with --fmad=false --prec-div=true --ftz=false"
)


def inspect(ptx: str, fusing: Collection[str] = ()) -> None:
    """Raise ToolError unless every instruction is known and every floating-point one is in the specification.

    The specification has fused multiply-adds in the functions `fusing` alone.
    """
    _inspect(parse(ptx), fusing)


def for_version(ptx: str, version: str, fusing: Collection[str] = ()) -> str:
    """Return the same PTX for a driver that reads at most `version`, such as 7.4; a driver reads every older one.

    NVRTC 11.8 writes 7.8, whatever the code uses.  A lower version is as true if it has the target and every
    instruction: the line .version is all that changes.  What the compiler wrote is never raised.  ToolError names what
    `version` does not have; RequestError if it is none.
    """
    module = parse(ptx)
    _inspect(module, fusing)
    if _version(version) >= _version(module.version):
        return ptx
    for subject, introduced in _needs(module):
        if _version(introduced) > _version(version):
            raise ToolError(
                f"PTX {version} has no {subject}: it came with PTX {introduced}",
                f"give a board of this kind PTX {introduced} or later, or none: its driver then needs the cubin",
            )
    lines = ptx.splitlines(keepends=True)
    lines[module.version_line - 1] = lines[module.version_line - 1].replace(module.version, version, 1)
    return "".join(lines)


def _version(text: str) -> Version:
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    if match is None:
        raise RequestError(f"PTX version {text!r} is no version", "write it as major.minor, such as 7.4")
    return int(match[1]), int(match[2])


def _alternatives(pattern: str) -> Iterator[str]:
    """Yield all names that match a pattern with {a,b}."""
    pieces = [piece.split(",") for piece in re.split(r"[{}]", pattern)]
    return ("".join(chosen) for chosen in itertools.product(*pieces))


def _table(introduced: Mapping[str, str]) -> dict[str, str]:
    return {
        name: version
        for version, patterns in introduced.items()
        for pattern in patterns.split()
        for name in _alternatives(pattern)
    }


INTEGER = _table(_INTRODUCED)
FLOATING = _table(_EXACT)
FUSED = {"fma.rn.f32": "2.0"}
"""Exact where the specification has it."""
KNOWN = INTEGER | FLOATING | FUSED


def _inspect(module: Module, fusing: Collection[str]) -> None:
    if module.target not in _TARGETS:
        raise ToolError(
            f"PTX for {module.target}, a target that is not known here",
            f"known are {', '.join(_TARGETS)}; add it with the PTX version that introduced it",
        )
    globals_ = {variable.name for variable in module.variables} | {function.name for function in module.functions}
    for function in module.functions:
        known = _names(function) | globals_
        for instruction in function.body:
            if instruction.opcode not in KNOWN or (instruction.opcode in FUSED and function.name not in fusing):
                _refuse(function, instruction)
            _check_names(function, instruction, known)


def _names(function: Function) -> set[str]:
    """Return all names of its instructions except those of global variables and functions."""
    variables = (*function.variables, *function.parameters, *function.results)
    return {variable.name for variable in variables} | function.registers.keys() | function.labels.keys() | _SPECIAL


def _check_names(function: Function, instruction: Instruction, known: Collection[str]) -> None:
    guard = () if instruction.guard is None else (instruction.guard,)
    for name in _named((*guard, *instruction.operands)):
        if name not in known:
            raise ToolError(
                f"{_where(function, instruction)}: {name} is not known",
                "the kernels call no function without code and read no special register but the numbers of threads",
            )


def _named(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Name):
            yield operand.text
        elif isinstance(operand, Address):
            yield operand.base
        elif isinstance(operand, Vector):
            yield from _named(operand.elements)


def _where(function: Function, instruction: Instruction) -> str:
    return f"{function.name}, PTX line {instruction.line}: {instruction.text!r}"


def _refuse(function: Function, instruction: Instruction) -> None:
    where = _where(function, instruction)
    if _FLOATING.search(instruction.opcode):
        consequence = next(words for pattern, words in _CONSEQUENCES if re.match(pattern, instruction.opcode))
        raise ToolError(f"{where} {consequence}: the results would differ from the model's", _WRITTEN_EXACTLY)
    raise ToolError(
        f"{where}: {instruction.opcode} is not known, nor which drivers read it",
        "add it to harness/targets/cuda/ptx.py with the PTX version that introduced it, and to the interpreter of "
        "tests/simulators/ptx, or write the kernel without it",
    )


def _needs(module: Module) -> Iterator[tuple[str, str]]:
    """Yield the features that the module needs, each with the version that introduced it.

    Directives do not appear: the youngest that the parser reads, .weak, came with 3.1, before every target.
    """
    yield f"target {module.target}", _TARGETS[module.target]
    for function in module.functions:
        for instruction in function.body:
            yield f"{instruction.opcode}, which {function.name} uses", KNOWN[instruction.opcode]
