"""A workload whose two ends are two engines': against engines of a few lines, and against the real one on loopback."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pinchpoint.engine.process import find_engine
from pinchpoint.engine.sockets import Place, SocketsRequest, SocketsResult, SocketsServed
from pinchpoint.engine.workloads import Apart, Pairs, Workloads, joined
from pinchpoint.host.local import Local
from pinchpoint.model.errors import PinchpointError, RequirementError, UnreachableError

GOLDEN = Path(__file__).parents[3] / "protocol" / "golden"
SOCKETS = {
    (message["type"], message["trial"]): message
    for message in map(json.loads, (GOLDEN / "sockets.jsonl").read_text().splitlines())
}
HELLO = (GOLDEN / "engine_to_lab.jsonl").read_text().splitlines()[0]
LISTENING, SERVED, RESULT = (
    SOCKETS[kind, "apart-0001"] for kind in ("sockets_listening", "sockets_served", "sockets_result")
)
BOTH = {"client": {"netns": "lab-a", "core": 0}, "server": {"netns": "lab-b", "core": 1}, "target": None}
REQUEST = msgspec.convert(SOCKETS["sockets", "apart-0001"] | BOTH | {"listen": "10.0.0.2"}, SocketsRequest)
ADDRESS = LISTENING["address"]

# Answers a request with `first`, `stop` with `last` if that is something; writes down what it hears.
ENGINE = """
import sys
heard, hello, first, last = open(sys.argv[1], "a"), *sys.argv[2:]
for line in sys.stdin:
    heard.write(line)
    heard.flush()
    for word, answer in (("hello", hello), ("sockets", first), ("stop", last)):
        if answer and f'"type":"{word}"' in line:
            print(answer, flush=True)
