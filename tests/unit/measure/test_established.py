"""Connections that stand: how they are opened, and what is said where they cannot."""

from dataclasses import replace

import balancers
import pytest

from pinchpoint.engine.connections import Account, Retry, leaving, left, request
from pinchpoint.engine.streams import stream_request
from pinchpoint.measure.served import next_hop_of, require_places
from pinchpoint.model.errors import BenchError, EngineError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Established, Range, Segment, Stream

SERVICE = replace(balancers.SERVICE, backends=balancers.SERVICE.backends[:1])
WANTED = Established(300, 78, 1000.0, 5.0)
STREAM = Stream(
    tx_port="clients",
    rx_port="servers",
    frame_bytes=78,
    share=1.0,
    eth_src="02:00:00:00:00:01",
    eth_dst="02:00:00:00:00:02",
    ipv4_src=SERVICE.clients,
    ipv4_dst=Range(0x0A000064, 1),
    udp_src=Range(1025, 75),
    udp_dst=Range(80, 1),
    order=("ipv4_src", "udp_src", "ipv4_dst", "udp_dst"),
    flows=300,
    segment=Segment(101, 201),
)


def client(**changed):
    return balancers.client(**{"opened": 300, "established": 300, "completed": 300, **changed})


def test_the_frames_continue_the_connections_where_they_were_left():
    asked = request("t-1", ("a", "b"), SERVICE, left(WANTED))
    told = leaving(asked, WANTED, STREAM)
    assert (told.work, told.sequence, told.client_ports) == ("abandon", (100, 200), "1025-1099")
    assert (told.mac, told.server_mac, told.late) == ("02:00:00:00:00:01", "02:00:00:00:00:03", True)
    assert told.retry == Retry(0.5, 100)
    frames = stream_request(0, STREAM, 1e5)
    tcp = frames.template.layers[2].tcp
    assert (tcp.src, tcp.dst, tcp.seq, tcp.ack, tcp.flags) == (1025, 80, 101, 201, ("psh", "ack"))
    assert [field.field for field in frames.fields] == ["ipv4.src", "tcp.src"]


def test_the_frames_go_where_the_connections_went():
    assert next_hop_of(Account(1.0, client(), (), next_hop="02:00:00:00:00:09"), SERVICE, WANTED) == "02:00:00:00:00:09"


def test_a_connection_that_is_not_established_is_an_error_that_says_how():
    account = Account(
        1.0, client(established=297, completed=297, refused=1, timed_out_connecting=2), (), next_hop="02::"
    )
    with pytest.raises(BenchError, match=r"297 of 300 connections .*: 1 refused, 2 timed out connecting"):
        next_hop_of(account, SERVICE, WANTED)


def test_a_service_that_nobody_answers_for_is_an_error():
    with pytest.raises(EngineError, match=r"nobody answered for 10\.0\.0\.100"):
        next_hop_of(Account(1.0, None, ()), SERVICE, WANTED)


def test_more_connections_than_there_are_places_for_are_refused_before_they_are_opened():
    places = Limit(Resource.LOCAL_PORTS, 299, 4.0, "1 address x 299 ports")
    with pytest.raises(BenchError, match=r"300 connections stand at the same time, and local ports are 299: 1 address"):
        require_places([Limit(Resource.SOFTIRQ, None, None, ""), places], WANTED)
    require_places([replace(places, size=300)], WANTED)
