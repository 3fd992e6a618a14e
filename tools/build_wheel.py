"""The build hook of the package: what a wheel contains besides the Python modules.

Kernels, simulators, models, the default boards and the documentation are at the top of the repository, and in
`harness/share` of a wheel, together with the revision.  A source distribution keeps the layout of the repository and
states the revision in the file `revision` at its top, because it has no git history.
"""  # noqa: INP001 - a build hook

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("kernels", "simulators", "docs", "ci")
FILES = ("boards.yaml", "nightly.yaml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "runs/README.md")
FILES += ("benchmarks/README.md", "models/README.md", "models/acas/README.md")
REQUIREMENTS = ("harness", "cluster", "cross", "cuda", "images", "iree", "litert", "tract")  # tested versions
MODELS = ("*.onnx", "*.png", "*.npz", "*.yaml")
SHARE = "harness/share"
REVISION = "revision"


class Hook(BuildHookInterface):  # type: ignore[type-arg] # its configuration is not used
    """Adds the files of the repository that the program needs, and the revision."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map files into the wheel; an editable installation uses those of the checkout."""
        if version == "editable":
            return
        root = Path(self.root)
        file = Path(tempfile.mkdtemp(prefix="harness-build-"), REVISION)
        file.write_text(revision(root) + "\n", encoding="utf-8")
        included = build_data["force_include"]
        if self.target_name == "sdist":
            included[str(file)] = REVISION
            return
        paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if is_source(path)]
        paths += [path for pattern in MODELS for path in sorted((root / "models").glob(pattern))]
        paths += [root / name for name in FILES]
        paths += [root / "requirements" / f"{name}.txt" for name in REQUIREMENTS]
        included.update({str(path): f"{SHARE}/{path.relative_to(root)}" for path in paths})
        included[str(file)] = f"{SHARE}/{REVISION}"


def is_source(path: Path) -> bool:
    """Return whether a path is a file of the repository and no bytecode."""
    return path.is_file() and path.suffix != ".pyc"


def revision(root: Path) -> str:
    """Return the revision of the program in `root`; a source distribution states it in a file."""
    if (root / REVISION).is_file():
        return (root / REVISION).read_text(encoding="utf-8").strip()
    sys.path.insert(0, str(root))
    from harness.core import installation

    if root != installation.ROOT:
        raise RuntimeError(f"{root} was to be built, and {installation.ROOT} was imported")
    return installation.revision() or ""
