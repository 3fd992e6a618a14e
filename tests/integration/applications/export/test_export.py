"""`harness export`, as a user calls it: every form, linked by the board's compiler, and its self-test run."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import onnx
import pytest
from elftools.elf.elffile import ELFFile

from harness.applications.export import objects
from harness.applications.export.command import FORM_NAMES
from harness.applications.export.forms import FORMS
from harness.applications.trace.flown import members
from harness.core.errors import RequestError
from tests.support.applications import toy
from tests.support.applications.toy import MACHINES
from tests.support.builders import float_sums, random_network
from tests.support.cli.command import Ended, User

STRICT = ("-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-Wno-overlength-strings", "-O2")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    folder = tmp_path_factory.mktemp("export")
    onnx.save_model(random_network(np.random.default_rng(3), (12, 64, 48, 4), argmax=True), folder / "small.onnx")
    onnx.save_model(float_sums(), folder / "sums.onnx")
    return User(folder, cache)


def export(user: User, board: str, out: str, *options: str, model: str = "small") -> Ended:
    path = str(user.folder / f"{model}.onnx")
    return user.here(
        "export", "--board", board, "--model", path, "--items", "c,c", str(user.folder / out), *options, "--json"
    )


@pytest.fixture(scope="module")
def exported(user: User) -> Path:
    assert export(user, "host", "host").code == 0
    return user.folder / "host"


@pytest.mark.slow
@pytest.mark.parametrize("board", list(MACHINES))
def test_the_self_test_passes_and_finds_one_changed_weight(user: User, board: str) -> None:
    machine = MACHINES[board]
    assert export(user, board, f"of_{board}").code == 0
    program = toy.link(machine, user.folder / f"of_{board}", user.folder / f"{board}.elf")
    status, text = toy.run(machine, program)
    assert (status, text) == (
        0, "PASS: 20 vectors, 5 of 5 layers and all results are those of the specification\n"
    )  # fmt: skip
    status, text = toy.run(machine, toy.flipped(program, "layer_0_weights", offset=137, bit=7))
    assert (status, text[:4]) == (1, "FAIL")
    assert "layer layer_0 has other activations" in text


def test_the_archive_has_the_object_of_the_program(user: User, exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text())
    bundle = user.cache / "bundles" / manifest["bundle"][:16]
    built = (bundle / "device" / "network.o").read_bytes()
    assert hashlib.sha256(built).hexdigest() == manifest["proved"]["network.o"]
    [shipped] = [each.content for each in members(exported / "lib" / "libsmall.a") if "network.o" in each.name]
    one, other = (ELFFile(io.BytesIO(content)) for content in (built, shipped))
    for section, there in zip(one.iter_sections(), other.iter_sections(), strict=True):
        if section.name not in {".strtab", ".symtab"}:
            assert (section.name, section.data()) == (there.name, there.data())
    names = {symbol.name for symbol in other.get_section_by_name(".symtab").iter_symbols()}
    assert "small_network" in names
    assert "network" not in names
    contained = user.here(
        "trace", str(user.folder / "small.onnx"), "--items", "c,c", "--block", "1", "--elf", str(bundle / "inference"),
    )  # fmt: skip
    assert contained.code == 0, "the program that runs has this very object"


def test_the_manifest_lists_every_file_and_its_numbers(exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text())
    there = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()} - {"manifest.json"}
    assert set(manifest["files"]) == there
    for name, sha256 in manifest["files"].items():
        assert hashlib.sha256((exported / name).read_bytes()).hexdigest() == sha256
    spdx = json.loads((exported / "small.spdx.json").read_text())
    assert {each["fileName"] for each in spdx["files"]} == {f"./{name}" for name in there - {"small.spdx.json"}}
    object_ = next(each for each in members(exported / "lib" / "libsmall.a") if "network.o" in each.name)
    sizes = objects.sizes(object_.content)
    assert manifest["memory"] == {
        "code": sizes.code, "constants": sizes.constants, "ram": sizes.ram, "stack": None
    }  # fmt: skip
    listed = subprocess.run(["size", "-A", exported / "lib" / "libsmall.a"], capture_output=True, text=True, check=True)
    bss = [int(line.split()[1]) for line in listed.stdout.splitlines() if line.startswith(".bss")]
    assert sizes.ram in bss
    assert manifest["evidence"] is None


def test_no_header_of_the_board_program_and_no_unused_kernel_is_there(exported: Path) -> None:
    headers = {path.name for path in (exported / "src").glob("*.h")}
    assert headers == {"arg_extremum.h", "fp_environment.h", "network.h", "qgemm.h", "saturate.h", "small.h"}
    text = "".join(path.read_text() for path in (exported / "src").iterdir())
    assert "time.h" not in text
    assert "TIME_SOURCE" not in text


@pytest.mark.slow
def test_sources_are_c99_and_keep_the_bits(user: User, exported: Path) -> None:
    sources = [str(path) for path in (exported / "src").glob("*.c")]
    program = toy.link(MACHINES["host"], exported, user.folder / "sources", sources, *STRICT)
    assert toy.run(MACHINES["host"], program)[0] == 0
    assert export(user, "host", "sums", "--form", "sources", model="sums").code == 0
    sums = [str(path) for path in (user.folder / "sums" / "src").glob("*.c")]
    program = toy.link(MACHINES["host"], user.folder / "sums", user.folder / "fused", sums, "-O3", "-march=native")
    assert toy.run(MACHINES["host"], program)[0] == 0, "no product is contracted with a sum"
    clang = [str(Path(sysconfig.get_path("scripts")) / "python-zig"), "cc"]
    command = [*clang, "-O3", "-march=native", f"-I{exported}/src", f"{exported}/test/selftest.c", *sources]
    subprocess.run([*command, "-o", user.folder / "clang"], check=True, capture_output=True)
    assert toy.run(MACHINES["host"], user.folder / "clang")[0] == 0
    with pytest.raises(subprocess.CalledProcessError) as refused:
        toy.link(MACHINES["host"], exported, user.folder / "fast", sources, "-ffast-math")
    assert "compile without -ffast-math" in refused.value.stderr


@pytest.mark.slow
def test_two_libraries_and_a_c_plus_plus_application(user: User, exported: Path) -> None:
    assert export(user, "host", "other", "--name", "Other", model="sums").code == 0
    main = user.folder / "both.cpp"
    main.write_text('#include "small.h"\n#include "Other.h"\nint main() { return small_init() + Other_init(); }\n')
    libraries = [f"{exported}/lib/libsmall.a", f"{user.folder}/other/lib/libOther.a"]
    include = [f"-I{exported}/src", f"-I{user.folder}/other/src"]
    subprocess.run(["g++", *include, main, *libraries, "-lm", "-o", user.folder / "both"], check=True)
    assert subprocess.run([user.folder / "both"], check=False).returncode == 0


@pytest.mark.slow
def test_errors_of_the_interface(user: User, exported: Path) -> None:
    main = user.folder / "errors.c"
    main.write_text(
        '#include <fenv.h>\n#include <stdio.h>\n#include "small.h"\n'
        "int main(void)\n{\n    float in[12] = {0};\n    uint8_t scores[4], a[64];\n    int64_t advisory;\n"
        '#define SAY(CALL) printf("%d ", (int)(CALL))\n'
        "    SAY(small_infer(in, scores, &advisory)); SAY(small_read_layer(0, a));\n"
        "    fesetround(FE_UPWARD); SAY(small_init()); fesetround(FE_TONEAREST); SAY(small_init());\n"
        "    SAY(small_read_layer(0, a)); SAY(small_infer(in, scores, &advisory)); SAY(small_read_layer(0, a));\n"
        "    SAY(small_read_layer(99, a)); fesetround(FE_DOWNWARD); SAY(small_infer(in, scores, &advisory));\n"
        "    return 0;\n}\n"
    )
    program = user.folder / "errors"
    command = [
        "gcc",
        "-frounding-math",
        f"-I{exported}/src",
        main,
        exported / "lib" / "libsmall.a",
        "-lm",
        "-o",
        program,
    ]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert [int(word) for word in printed] == [1, 4, 2, 0, 4, 0, 0, 3, 2]


def test_every_form_has_its_files(user: User) -> None:
    assert set(FORMS) == set(FORM_NAMES)
    for form in FORM_NAMES[2:]:
        assert export(user, "cortex-m4", form, "--form", form, "--vectors", "2").code == 0
    there = {str(p.relative_to(user.folder)) for form in FORM_NAMES[2:] for p in (user.folder / form).rglob("*")}
    assert there >= {
        "cmake/CMakeLists.txt", "zephyr/zephyr/module.yml", "zephyr/zephyr/Kconfig", "zephyr/zephyr/CMakeLists.txt",
        "esp-idf/CMakeLists.txt", "esp-idf/idf_component.yml", "arduino/library.properties",
        "arduino/examples/small/small.ino", "cmake/freestanding/math.c", "zephyr/src/small.h",
    }  # fmt: skip
    for path in user.folder.rglob("*.jinja"):
        raise AssertionError(path)
    assert "idf_component_register(SRCS" in (user.folder / "esp-idf" / "CMakeLists.txt").read_text()
    assert "zephyr_library_sources(" in (user.folder / "zephyr" / "zephyr" / "CMakeLists.txt").read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not on this machine")
@pytest.mark.parametrize("proved", ["ON", "OFF"])
def test_cmake_builds_and_tests_it(user: User, proved: str) -> None:
    folder, build = user.folder / f"cmake_{proved}", user.folder / f"build_{proved}"
    assert export(user, "host", folder.name, "--form", "cmake").code == 0
    subprocess.run(["cmake", "-S", folder, "-B", build, f"-DSMALL_PROVED={proved}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    tested = subprocess.run(["ctest", "--test-dir", build], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
    assert "100% tests passed" in tested.stdout


@pytest.mark.slow
def test_a_run_is_exported_with_its_verdict(user: User) -> None:
    model = str(user.folder / "small.onnx")
    where = ("--board", "cortex-m4", "--model", model, "--items", "c,c")
    done = user.here("run", *where, "--vectors", "50", "--trace", "0", "--block", "7", "--json")
    run = done.document["run"]
    exported = user.here("export", "--run", run, str(user.folder / "of_run"), "--json").document
    assert (exported["evidence"]["verdict"], exported["evidence"]["vectors"]) == ("identical", 50)
    assert exported["evidence"]["board_kind"] == "emulated"
    assert "compared it on an EMULATED board: identical" in (user.folder / "of_run" / "README.md").read_text()
    assert exported["block"] == 7
    assert exported["bundle"] == json.loads((Path(run) / "run.json").read_text())["bundle"]["sha256"]
    program = toy.link(MACHINES["cortex-m4"], user.folder / "of_run", user.folder / "run.elf")
    assert toy.run(MACHINES["cortex-m4"], program)[0] == 0
    traced = user.here("trace", "--run", run, "--elf", str(program))
    assert traced.code == 0
    assert "the run's verdict is identical, on an EMULATED board" in " ".join(traced.out.split())
    with pytest.raises(RequestError, match="has a plan, which defines"):
        user.here("export", "--run", run, str(user.folder / "again"), "--block", "1")
    (Path(run) / "run.json").unlink()
    with pytest.raises(RequestError, match="not finished"):
        user.here("export", "--run", run, str(user.folder / "again"))


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--split", "pipeline"), ("--split", "layer_1=prepost+network", "--block", "3")])
def test_items_are_one_sequence(user: User, options: tuple[str, ...]) -> None:
    out = f"items_{len(options)}"
    assert export(user, "host", out, *options).code == 0
    program = toy.link(MACHINES["host"], user.folder / out, user.folder / f"{out}.elf")
    assert toy.run(MACHINES["host"], program) == (
        0, "PASS: 20 vectors, 5 of 5 layers and all results are those of the specification\n"
    )  # fmt: skip
    assert "are one sequence here" in (user.folder / out / "README.md").read_text()


def test_what_cannot_be_exported_is_refused(user: User, exported: Path) -> None:
    model = str(user.folder / "small.onnx")
    with pytest.raises(RequestError, match=r"cannot export item network \(cuda:fused\)") as refused:
        user.here(
            "export", "--board", "host", "--model", model, "--items", "c,cuda:fused", str(user.folder / "no")
        )  # fmt: skip
    assert "give --items c,c; each item can be one of: c, c:generic, c:inlined" in refused.value.hint
    with pytest.raises(RequestError, match="exists already"):
        export(user, "host", exported.name)
    with pytest.raises(RequestError, match="is no folder"):
        export(user, "host", "missing/out")
    with pytest.raises(RequestError, match="not a name of C"):
        export(user, "host", "no", "--name", "9lives")
    assert not (user.folder / "no").exists()
