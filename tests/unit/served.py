"""A folder of made-up runs and the workshop over it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Trial
from pinchpoint.serve.acts import Acts
from pinchpoint.serve.app import Workshop
from pinchpoint.serve.guard import Guard
from pinchpoint.serve.index import Index
from pinchpoint.serve.pages import Pages
from pinchpoint.serve.shelf import Shelf
from pinchpoint.store.folder import TRIAL, RunFolder

PORT = 8642
TOKEN = "a-token-of-this-test"


def keep(
    root: Path, name: str, run: tuple[RunInfo, RunResult, Sequence[Trial]], done: int | None = None, **info: object
) -> RunFolder:
    """A run as its folder holds it; with `done`, as it is while it has that many scenarios."""
    made, result, trials = run
    folder = RunFolder(root / name)
    folder.path.mkdir(parents=True)
    folder.write_info(replace(made, run_id=name, **info))  # type: ignore[arg-type]
    lines = (TRIAL.encode(trial, trial.id) + b"\n" for trial in trials)
    (folder.path / "trials.jsonl").write_bytes(b"".join(lines))
    if done is None:
        folder.write_result(replace(result, run_id=name))
    else:
        folder.write_result(replace(result, run_id=name, finished=False, scenarios=result.scenarios[:done]))
    return folder


def workshop(root: Path, command: Sequence[str] = ("true",), port: int = PORT) -> Workshop:
    """The workshop over a folder; its index lies beside it."""
    shelf = Shelf(root)
    pages = Pages(shelf, Index(shelf, root.with_name(f"{root.name}.index")))
    return Workshop(pages, Acts(shelf, command), Guard(TOKEN, port))
