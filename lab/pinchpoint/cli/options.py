"""The options that several commands have, written once, which a command gets as one object; and kinds of their values.

Times, settings, builds, studies, groups; what can be completed completes itself.
"""

import functools
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from pinchpoint.host.interface import Host
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model import units
from pinchpoint.model.addresses import is_destination
from pinchpoint.model.effective import toml_of
from pinchpoint.model.errors import InputError, choices, nearest
from pinchpoint.model.site import Remote, Site
from pinchpoint.run.host_recovery import AWAITED_S
from pinchpoint.scenario.study import STUDY_FILE

if TYPE_CHECKING:
    from pinchpoint.serve.index import Row

RUNS: Final = Path("runs")
"""Where commands that measure put their run folders."""
LAST: Final = "@last"
_COUNTED = re.compile(rf"{LAST}(-([0-9]{{1,4}}))?")


def stored_runs(folder: Path) -> "list[Row]":
    """The runs in a folder, the newest first. Raises StoreError where their index cannot be written."""
    from pinchpoint.serve.index import Wanted, index_of  # sqlite3 is not to be imported by `--help`

    index = index_of(folder.resolve())
    index.refresh()
    pages = index.list(Wanted()).pages
    return [row for page in range(1, pages + 1) for row in index.list(Wanted(page=page)).rows]


class ScenarioPath(click.Path):
    """Scenario files by path; where nothing lies there, shipped ones: `quickstart` or `quickstart/1-forward.toml`."""

    def __init__(self, *, exists: bool = True, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(exists=exists, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        (name, _, file), shipped = str(value).partition("/"), study_folders()
        if not Path(value).exists():
            if name in shipped and (shipped[name] / file).exists():
                value = shipped[name] / file
            elif not file and self.exists and (near := nearest(name, shipped)):
                self.fail(f"{value}: no such file or folder; did you mean the shipped study {near}?", param, ctx)
            elif self.exists:
                self.fail(f"{value}: {self._missing()}", param, ctx)
        return super().convert(value, param, ctx)

    def _missing(self) -> str:
        return "no such file or folder"


class RunPath(ScenarioPath):
    """A run folder by its path; or `@last`, the newest in runs/, `@last-1`, the one before, and so on."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if not str(value).startswith("@") or Path(value).exists():
            return super().convert(value, param, ctx)
        counted = _COUNTED.fullmatch(str(value))
        if counted is None:
            self.fail(f"{value}: expected {LAST}, or {LAST}-1 for the run before", param, ctx)
        rows, back = stored_runs(RUNS) if RUNS.is_dir() else [], int(counted[2] or 0)
        if back >= len(rows):
            self.fail(f"{value}: {RUNS}/ has {units.counted(len(rows), 'run')}", param, ctx)
        return RUNS / rows[back].id

    def _missing(self) -> str:
        folder = f"no such run folder; give the one that `pinchpoint run` printed, or {LAST}"
        return super()._missing() if self.file_okay else folder


def duration(text: str) -> float:
    """Seconds, more than 0, of a time such as `90s`, `10m`, `1h` or `1h30m`. Raises BadParameter."""
    seconds = units.parsed_duration(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r}: expected a time such as 90s, 10m or 1h30m")
    return seconds


def setting(text: str) -> tuple[str, object]:
    """`KEY=VALUE`: a key of scenario files and its value as TOML; a bare word is a text. Raises BadParameter."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or "\n" in value:
        raise click.BadParameter(f"{text!r}: expected KEY=VALUE, e.g. dut.datapath=af_xdp")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), value.strip()


def pair_of_words(expected: str, may_be_empty: bool = False) -> Callable[[str], tuple[str, str]]:
    """What reads two words with `=` between them; the second may be empty. BadParameter says what is expected."""

    def pair(text: str) -> tuple[str, str]:
        first, equals, second = text.partition("=")
        if not first or not equals or not (second or may_be_empty):
            raise click.BadParameter(f"{text!r}: expected {expected}")
        return first, second

    return pair


def setting_words(key: str, value: object) -> str:
    """`KEY=VALUE` as `setting` reads it, a text without quotation marks where it stays one."""
    bare = f"{key}={value}"
    if isinstance(value, str) and "\n" not in value and setting(bare) == (key, value):
        return bare
    return f"{key}={toml_of(value)}"


def complete_study(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shipped studies, and folders."""
    items = [CompletionItem(name) for name in study_folders() if name.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="dir")]


def groups(text: str) -> tuple[str, ...]:
    """Names of groups with commas between them; whether a study has them is known once it is read."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise click.BadParameter("expected group names separated by commas")
    return names


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The groups of the study that is named before."""
    # An option that still lacks its value ends the parsing: the study is then among what is left over.
    study = ctx.params.get("name") or next(iter(ctx.args), "")
    try:
        folder: Path = study_folder(study)
    except InputError:
        return []
    before, comma, last = incomplete.rpartition(",")
    names = sorted(path.stem for path in folder.glob("*.toml") if path.name != STUDY_FILE)
    left = [name for name in names if name not in before.split(",")]
    return [CompletionItem(f"{before}{comma}{name}") for name in left if name.startswith(last)]


_PACKAGED = Path(str(resources.files("pinchpoint"))) / "studies"  # in the repository a link


def study_folders() -> dict[str, Path]:
    """The folder of every shipped study, by name."""
    return {path.name: path for path in sorted(_PACKAGED.resolve().glob("*")) if any(path.glob("*.toml"))}


def study_folder(name: str) -> Path:
    """The folder of a shipped study by its name, or of one's own by its path. Raises InputError."""
    shipped = study_folders()
    if name in shipped:
        return shipped[name]
    if name and Path(name).is_dir():
        return Path(name)
    hint = f"{choices(name, shipped, 'shipped')}; or the path of your own folder"
    raise InputError(f"{name}: no such study", hint)


PACKAGE: Final = ".deb"


def program_of(build: Path, name: str, stack: ExitStack) -> Path:
    """The program called `name`, or `name-VARIANT`, of a build. A package is unpacked until `stack` is closed.

    A link of a package that leads out of it is refused: it would lead to a program of this machine, not of the build.

    Raises InputError if there is none or more than one, RequirementError if a package cannot be unpacked here.
    """
    is_package = build.is_file() and build.suffix == PACKAGE
    if build.is_file() and not is_package:
        return build.resolve()
    folder = build.resolve()
    if is_package:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="pinchpoint-package-"))).resolve()
        Local().run(("dpkg-deb", "--extract", str(build), str(folder)))
    programs = sorted(dict.fromkeys(_programs(folder, name)))
    for path in programs if is_package else ():
        if not path.resolve().is_relative_to(folder):
            link = f"/{path.relative_to(folder)} leads out of the package, to {path.resolve()}"
            raise InputError(f"{build}: {link}", "give the package that holds the program, or the program's own path")
    if len(programs) != 1:
        names = ", ".join(map(str, programs)) or f"no program called {name}"
        raise InputError(f"{build}: expected one program called {name}, found {names}", "give the program's own path")
    return programs[0]


