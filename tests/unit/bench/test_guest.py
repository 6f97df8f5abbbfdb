"""The line to a guest, its agent, its host: as real ones, without a kernel between them."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pinchpoint.bench import actions
from pinchpoint.bench.builder import Builder
from pinchpoint.bench.journal import Journal
from pinchpoint.bench.resource import Inside, RunDirectory
from pinchpoint.host import guest_line
from pinchpoint.host.agent import Agent, serve
from pinchpoint.host.guest import LINE, Guest
from pinchpoint.host.guest_line import PIECE, READY, Line, LineError, value_of
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError, DutError, RequirementError

LAB = Path(__file__).parents[3] / "lab"
SOON_S = 5.0


@contextmanager
def agent():
    """A host whose agent runs in a thread, on this machine."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs.fileno(), theirs.fileno(), Agent(Local())))
    thread.start()
    line = Line(ours)
    assert line.await_ready(SOON_S)
    try:
        yield Guest(Local(), line)
    finally:
        line.close()
        thread.join()
        theirs.close()


@contextmanager
def answering(*answers):
    """A host whose other end has already said this, and closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b"".join(answers))
        theirs.shutdown(socket.SHUT_WR)
        yield Guest(Local(), Line(ours))
    ours.close()


def test_what_is_asked_of_a_guest_is_answered_as_on_this_machine(tmp_path):
    place = str(tmp_path / "file")
    with agent() as guest:
        guest.write(place, "first\nsecond")
        assert guest.read(place) == "first\nsecond"
        assert guest.read_bytes(place, 6) == b"second"
        assert guest.size(place) == 12
        assert guest.names(str(tmp_path)) == ["file"]
        assert (guest.exists(place), guest.exists(place + "2")) == (True, False)
        assert guest.run(["echo", "a b"]) == "a b\n"
        assert guest.which("sh") == Local().which("sh")
        assert guest.cpus() == Local().cpus()
        assert guest.release() == Local().release()
        guest.make_folder(str(tmp_path / "folder"))
        guest.remove_folder(str(tmp_path / "folder"))
        assert guest.names(str(tmp_path)) == ["file"]


def test_a_process_of_a_guest_is_started_signalled_and_seen_to_end(tmp_path):
    with agent() as guest:
        pid = guest.spawn(["sleep", "60"], (), str(tmp_path / "out"), str(tmp_path / "err"))
        assert not guest.ended(pid)
        assert guest.signal([pid], 9) == []
        while not guest.ended(pid):
            pass
        assert guest.signal([pid], 9) == [pid]


def test_what_fails_in_a_guest_fails_here_as_it_would_on_this_machine(tmp_path):
    with agent() as guest:
        with pytest.raises(FileNotFoundError) as missing:
            guest.read("/nowhere")
        assert missing.value.filename == "/nowhere"
        with pytest.raises(FileExistsError):
            guest.make_folder(str(tmp_path))
        with pytest.raises(CommandFailed, match="no such thing"):
            guest.run(["sh", "-c", "echo no such thing >&2; exit 1"])
        with pytest.raises(RequirementError, match="nosuchprogram: not installed"):
            guest.run(["nosuchprogram"])
        with pytest.raises(CommandFailed, match=r"did not end within 0.1 s"):
            guest.run(["sleep", "9"], timeout_s=0.1)
        assert guest.run(["true"]) == "", "the line is as usable as before"


@pytest.mark.parametrize("size", [0, PIECE - 100, *range(PIECE - 60, PIECE + 3), 2 * PIECE, 50 * PIECE + 1])
def test_a_request_of_any_length_arrives_whole(size, tmp_path):
    place = str(tmp_path / "file")
    with agent() as guest:
        guest.write(place, "x" * size)
        assert guest.size(place) == size


def test_a_unix_socket_is_reached_through_the_line(tmp_path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server, agent() as guest:
        server.bind(path)
        server.listen()
        with closing(guest.connect(path)) as connection:
            accepted, _ = server.accept()
            connection.sendall(b"\x00asked\n")
            assert accepted.recv(100) == b"\x00asked\n"
            connection.settimeout(0.05)
            with pytest.raises(TimeoutError):
                connection.recv(100)
            accepted.sendall(b"\xffanswered")
            assert connection.recv(4) == b"\xffans"
            accepted.close()
            assert connection.recv(100) == b"wered"
            assert connection.recv(100) == b""
        with pytest.raises(FileNotFoundError):
            guest.connect(path + "2")


HOSTILE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"id": 8, "value": 1}',
    b'{"id": null, "error": {"kind": "other", "text": "no request"}}',
    b'{"id": 7}',
    b'{"id": 7, "value": 1, "error": {}}',
    b'{"id": 7, "error": null}',
    b'{"id": 7, "error": {"kind": "command", "argv": [], "output": ""}}',
    b'{"id": 7, "error": {"kind": "os", "number": "2", "text": "", "path": ""}}',
    b'{"id": 7, "error": {"kind": "unheard of"}}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("line", HOSTILE)
def test_what_is_no_answer_is_refused(line):
    with pytest.raises(LineError):
        value_of(line, 7)


@pytest.mark.parametrize("line", [*HOSTILE[:6], b'{"id": 1, "val', b"+\n+\n"])
def test_what_is_no_answer_is_the_devices_failure(line):
    with answering(line + b"\n") as guest, pytest.raises(DutError, match="the guest does not answer"):
        guest.exists("/")


@pytest.mark.parametrize("value", ["a", 1, ["a", 2], None])
def test_an_answer_of_another_type_is_refused(value):
    line = json.dumps({"id": 1, "value": value}).encode() + b"\n"
    with answering(line) as guest, pytest.raises(DutError):
        guest.names("/")
    with answering(line) as guest, pytest.raises(DutError):
        guest.signal([1], 0)
    with answering(line) as guest, pytest.raises(DutError):
        guest.read_bytes("/x")


@pytest.mark.parametrize("value", [None, {}, [[]], -0.5e400])
@pytest.mark.parametrize(
    "ask",
    [
        lambda host: host.run(["true"]),
        lambda host: host.read("/x"),
        lambda host: host.size("/x"),
        lambda host: host.exists("/x"),
        lambda host: host.spawn(["true"], (), "/x", "/x"),
        lambda host: host.ended(1),
        lambda host: host.connect("/x"),
        lambda host: host.release(),
        lambda host: host.start_file("/x", "/y"),
        lambda host: host.hold("/x", "me", ""),
        lambda host: host.modified_s("/x"),
    ],
)
def test_no_answer_of_another_type_is_taken_for_one(ask, value):
    line = json.dumps({"id": 1, "value": value}).encode() + b"\n"
    with answering(line) as guest, pytest.raises(DutError, match="the guest does not answer: expected"):
        ask(guest)


def test_a_line_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(guest_line, "LONGEST", 1000)
    with answering(b"x" * 5000) as guest, pytest.raises(DutError, match="a line of more than 1,000 bytes"):
        guest.exists("/")


def test_a_truncated_answer_is_refused():
    with answering(b'{"id": 1, "value": tr') as guest, pytest.raises(DutError, match="the other end has closed"):
        guest.exists("/")


def test_a_line_that_gave_no_answer_in_time_is_not_used_again():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = Line(ours)
        with pytest.raises(LineError, match="no answer in time"):
            line.ask("exists", {"path": "/"}, 0.05)
        theirs.sendall(b'{"id": 1, "value": true}\n')
        with pytest.raises(LineError, match="an earlier request was interrupted"):
            line.ask("exists", {"path": "/"}, SOON_S)


@pytest.mark.parametrize(
    "asked",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"id": 1}',
        b'{"id": 1, "call": "system", "with": {}}',
        b'{"id": 1, "call": "_connect", "with": {}}',
        b'{"id": 1, "call": ["read"], "with": {}}',
        b'{"id": 1, "call": "read", "with": {"path": 5, "mode": 7}}',
        b'{"id": 1, "call": "send", "with": {"held": 4, "data": ""}}',
        b'{"id": 1, "call": "read", "with": 3}',
    ],
)
def test_an_agent_answers_a_wrong_request_with_an_error(asked):
    answer = json.loads(Agent(Local()).answer(asked))
    assert "error" in answer
    assert "value" not in answer


def test_an_agent_needs_nothing_but_the_standard_library():
    words = f"import sys; sys.path.insert(0, {str(LAB)!r}); import pinchpoint.host.agent"
    subprocess.run([sys.executable, "-I", "-S", "-c", words], check=True)


def test_before_it_is_started_a_guest_answers_nothing():
    with pytest.raises(DutError, match="the guest does not run"):
        Guest(Local()).exists("/")


def booted(script, tmp_path, timeout_s, has_ended=None):
    """A guest whose kernel is a shell."""
    guest, log = Guest(Local()), str(tmp_path / "log")
    pid = guest.start(["bash", "-c", script, LINE], (), log)
    try:
        guest.await_ready(has_ended or (lambda: Local().ended(pid)), timeout_s)
    finally:
        Local().signal([pid], 9)
        guest.close()
        Local().ended(pid)
    return guest


def test_a_guest_that_does_not_boot_in_time_is_told_with_what_it_printed(tmp_path):
    with pytest.raises(BenchError, match=r"did not boot within 0.3 s\n  \| panic: no \[1minit$"):
        booted("printf 'panic: no \\033[1minit\\r\\n\\n'; exec sleep 60", tmp_path, 0.3)


def test_a_guest_that_ends_while_it_boots_is_told_with_what_it_printed(tmp_path):
    with pytest.raises(RequirementError, match=r"^the guest ended while it booted\n  \| out of memory"):
        booted("echo out of memory; exit 1", tmp_path, SOON_S)


PANICS = (
    "echo 'userspace - ptrace set fp regs failed, errno = 14'\n"
    "echo '[    0.8] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b'\n"
    "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo ' [<606944ba>] ? _printk+0x0/0x94'; done\n"
)
QUOTED = (
    "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b\n"
    "  | userspace - ptrace set fp regs failed, errno = 14\n"
    "  | [    0.8] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b"
)


@pytest.mark.parametrize("after", ["exit 1", "while :; do :; done"])
def test_a_kernel_that_panics_is_awaited_no_longer_and_its_panic_is_quoted(after, tmp_path):
    """User-mode Linux that is the first process of its namespace spins: nothing but SIGKILL ends that."""
    begin = time.monotonic()
    with pytest.raises(RequirementError, match="does not boot") as error:
        booted(PANICS + after, tmp_path, timeout_s=600.0)
    assert time.monotonic() - begin < 60.0, "long before its time is over"
    assert error.value.message == f"the guest's kernel does not boot here: {QUOTED}"
    assert "pinchpoint doctor" in error.value.hint


def test_a_kernel_that_panics_later_is_not_waited_for_either(tmp_path):
    guest, script = Guest(Local()), f'echo ready >&"$0"\nread request <&"$0"\n{PANICS}exec sleep 600'
    pid = guest.start(["bash", "-c", script, LINE], (), str(tmp_path / "log"))
    try:
        guest.await_ready(lambda: False, SOON_S)
        with pytest.raises(DutError) as error:
            guest.exists("/")
        assert error.value.message == f"the guest does not answer: {QUOTED}"
    finally:
        Local().signal([pid], 9)
        guest.close()
        os.waitpid(pid, 0)


def test_a_guest_that_says_something_else_first_is_refused(tmp_path):
    with pytest.raises(BenchError, match="expected b'ready', found b'login:'"):
        booted('echo login: >&"$0"; exec sleep 60', tmp_path, SOON_S)


def test_a_guest_is_ready_once_its_agent_says_so(tmp_path):
    booted('sleep 0.2; echo ready >&"$0"; exec sleep 60', tmp_path, SOON_S)


def test_its_end_of_the_line_is_no_others(tmp_path):
    """A guest that has ended is noticed, since nobody else holds its end."""
    guest = Guest(Local())
    pid = guest.start(["bash", "-c", f"echo {READY.decode()} >&{LINE}; exec sleep 0.1"], (), str(tmp_path / "log"))
    guest.await_ready(lambda: False, SOON_S)
    with pytest.raises(DutError, match="the other end has closed"):
        guest.exists("/")
    guest.close()
    os.waitpid(pid, 0)


class Answering(Guest):
    """A guest that notes the folders it is asked to make and to remove."""

    def __init__(self):
        super().__init__(Local())
        self.asked = []

    def make_folder(self, path):
        self.asked.append(f"make {path}")

    def remove_folder(self, path):
        self.asked.append(f"remove {path}")


def test_what_is_inside_is_made_there_and_goes_with_the_guest(tmp_path):
    guest, inside = Answering(), Inside(RunDirectory("/nowhere/there"))
    builder = Builder("b1", Local(), tmp_path, {"": guest})
    builder.apply([inside])
    assert guest.asked == ["make /nowhere/there"]
    assert not Path("/nowhere").exists()
    builder.undo()
    assert guest.asked == ["make /nowhere/there"], "its end is the end of all that is in it"


def test_what_a_plan_takes_from_a_living_guest_is_removed_there(tmp_path):
    guest, inside = Answering(), Inside(RunDirectory("/nowhere/there"))
    builder = Builder("b1", Local(), tmp_path, {"": guest})
    builder.apply([inside])
    builder.apply([])
    assert guest.asked == ["make /nowhere/there", "remove /nowhere/there"]
    builder.undo()


def test_a_journal_says_that_something_is_inside(tmp_path):
    journal, inside = Journal.start("b1", Local(), tmp_path), Inside(RunDirectory("/nowhere/there"))
    journal.record("create", inside)
    assert journal.present() == (inside,)
    assert inside.describe() == "in the guest: mkdir /nowhere/there"
    actions.remove(inside, Local())
    journal.finish()