"""


@pytest.fixture
def ends(tmp_path):
    """Makes the two ends of fake engines; with what either heard."""
    made = []

    def make(client=RESULT, server=LISTENING, served=SERVED):
        def command(name, first, last):
            words = [json.dumps(line) if line else "" for line in (first, last)]
            return [sys.executable, "-c", ENGINE, str(tmp_path / name), HELLO, *words]

        client_side = Workloads(Local(), command=command("client", client, None))
        other = Workloads(Local(), command=command("server", server, served))
        made.append(Apart(client_side, other, "gen", "sink"))
        return made[-1]

    def heard(name):
        return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]

    yield make, heard
    for apart in made:
        apart.close()


def error(code, message, hint="mend it"):
    return {"type": "error", "code": code, "message": message, "hint": hint}


def test_the_server_listens_first_and_is_stopped_once_the_client_has_ended(ends):
    make, heard = ends
    pair = make()
    assert list(pair.open()) == ["engine on gen", "engine on sink"]
    pair.begin(REQUEST)
    result = pair.run(REQUEST)
    (_, asked, stopped), (_, wanted) = heard("server"), heard("client")
    assert (asked["client"], asked["server"], asked["target"]) == (None, {"netns": "lab-b", "core": 1}, None)
    assert stopped == {"type": "stop"}
    assert (wanted["client"], wanted["server"], wanted["target"]) == ({"netns": "lab-a", "core": 0}, None, ADDRESS)
    assert (result.status, result.target) == ("completed", ADDRESS)


def test_of_streams_the_server_tells_what_arrived_and_the_client_what_was_sent_again(ends):
    make, _ = ends
    pair = make()
    pair.open()
    pair.begin(REQUEST)
    result = pair.run(REQUEST)
    (run,), window = result.runs, SERVED["window"]
    assert (run.received_bytes, run.goodput_bps) == (window["received_bytes"], window["goodput_bps"])
    assert list(run.per_second) == window["per_second"]
    assert [connection.received_bytes for connection in run.connections] == [None, None], "whose is which is not known"
    assert [connection.retransmits for connection in run.connections] == [
        connection["retransmits"] for connection in RESULT["runs"][0]["connections"]
    ]
    assert result.server is not None
    assert run.server is not None
    assert run.cache_line_ns == (None, None), "no process has both cores"


def test_of_requests_only_the_servers_thread_is_the_servers_to_tell():
    known = SOCKETS["sockets_result", "rr-0001"]
    alone = known | {"server": None, "runs": [known["runs"][0] | {"server": None}]}
    window = SERVED["window"] | {"received_bytes": None, "goodput_bps": None, "per_second": [], "connections": []}
    client = msgspec.convert(alone, SocketsResult)
    joint = joined(client, msgspec.convert(SERVED | {"window": window}, SocketsServed), "the server on sink")
    (run,) = joint.runs
    assert (run.transactions, run.received_bytes, run.per_second) == (
        client.runs[0].transactions,
        client.runs[0].received_bytes,
        client.runs[0].per_second,
    )
    assert run.server == msgspec.convert(SERVED, SocketsServed).window.thread


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "aborted", "reason": "the server failed: x"}, "the server on sink: the server failed: x"),
        ({"window": None}, "the server on sink had not begun its window when the client's ended"),
        (
            {"window": SERVED["window"] | {"duration_s": 0.5}},
            "the server on sink counted for 0.50 s of the client's 2.00 s",
        ),
    ],
)
def test_a_window_that_was_not_served_is_aborted_with_the_servers_machine(changes, reason):
    joint = joined(
        msgspec.convert(RESULT, SocketsResult), msgspec.convert(SERVED | changes, SocketsServed), "the server on sink"
    )
    assert (joint.status, joint.reason) == ("aborted", reason)


def test_a_client_that_does_not_reach_the_server_is_named_and_the_server_is_stopped(ends):
    make, heard = ends
    pair = make(client=error("link_down", f"cannot connect to {ADDRESS}: timeout"))
    pair.open()
    pair.begin(REQUEST)
    with pytest.raises(UnreachableError, match=f"cannot connect to {ADDRESS}") as caught:
        pair.run(REQUEST)
    assert caught.value.__notes__ == ["the client on gen"]
    assert heard("server")[-1] == {"type": "stop"}


def test_a_server_that_cannot_listen_is_named(ends):
    make, _ = ends
    pair = make(server=error("port_open", "cannot listen on 10.0.0.2:0: no such address"))
    pair.open()
    with pytest.raises(RequirementError, match=r"cannot listen on 10\.0\.0\.2:0") as caught:
        pair.begin(REQUEST)
    assert caught.value.__notes__ == ["the server on sink"]


def test_an_answer_to_another_trial_is_refused(ends):
    make, _ = ends
    pair = make(server=LISTENING | {"trial": "other"})
    pair.open()
    with pytest.raises(PinchpointError, match="trial other instead of apart-0001"):
        pair.begin(REQUEST)


def of_real_engines():
    """One pair of real engines, both on this machine."""
    command = [find_engine(Local())]
    return Apart(Workloads(Local(), command=command), Workloads(Local(), command=command), "here", "there")


@pytest.mark.parametrize("kind", ["rr", "crr", "stream"])
def test_real_engines_have_an_end_each_window_after_window(kind):
    place = Place(None, min(os.sched_getaffinity(0)))
    wanted = msgspec.structs.replace(
        REQUEST,
        kind=kind,
        client=place,
        server=place,
        listen="127.0.0.1",
        connections=1,
        request_bytes=64,
        response_bytes=0 if kind == "stream" else 64,
        warm_up_s=0.05,
        duration_s=1.0 if kind == "stream" else 0.2,  # the ends begin some milliseconds apart
        timeout_s=30.0,
    )
    with closing(Pairs(1, make=of_real_engines)) as pairs:
        pairs.open()
        for number in range(2):
            (result,) = pairs.run([msgspec.structs.replace(wanted, trial=f"t-{number}")])
            assert (result.status, result.reason) == ("completed", None)
            (run,) = result.runs
            assert run.received_bytes is not None
            assert run.received_bytes > 0
            assert run.server is not None
