"""Two veth ports joined by traffic control: what one port receives, the kernel sends out of the other.

Each port has the qdisc `clsact`. A filter at its ingress takes every frame, and the filter's action redirects the frame
to the other port. docs/adding-a-device.md explains this file. Sources: tc(8), tc-u32(8), tc-matchall(8), tc-mirred(8).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.bench.requirements import Probe, kernel_module, tried
from pinchpoint.bench.resource import AnyResource, Command
from pinchpoint.dut import checks, softirq
from pinchpoint.dut.device import Keys, Pages, RawScenario, Starter, Types, dut_of, in_force, programs
from pinchpoint.host.interface import Host
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key
from pinchpoint.model.hops import Place
from pinchpoint.model.scenario import Guest, Scenario
from pinchpoint.observe.snapshot import Collector, Snapshot

_EVERY_FRAME: Final = {"u32": ("u32", "match", "u32", "0", "0"), "matchall": ("matchall",)}
"""Classifier -> the words of its filter that takes every frame."""
_DEFAULT: Final = "u32"


@dataclass(frozen=True)
class RedirectDut(softirq.KernelDut):
    """Two ports joined by filters: on which CPUs their softirqs run, and which classifier takes the frames."""

    cpus: tuple[int, ...]
    classifier: str
    kind: str = "redirect"


def directions(scenario: Scenario) -> tuple[tuple[str, str], ...]:
    """(receiving port, sending port), both ways."""
    left, right = (port.name for port in scenario.ports)
    return (left, right), (right, left)


def joining(port: str, other: str, classifier: str) -> tuple[tuple[str, ...], ...]:
    """The words after `tc` that make a port's qdisc and its filter."""
    qdisc = ("qdisc", "add", "dev", port, "clsact")
    action = ("action", "mirred", "egress", "redirect", "dev", other)
    return qdisc, ("filter", "add", "dev", port, "ingress", "protocol", "all", *_EVERY_FRAME[classifier], *action)


@dataclass(frozen=True)
class Redirection:
    """A filter with its action, and the frames that it took since it was made."""

    classifier: str
    to: str  # the port by which it sends
    packets: int
    refused: int  # of them, by the other port: `overlimits` in net/sched/act_mirred.c


def redirections(text: str) -> list[Redirection]:
    """What `tc -s -j filter show` prints of one port."""
    return [
        Redirection(shown["kind"], action["to_dev"], action["stats"]["packets"], action["stats"]["overlimits"])
        for shown in json.loads(text or "[]")
        for action in shown.get("options", {}).get("actions", ())
    ]


class Filters(Collector):
    """Frames that the filters at the ports took."""

    name = "tc filters"

    def __init__(self, host: Host, netns: str, ports: Sequence[str]) -> None:
        self._host, self._netns, self._ports = host, netns, tuple(ports)

    def at(self, port: str) -> list[Redirection]:
        """The filters of one port."""
        argv = ["tc", "-n", self._netns, "-s", "-j", "filter", "show", "dev", port, "ingress"]
        return redirections(self._host.run(argv))

    def read(self, at_s: float) -> Snapshot:
        """`tc/filter/PORT/{packets,refused}`, frames, by the port that received them; without a filter: absent."""
        counters: dict[str, int] = {}
        for port in self._ports:
            for action in self.at(port):
                counters[f"tc/filter/{port}/packets"] = action.packets
                counters[f"tc/filter/{port}/refused"] = action.refused
        return Snapshot(at_s, counters)


class RedirectLive(softirq.KernelLive):
    """Two joined ports that stand."""

    def own(self) -> list[Collector]:
        """The filters'; the qdiscs' counters are read of every kernel device."""
        return [self._filters()]

    def settings(self) -> Mapping[str, str]:
        """Each port's filter. Raises BenchError where another one is in force, or several are."""
        classifier = dut_of(self._scenario, RedirectDut).classifier
        settings = dict(super().settings())
        for port, other in directions(self._scenario):
            shown = ", ".join(f"{action.classifier} to {action.to}" for action in self._filters().at(port))
            settings[f"filter of {port}"] = in_force(f"filter of {port}", f"{classifier} to {other}", shown or "none")
        return settings

    def dumps(self) -> Mapping[str, str]:
        """Qdiscs and filters with their counters."""
        tc, run = ["tc", "-n", self.places.dut_netns, "-s"], self.places.host.run
        filters = (run([*tc, "filter", "show", "dev", port.name, "ingress"]) for port in self._scenario.ports)
        return {"tc-qdiscs.txt": run([*tc, "qdisc", "show"]), "tc-filters.txt": "\n".join(filters)}

    def _filters(self) -> Filters:
        return Filters(self.places.host, self.places.dut_netns, [port.name for port in self._scenario.ports])


class RedirectBench(softirq.KernelBench):
    """One bench of two joined ports, planned."""

    live_type = RedirectLive

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Ports, and on each its qdisc and its filter."""
        tc, classifier = ("tc", "-n", self.places.dut_netns), dut_of(self.scenario, RedirectDut).classifier
        joined = (words for way in directions(self.scenario) for words in joining(*way, classifier))
        return [*softirq.ports(self.scenario, self.places, pages), *(Command((*tc, *words)) for words in joined)]


class RedirectDevice(softirq.KernelDevice):
    """The kind `redirect`: the kernel sends what one port receives out of the other, by filters."""

    bench_type = RedirectBench
    # `refused` is no drop of its own: the other port's tx_dropped has these frames.
    forwards = Place("tc redirect", ("tc/filter/{port}/packets",), softirq.SENT_OR_DROPPED)
    settles = (*softirq.SETTLES, "tc/filter/")

    def check(self, raw: RawScenario) -> None:
        """Its ports, of which there are two, and its CPUs."""
        super().check(raw)
        checks.two_ports(raw)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """Its programs, receive packet steering, traffic control with its classifier."""
        return self.probes(host, scenario.guest, dut_of(scenario, RedirectDut).classifier)

    def probes(self, host: Host, guest: Guest | None = None, classifier: str = _DEFAULT) -> Iterator[Probe]:
        """What the default classifier needs."""
        there = list(programs(host, {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux"}))
        yield from there
        yield softirq.steering(host, guest)
        if guest:
            modules = ("sch_ingress", f"cls_{classifier}", "act_mirred")
            yield from (kernel_module(host, name, "leave out [guest]", guest) for name in modules)
        elif all(probe.ok for probe in there):
            yield traffic_control(host, classifier)


def traffic_control(host: Host, classifier: str) -> Probe:
    """Whether the kernel makes such a filter: tried in a namespace that ends with the command."""
    commands = " && ".join(" ".join(("tc", *words)) for words in joining("lo", "lo", classifier))
    options = f"CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_{classifier.upper()} and CONFIG_NET_ACT_MIRRED"
    return tried(host, f"traffic control: {classifier}", ["unshare", "--net", "sh", "-c", commands], options)


_STARTER = Starter(rank=40, kind="redirect", words="two ports joined by traffic control (tc)",
    title="Two ports joined by tc", why="the kernel forwards every frame by one filter",
    dut='kind = "redirect"\ncpus = {cpus}')  # fmt: skip
_CLASSIFIER = Key("classifier", kinds.word(*_EVERY_FRAME), "What takes every frame that a port receives.", _DEFAULT)
_KEYS = Keys(dut=(softirq.CPUS, _CLASSIFIER), cabled=lambda _: True)
DEVICE = RedirectDevice(_STARTER.kind, _STARTER.words, Types(RedirectDut), _KEYS, starters=(_STARTER,))
