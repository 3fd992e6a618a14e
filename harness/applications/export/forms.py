"""The forms of an exported library: one description, and for each form a table of the files that build systems read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.applications.export.library import Library
from harness.applications.export.vectors import SEED
from harness.core.arrays import Array
from harness.core.installation import ROOT
from harness.targets.generated import C_TYPES, initialiser

COMMON = {
    "src/{name}.h": "api.h.jinja",
    "src/{name}.c": "api.c.jinja",
    "src/network.c": "network.c.jinja",
    "test/selftest.c": "selftest.c.jinja",
    "test/vectors.h": "vectors.h.jinja",
    "README.md": "README.md.jinja",
}
EXAMPLE = {"example/main.c": "main.c.jinja"}


@dataclass(frozen=True)
class Form:
    """A form: its files beside the common ones, as templates by their paths, and the text of the README about it."""

    files: Mapping[str, str]
    build: str


FORMS = {
    "library": Form(
        EXAMPLE,
        "Link the archive. Its code is for one processor and one ABI, so use the flags of the processor as below:\n\n"
        "    {cc} -Isrc example/main.c lib/lib{name}.a{libraries} -o example\n"
        "    {cc} -Isrc test/selftest.c lib/lib{name}.a{libraries} -o selftest",
    ),
    "sources": Form(
        EXAMPLE,
        "Any C99 compiler with GCC's `__attribute__` and `__asm__` compiles the sources. These flags keep the "
        "bits:\n\n"
        "    cc -std=gnu99 -O2 {exactness} -Isrc test/selftest.c {sources} -lm -o selftest\n\n"
        "The machine code is then your compiler's: the self-test checks it, the proof is about `lib/lib{name}.a`.",
    ),
    "cmake": Form(
        EXAMPLE | {"CMakeLists.txt": "cmake/CMakeLists.txt.jinja"},
        "    add_subdirectory({name})\n    target_link_libraries(application {name})\n\n"
        "The target links the proved machine code; `-D{upper}_PROVED=OFF` compiles the sources. The self-test is a "
        "test of this folder:\n\n    cmake -S . -B build && cmake --build build && ctest --test-dir build",
    ),
    "zephyr": Form(
        EXAMPLE
        | {
            "zephyr/module.yml": "zephyr/module.yml.jinja",
            "zephyr/Kconfig": "zephyr/Kconfig.jinja",
            "zephyr/CMakeLists.txt": "zephyr/CMakeLists.txt.jinja",
        },
        "A module of Zephyr: add its folder to `ZEPHYR_EXTRA_MODULES`, and `CONFIG_{upper}=y` to prj.conf. "
        "`CONFIG_{upper}_PROVED=y` links the proved machine code.",
    ),
    "esp-idf": Form(
        EXAMPLE
        | {
            "CMakeLists.txt": "esp-idf/CMakeLists.txt.jinja",
            "idf_component.yml": "esp-idf/idf_component.yml.jinja",
        },
        "A component of ESP-IDF: put the folder below `components/`, and require `{name}`. The sources are compiled; "
        "`lib/lib{name}.a` is for another processor.",
    ),
    "arduino": Form(
        {
            "library.properties": "arduino/library.properties.jinja",
            "examples/{name}/{name}.ino": "arduino/example.ino.jinja",
        },
        "A library of Arduino: put the folder below `libraries/`. The sources are compiled; `lib/lib{name}.a` is for "
        "board {board} of harness.",
    ),
}


@dataclass(frozen=True)
class Constant:
    """A table of the self-test in C."""

    name: str
    c_type: str
    width: int
    values: str


def _constant(name: str, values: Array) -> Constant:
    """Return a table; NaN has no literal, so floats with NaN are their bits."""
    written = values.astype(np.uint8) if values.dtype == np.bool_ else values
    if values.dtype == np.float32 and np.isnan(values).any():
        written = values.view(np.uint32)
    return Constant(name, C_TYPES[written.dtype.name], values.shape[1], initialiser(written))


def _tables(library: Library) -> list[Constant]:
    inputs = (_constant(f"vector_{value.name}", values) for value, values in zip(
        library.inputs, library.test.inputs, strict=True))  # fmt: skip
    outputs = (_constant(f"expected_{value.name}", values) for value, values in zip(
        library.outputs, library.test.outputs.values(), strict=True))  # fmt: skip
    return [*inputs, *outputs, _constant("expected_checksums", library.test.checksums)]


def _print_format(c_type: str) -> tuple[str, str]:
    """Return the format with which printf writes a value, and the cast of the value."""
    return ("%g", "(double)") if c_type == "float" else ("%d", "(int)")


def texts(library: Library, form: str, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the written files of a form by their paths; `facts` has `origin`, `evidence` and `comparing`."""
    subject, network = library.subject, library.subject.plan.network
    parameters = [f"const {value.c_type} *{value.name}" for value in library.inputs]
    parameters += [f"{value.c_type} *{value.name}" for value in library.outputs]
    arguments = [f"(const void *)vector_{value.name}[vector]" for value in library.inputs]
    results = [value.name for value in library.outputs]
    printed, cast = _print_format(library.outputs[0].c_type)
    sources = [f"src/{library.name}.c", "src/network.c"]
    sources += ["src/copy_padded.c"] if "src/copy_padded.c" in library.sources() else []
    is_bare = subject.board.bare_metal is not None
    values: dict[str, Any] = {
        **facts,
        "name": library.name,
        "upper": library.upper,
        "model": network.name,
        "model_sha256": network.sha256,
        "board": subject.board.name,
        "bundle_sha256": library.bundle.sha256,
        "compiler": library.bundle.compiler,
        "flags": " ".join(library.bundle.flags),
        "network": library.network().removesuffix("\n"),
        "inputs": library.inputs,
        "outputs": library.outputs,
        "layers": library.layers,
        "largest": max(*(layer.bytes for layer in library.layers), 1),
        "checked": sum(layer.bytes > 0 for layer in library.layers),
        "sizes": library.sizes,
        "stack": library.stack,
        "steps": network.steps,
        "item_count": len(subject.plan.items),
        "vectors": library.test.count,
        "seed": SEED,
        "tables": _tables(library),
        "parameters": ", ".join(parameters),
        "arguments": ", ".join([*arguments, *results]),
        "names": ", ".join([*(value.name for value in library.inputs), *results]),
        "format": printed,
        "cast": cast,
        "sources": sources,
        "compile_flags": library.compile_flags,
        "freestanding": is_bare,
    }
    words = {
        "cc": " ".join([*subject.board.toolchain.compiler.split(), *subject.board.toolchain.flags]),
        "libraries": "" if is_bare else " -lm",
        "exactness": " ".join(library.compile_flags),
        "sources": " ".join(sources),
        "name": library.name,
        "upper": library.upper,
        "board": subject.board.name,
    }
    values["build"] = FORMS[form].build.format(**words)
    templates = Environment(
        loader=PackageLoader("harness.applications.export"),
        autoescape=False,  # noqa: S701 - C and plain text; names are identifiers
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    paths = COMMON | dict(FORMS[form].files)
    written = {path.format(name=library.name): templates.get_template(place) for path, place in paths.items()}
    return {path: template.render(values).encode() for path, template in written.items()}


def licence() -> bytes:
    """Return the licence of the code."""
    return (ROOT / "LICENSE").read_bytes()


def spdx(library: Library, files: Mapping[str, bytes]) -> bytes:
    """Return the list of files with their licences and checksums (SPDX 2.3, JSON)."""
    sha1 = {path: hashlib.sha1(content, usedforsecurity=False).hexdigest() for path, content in files.items()}
    verification = hashlib.sha1("".join(sorted(sha1.values())).encode(), usedforsecurity=False).hexdigest()
    constants = ("src/network.c", "lib/", "src/constants/", "test/vectors.h")
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": library.name,
        "documentNamespace": f"urn:harness:export:{library.bundle.sha256}:{library.name}",
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: harness"]},
        "packages": [
            {
                "SPDXID": "SPDXRef-Package",
                "name": library.name,
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": True,
                "packageVerificationCode": {"packageVerificationCodeValue": verification},
                "licenseConcluded": "NOASSERTION",
                "licenseDeclared": "NOASSERTION",
                "copyrightText": "NOASSERTION",
                "comment": "Apache-2.0 for the code; the constants are those of the model and under its licence.",
            }
        ],
        "files": [
            {
                "SPDXID": f"SPDXRef-File-{number}",
                "fileName": f"./{path}",
                "checksums": [
                    {"algorithm": "SHA1", "checksumValue": sha1[path]},
                    {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
                ],
                "licenseConcluded": "NOASSERTION" if path.startswith(constants) else "Apache-2.0",
                "licenseInfoInFiles": ["NOASSERTION"],
                "copyrightText": "NOASSERTION",
            }
            for number, (path, content) in enumerate(sorted(files.items()))
        ],
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": "SPDXRef-Package",
            }
        ],
    }
    return (json.dumps(document, indent=1) + "\n").encode()
