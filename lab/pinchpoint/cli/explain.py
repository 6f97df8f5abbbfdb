"""`pinchpoint explain`: why a rate is what it is; counter-experiments confirm or exclude each cause."""

from dataclasses import replace
from pathlib import Path

import click

from pinchpoint.cli.options import How, how_options
from pinchpoint.cli.parameters import RunPath
from pinchpoint.cli.program import Program, explaining
from pinchpoint.cli.run import conduct, print_stored, resumed
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Point, Scenario, Sweep
from pinchpoint.run.stored import StoredRun
from pinchpoint.scenario import load_sweep
from pinchpoint.scenario.plain import from_plain
from pinchpoint.store.folder import RunFolder

EXAMPLE = "pinchpoint explain studies/quickstart/3-snat-65536.toml"


@click.command(short_help="Name the cause of a rate, and confirm it.")
@click.argument("path", required=False, type=RunPath(), metavar="SCENARIO|RUN")
@click.option("--scenario", "name", metavar="NAME", help="Which scenario of a RUN that has several.")
@how_options(
    *("settings", "budget_s", "quick", "no_ceiling", "out", "resume", "dry_run", "as_json", "quiet"),
    budget_s={
        "default": "5m",
        "show_default": True,
        "help": "Begin no counter-experiment that would take longer than TIME in all.",
    },
    resume="Continue an interrupted explanation.",
)
def explain(path: Path | None, name: str | None, how: How) -> int:
    """Say why the rate of SCENARIO, or of the scenario of a RUN, is what it is.

    The scenario is measured as it is. Its counters make causes likely. Then each is put to the test: the bench is
    changed in one respect and measured in turns with the unchanged one. A cause is confirmed if what it predicts comes
    true, and excluded if it does not. Last, one trial under the highest load is sampled, if perf is permitted here: it
    divides the forwarding threads' time by function. A RUN that explains already is only shown.
    """
    if how.resume is not None:
        if path is not None or name is not None:
            raise InputError("--resume continues an explanation with its original options", "give --resume RUN alone")
        return resumed(replace(how, quick=False, settings=(), budget_s=None), True)
    if path is None:
        raise InputError("expected a scenario file or a run folder", EXAMPLE)
    if (path / "run.json").is_file() and RunFolder.open(path).read_info().explains:
        print_stored(StoredRun(RunFolder.open(path)), how.as_json)
        return 0
    scenario = _scenario(path, name, how)
    alone = Sweep(scenario.name, scenario.title, (), (scenario,), 1, "listed", 0)
    wanted = Program(f"explain-{scenario.name}"[:64], (alone,))
    return conduct(explaining(wanted, how.machines), how, profiles=True)


def _scenario(path: Path, name: str | None, how: How) -> Scenario:
    """The one to explain. Raises InputError."""
    if not path.is_dir():
        if name is not None:
            raise InputError("--scenario chooses one of a run's scenarios", f"pinchpoint explain {path}")
        scenarios = load_sweep(path, how.quick, how.changes).scenarios
        if len(scenarios) > 1:
            message = f"{path}: expected one scenario, found {len(scenarios)} points of a sweep"
            raise InputError(message, f"run it, then: pinchpoint explain RUN --scenario {scenarios[-1].name}")
        return scenarios[0]
    if not (path / "run.json").is_file():
        raise InputError(f"{path}: expected a scenario file or a run folder; this folder has no run.json", EXAMPLE)
    if how.quick or how.settings:
        raise InputError(
            "--quick and --set change a scenario file, and a run's scenario is as stored", "leave them out"
        )
    stored = {str(plain["name"]): plain for plain in RunFolder.open(path).read_info().scenarios}
    if name is None and len(stored) > 1:
        raise InputError(f"{path} has {len(stored)} scenarios", f"--scenario {next(iter(stored))}")
    chosen = stored.get(name or next(iter(stored), ""))
    if chosen is None:
        raise InputError(f"{path} has no scenario {name}", f"one of: {', '.join(stored)}")
    scenario = from_plain(chosen)
    return replace(scenario, point=Point(scenario.name, {}))
