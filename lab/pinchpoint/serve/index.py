"""An index in SQLite over run folders: what the list shows and filters by; a cache that may be removed at any time.

A run is read again when one of its files has another size or time than the index remembers. Whatever stands in the
files is hostile; a run that cannot be read is listed with the reason.
"""

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import msgspec

from pinchpoint.dut import registry
from pinchpoint.model.effective import table_in
from pinchpoint.model.errors import InputError, PinchpointError, StoreError
from pinchpoint.model.result import RunResult, ScenarioResult
from pinchpoint.report import words
from pinchpoint.report.number_views import metrics_view
from pinchpoint.run.ceiling import ceilings_file
from pinchpoint.serve.shelf import Shelf
from pinchpoint.store.folder import RESULT, TAGS_FILE, tags_or_fault

VERSION: Final = 3
PAGE: Final = 100  # runs of one page of the list
_WATCHED: Final = ("run.json", "result.json", "trials.jsonl", TAGS_FILE)
_FIELDS: Final = ("kind", "study", "verdict", "host", "tag")
_TABLES: Final = """
create table runs (id text primary key, stamp text, started text, title text, state text, host text, study text,
                   kinds text, verdicts text, scenarios int, trials int, number text, error text, tags text,
                   words text);
create index by_start on runs (started desc);
create table labels (run text, field text, value text);
create index by_label on labels (field, value, run);
create index by_run on labels (run);
create table made (run text, scenario text, metric text);
create index by_scenario on made (scenario, metric, run);
create index made_by_run on made (run);
"""


class _Study(msgspec.Struct):
    name: str = ""
    title: str = ""


class _Compared(msgspec.Struct):
    """The groups of a comparison."""

    a: str
    b: str


class _Info(msgspec.Struct):
    """Of run.json what the list needs; everything else is passed over."""

    started: str
    scenarios: list[dict[str, Any]]
    host: dict[str, str] = msgspec.field(default_factory=dict)
    study: _Study | None = None
    comparison: _Compared | None = None


@dataclass(frozen=True)
class Row:
    """A run as the list shows it."""

    id: str
    started: str
    title: str
    state: str  # finished, unfinished, unreadable
    host: str = ""
    study: str = ""
    kinds: str = ""
    verdicts: str = ""
    scenarios: int = 0
    trials: int = 0
    number: str = ""  # the first one of the first scenario
    error: str = ""
    tags: str = ""  # as a list of JSON, so that any tag can be among them

    @property
    def tagged(self) -> tuple[str, ...]:
        """The tags one by one."""
        return tuple(msgspec.json.decode(self.tags or "[]", type=list[str]))


