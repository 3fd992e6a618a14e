"""`harness init`: a new lab folder for boards, models, nights and runs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from harness.boards.workspace import write_whole
from harness.cli._options import as_json
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.installation import BOARDS_FILE, ROOT

NIGHTLY_FILE = "nightly.yaml"
GITIGNORE = """\
boards.local.yaml
runs/
"""
README = """\
# Lab

- `boards.yaml`: the boards. Addresses of this lab belong in `boards.local.yaml`, which git ignores.
- `nightly.yaml`: what `harness nightly` runs, proves and measures.
- `models/`: your networks. The installed models, such as `acas_coc`, can be used by their names too.
- `runs/`: the evidence, one folder per run.

Commands in this folder and below it use these files: `harness run --board host --model acas_coc`.
`harness doctor` shows the lab folder in use and the missing tools of each board; `harness --help` shows the folder of
the documentation.
"""


@click.command("init", epilog="Example: harness init lab")
@click.argument("lab", type=click.Path(path_type=Path))
@as_json
def command(lab: Path, as_json: bool) -> None:
    """Create the lab folder LAB: boards.yaml, nightly.yaml, models/, runs/, .gitignore and README.md."""
    create(lab, Console.open(as_json=as_json))


def create(lab: Path, console: Console) -> None:
    """Write the files of a lab; RequestError if one of them exists or cannot be written."""
    files = {
        BOARDS_FILE: (ROOT / BOARDS_FILE).read_bytes(),
        NIGHTLY_FILE: (ROOT / NIGHTLY_FILE).read_bytes(),
        ".gitignore": GITIGNORE.encode(),
        "README.md": README.encode(),
    }
    for name in files:
        if (lab / name).exists():
            raise RequestError(f"{lab / name} exists", "name a new folder: harness init LAB")
    try:
        for folder in ("models", "runs"):
            (lab / folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"cannot create the folder {lab}: {error.strerror}", "name another folder") from error
    for name, content in files.items():
        write_whole(lab / name, content)
    console.show(Text(f"created the lab folder {lab}; next:\n  cd {lab} && harness run --board host --model acas_coc"))
    console.document({"lab": str(lab.absolute()), "files": [*files, "models/", "runs/"]})
