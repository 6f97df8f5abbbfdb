"""Which rule dropped, which zone is full, where mirrors send: as OVS 3.1 prints it, and what follows for causes."""

import json

import pytest

from pinchpoint.causes.verdict import likely
from pinchpoint.dut.ovs import DEVICE, text
from pinchpoint.dut.ovs.collectors import Database, DroppingRules, PmdThreads, RuleListing, dropping_rules, first_table
from pinchpoint.dut.ovs.in_service import RulesInService
from pinchpoint.dut.ovs.places import UnixctlError
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.causes import Sign, Signs
from pinchpoint.model.hops import DropKind
from pinchpoint.observe.snapshot import difference

signs = DEVICE.signs

FLOWS = """\
duration=4s, n_packets=4000, n_bytes=424, ip,in_port=1,actions=ct(commit,table=1,zone=1)
duration=5s, n_packets=700, n_bytes=0, priority=2,udp,in_port=1,nw_dst=48.0.0.2/31,tp_dst=12,actions=drop
table_id=1, duration=4s, n_packets=0, n_bytes=0, priority=5,ct_state=+inv+trk,actions=drop
table_id=1, duration=3s, n_packets=4, n_bytes=424, priority=4,ct_mark=0x1,ip,actions=output:2
table_id=1, duration=3s, n_packets=2600, n_bytes=424, priority=0,actions=drop
table_id=254, duration=5s, n_packets=9, n_bytes=0, priority=2,recirc_id=0,actions=drop
"""
PIPELINE = "ovs/coverage/drop_action_of_pipeline"


class Control:
    """A switch that answers with these flows."""

    def __init__(self, error=None):
        self.error = error

    def call(self, command, *arguments):
        if self.error:
            raise self.error
        assert (command, arguments) == ("bridge/dump-flows", ("br0",))
        return FLOWS


def test_rules_that_drop_are_told_from_others_and_from_the_switchs_own():
    rules = [(rule.table, rule.match, rule.packets, rule.follows_tracking) for rule in dropping_rules(FLOWS)]
    assert rules == [
        (0, "priority=2,udp,in_port=1,nw_dst=48.0.0.2/31,tp_dst=12", 700, False),
        (1, "priority=5,ct_state=+inv+trk", 0, True),
        (1, "priority=0", 2600, True),
    ]


def test_each_rule_that_dropped_is_counted_by_its_name():
    counters = DroppingRules(Control(), ["br0"], 5).snapshot().counters
    assert counters == {
        "ovs/rules/dropped": 3300,
        "ovs/rules/dropped_by_tracking": 2600,
        "ovs/rules/first": 4700,
        "ovs/rules/normal": 0,
        "dropped by/br0 table=0,priority=2,udp,in_port=1,nw_dst=48.0.0.2/31,tp_dst=12": 700,
        "dropped by/br0 table=1,priority=0": 2600,
    }


def test_frames_that_take_normal_in_table_0_are_counted_and_in_no_other_table():
    further = FLOWS.replace("actions=output:2", "actions=NORMAL")
    first = "duration=4s, n_packets=300, n_bytes=424, priority=0,actions=NORMAL\n"
    tagged = "duration=4s, n_packets=5, n_bytes=424, in_port=3,actions=strip_vlan,NORMAL\n"
    assert (first_table(further), first_table(first + tagged + further)) == ((4700, 0), (5005, 305))


def test_rules_are_not_read_where_they_are_too_many_or_the_release_has_no_command():
    assert "20,000 rules, more than 10,000" in DroppingRules(Control(), ["br0"], 20_000).can_run()
    assert DroppingRules(Control(UnixctlError("no such command")), ["br0"], 5).can_run() == "no such command"
    assert DroppingRules(Control(), ["br0"], 5).can_run() is None


class InService:
    """A host, its switch and the bridges that are known, of which one is gone; `rules`: how many the other says."""

    bridges = ("br0", "gone")

    def __init__(self, rules):
        self.rules, self.asked = rules, []

    def management_of(self, bridge):
        return bridge

    def ask(self, *argv):
        if argv[-1] == "gone":
            raise CommandFailed(list(argv), "no such bridge")
        return f"OFPST_AGGREGATE reply (OF1.5) (xid=0x2): packet_count=7 byte_count=9 flow_count={self.rules}\n"

    def call(self, command, *arguments):
        self.asked.append((command, *arguments))
        return FLOWS


