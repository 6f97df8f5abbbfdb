"""A campaign's folder: a run folder, and beside its files those of the campaign.

campaign.json      model.campaign.Campaign: units, machines, limits
attempts.jsonl     one model.campaign.Entry a line, each synced: what became of every attempt
attempts/ID/       one run folder for each attempt, as its machine wrote it
calibration.json   model.campaign.Calibration: machines against each other
machines.json      model.campaign.Progress: what each machine does now, for who watches

Whether an attempt counts is said by `attempts.jsonl` alone: of a unit the first that finished and was not withdrawn.
trials.jsonl, measurements.jsonl and result.json of the campaign are made whole from those attempts, so that nothing
is in them twice, whenever a lab was killed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pinchpoint.model.campaign import HERE, Calibration, Campaign, Entry, Progress, What
from pinchpoint.model.errors import InputError
from pinchpoint.store.codec import Codec
from pinchpoint.store.folder import RECORDS, RunFolder, storing

CAMPAIGN: Final = Codec.of(Campaign)
ENTRY: Final = Codec.of(Entry)
CALIBRATION: Final = Codec.of(Calibration)
PROGRESS: Final = Codec.of(Progress)
FILE: Final = "campaign.json"
_LOG: Final = "attempts.jsonl"


@dataclass
class Tally:
    """What the log says, line after line."""

    accepted: dict[str, Entry] = field(default_factory=dict)  # unit -> the attempt that counts
    open: dict[str, Entry] = field(default_factory=dict)  # unit -> an attempt that began and did not end
    attempts: Counter[str] = field(default_factory=Counter)  # unit -> how many began
    measured_on: Counter[str] = field(default_factory=Counter)  # machine -> units that count
    lost_on: Counter[str] = field(default_factory=Counter)  # machine -> attempts that were lost with it
    withdrawn: int = 0
    left_out: dict[str, Entry] = field(default_factory=dict)  # unit -> why it is not measured
    excluded: dict[str, str] = field(default_factory=dict)  # machine -> why
    returned: dict[str, str] = field(default_factory=dict)  # machine -> when: it may be another one since
    controls: list[Entry] = field(default_factory=list)  # finished, since the return
    uncontrolled: dict[str, str] = field(default_factory=dict)  # machine -> why its last control gave no figure

    def take(self, entry: Entry, control: str = "") -> None:
        """One more line; `control` is the name of the control unit."""
        unit, machine, what = entry.unit, entry.machine, entry.what
        if what in (What.FINISHED, What.LOST, What.FAILED, What.IMPOSSIBLE, What.SKIPPED):
            self.open.pop(unit, None)
        if what is What.EXCLUDED:
            self.excluded[machine] = entry.reason
        elif what is What.RETURNED:
            self.excluded.pop(machine, None)
            self.returned[machine] = entry.at
            self.controls = [control for control in self.controls if control.machine != machine]
        elif what is What.BEGUN:
            self.attempts[unit] += 1
            self.open[unit] = entry
        elif what is What.FINISHED:
            self._finished(entry, control)
        elif what is What.WITHDRAWN:
            self.withdrawn += 1
            if (accepted := self.accepted.get(unit)) and accepted.attempt == entry.attempt:
                del self.accepted[unit]
                self.measured_on[accepted.machine] -= 1
        elif what is What.LOST:
            self.lost_on[machine] += 1
        elif what is not What.INTERRUPTED:  # which may go on
            self._unmeasured(entry, control)

    def _unmeasured(self, entry: Entry, control: str) -> None:
        if entry.unit == control and entry.what is not What.SKIPPED:
            self.uncontrolled[entry.machine] = entry.reason
        if not entry.attempt:  # of an attempt that failed, another may follow
            self.left_out[entry.unit] = entry

    def _finished(self, entry: Entry, control: str) -> None:
        self.left_out.pop(entry.unit, None)
        if control and entry.unit == control:
            self.controls.append(entry)
            self.uncontrolled.pop(entry.machine, None)
        elif entry.unit not in self.accepted:
            self.accepted[entry.unit] = entry
            self.measured_on[entry.machine] += 1


@dataclass(frozen=True)
class CampaignFolder:
    """The files of one campaign. Reading raises InputError, writing StoreError; both name the file."""

    run: RunFolder

    @classmethod
    def open(cls, path: Path) -> "CampaignFolder":
        """An existing one. Raises InputError when it is none."""
        if not is_campaign(path):
            hint = "pinchpoint campaign FILE makes one"
            raise InputError(f"{path}: not a campaign's folder (it has no {FILE})", hint)
        return cls(RunFolder.open(path))

    @property
    def path(self) -> Path:
        return self.run.path

    def write_campaign(self, campaign: Campaign) -> None:
        self.run.store(FILE, CAMPAIGN, campaign)

    def read_campaign(self) -> Campaign:
        """What is to be measured."""
        return self.run.load(FILE, CAMPAIGN)

    def append(self, entry: Entry) -> None:
        """Add one line to the log and return once it is on the disk."""
        self.run.append_line(_LOG, ENTRY.encode(entry, _LOG))

    def entries(self) -> tuple[Entry, ...]:
        """All lines of the log; an unfinished last one is not counted."""
        return self.run.read_lines(_LOG, ENTRY)

    def elsewhere(self, campaign: Campaign) -> list[str]:
        """Machines of the log that are neither the file's nor, where it names none, this one: nodes of a cluster."""
        known = {bench.name for bench in campaign.benches} or {HERE}
        return sorted({entry.machine for entry in self.entries() if entry.machine} - known)

    def tally(self, campaign: Campaign) -> Tally:
        """What the log says so far."""
        counts, control = Tally(), campaign.control.unit.name if campaign.control else ""
        for entry in self.entries():
            counts.take(entry, control)
        return counts

    def attempt(self, name: str) -> RunFolder:
        """The run folder of one attempt, whether it is there or not."""
        return RunFolder(self.path / "attempts" / name)

    def make_attempt(self, name: str, files: Mapping[str, bytes]) -> RunFolder:
        """The same with these files in it, each written whole. Raises StoreError."""
        folder = self.attempt(name)
        with storing(folder.path):
            (folder.path / "attachments").mkdir(parents=True, exist_ok=True)
        for file, data in files.items():
            inner, _, last = file.rpartition("/")
            place = RunFolder(folder.path / "attachments") if inner == "attachments" else folder
            place.replace(last if inner == "attachments" else file, data)
        return folder

    def grow_attempt(self, name: str, file: str, lines: bytes) -> None:
        """Add whole lines to a file of an attempt. Raises StoreError."""
        self.attempt(name).append_line(file, lines.rstrip(b"\n"))

    def write_calibration(self, calibration: Calibration) -> None:
        self.run.store("calibration.json", CALIBRATION, calibration)

    def read_calibration(self) -> Calibration | None:
        """Of the machines; None while there is none."""
        return self.run.load_if_there("calibration.json", CALIBRATION)

    def write_progress(self, progress: Progress) -> None:
        self.run.store("machines.json", PROGRESS, progress)

    def read_progress(self) -> Progress | None:
        """What each machine does; None while nothing is known."""
        return self.run.load_if_there("machines.json", PROGRESS)

    def gather(self, accepted: Iterable[Entry]) -> None:
        """Make trials.jsonl and measurements.jsonl anew, from the attempts that count. Raises StoreError."""
        folders = [self.attempt(entry.attempt) for entry in accepted]
        for name, codec in RECORDS.items():
            lines = [codec.encode(kept, name) + b"\n" for folder in folders for kept in folder.read_lines(name, codec)]
            if lines or (self.path / name).exists():
                self.run.replace(name, b"".join(lines))


def is_campaign(path: Path) -> bool:
    """Whether a folder is that of a campaign."""
    return (path / FILE).is_file() and (path / "run.json").is_file()