@dataclass(frozen=True)
class Wanted:
    """What to list; empty: any."""

    text: str = ""  # all of these words
    kind: str = ""
    study: str = ""
    verdict: str = ""
    host: str = ""
    tag: str = ""
    since: str = ""  # dates, YYYY-MM-DD, both included
    until: str = ""
    page: int = 1

    def query(self, **other: object) -> dict[str, str]:
        """As it stands in an address, some of it replaced."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)} | other
        return {name: str(value) for name, value in mine.items() if value not in ("", 1)}


@dataclass(frozen=True)
class Listed:
    """One page of the runs found."""

    rows: tuple[Row, ...]
    total: int
    pages: int
    choices: Mapping[str, tuple[str, ...]]  # by filter


@dataclass
class Index:
    """The index of a shelf, in a file of its own; safe to use from several threads."""

    shelf: Shelf
    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self) -> int:
        """Read what is new or has changed, and forget what is gone; returns how many runs were read."""
        with self._lock, self._open() as base:
            known = dict(base.execute("select id, stamp from runs").fetchall())
            there = {name: _stamp(self.shelf.root / name) for name in self.shelf.names()}
            for name in known.keys() - there.keys():
                _forget(base, name)
            changed = [name for name, stamp in there.items() if known.get(name) != stamp]
            for name in changed:
                _forget(base, name)
                _keep(base, there[name], *_read(self.shelf, name))
            base.commit()
        return len(changed)

    def list(self, wanted: Wanted) -> Listed:
        """One page of the runs that match, the newest first."""
        where, values = _conditions(wanted)
        columns = ", ".join(field.name for field in fields(Row))
        with self._open() as base:
            (total,) = base.execute(f"select count(*) from runs {where}", values).fetchone()
            asked = f"select {columns} from runs {where} order by started desc, id desc limit ? offset ?"
            rows = base.execute(asked, (*values, PAGE, PAGE * (max(wanted.page, 1) - 1))).fetchall()
            labels = base.execute("select distinct field, value from labels order by field, value").fetchall()
        choices = {name: tuple(value for of, value in labels if of == name) for name in _FIELDS}
        return Listed(tuple(Row(*row) for row in rows), total, max(1, -(-total // PAGE)), choices)

    def scenarios(self) -> dict[str, int]:
        """Every scenario measured, with the number of its runs; the most frequent first."""
        with self._open() as base:
            asked = "select scenario, count(distinct run) n from made group by scenario order by n desc, scenario"
            return dict(base.execute(f"{asked} limit 500").fetchall())

    def metrics(self, scenario: str) -> tuple[str, ...]:
        """What was found of a scenario in any run."""
        with self._open() as base:
            asked = "select metric from made where scenario = ? and metric != '' group by metric order by min(rowid)"
            return tuple(metric for (metric,) in base.execute(asked, (scenario,)))

    def having(self, scenario: str, most: int) -> tuple[str, ...]:
        """The newest runs that measured a scenario."""
        asked = """select id from runs where id in (select run from made where scenario = ?)
                   order by started desc limit ?"""
        with self._open() as base:
            return tuple(name for (name,) in base.execute(asked, (scenario, most)))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A file that is no index, or one of another version, is made anew. Raises StoreError."""
        try:
            base = self._ready()
        except (sqlite3.DatabaseError, OSError) as error:
            hint = "remove it, or set XDG_CACHE_HOME to a writable folder"
            raise StoreError(f"{self.path}: {error}", hint) from error
        with closing(base):
            yield base

    def _ready(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        base = sqlite3.connect(self.path, timeout=30)
        try:
            (version,) = base.execute("pragma user_version").fetchone()
        except sqlite3.DatabaseError:
            version = -1
        if version == VERSION:
            return base
        base.close()
        self.path.unlink(missing_ok=True)
        base = sqlite3.connect(self.path, timeout=30)
        base.executescript(f"pragma journal_mode = wal; {_TABLES} pragma user_version = {VERSION};")
        return base


def index_of(root: Path) -> Index:
    """The index of a folder of runs, which is kept beside the ceilings, in a cache."""
    name = f"serve-{hashlib.sha256(str(root).encode()).hexdigest()[:16]}.sqlite3"
    return Index(Shelf(root), ceilings_file().parent / name)


def _stamp(path: Path) -> str:
    return " ".join(map(_one_stamp, (path / name for name in _WATCHED)))


def _one_stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "-"
    return f"{status.st_mtime_ns}:{status.st_size}"


def _conditions(wanted: Wanted) -> tuple[str, list[object]]:
    labels = [(name, getattr(wanted, name)) for name in _FIELDS if getattr(wanted, name)]
    labelled = "id in (select run from labels where field = ? and value = ?)"
    conditions: list[tuple[str, Sequence[object]]] = [(labelled, label) for label in labels]
    conditions += [("instr(words, ?) > 0", [word]) for word in wanted.text.casefold().split()[:16]]
    conditions += [("started >= ?", [wanted.since])] if wanted.since else []
    conditions += [("substr(started, 1, 10) <= ?", [wanted.until])] if wanted.until else []
    where = " and ".join(condition for condition, _ in conditions)
    return (f"where {where}" if where else ""), [value for _, values in conditions for value in values]


def _forget(base: sqlite3.Connection, name: str) -> None:
    for table, key in (("runs", "id"), ("labels", "run"), ("made", "run")):
        base.execute(f"delete from {table} where {key} = ?", (name,))


Labels = Mapping[str, Sequence[str]]  # by filter
Made = Sequence[tuple[str, str]]  # scenarios with their metrics


def _keep(base: sqlite3.Connection, stamp: str, row: Row, labels: Labels, made: Made) -> None:
    mine = {field.name: getattr(row, field.name) for field in fields(row)}
    every = " ".join((*map(str, mine.values()), *dict(made)))
    mine |= {"stamp": stamp, "words": every.casefold()}
    base.execute(f"insert into runs ({', '.join(mine)}) values ({', '.join('?' * len(mine))})", [*mine.values()])
    labelled = [(row.id, of, value) for of, values in labels.items() for value in values]
    base.executemany("insert into labels values (?, ?, ?)", labelled)
    base.executemany("insert into made values (?, ?, ?)", [(row.id, *number) for number in made])


def _read(shelf: Shelf, name: str) -> tuple[Row, Labels, Made]:
    try:
        folder = shelf.run(name)
        path, (own, fault) = folder.path, tags_or_fault(folder)
        info = msgspec.json.decode((path / "run.json").read_bytes(), type=_Info)
        file = path / "result.json"
        result = RESULT.decode(file.read_bytes(), f"{name}/result.json") if file.exists() else None
        trials = path / "trials.jsonl"
        return _entry(name, info, result, trials.read_bytes().count(b"\n") if trials.exists() else 0, own, fault)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError, PinchpointError) as error:
        text = error.message if isinstance(error, InputError | StoreError) else f"run.json: {error}"
        return Row(name, "", name, "unreadable", error=text), {}, ()


