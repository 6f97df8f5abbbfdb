"""What a relay tells becomes counters by direction."""

import os

import msgspec
import pytest

from pinchpoint.bench.resource import Relay
from pinchpoint.host.local import Local
from pinchpoint.model.errors import DutError
from pinchpoint.observe import relay
from pinchpoint.observe.relay import RelayAccount, Relays, parse_account

# As pinchpoint-engine 0.1.0 printed it; shortened by the statistics of its ports.
LINE = (
    '{"type":"relay","core":0,"idle":"yield","elapsed_s":2.5,"busy_share":0.25,"away_share":0.5,'
    '"longest_away_s":0.004,"turns":9,"gaps":{"threshold_s":2e-5,"count":1,"total_s":1e-4,"longest_s":1e-4},'
    '"ports":[{"name":"one@outer","mode":"af_packet","rx_missed":3,"down_s":0.0,"failure":null,"stats":{}},'
    '{"name":"net_virtio_user0","mode":"net_virtio_user","rx_missed":null,"down_s":0.012,"failure":null,"stats":{}}],'
    '"directions":[{"from":"one@outer","to":"net_virtio_user0","received":10,"received_bytes":640,"sent":7,'
    '"dropped":2,"too_long":1,"waiting":0,"held_bursts":4,"largest_burst":8},'
    '{"from":"net_virtio_user0","to":"one@outer","received":5,"received_bytes":320,"sent":5,'
    '"dropped":0,"too_long":0,"waiting":0,"held_bursts":0,"largest_burst":2}]}'
)
RELAY = Relay("r0", ("engine",), (("one", "v-one"), ("v-one", "one")), "/no/pidfile", "a", "l", "b", 0)


def test_counters_are_named_by_direction_and_what_cannot_be_told_is_missing(monkeypatch):
    monkeypatch.setattr(relay, "ask_relay", lambda *_: LINE)
    seen = Relays(Local(), [RELAY]).snapshot()
    assert seen.counters == {
        "host/relay/one/v-one/received": 10,
        "host/relay/one/v-one/sent": 7,
        "host/relay/one/v-one/dropped": 2,
        "host/relay/one/v-one/too_long": 1,
        "host/relay/one/v-one/held_bursts": 4,
        "host/relay/one/v-one/rx_missed": 3,
        "host/relay/one/v-one/down_ns": 0,
        "host/relay/v-one/one/received": 5,
        "host/relay/v-one/one/sent": 5,
        "host/relay/v-one/one/dropped": 0,
        "host/relay/v-one/one/too_long": 0,
        "host/relay/v-one/one/held_bursts": 0,
        "host/relay/v-one/one/down_ns": 12_000_000,
        "host/relay/r0/busy_ns": 625_000_000,
    }
    assert seen.gauges == {
        "host/relay/r0/busy_share": 0.25,
        "host/relay/r0/longest_away_s": 0.004,
        "host/relay/r0/cpu": 0,
    }


def test_its_own_processor_time_is_that_of_its_process(monkeypatch, tmp_path):
    pidfile = tmp_path / "pid"
    pidfile.write_text(str(os.getpid()))
    monkeypatch.setattr(relay, "ask_relay", lambda *_: LINE)
    made = (
        Relays(Local(), [msgspec.structs.replace(RELAY, pidfile=str(pidfile))])
        .snapshot()
        .counters["host/relay/r0/ticks"]
    )
    times = os.times()
    # Both are rounded, each in its own way.
    assert -2 <= (times.user + times.system) * os.sysconf("SC_CLK_TCK") - made < 20


@pytest.mark.parametrize("line", ["", "ready", '{"type":"relay"}', LINE.replace('"sent":7', '"sent":"7"')])
def test_what_is_no_account_is_told(line):
    with pytest.raises(DutError, match="the relay's account cannot be read"):
        parse_account(line, RelayAccount, "relay")
