"""A folder of made-up runs and the workshop over it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sample import sample_run
from sample_shared import shared_run
from sample_study import study_run
from starlette.testclient import TestClient

from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.campaign import Campaign, MachineProgress, Progress
from pinchpoint.model.causes import FORWARDED, Branch, Experiment, Explanation, Standing, Suspicion, Tried
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.trial import Sample, Trial
from pinchpoint.serve.acts import Acts
from pinchpoint.serve.app import Workshop, application
from pinchpoint.serve.guard import Guard
from pinchpoint.serve.index import Index
from pinchpoint.serve.pages import Pages
from pinchpoint.serve.shelf import Shelf, Studies
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.folder import TRIAL, RunFolder, write_tags

SHIPPED = Path(__file__).parents[2] / "studies"
PORT = 8642
LATER = "2026-01-03T03:04:05Z"
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


def keep_campaign(root: Path, name: str, *machines: MachineProgress, left_s: float = 600.0) -> CampaignFolder:
    """A campaign in progress on these machines."""
    folder = CampaignFolder(keep(root, name, sample_run(), done=1))
    folder.write_campaign(Campaign(name, name, (), (), (), False, 1))
    folder.write_progress(Progress("2026-01-01T00:00:00+00:00", 3, 2, 0, 0, left_s, 0.0, machines))
    return folder


def workshop(root: Path, command: Sequence[str] = ("true",), port: int = PORT) -> Workshop:
    """The workshop over a folder; its index lies beside it."""
    shelf = Shelf(root)
    pages = Pages(shelf, Index(shelf, root.with_name(f"{root.name}.index")))
    studies = Studies(lambda: {name: SHIPPED / name for name in ("quickstart", "bridge-scale")}, Machines(Local()))
    return Workshop(pages, Acts(shelf, command), Guard(TOKEN, port), studies)


def answered(folder: Path, act: str, **fields: str) -> tuple[Any, Callable[[], str]]:
    """The answer to a form of a browser that may act, over an empty folder; and what the started command said."""
    root = folder / "runs"
    root.mkdir(exist_ok=True)
    parts = workshop(root, command=("echo",))
    client = TestClient(application(parts), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    client.cookies.set(f"pinchpoint-{PORT}", TOKEN)
    headers = {"origin": f"http://127.0.0.1:{PORT}"}
    answer = client.post(f"/act/{act}", data={"word": parts.guard.word, **fields}, headers=headers)

    def said() -> str:
        deadline = monotonic() + 20
        while "--quiet" not in (page := client.get(answer.headers["location"]).text) and monotonic() < deadline:
            sleep(0.05)
        return page

    return answer, said


def furnish(root: Path) -> None:
    """Runs of each sort: two alike, one in progress, a study, one on a shared host with samples and an explanation."""
    for name in ("one", "two"):
        keep(root, name, sample_run())
    keep(root, "going", sample_run(), done=1)
    keep(root, "study", study_run())
    keep(root, "study-again", study_run())
    info, result, trials = shared_run()
    first = result.scenarios[1].scenario
    explained = replace(result, explanations=(explanation(first),))
    folder = keep(root, "shared", (info, explained, [sampled(trial) for trial in trials]), started=LATER)
    write_tags(folder, ["nightly", "kernel 6.12"])


def sampled(trial: Trial, steps: int = 20) -> Trial:
    """The trial with a sample in each twentieth of its time; what it lost, it lost after a pause in the twelfth."""
    samples = []
    for step in range(steps + 1):
        at_s, share = trial.sent_duration_s * step / steps, step / steps
        paused = 0.004 if step >= 12 else 0.0
        lost = trial.lost * max(0, step - 12) // (steps - 12)
        offered = int(trial.offered * share)
        received = max(0, offered - lost)
        samples.append(Sample(at_s, offered, lost, paused, 0.004 if step == 12 else 0.0, received))
    return replace(trial, samples=tuple(samples))


def explanation(scenario: str) -> Explanation:
    """A tree with a cause of each standing."""

    def suspicion(title: str, share: float, line: str) -> Suspicion:
        return Suspicion(title.split()[0].lower(), title, share, (line,), f"Mend it: {title.lower()}.")

    def tried(experiment: Experiment, ratio: float) -> Tried:
        return Tried(experiment, f"{scenario}-x", FORWARDED, ratio, 0.97 * ratio, 1.03 * ratio)

    tracking = suspicion("Connection tracking", 0.41, "2 passes through the datapath for each frame")
    flows = suspicion("Many flows miss the cache", 0.12, "8 % of the passes were answered by the classifier")
    ring = suspicion("Short rings", 0.05, "the smallest ring holds 1,024 frames, 0.41 ms of this load")
    frames = suspicion("Long frames are copied", 0.03, "1,518 octets a frame")
    branches = (
        Branch(tracking, Standing.CONFIRMED, "", tried(Experiment.NO_TRACKING, 1.62)),
        Branch(flows, Standing.EXCLUDED, "", tried(Experiment.FEW_FLOWS, 1.01)),
        Branch(ring, Standing.UNDECIDED, "", tried(Experiment.LARGE_RING, 1.04)),
        Branch(frames, Standing.NOT_TRIED, "the budget was used up"),
    )
    return Explanation(scenario, branches, tried(Experiment.PLAIN, 2.1))
