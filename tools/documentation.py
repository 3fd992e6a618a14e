"""The documentation as a site and as manual pages: hooks of MkDocs (mkdocs.yml), and a program.

`python tools/documentation.py FOLDER` writes the manual page of each command, such as harness-run.1.
"""  # noqa: INP001 - a script, and hooks that MkDocs reads from this file

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs runs this file, and an environment may lack this checkout

from harness import __version__  # noqa: E402
from harness.cli.main import cli  # noqa: E402

FOLDERS = ("docs", "ci")
FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "boards.yaml", "nightly.yaml")
FILES += ("benchmarks/README.md", "models/README.md", "models/acas/README.md", "runs/README.md")
COMMANDS_PAGE = "docs/reference/commands.md"
WIDTH = 100  # characters of a line of the page of commands


def on_config(config: Any, **_: Any) -> Any:
    """Copy all pages, and write the page of commands; links between files of the repository stay as they are."""
    source = Path(config.site_dir).with_name(f"{Path(config.site_dir).name}-source")
    shutil.rmtree(source, ignore_errors=True)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder)
    pictures = (str(path.relative_to(ROOT)) for path in ROOT.glob("models/*.png"))
    for name in (*FILES, *pictures):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    (source / COMMANDS_PAGE).write_text(commands_page(), encoding="utf-8")
    config.docs_dir = str(source)
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Return the page without the backslash of an escaped | in the cells of tables, as other readers of Markdown do."""
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)


def on_post_build(config: Any, **_: Any) -> None:
    """Write a search that needs no server: browsers do not read an index from a file, but they run a script."""
    folder = Path(config.site_dir, "search")
    documents = json.loads((folder / "search_index.json").read_text(encoding="utf-8"))["docs"]
    parts = (
        (folder / "lunr.js").read_text(encoding="utf-8"),
        f"const pages = {json.dumps(documents)};",
        (ROOT / "tools" / "search.js").read_text(encoding="utf-8"),
    )
    (folder / "main.js").write_text("\n".join(parts), encoding="utf-8")
    for name in ("lunr.js", "worker.js", "search_index.json"):
        (folder / name).unlink()


def contexts(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield the context of a command and those of all its subcommands."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield context
    if isinstance(command, click.Group):
        for subname in command.list_commands(context):
            subcommand = command.get_command(context, subname)
            if subcommand and not subcommand.hidden:
                yield from contexts(subcommand, subname, context)


def commands_page() -> str:
    """Return the help of all commands as a page."""
    sections = (f"## {each.command_path}\n\n```\n{each.get_help()}\n```\n" for each in contexts(cli, "harness"))
    return "\n".join(["# Commands\n", *sections]).replace(f"{ROOT}/", "")


class ManualFormatter(click.HelpFormatter):
    """Writes the parts of a command's help in the language of manual pages, man(7)."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:  # noqa: ARG002 - click's
        """Write the synopsis."""
        self.write(f".SH SYNOPSIS\n.B {escaped(prog)}\n{escaped(args)}\n")

    def write_heading(self, heading: str) -> None:
        """Write the head of a section."""
        self.write(f'.SH "{escaped(heading.upper())}"\n')

    def write_paragraph(self) -> None:
        """Write the start of a paragraph."""
        self.write(".PP\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs; keep the lines of one that click does not wrap."""
        for paragraph in text.split("\n\n"):
            lines = escaped(paragraph.removeprefix("\b\n"))
            self.write(f".nf\n{lines}\n.fi\n" if paragraph.startswith("\b") else f"{lines}\n.PP\n")

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:  # noqa: ARG002 - click's
        """Write options or subcommands with their meaning."""
        for term, meaning in rows:
            self.write(f".TP\n.B {escaped(term)}\n{escaped(meaning)}\n")


def escaped(text: str) -> str:
    """Return text in which no character is a command of man(7)."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.splitlines())


def manual_page(context: click.Context) -> str:
    """Return the manual page of a command."""
    command, name, formatter = context.command, context.command_path.replace(" ", "-"), ManualFormatter()
    formatter.write(f'.TH "{name.upper()}" 1 "" "harness {__version__}"\n')
    formatter.write(f".SH NAME\n{escaped(name)} \\- {escaped(command.get_short_help_str(1000))}\n")
    command.format_usage(context, formatter)
    formatter.write(".SH DESCRIPTION\n")
    command.format_help_text(context, formatter)
    command.format_options(context, formatter)
    command.format_epilog(context, formatter)
    return formatter.getvalue()


def main(folder: Path) -> None:
    """Write the manual pages of all commands to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for context in contexts(cli, "harness"):
        path = folder / f"{context.command_path.replace(' ', '-')}.1"
        path.write_text(manual_page(context), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
