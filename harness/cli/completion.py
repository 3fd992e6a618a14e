"""`harness completion`: the script that completes commands, options, boards, models, targets and runs in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM = "harness"
VARIABLE = "_HARNESS_COMPLETE"


@click.command("completion", epilog='Example: eval "$(harness completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL."""
    from harness.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise ValueError(shell)
    click.echo(kind(cli, {}, PROGRAM, VARIABLE).source())
