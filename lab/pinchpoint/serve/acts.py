"""What the pages can do: stop, resume and tag runs, start scenarios and studies, as the commands one would type do."""

import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.serve.shelf import Shelf
from pinchpoint.store.campaign import CampaignFolder, is_campaign
from pinchpoint.store.folder import first_free, owner, read_tags, storing, write_tags

FOLDER: Final = "scenarios"  # of those started from a form, below the runs' folder, with their logs
LOG_SHOWN: Final = 8192  # bytes from the end
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_BUDGET = re.compile(r"(|(?=\d)(\d{1,4}h)?(\d{1,4}m)?(\d{1,5}s)?)")


@dataclass
class Acts:
    """Acts on one shelf; `command` is how `pinchpoint` was called."""

    shelf: Shelf
    command: Sequence[str]
    _host: Local = field(default_factory=Local)
    _started: dict[str, int] = field(default_factory=dict)  # process by the scenario's name
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self, run: str) -> None:
        """Interrupt the run as Ctrl-C does: it keeps what it has and removes its bench. Raises InputError."""
        pid = owner(self.shelf.run(run).path)
        if pid is None:
            raise InputError(f"{run}: no process of this machine measures it", "there is nothing to stop")
        self._host.signal([pid], signal.SIGINT)

    def resume(self, run: str) -> str:
        """Go on with an interrupted run; returns the name of its log. Raises InputError."""
        folder = self.shelf.run(run)
        if owner(folder.path) is not None:
            raise InputError(f"{run}: it is being measured", "wait, or stop it first")
        result = folder.read_result()
        failed = result is not None and any(scenario.outcome == "failed" for scenario in result.scenarios)
        if result is not None and result.finished and not failed:
            raise InputError(f"{run}: it has finished", "start its scenario again for a new run")
        command = "run"
        if is_campaign(folder.path):
            command, kept = "campaign", CampaignFolder(folder)
            asked = kept.read_campaign()
            if kept.elsewhere(asked) or any(unit.programs for unit in asked.units):
                again = f"pinchpoint campaign --resume {folder.path} --cluster ADDRESS --build NAME=PATH"
                what = f"{run}: a campaign on a cluster, or of builds, is resumed by its command"
                raise InputError(what, f"{again}, whichever it had")
        return self._spawn(run[:64], (command, "--resume", str(folder.path), "--quiet"))

    def tag(self, run: str, add: str, remove: str) -> None:
        """Give the run a tag, or take one away. Raises InputError."""
        folder = self.shelf.run(run)
        with self._lock:
            kept = [tag for tag in read_tags(folder) if tag != remove]
            write_tags(folder, [*kept, *filter(None, [add.strip()])])

    def start(self, name: str, text: str, quick: bool) -> str:
        """Write a scenario that was checked, and run it; returns its name, made unique. Raises InputError."""
        if not _NAME.fullmatch(name):
            hint = "use letters, digits, '.', '_' and '-', at most 64 in all"
            raise InputError(f"{name!r} cannot be a scenario's name", hint)
        path = self._write(name, text)
        return self._spawn(path.stem, ("run", str(path), *self._into(quick, "")))

    def start_path(self, path: Path, quick: bool, budget: str) -> str:
        """Run scenario files that were checked, or a shipped study; returns the name of the log. Raises InputError."""
        name = _UNSAFE.sub("-", path.stem)[:64]
        if not _NAME.fullmatch(name):
            raise InputError(f"{path}: this name cannot be a log's", "begin it with a letter or a digit")
        return self._spawn(name, ("run", *self._into(quick, budget), "--", str(path)))

    def start_study(self, name: str, only: Sequence[str], quick: bool, budget: str) -> str:
        """Run a study that was checked, or some of its groups; returns the name of its log. Raises InputError."""
        chosen = ("--only", ",".join(only)) if only else ()
        options = self._into(quick, budget, *chosen)
        return self._spawn(name, ("study", "run", name, *options))

    def _into(self, quick: bool, budget: str, *chosen: str) -> Sequence[str]:
        """The options of whatever is started, into this shelf. Raises InputError."""
        if not _BUDGET.fullmatch(budget):
            raise InputError(f"{budget!r} is no time", "write a budget like 90s, 10m or 1h30m, or none")
        limited = ("--budget", budget) if budget else ()
        return ("--out", str(self.shelf.root), "--quiet", *chosen, *(("--quick",) if quick else ()), *limited)

    def state(self, name: str) -> tuple[int | None, str]:
        """The process of something started from here, None once it has ended, and the end of its log."""
        if not _NAME.fullmatch(name):
            raise InputError(f"{name}: nothing of this name was started")
        with self._lock:
            pid = self._started.get(name)
            if pid is not None and self._host.ended(pid):
                del self._started[name]
                pid = None
        path = self.shelf.root / FOLDER / f"{name}.log"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            raise InputError(f"{name}: nothing of this name was started", "start it from New scenario") from None
        with os.fdopen(descriptor, "rb") as file:
            file.seek(max(0, os.fstat(descriptor).st_size - LOG_SHOWN))
            return pid, file.read(LOG_SHOWN).decode(errors="replace")

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """The folder of scenarios and logs, made where it is missing. Raises InputError, StoreError."""
        folder = self.shelf.root / FOLDER
        if folder.is_symlink():
            raise InputError(f"{folder} is a link", "remove it; scenarios are written below the runs' folder only")
        with storing(folder, "choose a folder that is writable"):
            folder.mkdir(exist_ok=True)
            yield folder

    def _write(self, name: str, text: str) -> Path:
        """A new file; where there is one of this name, the name gets a number."""

        def put(path: Path) -> None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)

        with self._folder() as folder:
            return first_free(folder / name, ".toml", put)

    def _spawn(self, name: str, options: Sequence[str]) -> str:
        """Start a command with a log of that name; returns it. Raises InputError where one that still runs has it."""
        with self._lock:
            pid = self._started.get(name)
            if pid is not None and not self._host.ended(pid):
                raise InputError(f"{name}: it is being measured", "wait, or stop its run first")
            self._started.pop(name, None)
        with self._folder() as folder:
            log = folder / f"{name}.log"
        if log.is_symlink():
            raise InputError(f"{log} is a link", "remove it; logs are written below the runs' folder only")
        pid = self._host.spawn((*self.command, *options), (), str(log), str(log))
        with self._lock:
            self._started[name] = pid
        return name
