"""`make bench-build`: making rules, ports and veth pairs, each against the plain command that makes as many.

Both make the same number and remove it again. Only ratios of neighbouring runs mean anything on a
shared machine; the seconds that others have published stand beside, of another machine.
"""

import argparse
import multiprocessing
import resource
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cpu
import engine_rows
from contest import Aim, Contender, Contest, Line, Outcome, Sample

from pinchpoint.bench.builder import Builder
from pinchpoint.bench.journal import STATE_DIRECTORY, machine_lock
from pinchpoint.bench.resource import Namespace, TapLinks
from pinchpoint.bulk.making import Bulk, Veths, allowed_s, timed_make, timed_removal
from pinchpoint.dut.ovs.bulk import Flows, Ports
from pinchpoint.dut.ovs.places import OvsPlaces, Unixctl
from pinchpoint.dut.setup import prepare
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.errors import PinchpointError
from pinchpoint.scenario import parse

ROUNDS = 3
SMOKE_SCALE = 0.002
RULES, PORTS, PAIRS = 500_000, 5_000, 50_000
PUBLISHED_S = {"rules": (RULES, 552), "ports": (PORTS, 2971), "pairs": (PAIRS, 8098)}  # 40 processes at a time
LARGEST_MB = 500  # of the lab, at half a million rules
LONGEST_PORTS_S = 60

SWITCH = """
title = "a switch to make things on"
[dut]
kind = "ovs"
datapath = "af_packet"
pmd_cpus = [{cpu}]
rules = "actions=drop"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""


@dataclass(frozen=True)
class Switch:
    """A private Open vSwitch that stands."""

    places: OvsPlaces
    control: Unixctl


@contextmanager
def switch() -> Iterator[Switch]:
    """Two ports, no traffic; on the last processor."""
    setup = prepare(
        parse(SWITCH.format(cpu=min(1, cpu.present() - 1)), "benchmark.toml"), Machines(Local()), STATE_DIRECTORY
    )
    builder = Builder(setup.places.bench_id, Local())
    builder.apply((*setup.resources, TapLinks(setup.places.dut_netns)))
    control = Unixctl(Local(), OvsPlaces.of(setup.places).control, 60.0)
    try:
        yield Switch(OvsPlaces.of(setup.places), control)
    finally:
        control.close()
        builder.undo()


@contextmanager
def namespaces() -> Iterator[tuple[str, str]]:
    """Two empty ones."""
    bench = f"bench-{secrets.token_hex(3)}"
    names = (f"pp-{bench}-near", f"pp-{bench}-far")
    builder = Builder(bench, Local())
    builder.apply([Namespace(name) for name in names])
    try:
        yield names
    finally:
        builder.undo()


def _measured(bulk: Bulk, count: int, answers: "multiprocessing.Queue[dict[str, float]]") -> None:
    """In a process of its own, so that its peak memory is that of this work."""
    base_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    made, removed = timed_make(bulk, count), timed_removal(bulk, count)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {"made_s": made.returned_s, "visible_s": made.visible_s, "removed_s": removed.visible_s}
    figures |= {"peak_mb": peak_mb, "base_mb": base_mb} | ({"growth": made.growth} if made.growth is not None else {})
    answers.put(figures)


def measured(bulk: Bulk, count: int) -> dict[str, float]:
    """What making and removing them took."""
    answers: multiprocessing.Queue[dict[str, float]] = multiprocessing.Queue()
    worker = multiprocessing.Process(target=_measured, args=(bulk, count, answers))
    worker.start()
    try:
        return answers.get(timeout=2 * allowed_s(count))
    finally:
        worker.terminate()
        worker.join()


def ours(make: Callable[[int], Bulk], count: int, *, with_removal: bool) -> Sample:
    """All of them, and before that a tenth, to see whether the time per item grows."""
    tenth = max(1, count // 10)
    few, all_of_them = measured(make(tenth), tenth), measured(make(count), count)
    seconds = all_of_them["made_s"] + (all_of_them["removed_s"] if with_removal else 0.0)
    notes = {
        "seconds": all_of_them["made_s"],
        "removal seconds": all_of_them["removed_s"],
        "each at a tenth us": few["made_s"] / tenth * 1e6,
        "each at all us": all_of_them["made_s"] / count * 1e6,
        "lab's peak MB": all_of_them["peak_mb"],
    }
    if "growth" in all_of_them:
        notes["last quarter / first"] = all_of_them["growth"]
    return Sample(count / seconds, notes=notes)


def plain_rules(folder: Path, count: int, bench: Switch) -> Sample:
    """`ovs-ofctl add-flows FILE`, the file there already; one `del-flows` afterwards, not timed."""
    path = folder / f"rules-{count}.txt"
    if not path.exists():
        with path.open("w") as file:
            file.writelines(
                f"{line}\n" for line in Flows(bench.places, bench.control, count, "file", 1, "drop").rules()
            )
    base = ["ovs-ofctl", "-O", "OpenFlow14"]
    began = time.monotonic()
    Local().run(
        [*base, "add-flows", bench.places.management, str(path)],
        environment=bench.places.environment,
        timeout_s=allowed_s(count),
    )
    seconds = time.monotonic() - began
    Local().run([*base, "del-flows", bench.places.management], environment=bench.places.environment, timeout_s=300)
    return Sample(count / seconds, notes={"seconds": seconds})


def plain(bulk: Bulk, count: int, *, with_removal: bool) -> Sample:
    """A method that is one plain command."""
    figures = measured(bulk, count)
    seconds = figures["made_s"] + (figures["removed_s"] if with_removal else 0.0)
    return Sample(count / seconds, notes={"seconds": figures["made_s"], "removal seconds": figures["removed_s"]})


def published(what: str) -> str:
    """Others' seconds, from their machine."""
    count, seconds = PUBLISHED_S[what]
    return f"published: {count:,} in {seconds:,} s, 40 processes at a time, on another machine"