def test_rules_of_a_switch_in_service_are_read_where_they_are_few():
    few, many = InService(6), InService(10_001)
    seen = RulesInService(few, few, few).snapshot()
    assert few.asked == [("bridge/dump-flows", "br0")]
    assert {name: rule.packets for name, rule in seen.listing.rules.items() if rule.packets} == {
        "dropped by/br0 table=0,priority=2,udp,in_port=1,nw_dst=48.0.0.2/31,tp_dst=12": 700,
        "dropped by/br0 table=1,priority=0": 2600,
    }
    assert RulesInService(few, few, few).can_run() is None
    assert "10,001 rules, more than 10,000" in RulesInService(many, many, many).can_run()
    assert (RulesInService(many, many, many).snapshot().listing, many.asked) == (None, [])


def test_a_rule_that_goes_or_is_made_anew_takes_no_other_rules_count_along():
    before, after = (
        RuleListing({rule.of_bridge("br0"): rule for rule in dropping_rules(text)})
        for text in (FLOWS, FLOWS.replace("n_packets=700", "n_packets=5").replace("n_packets=2600", "n_packets=2650"))
    )
    assert after.counted(before) == {
        "ovs/rules/dropped": 55,
        "ovs/rules/dropped_by_tracking": 50,
        "dropped by/br0 table=0,priority=2,udp,in_port=1,nw_dst=48.0.0.2/31,tp_dst=12": 5,
        "dropped by/br0 table=1,priority=0": 50,
    }
    assert RuleListing({}).counted(before) == {"ovs/rules/dropped": 0, "ovs/rules/dropped_by_tracking": 0}


def test_iterations_that_slip_back_are_no_restart_since_the_switch_derives_them():
    """The switch computes busy iterations from counters that run meanwhile."""
    heading = "pmd thread numa_id 0 core_id 2:\n"
    answers = {"dpif-netdev/pmd-stats-show": f"{heading}  packets received: 5000\n"}

    class Answering:
        def call(self, command, *arguments):
            return answers[command]

    snapshots = []
    for busy in (900, 899):
        answers["dpif-netdev/pmd-perf-show"] = f"{heading}  - busy iterations: {busy}  ( 60.0 % of used cycles)\n"
        snapshots.append(PmdThreads(Answering()).snapshot())
    seen = difference(*snapshots)
    assert seen.differences["ovs/perf/core2/busy_iterations"] == 0
    assert seen.went_back == ()


def test_a_zone_with_a_limit_is_a_limit_of_tracked_connections():
    said = "default limit=0\nzone=1,limit=1000,count=998\nzone=2,limit=0,count=5\n"
    assert text.zone_limits(said) == {1: (998, 1000)}
    seen = {"ovs/conntrack/connections": 998.0, "ovs/conntrack/limit": 3e6}
    seen |= {"ovs/conntrack/zone 1/connections": 998.0, "ovs/conntrack/zone 1/limit": 1000.0}
    wanted = (Sign.TRACKED_OF_LIMIT, Sign.TRACKED, Sign.TRACKING_LIMIT)
    assert [signs(seen)[sign] for sign in wanted] == [0.998, 998.0, 1000.0]


def causes_of(seen):
    return [suspicion.cause for suspicion in likely(Signs(signs(seen), {DropKind.RULE: 1.0}, "br0 table=1,priority=0"))]


def test_a_drop_of_the_pipeline_is_a_rules_only_where_the_rule_can_be_named():
    dropped = {PIPELINE: 1000.0, "ovs/port/left/rx_pkts": 4000.0}
    assert causes_of({**dropped, "ovs/rules/dropped": 980.0, "ovs/rules/dropped_by_tracking": 0.0}) == ["rule-drop"]
    assert causes_of({**dropped, "ovs/rules/dropped": 0.0}) == ["no-rule"]
    assert causes_of({**dropped, "ovs/rules/dropped": 0.0, "ovs/mirror/to/left": 1.0}) == ["mirror-port"]
    assert causes_of({**dropped, "ovs/rules/dropped": 0.0, "ovs/mirror/to/right": 1.0}) == ["no-rule"]


