"""The `pinchpoint` command."""

import os
import sys
from collections.abc import Iterator, Sequence

import click

from pinchpoint import __version__
from pinchpoint.cli.ceiling import ceiling
from pinchpoint.cli.compare import compare
from pinchpoint.cli.explain import explain
from pinchpoint.cli.inspect import check, clean, doctor, report, show
from pinchpoint.cli.otg import otg
from pinchpoint.cli.pilot import pilot
from pinchpoint.cli.run import run
from pinchpoint.cli.serve import serve
from pinchpoint.cli.study import study
from pinchpoint.cli.trend import trend
from pinchpoint.cli.watch import watch
from pinchpoint.model.errors import PinchpointError

EPILOG = """\b
Exit codes:
  0    done; what is impossible here or needless was left out
  1    verify: the device does not do what its service says; or an unexpected failure of
       pinchpoint itself
  2    bad input: scenario, option or stored file
  3    this machine lacks something; the message has the command that fixes it
  4    building the bench failed, e.g. the switch refused a rule; or points of a run failed
  5    the traffic engine failed or died
  6    the device under test died or stopped answering
  7    results could not be written
  8    worse: compare --fail-if-worse: B is worse than allowed, or could not be judged;
       trend: the latest level of a metric is worse than the one before
  130  interrupted; finished trials are kept, --resume continues

\b
Environment variables:
  PINCHPOINT_LOG_EVERY_S  seconds between two lines of progress when stderr is no terminal (10);
                          0: a line for every step
  XDG_CACHE_HOME          folder of the cached generator ceilings (~/.cache)
  NO_COLOR                any value: no colours

\b
Shell completion (bash; zsh and fish alike):
  eval "$(_PINCHPOINT_COMPLETE=bash_source pinchpoint)"
"""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pinchpoint")
def cli() -> None:
    """A performance lab for virtual switches: the highest loss-free rate, and what pinched it.

    A scenario file says what to build, what to send and what to find. `pinchpoint run`
    builds it, measures, explains, writes a report and removes everything again.
    """


for command in (
    run,
    study,
    compare,
    explain,
    pilot,
    check,
    show,
    report,
    serve,
    otg,
    trend,
    ceiling,
    watch,
    doctor,
    clean,
):
    cli.add_command(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Errors meant for users are one message, no traceback."""
    try:
        result = cli.main(args=list(argv) if argv is not None else None, prog_name="pinchpoint", standalone_mode=False)
    except PinchpointError as error:
        click.echo("\n".join((f"pinchpoint: {error}", *_notes(error))), err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo("\n".join(("pinchpoint: interrupted", *_notes(error))), err=True)
        return 130
    except BrokenPipeError:
        # The reader went away (e.g. `| head`); Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def _notes(error: BaseException | None) -> Iterator[str]:
    """What else went wrong: the notes of the error and of those that caused it."""
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__
