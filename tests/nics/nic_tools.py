"""Runs the lab in a virtual machine with NICs (packaging/in-qemu) and keeps what it left in a folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
IN_QEMU = ROOT / "packaging/in-qemu"
PINCHPOINT = Path(sys.executable).parent / "pinchpoint"
MISSING = 3  # qemu, its kernel or a model of NIC: the machine's own words say which
LIMIT_S = 540  # emulated, beside busy neighbours


class Machine(NamedTuple):
    """What a run in a virtual machine left."""

    code: int
    errors: str
    before: str
    after: str
    result: dict
    trials: list
    info: dict


def measured(folder, cables, options=(), settings=()):
    """One run of forward.toml between these NICs; skips with the reason where there is no such machine."""
    words = [IN_QEMU, *options, *(f"--cable={one}" for one in cables), f"--limit={LIMIT_S}", f"--out={folder}"]
    command = [ROOT / "tests/nics/inside", PINCHPOINT, ROOT / "tests/nics/forward.toml", *settings]
    done = subprocess.run([*words, *command], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode == MISSING and not (folder / "before").exists():
        pytest.skip(done.stderr.strip())
    if not (folder / "after").exists():
        pytest.fail(f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    texts = {name: (folder / name).read_text() for name in ("errors", "before", "after", "result.json")}
    runs = next((folder / "runs").glob("*"), None)
    if runs is None:
        pytest.fail(f"exit {done.returncode}\n{texts['errors']}")
    trials = runs / "trials.jsonl"
    return Machine(
        done.returncode,
        texts["errors"],
        texts["before"],
        texts["after"],
        json.loads(texts["result.json"] or "{}"),
        [json.loads(line) for line in trials.read_text().splitlines()] if trials.exists() else [],
        json.loads((runs / "run.json").read_text()),
    )


def has_carried(found):
    """Frames crossed both cables and the switch, each hop counted them, and every NIC is as it was before.

    What they were on arrival is qemu's doing: frames of its e1000e reach DPDK's driver four bytes short.
    """
    assert found.code == 0, found.errors
    assert found.after == found.before
    (one,) = found.result["scenarios"]
    hops = [{hop["name"]: hop for hop in trial["ledger"]["hops"]} for trial in found.trials]
    assert any(trial["switch sends"]["frames_out"] for trial in hops)
    for trial in hops:
        assert trial["engine sends"]["frames_out"] == trial["switch receives"]["frames_in"]
        assert trial["switch sends"]["frames_out"] == trial["engine receives"]["frames_in"]
    return one


def has_a_rate(found):
    """The same with frames that arrive whole: a rate, and accounts that close."""
    one = has_carried(found)
    assert one["outcome"] == "measured", one["reason"]
    assert any(rate["lower_fps"] for rate in one["rates"])
    ended = [trial for trial in found.trials if trial["validity"] == "valid"]
    assert ended
    for trial in ended:
        ledger = trial["ledger"]
        dropped = sum(drop["frames"] for hop in ledger["hops"] for drop in hop["drops"])
        assert ledger["offered"] == ledger["received"] + dropped
    return one
