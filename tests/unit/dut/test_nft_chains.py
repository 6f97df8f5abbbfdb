"""How many rules a forwarded frame meets, as nft(8) lists them."""

from pinchpoint.causes.verdict import likely
from pinchpoint.dut.nft.tracking import ip_counters, walked
from pinchpoint.model.causes import Sign, Signs
from pinchpoint.model.hops import DropKind

RULESET = """\
table ip filter {
	counter drop_some {
		packets 0 bytes 0
	}

	set blocked {
		type ipv4_addr
	}

	chain forward {
		type filter hook forward priority filter; policy accept;
		ip daddr 203.0.0.1 drop
		ip daddr 203.0.1.1 drop
		ip daddr 48.0.0.2/31 counter name "drop_some" drop
	}

	chain input {
		type filter hook input priority filter; policy accept;
		ip daddr 203.0.0.1 drop
	}

	chain aside {
		ip daddr 203.0.0.1 drop
	}
}
table ip nat {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		masquerade
	}
}
"""


def test_only_rules_that_each_forwarded_frame_meets_are_counted():
    assert walked(RULESET) == 3
    assert walked("") == 0


def named(values, lost):
    return [suspicion.cause for suspicion in likely(Signs(values, lost))]


def test_a_long_chain_before_a_full_backlog_is_named_before_the_devices_own_speed():
    backlog = {DropKind.KERNEL_QUEUE: 1.0}
    assert named({Sign.RULES_WALKED: 2000, Sign.NDR_OF_MRR: 0.97}, backlog) == ["linear-rules"]
    assert named({Sign.RULES_WALKED: 3, Sign.NDR_OF_MRR: 0.97}, backlog) == ["own-speed"]
    assert named({Sign.RULES_WALKED: 2000, Sign.NDR_OF_MRR: 0.97, Sign.BUSY: 0.2}, backlog) == []


def test_a_neighbour_that_is_not_known_explains_frames_that_no_counter_names():
    assert named({Sign.NEIGHBOURS: 1, Sign.UNNAMED: 0.6}, {}) == ["neighbour"]
    assert named({Sign.NEIGHBOURS: 1, Sign.UNNAMED: 0.05}, {DropKind.NEIGHBOUR: 0.95}) == ["neighbour"]
    assert named({Sign.NEIGHBOURS: 0, Sign.UNNAMED: 0.6}, {}) == []


def test_the_filter_of_sources_is_read_from_what_nstat_shows():
    lines = ["TcpExt: SyncookiesSent IPReversePathFilter", "TcpExt: 0 100", "Ip: Forwarding InReceives", "Ip: 1 5000"]
    assert ip_counters(lines) == {"IPReversePathFilter": 100, "InReceives": 5000}
    assert named({}, {DropKind.SOURCE: 1.0}) == ["reverse-path"]
