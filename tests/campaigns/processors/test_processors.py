"""Processors that this machine is not: their machine code is read, and what qemu-user knows of them is executed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.boards.profile import Profile, Toolchain
from harness.core.installation import ROOT
from harness.model.onnx_runtime.hostcheck import instruction_set
from harness.plan import planner
from harness.reference.specification import SpecificationReference
from tests.integration.analysis.proof.test_structure import counterexamples
from tests.support import codes, float_images, images
from tests.support.programs.board_program import BoardProgram, assert_same, build_patched, uniform_vectors
from tests.support.programs.c_variants import of_variant

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(not instruction_set().startswith("x86_64"), reason="this machine is not an x86-64"),
]

EMULATOR = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static") or ""
EMULATED = ("Haswell", "Skylake-Server", "max")
"""Processors for qemu-user, which executes AVX2 but not AVX512."""
COMPILED = ("haswell", "skylake-avx512", "cascadelake", "sapphirerapids", "znver4", "alderlake")
"""Processors for gcc: AVX2, AVX512, its VNNI, AMX with AVX512-FP16, and AVX-VNNI."""
NETWORKS = {
    "codes": lambda: codes.every_operator("uint8", 23),
    "images": lambda: images.every_operator("int8"),
    "float images": float_images.every_operator,
}
PORTABLE_TESTS = ("tests/unit/reference", "tests/unit/operators", "tests/unit/analysis/diagnosis")

needs_emulator = pytest.mark.skipif(not EMULATOR, reason="no qemu-x86_64: run `sudo apt-get install qemu-user`")


class EmulatedProgram(BoardProgram):
    """A program that qemu-user executes, as the processor whose name is in `compiler`."""

    @property
    def command(self) -> tuple[str, ...]:
        return EMULATOR, "-cpu", self.compiler, *super().command


def compiled_for(processor: str, host: Profile, target: str, *flags: str) -> Profile:
    toolchain = Toolchain(compiler="gcc", flags=("-O3", f"-march={processor}", *flags))
    return of_variant(host, target).model_copy(update={"toolchain": toolchain})


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("target", ["c", "c:vector"])
@pytest.mark.parametrize("processor", COMPILED)
def test_the_machine_code_for_every_processor_is_understood(
    processor: str, target: str, network: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    board = compiled_for(processor, host, target)
    plan = planner.make(NETWORKS[network](), board, block=7)
    program = build_patched(plan, board, tmp_path, objects=objects)
    assert counterexamples(plan, program.path) == []


@needs_emulator
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("target", ["c", "c:vector"])
@pytest.mark.parametrize("processor", EMULATED)
def test_programs_keep_their_bits_on_an_emulated_processor(
    processor: str, target: str, network: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    # Tuned for a processor without fast gathers: qemu 7.2 executes some gathers wrongly, as no processor does.
    board, net = compiled_for("haswell", host, target, "-mtune=znver2"), NETWORKS[network]()
    built = build_patched(planner.make(net, board, block=7), board, tmp_path, objects=objects)
    program = EmulatedProgram(**(vars(built) | {"compiler": processor}))
    vectors = uniform_vectors(net, 40, seed=1)
    assert_same(program.activations(vectors, tmp_path / "run"), SpecificationReference(net).activations(vectors))


@needs_emulator
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("processor", EMULATED)
def test_references_are_the_same_on_an_emulated_processor(processor: str) -> None:
    """NumPy and ONNX Runtime choose their kernels by the processor."""
    command = [EMULATOR, "-cpu", processor, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    options = ["--timeout", "3000", "-m", "not slow and not campaign"]
    done = subprocess.run([*command, *options, *PORTABLE_TESTS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
