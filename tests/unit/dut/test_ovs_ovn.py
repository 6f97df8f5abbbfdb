"""An OVN host: ports and dropping rules carry their names in the logical network."""

from pathlib import PurePosixPath

import pytest

from pinchpoint.dut.ovs import DEVICE, ovn
from pinchpoint.dut.ovs.collectors import DroppingRule, RuleListing
from pinchpoint.dut.ovs.in_service import InService
from pinchpoint.dut.ovs.ovn import LogicalFlows, cookies_of, integration_bridge, logical_port
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import DutError

DUMPED = """\
 cookie=0x1a2b3c4d, priority=50,reg15=0x1 actions=drop
 cookie=0xa2b3c4d, table=44, priority=2001,ip,nw_src=10.0.0.0/8 actions=drop
 cookie=0x77, table=8, priority=50,metadata=0x1 actions=resubmit(,9)
"""
FIRST, SECOND = (
    DroppingRule(0, "priority=50,reg15=0x1", 7, False),
    DroppingRule(44, "priority=2001,ip,nw_src=10.0.0.0/8", 5, False),
)
FLOW = {
    "_uuid": ["uuid", "0a2b3c4d-0000-4000-8000-000000000000"],
    "match": "ip4.src == 10.0.0.0/8",
    "external_ids": ["map", [["stage-name", "ls_out_acl_eval"], ["source", "northd.c:1"]]],
}


class Host:
    """With these files, and an ovs-ofctl that prints the rules."""

    name = ""

    def __init__(self, *files):
        self.files, self.dumps = files, 0

    def exists(self, path):
        return path in self.files

    def run(self, argv, netns=None, environment=()):
        if argv[0] != "ovs-ofctl":
            raise CommandFailed(argv, "no such program")
        self.dumps += 1
        return DUMPED


def flows(host, bridge="br-int", now_s=lambda: 0.0):
    return LogicalFlows(InService("", PurePosixPath("/x"), host), bridge, "OpenFlow15", now_s)


def database(monkeypatch, rows):
    """A southbound database with these flows; None: it does not answer."""

    class Stored:
        def __init__(self, host, path, name):
            assert name == "OVN_Southbound"
            if rows is None:
                raise DutError("restarting")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def transact(self, operations, on_wait):
            return [{"rows": rows}]

    monkeypatch.setattr(ovn, "Ovsdb", Stored)


def test_a_dropping_rule_has_the_cookie_of_its_logical_flow():
    assert dict(cookies_of(DUMPED)) == {
        (0, "priority=50,reg15=0x1"): "1a2b3c4d",
        (44, "priority=2001,ip,nw_src=10.0.0.0/8"): "0a2b3c4d",
    }
    named = flows(Host()).named("br-int", [FIRST, SECOND])
    assert [rule.logical for rule in named] == ["logical flow 1a2b3c4d", "logical flow 0a2b3c4d"]


def test_where_the_southbound_database_is_here_stage_and_match_are_named(monkeypatch):
    database(monkeypatch, [FLOW])
    first, second = flows(Host("/var/run/ovn/ovnsb_db.sock")).named("br-int", [FIRST, SECOND])
    assert first.logical == "logical flow 1a2b3c4d"
    assert second.logical == "logical flow 0a2b3c4d, ls_out_acl_eval: ip4.src == 10.0.0.0/8"
    counted = RuleListing({second.of_bridge("br-int"): second}).counted(RuleListing({}))
    assert counted[f"dropped by/br-int table=44,{second.match} ({second.logical})"] == 5


def test_the_database_is_asked_for_new_flows_alone(monkeypatch):
    database(monkeypatch, [FLOW])
    now = [0.0]
    asked = flows(Host("/var/run/ovn/ovnsb_db.sock"), now_s=lambda: now[0])
    asked.named("br-int", [FIRST, SECOND])
    database(monkeypatch, None)
    now[0] = 61.0
    _, second, _ = asked.named("br-int", [FIRST, SECOND, DroppingRule(9, "priority=1", 0, False)])
    assert second.logical.endswith("ls_out_acl_eval: ip4.src == 10.0.0.0/8")


def test_a_database_that_does_not_answer_leaves_the_cookies(monkeypatch):
    database(monkeypatch, None)
    (rule,) = flows(Host("/var/run/ovn/ovnsb_db.sock")).named("br-int", [FIRST])
    assert rule.logical == "logical flow 1a2b3c4d"


def test_other_bridges_and_hosts_without_ovn_are_not_asked():
    host = Host()
    assert flows(host).named("br-ex", [FIRST]) == [FIRST]
    assert flows(host, bridge="").named("br-int", [FIRST]) == [FIRST]
    assert host.dumps == 0


def test_the_switch_is_asked_again_for_new_rules_alone_and_once_a_minute():
    host, now = Host(), [0.0]
    named = flows(host, now_s=lambda: now[0]).named
    unknown = DroppingRule(9, "priority=1", 0, False)
    for at_s, rules, dumps in ((0, [FIRST], 1), (5, [FIRST], 1), (6, [unknown], 1), (61, [unknown], 2)):
        now[0] = at_s
        named("br-int", rules)
        assert host.dumps == dumps, at_s


def column(**ids):
    return ["map", [list(pair) for pair in ids.items()]]


@pytest.mark.parametrize(
    ("external_ids", "bridge"),
    [
        (column(**{"ovn-remote": "tcp:10.0.0.1:6642"}), "br-int"),
        (column(**{"ovn-remote": "tcp:10.0.0.1:6642", "ovn-bridge": "br-ovn"}), "br-ovn"),
        (column(**{"system-id": "x"}), ""),
        (None, ""),
        (["set", []], ""),
    ],
)
def test_the_integration_bridge_is_that_of_its_controller(external_ids, bridge):
    assert integration_bridge(external_ids) == bridge


def test_ports_are_called_as_in_the_logical_network():
    assert logical_port(["map", [["iface-id", "vm1-port0"], ["attached-mac", "x"]]]) == "vm1-port0"
    assert logical_port(["map", []]) == logical_port(None) == ""
    seen = {"ovs/logical/tap1/a/b": 1.0, "ovs/kind/tap1": 4.0}
    assert DEVICE.logical_names(seen) == {"tap1": "a/b"}