def test_a_rule_that_drops_what_found_no_place_in_its_zone_follows_from_the_zones_limit():
    seen = {PIPELINE: 1000.0, "ovs/rules/dropped": 1000.0, "ovs/rules/dropped_by_tracking": 1000.0}
    assert causes_of(seen) == ["tracked-drop"]
    full = {"ovs/conntrack/zone 1/connections": 1000.0, "ovs/conntrack/zone 1/limit": 1000.0}
    assert causes_of({**seen, **full}) == ["tracking-limit", "tracked-drop"]
    _, by_rule = likely(Signs(signs({**seen, **full}), {DropKind.RULE: 1.0}))
    assert "tracked connections where they are nearest to a limit: 1,000" in by_rule.evidence
    assert "limit of the connections there: 1,000" in by_rule.evidence


def test_the_rule_that_dropped_most_is_evidence():
    seen = {PIPELINE: 10.0, "ovs/rules/dropped": 10.0, "ovs/rules/dropped_by_tracking": 0.0}
    (suspicion,) = likely(Signs(signs(seen), {DropKind.RULE: 1.0}, "br0 table=0,udp,tp_dst=12"))
    assert suspicion.evidence[-1] == "most of them by the rule br0 table=0,udp,tp_dst=12"


@pytest.mark.parametrize(("one_in", "advised"), [(0.0, False), (100.0, True)])
def test_what_is_in_force_is_not_advised(one_in, advised):
    values = {Sign.BUSY: 0.97, Sign.WILDCARD_SHARE: 0.9, Sign.SUBTABLES: 1.0}
    in_force = {"ovs/config/emc-insert-inv-prob": one_in, "ovs/config/smc-enable": 0.0}
    (suspicion,) = likely(Signs(values), DEVICE, in_force)
    assert suspicion.cause == "many-flows"
    assert ("emc_insert_inv_prob = 0" in suspicion.mend) is advised
    assert "dut.smc = true" in suspicion.mend
    told = likely(Signs(values), DEVICE, in_force, in_service=True)[0].mend
    assert ("emc-insert-inv-prob=0" in told) is advised
    assert "smc-enable=true" in told


def test_queues_that_the_switch_balances_itself_are_not_to_be_balanced_by_it():
    assert DEVICE.advice("imbalance", {"ovs/config/pmd-auto-lb": 1.0}) == ("set port.rxq_affinity",)
    for seen in ({}, {"ovs/config/pmd-auto-lb": 0.0}):
        assert DEVICE.advice("imbalance", seen)[-1] == "let pmd-auto-lb deal the queues out"


class Answers:
    """A database that answers each transaction with what it has."""

    def __init__(self, mirrors):
        self.mirrors, self.buffer = mirrors, b""

    def connect(self, path, *, packets=False):
        assert (path, packets) == ("/run/db.sock", False)
        return self

    def settimeout(self, seconds):
        """A connection's."""

    def close(self):
        """A connection's."""

    def sendall(self, data):
        request = json.loads(data)
        tables = {
            "Mirror": [{"output_port": ["uuid", port] if port else ["set", []]} for port in self.mirrors],
            "Open_vSwitch": [{"other_config": ["map", [["emc-insert-inv-prob", "0"], ["smc-enable", "true"]]]}],
            "Port": [{"_uuid": ["uuid", "p1"], "name": "left"}, {"_uuid": ["uuid", "p2"], "name": "right"}],
        }
        rows = [{"rows": tables[param["table"]]} for param in request["params"][1:]]
        self.buffer = json.dumps({"id": request["id"], "result": rows, "error": None}).encode()

    def recv(self, most):
        answer, self.buffer = self.buffer, b""
        return answer


@pytest.mark.parametrize(("mirrors", "named"), [((), {}), ((None,), {}), (("p1",), {"ovs/mirror/to/left": 1.0})])
def test_the_database_tells_where_mirrors_send_and_how_caches_are_set(mirrors, named):
    database = Database(Answers(mirrors), "unix:/run/db.sock")
    assert database.can_run() is None
    set_here = {"ovs/config/emc-insert-inv-prob": 0.0, "ovs/config/smc-enable": 1.0}
    assert database.snapshot().gauges == {**set_here, **named}
