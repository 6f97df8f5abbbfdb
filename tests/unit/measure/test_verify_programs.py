"""What is said of a service, from what a real client got and what the logs of real servers saw."""

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from pinchpoint.dut.places import Places
from pinchpoint.host.local import Local
from pinchpoint.measure.verify import ends
from pinchpoint.measure.verify.judged import Got, label, path, seen
from pinchpoint.measure.verify.judged import program_checks as checks
from pinchpoint.measure.verify.turns import Dealing
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service

SERVICE = Service(
    address="10.0.0.100",
    port=80,
    scheduler=Scheduler.ROUND_ROBIN,
    mode=Mode.FULL_NAT,
    clients=Range(0x0A000101, 4),
    local=Range(0x0A0100F0, 2),
    client_port="clients",
    server_port="servers",
    backends=tuple(Backend(f"10.1.0.{n}", 8080) for n in (1, 2, 3)),
)
IN_TURN = [Got(f"server {label(number)}\n") for number in range(3)]


def logs(*backends, address="10.1.0.240"):
    """Those of three servers, where request n was seen by the n-th of these."""
    lines = ["ready\n"] * 3
    for number, backend in enumerate(backends, start=1):
        lines[backend] += f"{address} {path(number)}\n"
    return lines


def wrong(got, where, service=SERVICE):
    return {check.name: check.words for check in checks(service, got, where) if not check.is_right}


def test_three_requests_that_three_servers_answer_in_turn_are_right():
    checks_made = list(checks(SERVICE, IN_TURN, logs(0, 1, 2)))
    assert all(check.is_right for check in checks_made)
    assert checks_made[1].words == "server 02 (10.1.0.2:8080) answered and saw 10.1.0.240, a local address"
    assert checks_made[-1].words == "1 / 1 / 1, in turn"


@pytest.mark.parametrize(
    ("got", "where", "name", "words"),
    [
        ([*IN_TURN[:2], Got("", "curl: (28) timed out")], logs(0, 1), "request 3", "timed out; no server saw it"),
        ([*IN_TURN[:2], Got("", "curl: (28) timed out")], logs(0, 1, 2), "request 3", "server 03 (10.1.0.3:8080) saw"),
        ([*IN_TURN[:2], Got("It works!")], logs(0, 1), "request 3", "an answer that no server gives: 'It works!'"),
        (IN_TURN, logs(0, 1, 1), "request 3", "server 03 (10.1.0.3:8080) answered; server 02 (10.1.0.2:8080) saw"),
        ([IN_TURN[0]] * 3, logs(0, 0, 0), "busiest server", "3 / 0 / 0, not in turn"),
    ],
)
def test_what_the_service_does_wrong_is_named(got, where, name, words):
    faults = wrong(got, where)
    assert list(faults) == [name]
    assert words in faults[name]


def test_an_address_outside_the_pool_is_wrong_and_named():
    faults = wrong(IN_TURN, logs(0, 1, 2, address="10.0.1.1"))
    assert list(faults) == ["request 1", "request 2", "request 3"]
    assert "saw 10.0.1.1, which is not a local address" in faults["request 1"]
    assert wrong(IN_TURN, logs(0, 1, 2, address="10.0.1.1"), replace(SERVICE, mode=Mode.DNAT, local=None)) == {}


def test_workers_that_each_deal_in_turn_may_all_begin_with_the_same_server():
    same = [IN_TURN[0]] * 3
    assert [check.is_right for check in checks(SERVICE, same, logs(0, 0, 0), Dealing(turns=3))] == [True] * 4


def test_a_hash_may_choose_the_same_server_again():
    assert wrong([IN_TURN[0]] * 3, logs(0, 0, 0), replace(SERVICE, scheduler=Scheduler.HASH)) == {}


def test_a_request_that_a_server_saw_twice_is_wrong():
    twice = logs(0, 1, 2)
    twice[0] += f"10.1.0.241 {path(1)}\n"
    assert seen(twice, 1) == {0: ("10.1.0.240", "10.1.0.241")}
    assert list(wrong(IN_TURN, twice)) == ["request 1"]


def test_a_server_of_another_host_is_written_there(tmp_path):
    class Far(Local):
        name = "far"

    here, there = (Places("b", PurePosixPath(tmp_path), host) for host in (Local(), Far()))
    assert Path(ends._server(here)[1]).parent == Path(ends.__file__).parent
    python, server = ends._server(there)
    assert (python, server) == ("python3", f"{tmp_path}/http_server.py")
    assert "class Numbered" in Path(server).read_text()
