"""`load`, `run` and `measure`. A run is a process of its own, the command line's, which a notebook can interrupt."""

import json
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pinchpoint.api.results import Result, Run
from pinchpoint.export import Stored
from pinchpoint.host.local import Local, exit_code
from pinchpoint.model import errors
from pinchpoint.model.effective import toml_of
from pinchpoint.model.errors import InputError, PinchpointError
from pinchpoint.store.bundle import opened
from pinchpoint.store.folder import RunFolder

_POLL_S: Final = 0.05
_COMMAND: Final = ("-P", "-m", "pinchpoint")  # -P: not what the current folder has under that name
Scenario = str | Path


def load(path: str | Path) -> Run:
    """A run folder, or a bundle that `pinchpoint pack` made. Raises InputError if it is neither, or damaged."""
    if not Path(path).exists():
        raise InputError(f"{path}: no such run folder or bundle", "pinchpoint.load('runs/NAME-STAMP')")
    with opened(Path(path)) as folder:
        return Run(Path(path), stored(folder))


def run(
    *scenarios: Scenario,
    set: Mapping[str, object] | None = None,
    quick: bool = False,
    repeats: int | None = None,
    budget: str | None = None,
    ceiling: bool = True,
    out: str | Path = "runs",
) -> Run:
    """Run scenarios as `pinchpoint run` does; returns the run, also one of which points failed.

    A scenario is the path of a file, folder or study, or a text of TOML. `set` changes keys, e.g. {"dut.smc": True};
    `budget` is a time such as "10m"; without `ceiling` the engine's own highest rate is not measured. Interrupting it
    ends the measurement, removes the bench and raises KeyboardInterrupt; the run folder stays.
    Raises the errors of pinchpoint.model.errors.
    """
    if not scenarios:
        raise InputError("expected a scenario", "pinchpoint.run('forward.toml')")
    with tempfile.TemporaryDirectory(prefix="pinchpoint-") as folder:
        paths = [_path(scenario, number, Path(folder)) for number, scenario in enumerate(scenarios, 1)]
        options = [f"--set={key}={toml_of(value)}" for key, value in (set or {}).items()]
        options += ["--quick"] if quick else []
        options += [] if ceiling else ["--no-ceiling"]
        options += [f"--repeats={repeats}"] if repeats is not None else []
        options += [f"--budget={budget}"] if budget is not None else []
        words = ("run", *paths, *options, "--out", str(out), "--json", "--quiet")
        answer = _answer(words, Path(folder))
    return load(Path(out) / json.loads(answer)["run_id"])


def measure(
    scenario: Scenario,
    *,
    set: Mapping[str, object] | None = None,
    quick: bool = False,
    ceiling: bool = True,
    out: str | Path = "runs",
) -> Result:
    """Run one scenario; returns its result, with `run` behind it. Raises InputError if it is a sweep; see `run`."""
    finished = run(scenario, set=set, quick=quick, ceiling=ceiling, out=out)
    if len(finished.results) != 1:
        what = f"{finished.path}: {len(finished.results)} results, expected one"
        raise InputError(what, "pinchpoint.run returns them all")
    return finished.results[0]


def _path(scenario: Scenario, number: int, folder: Path) -> str:
    """The path of a scenario; a text is written to a file, since whoever repeats the run needs one."""
    if isinstance(scenario, str) and ("\n" in scenario or "=" in scenario):
        path = folder / f"scenario{number if number > 1 else ''}.toml"
        path.write_text(scenario, encoding="utf-8")
        return str(path)
    return str(scenario)


def _answer(words: Sequence[str], folder: Path) -> str:
    """What the command prints. Raises what it ended with, but for points that failed: the result names them."""
    output, errors_file = folder / "output", folder / "errors"
    host = Local()
    pid = host.spawn((sys.executable, *_COMMAND, *words), (), str(output), str(errors_file))
    code = _waited(host, pid)
    answer = output.read_text(encoding="utf-8")
    if answer.strip():
        return answer
    said = errors_file.read_text(encoding="utf-8", errors="replace").strip().removeprefix("pinchpoint: ")
    kinds = {kind.exit_code: kind for kind in PinchpointError.__subclasses__()}
    message, _, hint = (said or f"pinchpoint ended with code {code}").partition("\n  hint: ")
    raise kinds.get(code, errors.PinchpointError)(message, hint or None)


def _waited(host: Local, pid: int) -> int:
    interrupted = False
    while True:
        try:
            while (code := exit_code(pid)) is None:
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            if not interrupted:
                host.signal([pid], signal.SIGINT)
            interrupted = True
            continue
        if interrupted:
            raise KeyboardInterrupt
        return code


def stored(folder: RunFolder) -> Stored:
    """All that the folder holds, of a run that has not finished as far as it got. Raises InputError."""
    info, result = folder.read_info(), folder.so_far()
    return Stored(info, result, folder.read_trials(), folder.read_measurements(), folder.read_stretches())