def contests(folder: Path, scale: float) -> list[Contest]:
    """All rows, each at `scale` of its full number."""
    rules, ports, pairs = (max(20, round(count * scale)) for count in (RULES, PORTS, PAIRS))

    def flows(method: str, bench: Switch, count: int) -> Bulk:
        return Flows(bench.places, bench.control, count, method, 1, "drop")

    def internal(method: str, bench: Switch, count: int) -> Bulk:
        return Ports(bench.places, bench.control, count, method, 1)

    def veths(method: str, bench: tuple[str, str], count: int) -> Bulk:
        return Veths(Local(), *bench, count, method, 1)

    memory, seconds = Aim("lab's peak MB", LARGEST_MB, at_most=True), Aim("seconds", LONGEST_PORTS_S, at_most=True)
    bundle = Contender("a bundle", lambda b: ours(partial(flows, "bundle", b), rules, with_removal=False))
    piped = Contender("one process, fed", lambda b: ours(partial(flows, "file", b), rules, with_removal=False))
    add_flows = Contender("ovs-ofctl add-flows FILE", lambda b: plain_rules(folder, rules, b))
    transaction = Contender(
        "one transaction", lambda b: ours(partial(internal, "transaction", b), ports, with_removal=False)
    )
    vsctl = Contender("one ovs-vsctl", lambda b: plain(internal("command", b, ports), ports, with_removal=False))
    socket = Contender("one socket", lambda b: ours(partial(veths, "netlink", b), pairs, with_removal=True))
    batch = Contender("ip -batch", lambda b: plain(veths("file", b, pairs), pairs, with_removal=True))
    return [
        Contest(
            "build rules",
            "items",
            (bundle, piped, add_flows),
            (
                Line(f"{rules:,} rules, an atomic bundle, their text's making included", bundle.name, add_flows.name,
                     (Aim("ratio", 0.91), memory), published("rules")),
                Line(f"{rules:,} rules, one by one, their text's making included", piped.name, add_flows.name,
                     (Aim("ratio", 0.91), memory)),
            ),
            switch,
        ),
        Contest(
            "build ports",
            "items",
            (transaction, vsctl),
            (Line(f"{ports:,} internal ports", transaction.name, vsctl.name,
                  (Aim("ratio", 1.0), seconds), published("ports")),),
            switch,
        ),
        Contest(
            "build veth pairs",
            "items",
            (socket, batch),
            (Line(f"{pairs:,} veth pairs, removal by group included", socket.name, batch.name,
                  (Aim("ratio", 0.83),), published("pairs")),),
            namespaces,
        ),
    ]  # fmt: skip


def options(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """What this table can be asked for."""
    parser = engine_rows.options(description, rounds)
    parser.add_argument("--scale", type=float, default=1.0, metavar="SHARE", help="of the numbers that are built (1)")
    return parser


def chosen(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options as given; --smoke asks for one round of few items."""
    arguments = engine_rows.chosen(parser)
    if arguments.smoke:
        arguments.scale = SMOKE_SCALE
    return arguments


def measure(rounds: int, only: str, scale: float) -> list[Outcome]:
    """All contests whose name contains `only`; nothing else may use the machine's bench meanwhile."""
    cpu.end_on_signals()
    with machine_lock(Local()), tempfile.TemporaryDirectory() as name:
        return engine_rows.hold_all(contests(Path(name), scale), rounds, only)


def main() -> int:
    """Measure and print."""
    arguments = chosen(options(__doc__, ROUNDS))
    outcomes = measure(arguments.rounds, arguments.only, arguments.scale)
    engine_rows.tell(outcomes, arguments.rounds, arguments.json)
    return engine_rows.exit_code(outcomes, arguments.smoke)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PinchpointError as error:
        sys.exit(str(error))
