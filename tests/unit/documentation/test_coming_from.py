"""docs/coming-from.md: every command of ours that it gives is one that the programs accept."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from pinchpoint.engine.process import find_engine
from pinchpoint.host.local import Local
from pinchpoint.scenario import load_sweep

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/coming-from.md").read_text()
PLACEHOLDERS = re.compile(r"FIRST|LEAST|STEP|\.\.\.")  # what the reader fills in
TOOLS = ("Pktgen", "TRex", "testpmd", "tcpreplay", "MoonGen", "vsperf", "CSIT", "iperf3", "netperf", "dperf", "snappi")
OF_SEND = "$E send --from $A --to $B"
OF_OTHERS = {"--connections": "$E stream", "--write": "$E stream", "--repeats": "$E rr", "--clients": "$E connect $A",
             "--count": "$E connect $A", "--request-size": "$E connect $A"}  # fmt: skip
OF_THE_LAB = ("--both-ways", "--tunable")  # options of `pinchpoint import`


def commands():
    """(tool, what stands behind $E) of every command and every option in a right column."""
    tool = ""
    for line in PAGE.splitlines():
        tool = line.removeprefix("## ") if line.startswith("## ") else tool
        cells = line.strip("|").split(" | ")
        if not line.startswith("| `") and not line.startswith("| CSIT"):
            continue
        for text in re.findall(r"`([^`]+)`", cells[-1]):
            is_of_lab = text.startswith(OF_THE_LAB) and tool == "TRex"
            if text.startswith(("$E ", "--")) and not PLACEHOLDERS.search(text) and not is_of_lab:
                yield pytest.param(whole(text), id=f"{tool}: {text}")


def whole(text):
    """Options alone belong to `send`, or to the command that has them."""
    if text.startswith("--"):
        text = f"{OF_OTHERS.get(text.split()[0], OF_SEND)} {text}"
    return text.replace("$A", "mem:left").replace("$B", "mem:right")


@pytest.mark.parametrize("line", list(commands()))
def test_the_engine_takes_every_option(line):
    """`--help` ends the reading of a command line: what stands before it must be known, and of its kind."""
    argv = [find_engine(Local()), *shlex.split(line)[1:], "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 0, done.stderr


def test_every_generator_has_its_commands():
    told = {heading for heading in re.findall(r"^## (.*)", PAGE, re.MULTILINE)}
    assert all(any(tool in heading for heading in told) for tool in TOOLS)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"pinchpoint run ([\w-]+/[\w-]+\.toml)", PAGE))))
def test_the_scenarios_that_it_names_are_shipped(path):
    assert load_sweep(ROOT / "studies" / path).scenarios
