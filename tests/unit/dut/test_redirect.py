"""Two ports joined by traffic control: what is planned, what tc prints is read as, what the account makes of it."""

import json
from pathlib import PurePosixPath

import pytest
from support import OF_A_KIND, scenario_of

from pinchpoint.account import ledger
from pinchpoint.bench.resource import Command
from pinchpoint.dut import registry
from pinchpoint.dut.device import Pages
from pinchpoint.dut.places import Places
from pinchpoint.dut.redirect import Filters, redirections, traffic_control
from pinchpoint.engine.instrument import EngineResult
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError, InputError
from pinchpoint.scenario import parse

DEVICE = registry.device("redirect")
PLACE = PurePosixPath("/run/pinchpoint/b1")


def shown(to, packets=0, overlimits=0, kind="u32"):
    """As iproute2 6.1 prints a port's filters: a line of the priority, for u32 one of the table, the filter."""
    stats = {"bytes": 60 * packets, "packets": packets, "drops": 0, "overlimits": overlimits, "requeues": 0}
    action = {"order": 1, "kind": "mirred", "mirred_action": "redirect", "direction": "egress", "to_dev": to}
    head = {"protocol": "all", "pref": 49152, "kind": kind, "chain": 0}
    table = [{**head, "options": {"fh": "800:", "ht_divisor": 1}}] if kind == "u32" else []
    options = {"fh": "800::800", "order": 2048, "not_in_hw": True, "actions": [{**action, "stats": stats}]}
    return json.dumps([head, *table, {**head, "options": options}])


class Tc(Local):
    """A host whose ports have these filters."""

    def __init__(self, **printed):
        self.printed = printed

    def run(self, argv, netns=None, *_, **__):
        return self.printed[argv[-2]] if argv[:2] == ["tc", "-n"] else "00000002"


def words(wanted):
    bench = registry.device_of(wanted).bench(wanted, Places("b1", PLACE, Local()))
    planned = bench.resources(Pages(100, 100_000), ["engine"])
    return [
        " ".join(resource.argv[3:])
        for resource in planned
        if isinstance(resource, Command) and resource.argv[0] == "tc"
    ]


@pytest.mark.parametrize(
    ("dut", "classifier"), [("", "u32 match u32 0 0"), ('classifier = "matchall"', "matchall")], ids=["u32", "matchall"]
)
def test_each_port_has_a_qdisc_and_a_filter_that_sends_every_frame_to_the_other(dut, classifier):
    assert words(scenario_of("redirect", dut)) == [
        "qdisc add dev left clsact",
        f"filter add dev left ingress protocol all {classifier} action mirred egress redirect dev right",
        "qdisc add dev right clsact",
        f"filter add dev right ingress protocol all {classifier} action mirred egress redirect dev left",
    ]


def test_a_third_port_is_refused():
    text = OF_A_KIND.format(kind="redirect", dut="", more='[[port]]\nname = "third"\n')
    with pytest.raises(InputError, match=r"expected two \[\[port\]\], found 3"):
        parse(text, "x.toml")


@pytest.mark.parametrize("kind", ["u32", "matchall"])
def test_a_ports_filter_tells_whereto_it_sends_and_how_many_frames_it_took(kind):
    (action,) = redirections(shown("right", packets=7, overlimits=2, kind=kind))
    assert (action.classifier, action.to, action.packets, action.refused) == (kind, "right", 7, 2)


def test_a_port_without_a_filter_has_no_counter():
    seen = Filters(Tc(left=shown("right", packets=7), right="[]"), "ns", ["left", "right"]).snapshot()
    assert seen.counters == {"tc/filter/left/packets": 7, "tc/filter/left/refused": 0}


def live(**printed):
    wanted = scenario_of("redirect")
    return registry.device_of(wanted).bench(wanted, Places("b1", PLACE, Tc(**printed))).open()


def test_the_filters_in_force_are_settings():
    settings = live(left=shown("right"), right=shown("left")).settings()
    assert (settings["filter of left"], settings["filter of right"]) == ("u32 to right", "u32 to left")


@pytest.mark.parametrize(
    ("right", "in_force"),
    [(shown("right"), "u32 to right"), (shown("left", kind="matchall"), "matchall"), ("", "none")],
)
def test_another_filter_than_was_set_is_an_error(right, in_force):
    with pytest.raises(BenchError, match=f"filter of right: u32 to left was set, {in_force}.* is in force"):
        live(left=shown("right"), right=right).settings()


def test_a_full_backlog_behind_the_other_port_is_counted_once():
    """Newer kernels tell the filter of what the other port dropped: `refused` is no further drop."""
    counters = {
        "host/link/engine/left/tx_packets": 7891,
        "host/link/dut/left/rx_packets": 7891,
        "tc/filter/left/packets": 7891,
        "tc/filter/left/refused": 3254,
        "tc/filter/right/packets": 0,
        "tc/filter/right/refused": 0,
        "host/queue/dut/left/filtered": 0,
        "host/link/dut/right/tx_packets": 4637,
        "host/link/dut/right/tx_dropped": 3254,
        "host/link/engine/right/rx_packets": 4637,
    }
    nothing = EngineResult(True, 0.5, (), (), (), None, None)
    graph = DEVICE.graph(scenario_of("redirect"))
    hops = ledger.build(nothing, counters, ("left", "right"), graph).hops[1:-1]
    assert [(hop.name, hop.frames_in, hop.frames_out) for hop in hops] == [
        ("veth", 7891, 7891),
        ("tc redirect", 7891, 7891),
        ("queueing disciplines", None, None),
        ("veth to the engine", 7891, 4637),
    ]
    assert [(drop.frames, drop.limits) for hop in hops for drop in hop.drops] == [(3254, "dut")]
    assert all(graph.is_read(name) for name in counters)


class Without(Local):
    """A machine whose kernel lacks the classifier."""

    def run(self, argv, *_, **__):
        raise CommandFailed(argv, "Error: TC classifier not found.")


def test_a_kernel_without_the_classifier_is_told_by_name():
    probe = traffic_control(Without(), "matchall")
    assert (probe.name, probe.ok) == ("traffic control: matchall", False)
    assert "TC classifier not found" in probe.detail and "CONFIG_NET_CLS_MATCHALL" in probe.hint


def test_a_guests_kernel_is_asked_for_its_modules():
    wanted = scenario_of("redirect", more='[guest]\nkernel = "uml"\n')
    names = [probe.name for probe in DEVICE.needs(wanted, Local())]
    assert names[-3:] == [f"kernel module {name}" for name in ("sch_ingress", "cls_u32", "act_mirred")]
