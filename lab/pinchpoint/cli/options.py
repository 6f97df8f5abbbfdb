"""The options that several commands have, written once; a command gets them as one object."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pinchpoint.cli.parameters import RUNS, Duration, RunPath, Setting
from pinchpoint.host.interface import Host
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Remote, is_destination
from pinchpoint.run.host_recovery import AWAITED_S

Command = Callable[..., int]
Option = Callable[[Command], Command]
T = TypeVar("T")


@dataclass(frozen=True)
class How:
    """How a command measures; an option that a command has not stands at its default."""

    machines: Machines  # that it may measure on
    out: Path = RUNS
    resume: Path | None = None
    quick: bool = False
    settings: tuple[tuple[str, object], ...] = ()
    repeats: int | None = None
    budget_s: float | None = None
    no_ceiling: bool = False
    await_host_s: float = AWAITED_S
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False

    @property
    def changes(self) -> dict[str, object]:
        """What `--set` says; the last one of a key holds."""
        return dict(self.settings)


FOLDER: Final = click.Path(file_okay=False, path_type=Path)
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="For machines.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress display.")
host_option = click.option(
    "--host", "address", metavar="HOST", help="On another machine, by the name that ssh(1) knows it by."
)
_OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]]] = {
    "out": (("--out",), {"type": FOLDER, "default": RUNS, "show_default": True,
            "help": "Folder below which the run folder is made; an existing one is never overwritten."}),
    "resume": (("--resume",), {"type": RunPath(file_okay=False), "metavar": "RUN",
               "help": "Continue an interrupted run; finished trials are not made again, what failed or was impossible "
                       "is tried again."}),
    "quick": (("--quick",), {"is_flag": True,
              "help": "The short form that the files define: fewer levels, shorter trials."}),
    "settings": (("--set", "settings"), {"type": Setting(), "multiple": True, "metavar": "KEY=VALUE",
                 "help": "Override KEY with VALUE (TOML), e.g. dut.datapath=af_xdp, 'engine.cpus=[2, 3]' or "
                         "'stream[1].frame_bytes=512'. May be given several times."}),
    "repeats": (("--repeats",), {"type": click.IntRange(1, 1000), "metavar": "N",
                "help": "Measure every point N times, whatever the files say."}),
    "budget_s": (("--budget", "budget_s"), {"type": Duration(), "metavar": "TIME",
                 "help": "Measure as much as fits into TIME (90s, 10m, 1h30m): coarse levels first, repeats last; "
                         "points that monotonicity makes needless are left out. What is left out is reported."}),
    "no_ceiling": (("--no-ceiling",), {"is_flag": True,
                   "help": "Do not measure what the engine itself reaches without the device, where that is not known "
                           "yet; it takes some seconds once a day for every shape of bench."}),
    "await_host_s": (("--await-host", "await_host_s"), {"type": Duration(), "metavar": "TIME", "default": "5m",
                     "show_default": True,
                     "help": "Await a host by ssh that is lost for at most TIME, then give its point up."}),
    "dry_run": (("--dry-run",), {"is_flag": True, "help": "Print the plan of every bench and stop."}),
    "as_json": (("--json", "as_json"), {"is_flag": True, "help": "Print result.json instead of tables."}),
    "quiet": (("-q", "--quiet"), {"is_flag": True, "help": "No progress display."}),
}  # fmt: skip


def how_options(
    *names: str, into: type[How] = How, more: Sequence[Option] = (), **changes: str | Mapping[str, Any]
) -> Option:
    """Give a command these options of `How`, or all, and `more`, as `how`; `changes`: one's help, or more of it."""
    options = []
    for name in names or _OPTIONS:
        words, attributes = _OPTIONS[name]
        change = changes.get(name, {})
        own = {"help": change} if isinstance(change, str) else change
        options.append(click.option(*words, **{**attributes, **own}))
    return gathered(lambda **own: into(Machines(Local()), **own), "how", *options, *more, of=into)


def gathered(into: Callable[..., T], argument: str, *options: Option, of: type | None = None) -> Option:
    """Give a command these options as one object of a dataclass (`of`; None: `into`), whose fields have their names."""
    names = {item.name for item in fields(of or into)}  # type: ignore[arg-type]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_object(**values: Any) -> int:
            own = {name: values.pop(name) for name in names & values.keys()}
            return command(**values, **{argument: into(**own)})

        made: Command = with_object
        for option in reversed(options):
            made = option(made)
        return made

    return decorate


_LEASE_S: Final = 60.0  # of a connection that builds nothing


def host_at(address: str | None) -> Host:
    """That machine, connected; None: this one. Raises InputError if it is no destination, RequirementError."""
    if address is None:
        return Local()
    if not is_destination(address):
        what = f"--host: expected a destination of ssh(1), found {address!r}"
        raise InputError(what, "USER@HOST, or a Host of ssh_config")
    return Machines(Local()).opened(Remote(address, address, sudo=True, lease_s=_LEASE_S))
