"""`pinchpoint completion`: the script by which a shell completes commands, options, studies and their groups."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from pinchpoint.model.errors import InputError

SHELLS = {
    "bash": 'eval "$(pinchpoint completion bash)"',
    "zsh": 'eval "$(pinchpoint completion zsh)"',
    "fish": "pinchpoint completion fish | source",
}
"""What a user types, or writes into the shell's start-up file."""

EXAMPLE = """\b
Once:            eval "$(pinchpoint completion bash)"
In every shell:  write that line into ~/.bashrc or ~/.zshrc; for fish:
                 pinchpoint completion fish \\
                   > ~/.config/fish/completions/pinchpoint.fish
A system-wide wheel has these scripts in share/, where the shells find them.
"""


@click.command(short_help="Completion of commands and options in your shell.", epilog=EXAMPLE)
@click.argument("shell", required=False, type=click.Choice(list(SHELLS)), metavar="[bash|zsh|fish]")
def completion(shell: str | None) -> int:
    """Print the script that completes pinchpoint's commands in a shell; without one, in yours (SHELL)."""
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise InputError("which shell is not known from SHELL", "pinchpoint completion bash")
    click.echo(script(chosen), nl=False)
    return 0


def script(shell: str) -> str:
    """What completes pinchpoint in that shell."""
    from pinchpoint.cli.main import cli  # which has this command

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, "pinchpoint", "_PINCHPOINT_COMPLETE").source()
