"""The `pinchpoint` command, and how a shell completes it."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import get_completion_class

from pinchpoint import __version__
from pinchpoint.cli.campaign import campaign
from pinchpoint.cli.compare import ci, compare
from pinchpoint.cli.doctor import doctor
from pinchpoint.cli.init import import_profile, init
from pinchpoint.cli.inspect import check, clean, export, pack, report, runs, show, trend, unpack
from pinchpoint.cli.options import RunPath
from pinchpoint.cli.pilot import ceiling, pilot
from pinchpoint.cli.run import explain, run, study
from pinchpoint.cli.servers import mcp, otg, serve
from pinchpoint.cli.watch import watch
from pinchpoint.host.signals import ENDING
from pinchpoint.model.errors import InputError, PinchpointError

SHELLS = ("bash", "zsh", "fish")
EVERY_SHELL = """\b
Once:            eval "$(pinchpoint completion bash)"
In every shell:  write that line into ~/.bashrc or ~/.zshrc; for fish:
                 pinchpoint completion fish \\
                   > ~/.config/fish/completions/pinchpoint.fish
A system-wide wheel has these scripts in share/, where the shells find them.
"""


@click.command(short_help="Completion of commands and options in your shell.", epilog=EVERY_SHELL)
@click.argument("shell", required=False, type=click.Choice(SHELLS), metavar="[bash|zsh|fish]")
def completion(shell: str | None) -> int:
    """Print the script that completes pinchpoint's commands in a shell; without one, in yours (SHELL)."""
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise InputError("which shell is not known from SHELL", "pinchpoint completion bash")
    click.echo(script(chosen), nl=False)
    return 0


def script(shell: str) -> str:
    """What completes pinchpoint in that shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, "pinchpoint", "_PINCHPOINT_COMPLETE").source()


# The commands by topic, as --help lists them: a new one is a word here.
TOPICS: Mapping[str, tuple[click.Command, ...]] = {
    "Begin": (doctor, init, import_profile, check),
    "Measure": (run, study, campaign, compare, ci, explain, pilot, ceiling, watch, otg),
    "Look at results": (runs, show, report, serve, mcp, trend, export, pack, unpack),
    "Tidy": (clean, completion),
}

EPILOG = """\b
Exit codes:
  0 done              3 requirement missing  6 device died  130 interrupted
  1 fault found, bug  4 bench not built      7 results not written
  2 bad input         5 engine failed        8 worse  9 undecided
Each command has --help; `man pinchpoint` has the environment variables, too.
"""
ABOUT = """A performance lab for virtual switches and load balancers: what they carry without loss, and what pinched it.

A scenario file says what to build, send and find. `pinchpoint run` builds it, measures, explains, and removes
everything again.
"""


class Topical(click.Group):
    """A group that lists its commands by topic."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section for each topic, the first column equally wide in all."""
        width = max(len(name) for name in self.commands)
        limit = formatter.width - 6 - width
        for topic, commands in TOPICS.items():
            with formatter.section(topic):
                rows = [(f"{command.name:{width}}", command.get_short_help_str(limit)) for command in commands]
                formatter.write_dl(rows)


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_COMMANDS = [command for commands in TOPICS.values() for command in commands]
cli = Topical("pinchpoint", commands=_COMMANDS, help=ABOUT, epilog=EPILOG, context_settings=_SETTINGS)
cli = click.version_option(__version__, prog_name="pinchpoint")(cli)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Errors meant for users are one message, no traceback."""
    try:
        result = cli.main(args=list(argv) if argv is not None else None, prog_name="pinchpoint", standalone_mode=False)
    except PinchpointError as error:
        click.echo("\n".join((f"pinchpoint: {error}", *_notes(error))), err=True)
        return error.exit_code
    except click.ClickException as error:
        click.echo(_in_one_form(error), err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo("\n".join(("pinchpoint: interrupted", *_notes(error))), err=True)
        return 130
    except BrokenPipeError:
        # The reader went away (e.g. `| head`); Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def run_and_exit() -> NoReturn:
    """Run one command, and exit with its code even if a signal arrives while Python shuts down."""
    code = main()
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _in_one_form(error: click.ClickException) -> str:
    """What was wrong on the command line, and what to do, as every other error; without any argument, the help."""
    context = getattr(error, "ctx", None)
    if isinstance(error, NoArgsIsHelpError) or context is None:
        return error.format_message()
    hint = f"{context.command_path} --help"
    if isinstance(error, click.MissingParameter) and error.param and isinstance(error.param.type, RunPath):
        hint = f"{context.command_path} @last takes the newest run, pinchpoint runs lists them"
    return f"{context.command_path}: {error.format_message().rstrip('.')}\n  hint: {hint}"


def _notes(error: BaseException | None) -> Iterator[str]:
    """What else went wrong: the notes of the error and of those that caused it."""
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__