def _programs(folder: Path, name: str) -> Iterator[Path]:
    for path in folder.rglob(f"{name}*"):
        is_called_so = path.name == name or path.name.startswith(f"{name}-")
        if is_called_so and not path.suffix and path.is_file() and os.access(path, os.X_OK):
            resolved = path.resolve()
            yield resolved if resolved.is_relative_to(folder) and resolved.name.startswith(name) else path


Command = Callable[..., int]
Option = Callable[[Command], Command]
Changed = str | Mapping[str, Any]  # of an option: its help, or any of its attributes
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

    @property
    def set_words(self) -> list[str]:
        """The same as a command line has it."""
        return [word for key, value in self.changes.items() for word in ("--set", setting_words(key, value))]


FOLDER: Final = click.Path(file_okay=False, path_type=Path)
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
SCENARIO: Final = ScenarioPath(dir_okay=False)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
host_option = click.option("--host", "address", metavar="HOST", help="On another machine, by its name for ssh(1).")
_OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]]] = {
    "out": (("-o", "--out"), {"type": FOLDER, "default": RUNS, "show_default": True,
            "help": "Create the run folder in this folder; an existing one is never overwritten."}),
    "resume": (("--resume",), {"type": RunPath(file_okay=False), "metavar": "RUN",
               "help": "Continue an interrupted run: finished trials are kept, failed and impossible points are tried "
                       "again."}),
    "quick": (("--quick",), {"is_flag": True,
              "help": "The short form that the files define: fewer levels, shorter trials."}),
    "settings": (("--set", "settings"), {"type": setting, "multiple": True, "metavar": "KEY=VALUE",
                 "help": "Override KEY with VALUE (TOML), e.g. dut.datapath=af_xdp, 'engine.cpus=[2, 3]' or "
                         "'stream[1].frame_bytes=512'. May be given several times."}),
    "repeats": (("--repeats",), {"type": click.IntRange(1, 1000), "metavar": "N",
                "help": "Measure every point N times, whatever the files say."}),
    "budget_s": (("--budget", "budget_s"), {"type": duration, "metavar": "TIME",
                 "help": "Measure as much as fits into TIME (90s, 10m, 1h30m): coarse levels first, repeats last; "
                         "points that monotonicity makes redundant are skipped. What was skipped is reported."}),
    "no_ceiling": (("--no-ceiling",), {"is_flag": True,
                   "help": "Do not measure the engine's own ceiling, without the device; it takes some seconds once a "
                           "day for every shape of bench."}),
    "await_host_s": (("--await-host", "await_host_s"), {"type": duration, "metavar": "TIME", "default": "5m",
                     "show_default": True,
                     "help": "Wait at most TIME for a lost ssh host, then give up its point."}),
    "dry_run": (("--dry-run",), {"is_flag": True, "help": "Print the plan of every bench and stop."}),
    "as_json": (("--json", "as_json"), {"is_flag": True, "help": "Print result.json instead of tables."}),
    "quiet": (("-q", "--quiet"), {"is_flag": True, "help": "No progress display."}),
}  # fmt: skip


def how_options(*names: str, into: type[How] = How, more: Sequence[Option] = (), **changes: Changed) -> Option:
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
    return Machines(Local()).opened(Site(Remote(address, address, sudo=True, lease_s=_LEASE_S)))
