"""Where the engine spends its core: the top functions of four rows, as Markdown tables.

`make profile-engine`; needs perf. The sampler is the CPU's clock, 999 times a second:
virtual machines seldom have counters of cycles. Most of the hot loop is inlined into
few functions; of libraries without symbols, as Debian's DPDK, only the whole is known.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import cpu
import vhost_rate
from null_rate import FLOWS, PORT
from peers import PAGES, SECONDS, Engine, engine, hugepages, missing, one_worker, stream
from veth import EXAMPLES, NEAR, standing, xdp_sink

from pinchpoint.bench.journal import machine_lock
from pinchpoint.engine import protocol, streams
from pinchpoint.host.local import Local
from pinchpoint.model.errors import PinchpointError

CORE = 0
TOP = 10
LEAST_PERCENT = 1.0
UNSTRIPPED = EXAMPLES.parent / "pinchpoint-engine"
_NAMELESS = re.compile(r"0x[0-9a-f]+")
_COLUMN = re.compile(r"\s{2,}")  # perf pads its columns

Shares = dict[tuple[str, str], float]  # percent by (object, function)


def record(running: Engine, sent: list[streams.StreamRequest], folder: Path) -> Shares:
    """Where the engine's threads were while `sent` went on, soft interrupts in their time included."""
    data = folder / "perf.data"
    command = ["perf", "record", "--quiet", "-e", "cpu-clock", "-F", "999", "-p", str(running.pid), "-o", str(data)]
    command += ["--", "sleep", str(SECONDS)]
    running.during(sent, SECONDS, lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    report = ["perf", "report", "--stdio", "--no-children", "--sort", "dso,symbol", "-i", str(data)]
    return shares(subprocess.run(report, check=True, capture_output=True, text=True).stdout)


def shares(report: str) -> Shares:
    """From perf's lines `12.34%  OBJECT  [.] FUNCTION`; functions without a name are one."""
    totals: Shares = defaultdict(float)
    for line in report.splitlines():
        percent, _, rest = line.strip().partition("%")
        columns = _COLUMN.split(rest.strip())
        if line.startswith("#") or len(columns) < 2:
            continue
        function = columns[1][4:]  # behind [.] for a program, [k] for the kernel
        totals[columns[0], "(no symbols)" if _NAMELESS.fullmatch(function) else function] += float(percent)
    return totals


def null(folder: Path, program: str) -> Shares:
    """Into net_null."""
    with hugepages(PAGES), engine([PORT], one_worker(CORE, [PORT]), dpdk=True, program=program) as running:
        return record(running, [FLOWS], folder)


def vhost(folder: Path, program: str) -> Shares:
    """Through the switch, one way."""
    with vhost_rate.standing_switch(vhost_rate.ONE_WAY) as switch:
        ports = switch.setup.engine.ports
        with engine(ports, one_worker(CORE, ports), dpdk=True, program=program) as running:
            return record(running, [stream(0, "left", "right")], folder)


def af_xdp(folder: Path, program: str) -> Shares:
    """Over veth through AF_XDP sockets."""
    return _veth("af_xdp", folder, program)


def xdp_live(folder: Path, program: str) -> Shares:
    """Over veth as live frames."""
    return _veth("xdp_live", folder, program)


def _veth(backend: protocol.BackendName, folder: Path, program: str) -> Shares:
    with standing() as link, xdp_sink(link):
        port = protocol.PortRequest("near", backend, NEAR, link.near, 1024, 1024, ())
        with engine([port], one_worker(CORE, [port]), program=program) as running:
            return record(running, [stream(0, "near", None)], folder)


ROWS: dict[str, Callable[[Path, str], Shares]] = {
    "64 B, 65,536 five-tuples, into net_null": null,
    "64 B through OVS vhost-user, one way": vhost,
    "64 B over veth, AF_XDP, into XDP_DROP": af_xdp,
    "64 B over veth, XDP live frames, into XDP_DROP": xdp_live,
}


def main() -> None:
    """Print one table for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default=str(UNSTRIPPED), help="an engine with symbols (%(default)s)")
    program = parser.parse_args().engine
    if absent := missing("perf"):
        sys.exit(f"perf: {absent}")
    cpu.end_on_signals()
    cpu.keep_off(CORE)
    with machine_lock(Local()), tempfile.TemporaryDirectory() as name:
        for work, profile in ROWS.items():
            print(f"{work} ...", file=sys.stderr, flush=True)
            top = sorted(profile(Path(name), program).items(), key=lambda entry: -entry[1])[:TOP]
            print(f"### {work}\n\n| share of the engine's time | function | in |\n|---|---|---|")
            for (place, function), percent in top:
                if percent >= LEAST_PERCENT:
                    print(f"| {percent:.1f} % | `{function}` | {place} |")
            print()


if __name__ == "__main__":
    try:
        main()
    except PinchpointError as error:
        sys.exit(str(error))
