"""The control socket's client, against a scripted daemon."""

import json
import socket
import threading
from contextlib import contextmanager

import pytest

from pinchpoint.dut.ovs.places import Unixctl, UnixctlError
from pinchpoint.host.local import Local
from pinchpoint.model.errors import DutError


@contextmanager
def daemon(path, *replies, pieces=1):
    """Answers one connection with `replies`, each cut into `pieces`; yields the requests it got."""
    requests = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def serve():
        connection, _ = listener.accept()
        with connection:
            for reply in replies:
                requests.append(json.loads(connection.recv(65536)))
                size = -(-len(reply) // pieces) or 1
                for start in range(0, len(reply), size):
                    connection.sendall(reply[start : start + size])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield requests
    finally:
        thread.join(timeout=5)
        listener.close()


def test_a_call_sends_json_rpc_and_returns_the_result(tmp_path):
    with daemon(tmp_path / "s", b'{"id":1,"result":"a {b} c\\n","error":null}') as requests:
        assert Unixctl(Local(), str(tmp_path / "s")).call("dpctl/show", "-s") == "a {b} c\n"
    assert requests == [{"id": 1, "method": "dpctl/show", "params": ["-s"]}]


def test_a_reply_in_many_pieces_is_put_together(tmp_path):
    text = "port: {left}\n" * 500
    reply = json.dumps({"id": 1, "result": text, "error": None}).encode()
    with daemon(tmp_path / "s", reply, pieces=97):
        assert Unixctl(Local(), str(tmp_path / "s")).call("x") == text


def test_a_refusal_is_told_in_the_daemons_words(tmp_path):
    with (
        daemon(tmp_path / "s", b'{"id":1,"result":null,"error":"no such command"}'),
        pytest.raises(UnixctlError, match="no such command"),
    ):
        Unixctl(Local(), str(tmp_path / "s")).call("x")


@pytest.mark.parametrize("reply", [b"", b"[1]", b"]}", b'{"id":1'], ids=["nothing", "no object", "no JSON", "cut off"])
def test_a_daemon_that_dies_or_speaks_nonsense_is_a_dut_error(tmp_path, reply):
    with daemon(tmp_path / "s", reply), pytest.raises(DutError, match="no answer to x"):
        Unixctl(Local(), str(tmp_path / "s")).call("x")


def test_a_daemon_that_hangs_is_told_after_the_timeout(tmp_path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    with pytest.raises(DutError, match="timed out"):
        Unixctl(Local(), str(tmp_path / "s"), timeout_s=0.05).call("x")
    listener.close()


def test_a_refusal_that_begins_with_the_command_is_told_as_it_is(tmp_path):
    with (
        daemon(tmp_path / "s", b'{"id":1,"result":null,"error":"dpctl/x: not supported (Operation not supported)"}'),
        pytest.raises(UnixctlError) as told,
    ):
        Unixctl(Local(), str(tmp_path / "s")).call("dpctl/x")
    assert told.value.message == "dpctl/x: not supported (Operation not supported)"
