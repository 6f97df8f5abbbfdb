"""What flows and ports are asked for, and what is read of the answers."""

import json
import socket
import threading
from pathlib import PurePosixPath

import pytest

from pinchpoint.bench.resource import Namespace
from pinchpoint.bulk.making import veth_resources
from pinchpoint.dut.ovs.bulk import Flows, Ports
from pinchpoint.dut.ovs.places import Ovsdb, OvsPlaces
from pinchpoint.host.local import Local
from pinchpoint.measure.build.run import Build
from pinchpoint.model.errors import DutError

PLACES = OvsPlaces("b1", PurePosixPath("/run/pinchpoint/b1"), Local())


class Answers:
    def __init__(self, text):
        self._text = text

    def call(self, command, *arguments):
        return self._text


def test_each_rule_has_an_address_of_its_own():
    rules = list(Flows(PLACES, Answers(""), 300, "file", 1, "output:2").rules())
    assert rules[0] == "cookie=0x70696e6368,priority=60000,ip,nw_dst=240.0.0.1,actions=output:2"
    assert "nw_dst=240.0.1.44," in rules[299]
    assert len(set(rules)) == 300


def test_only_the_ports_that_were_made_are_counted():
    listed = ("ovs-netdev", "pp1", "pp22", "ppx", "app1")
    shown = "netdev@ovs-netdev:\n" + "".join(f"  port {n}: {name} (tap)\n" for n, name in enumerate(listed))
    assert Ports(PLACES, Answers(shown), 2, "transaction", 1).shown() == 2


def build(what):
    return Build(what, "netlink", 10, 1, 0, 0.0)


def test_a_build_s_leftovers_belong_to_the_bench():
    assert veth_resources(build("veths"), "b1") == (Namespace("pp-b1-near"), Namespace("pp-b1-far"))
    assert veth_resources(build("flows"), "b1") == veth_resources(None, "b1") == ()


@pytest.fixture
def database(tmp_path):
    """Starts a server that answers a transaction in pieces; returns its socket's path and what it was asked."""
    asked = []
    path = str(tmp_path / "db.sock")

    def serve(pieces):
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()

        def answer():
            with server, server.accept()[0] as connection:
                asked.append(json.loads(connection.recv(1 << 16)))
                for piece in pieces:
                    connection.sendall(piece.encode())
                connection.recv(1 << 16)

        threading.Thread(target=answer, daemon=True).start()
        return path, asked

    return serve


def test_a_transaction_s_answer_is_found_behind_an_echo_and_in_pieces(database):
    path, asked = database(['{"id":"e","method":"echo","params":[]}{"id":1,"err', 'or":null,"result":[{"a":"}"},{}]}'])
    with Ovsdb(Local(), f"unix:{path}") as client:
        assert client.transact([{"op": "comment", "comment": "x"}], lambda: None) == [{"a": "}"}, {}]
    assert asked == [{"method": "transact", "params": ["Open_vSwitch", {"op": "comment", "comment": "x"}], "id": 1}]


def test_a_refused_transaction_is_told_in_the_database_s_words(database):
    reply = {"id": 1, "error": None, "result": [{}, {"error": "constraint violation", "details": "name pp1"}]}
    path, _ = database([json.dumps(reply)])
    with Ovsdb(Local(), path) as client, pytest.raises(DutError, match="constraint violation: name pp1"):
        client.transact([], lambda: None)


def test_waiting_for_the_database_can_be_left(database):
    path, _ = database([])

    def leave():
        raise KeyboardInterrupt

    with Ovsdb(Local(), path) as client, pytest.raises(KeyboardInterrupt):
        client.transact([], leave)


def test_no_database_is_told():
    with pytest.raises(DutError, match="/no/such/socket"):
        Ovsdb(Local(), "unix:/no/such/socket")