def _entry(
    name: str, info: _Info, result: RunResult | None, trials: int, own: Sequence[str], fault: str
) -> tuple[Row, Labels, Made]:
    done = result.scenarios if result else ()
    kinds = sorted({_kind(scenario) for scenario in info.scenarios})
    verdicts = sorted({limit for result in done if (limit := words.pinched_by(result))})
    host = ", ".join(text for key in ("processor", "kernel") if (text := info.host.get(key)))
    study = info.study.name if info.study else ""
    titles = [str(scenario.get("title", "")) for scenario in info.scenarios[:1]]
    title = info.study.title if info.study else (titles or [name])[0]
    title = f"{info.comparison.a} against {info.comparison.b}" if info.comparison else title
    labels: dict[str, Sequence[str]] = {"kind": kinds, "verdict": verdicts, "tag": own}
    labels |= {"host": [host] if host else [], "study": [study] if study else []}
    row = Row(
        id=name, started=info.started, title=title, state="finished" if result and result.finished else "unfinished",
        host=host, study=study, kinds=", ".join(kinds), verdicts=", ".join(verdicts), scenarios=len(info.scenarios),
        trials=trials, number=next(filter(None, map(number_of, done)), ""), error=fault,
        tags=msgspec.json.encode(list(own)).decode(),
    )  # fmt: skip
    return row, labels, [made for result in done for made in _made(result)]


def _kind(scenario: Mapping[str, Any]) -> str:
    return str(table_in(scenario, "dut").get("kind", registry.default()))


def _made(result: ScenarioResult) -> Iterator[tuple[str, str]]:
    names = [*(rate.name for rate in result.rates), *(metric.name for metric in result.metrics)]
    for name in dict.fromkeys(names) or [""]:
        yield result.scenario, name


def number_of(result: ScenarioResult) -> str:
    """The number to quote of a scenario, with its name; empty without one."""
    if result.rates:
        return f"{result.rates[0].name} {words.quoted(result.rates[0])}"
    return next((f"{row.name} {row.value}" for row in metrics_view(result.metrics, result.measure).main), "")
