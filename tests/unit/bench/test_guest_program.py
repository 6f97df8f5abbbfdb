"""A program whose standard streams are files of a guest; here the guest's agent runs on this machine."""

import json
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from pinchpoint.engine.process import EngineProcess
from pinchpoint.host.agent import Agent, serve
from pinchpoint.host.guest import Guest
from pinchpoint.host.guest_line import Line
from pinchpoint.host.guest_program import GuestProgram
from pinchpoint.host.local import Local

GOLDEN = (Path(__file__).parents[3] / "protocol" / "golden" / "engine_to_lab.jsonl").read_text().splitlines()
HELLO = next(line for line in GOLDEN if json.loads(line)["type"] == "hello")
SOON_S = 30.0
ECHO = """
import sys
for line in sys.stdin:
    print(line.strip()[::-1], flush=True)
    if line == "end\\n":
        sys.exit(7)
"""
ENGINE = f"""
import sys
for line in sys.stdin:
    if '"hello"' in line:
        print({HELLO!r}, flush=True)
    if '"bye"' in line:
        print("good bye", file=sys.stderr)
        sys.exit(0)
"""


@pytest.fixture
def guest(monkeypatch, tmp_path):
    """A host whose agent runs in a thread."""
    monkeypatch.setattr(GuestProgram, "FOLDER", str(tmp_path))
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs.fileno(), theirs.fileno(), Agent(Local())))
    thread.start()
    line = Line(ours)
    assert line.await_ready(SOON_S)
    yield Guest(Local(), line)
    line.close()
    thread.join()
    theirs.close()


@pytest.fixture
def echo(guest):
    """Prints each line backwards, and ends with 7 after `end`."""
    program = GuestProgram(guest, [sys.executable, "-c", ECHO], ())
    yield program
    program.kill()
    program.stdout.close()


def test_what_is_written_arrives_and_what_it_prints_comes_back(echo):
    echo.stdin.write(b"abc\n")
    assert echo.stdout.read(100) == b"cba\n"
    long = b"x" * 20_000 + b"\n"
    echo.stdin.write(long)
    received = b""
    while len(received) < len(long):
        received += echo.stdout.read(1 << 20)
    assert received == long


def test_its_end_is_the_end_of_its_output_and_its_exit_code_is_known(echo):
    echo.stdin.write(b"end\n")
    assert echo.stdout.read(100) == b"dne\n"
    assert echo.stdout.read(100) == b""
    assert echo.wait(SOON_S) == 7
    with pytest.raises(BrokenPipeError):
        echo.stdin.write(b"more\n")


def test_one_that_does_not_end_is_told_so_and_can_be_killed(echo):
    with pytest.raises(TimeoutError):
        echo.wait(0.0)
    echo.kill()
    assert echo.wait(SOON_S) == -signal.SIGKILL
    assert echo.stdout.read(100) == b""


def test_what_it_says_on_standard_error_is_kept(guest):
    program = GuestProgram(guest, [sys.executable, "-c", "import sys; print('no such port', file=sys.stderr)"], ())
    assert program.wait(SOON_S) == 0
    assert program.errors() == "no such port\n"
    program.stdout.close()


def test_with_its_guest_it_is_gone(guest, echo):
    guest.close()
    assert echo.stdout.read(100) == b""
    assert echo.wait(SOON_S) == -signal.SIGKILL
    with pytest.raises(BrokenPipeError):
        echo.stdin.write(b"more\n")
    Local().signal([-echo.pid], signal.SIGKILL)  # which ends with a real guest


def test_an_engine_in_a_guest_is_greeted_and_ends_when_it_is_told_and_its_log_comes_home(guest, tmp_path):
    log = tmp_path / "engine.log"
    engine = EngineProcess(guest, command=[sys.executable, "-c", ENGINE], log=log)
    assert engine.greet().engine == json.loads(HELLO)["engine"]
    engine.close()
    assert log.read_text() == "good bye\n"
