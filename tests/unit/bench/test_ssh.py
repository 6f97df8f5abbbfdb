"""A host by ssh, as far as it can be tried without one: what stands for ssh runs the command on this machine."""

import errno
import os
import signal
import subprocess
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinchpoint.bulk.making import Watch, most_fed
from pinchpoint.host import agent, lease, ssh
from pinchpoint.host.guest_line import to_text
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.host.locked import LockedFile
from pinchpoint.host.machines import Machines
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.host.ssh import Ssh
from pinchpoint.model.errors import BenchError, HostLostError, InputError, RequirementError
from pinchpoint.model.site import Remote, Site
from pinchpoint.run import host_recovery

HERE = 'for last; do :; done; exec sh -c "$last"'


@pytest.fixture
def reached(tmp_path, monkeypatch):
    """A host for which that script stands for ssh."""
    opened = []
    monkeypatch.setattr(Ssh, "_check", lambda self, identity: None)  # these tests need no root

    def make(script=HERE, **options):
        program = tmp_path / f"ssh-{len(opened)}"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        opened.append(Ssh("there", sudo=False, program=str(program), **options))
        return opened[-1]

    yield make
    for host in opened:
        host.close()


def test_what_is_asked_of_it_is_done_there(reached, tmp_path):
    host = reached()
    host.open()
    host.write(str(tmp_path / "x"), "a text")
    assert host.read(str(tmp_path / "x")) == "a text"
    assert host.cpus() == Local().cpus()
    assert host.run(["sh", "-c", "echo $0"]) == "sh\n"
    with pytest.raises(CommandFailed, match="no such"):
        host.run(["sh", "-c", "echo no such >&2; exit 1"])
    with pytest.raises(FileNotFoundError, match="missing"):
        host.read(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("status", "told"),
    [(96, "older than 3.11"), (97, "apt-get install python3"), (98, "sudoers"), (5, "ssh ended with status 5")],
)
def test_what_the_host_lacks_is_told_with_what_mends_it(reached, status, told):
    with pytest.raises(RequirementError) as caught:
        reached(f"exit {status}").open()
    assert told in str(caught.value)
    assert "hint:" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Host key verification failed.", "hint: ssh there; compare the key"),
        ("Host key for there has changed and you have requested strict checking.", "hint: compare the fingerprint"),
        ("root@there: Permission denied (publickey).", "hint: ssh-copy-id there"),
    ],
)
def test_what_ssh_refuses_is_told_in_its_words(reached, said, told):
    with pytest.raises(RequirementError) as caught:
        reached(f'echo "{said}" >&2; exit 255').open()
    assert said in str(caught.value)
    assert told in str(caught.value)


def test_a_login_that_prints_something_is_refused(reached):
    with pytest.raises(RequirementError, match="welcome"):
        reached(f"echo welcome; {HERE}").open()


def test_what_sudo_says_is_told(reached):
    with pytest.raises(RequirementError, match="you must have a tty"):
        reached("echo sudo: sorry, you must have a tty to run sudo >&2; exit 98").open()


@pytest.fixture
def of_another_architecture(reached, tmp_path, monkeypatch):
    """A connected host that is not what this lab's engine is built for, and that engine."""
    monkeypatch.setattr(ssh, "CACHE", str(tmp_path / "cache"))
    engine = tmp_path / "engine"
    engine.write_bytes(b"for here")
    host = reached()
    host.open()
    monkeypatch.setattr(ssh.platform, "machine", lambda: "s390x")
    there = host._machine
    return host, engine, there


def test_another_architecture_is_refused_with_both_names_and_what_would_do(of_another_architecture):
    host, engine, there = of_another_architecture
    with pytest.raises(RequirementError, match=f"it is {there}, and this lab's engine is for s390x") as caught:
        host.engine(str(engine))
    assert f"{engine}-{there}" in caught.value.hint


def test_an_engine_for_the_hosts_architecture_that_lies_beside_is_sent(of_another_architecture):
    host, engine, there = of_another_architecture
    Path(f"{engine}-{there}").write_bytes(b"for there")
    assert Path(host.engine(str(engine))).read_bytes() == b"for there"


def test_a_file_that_does_not_fit_leaves_nothing_and_parts_of_the_dead_are_removed(tmp_path, monkeypatch):
    place = tmp_path / "cache/engine"
    place.parent.mkdir()
    (place.parent / "engine.4194305").write_bytes(b"a part")  # above the highest process id

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(Path, "write_bytes", full)
        agent._put(str(place), to_text(zlib.compress(b"x")), 0o755)
    assert not place.parent.exists()


def test_how_far_the_clock_there_is_off_is_known(reached, tmp_path):
    host = reached()
    host._ask = lambda call, arguments: {"uid": 0, "machine": "x86_64", "clock_s": time.time() - 3600}
    host._identify()
    assert host.clock_ahead_s == pytest.approx(-3600, abs=1)


def test_the_engines_file_is_sent_once_and_again_where_it_has_changed(reached, tmp_path, monkeypatch):
    monkeypatch.setattr(ssh, "CACHE", str(tmp_path / "cache"))
    engine = tmp_path / "engine"
    engine.write_bytes(b"#!/bin/sh\necho $A\n")
    first, second = reached(), reached()
    first.open()
    there = Path(first.engine(str(engine)))
    assert there.read_bytes() == engine.read_bytes()
    there.write_bytes(b"damaged")
    second.open()
    assert second.engine(str(engine)) == str(there)
    assert there.read_bytes() == engine.read_bytes()
    done = subprocess.run(second.reached([str(there)], {"A": "b c"}), capture_output=True, text=True, check=False)
    assert done.stdout == "b c\n", done


def test_the_engines_file_is_sent_again_to_a_host_that_comes_back_without_it(reached, tmp_path, monkeypatch):
    monkeypatch.setattr(ssh, "CACHE", str(tmp_path / "cache"))
    engine = tmp_path / "engine"
    engine.write_bytes(b"#!/bin/sh\n")
    host = reached()
    host.open()
    there = Path(host.engine(str(engine)))
    there.unlink()
    host.close()
    host.open()
    assert host.engine(str(engine)) == str(there)
    assert there.read_bytes() == engine.read_bytes()


def test_an_engine_for_which_there_is_no_place_is_a_requirement(reached, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(ssh, "CACHE", str(tmp_path / "cache"))
    host = reached()
    host.open()
    with pytest.raises(RequirementError, match=r"there: .*cannot write"):
        host.engine(os.path.realpath("/bin/sh"))


def test_modules_of_the_login_are_not_those_of_the_agent(reached, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('not the one of the standard library')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    reached().open()


def test_an_agent_that_does_not_say_what_its_host_is_counts_as_lost(reached):
    with pytest.raises(HostLostError, match="expected another answer: Expected `object`, got `null`"):
        reached("""echo ready; echo '{"id": 1, "value": null}'; cat >/dev/null""").open()


def test_a_lost_host_is_told_and_connected_anew(reached):
    host = reached()
    host.open()
    (agent,) = [int(host.run(["sh", "-c", "echo $PPID"]))]
    os.kill(agent, signal.SIGKILL)
    assert host.is_lost()
    with pytest.raises(HostLostError, match="there does not answer"):
        host.cpus()
    host.open()
    assert not host.is_lost()


def test_what_an_agent_held_is_not_what_the_next_one_has_by_its_number(reached, tmp_path):
    host = reached()
    host.open()
    old = host.start_file(str(tmp_path / "old.journal"), str(tmp_path / "old.new"))
    host.close()
    host.open()
    host.start_file(str(tmp_path / "new.journal"), str(tmp_path / "new.new"))
    with pytest.raises(HostLostError, match="the connection on which this was opened has ended"):
        old.remove()
    old.close()
    assert (tmp_path / "new.journal").exists()


def test_many_processes_are_started_there_and_timed_there(reached, tmp_path):
    (host := reached()).open()
    watch, commands = Watch(9), [["touch", str(tmp_path / f"made{n}")] for n in range(9)]
    watch.run(host, watch.reach, run_many, commands, 3, ())
    assert 0 < watch._taken_s < 60
    assert host.children_s() > 0
    assert most_fed(host) > 9
    with pytest.raises(CommandFailed, match="no-such-folder"):
        watch.run(host, watch.reach, run_many, [["ls", "/no-such-folder"]], 1, ())
    assert host.count_links("no-such-namespace") == 0
    assert len(list(tmp_path.glob("made*"))) == 9


def test_what_is_fed_there_ends_when_the_lab_wants_no_more(reached, tmp_path):
    fed, slow, watch = tmp_path / "fed", tmp_path / "slow", Watch(2)
    (host := reached()).open()

    def enough(items):
        if items:
            raise BenchError("enough")

    watch.run(host, watch.reach, run_fed, ["tee", str(fed)], ("line", "other"), ())
    assert watch._taken_s > 0
    with pytest.raises(BenchError, match="enough"):
        watch.run(host, enough, run_many, [["sleep", "0.2"], ["sleep", "600"], ["touch", str(slow)]], 1, ())
    assert fed.read_text() == "line\nother\n"
    assert not slow.exists()


def test_an_agent_that_hears_nothing_for_its_lease_undoes_what_it_holds(reached, tmp_path, monkeypatch):
    monkeypatch.setattr(Ssh, "_ping", lambda self, over: None)
    host = reached(lease_s=1.0)
    host.open()
    host.make_folder(str(tmp_path / "b1"))
    host.start_file(str(tmp_path / "b1.journal"), str(tmp_path / "b1.new"))
    sleeper = subprocess.Popen(["sleep", "60"], env={**os.environ, ENVIRONMENT_MARK: "b1"})
    assert sleeper.wait(20) < 0
    until = time.monotonic() + 20
    while (tmp_path / "b1.journal").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not (tmp_path / "b1").exists()
    assert not (tmp_path / "b1.journal").exists()
    assert host.is_lost()


class Waits:
    """What a thread waits for, in no time: it comes after so many waits."""

    def __init__(self, count):
        self.count, self.waited = count, []

    def wait(self, seconds):
        self.waited.append(seconds)
        return len(self.waited) > self.count


def test_a_lease_is_renewed_four_times_before_it_could_end(reached, monkeypatch):
    host, asked, over = reached(lease_s=5.0), [], Waits(4)
    host.open()
    answered = host._ask
    monkeypatch.setattr(host, "_ask", lambda *words: asked.append((words, answered(*words))))
    host._ping(over)
    assert [words for words, _ in asked] == [("ping", {})] * 4
    assert sum(over.waited[:4]) < 5.0 <= sum(over.waited)


def test_a_machine_has_one_holder_who_is_named_and_the_same_lab_replaces_itself(reached, tmp_path):
    path, first, second = str(tmp_path / "run.lock"), reached(), reached()
    first.open()
    second.open()
    first.hold_machine(path, "process 1 on lab1")
    with pytest.raises(BlockingIOError, match="process 1 on lab1"):
        second.hold_machine(path, "process 2 on lab2")
    second.hold(path, "process 1 on lab1", first._token)
    assert first.is_lost()


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Hosts by the names that scenarios give them; each is this machine."""
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\n{HERE}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(Ssh, "_check", lambda self, identity: None)
    return lambda name, sudo=False, lease_s=60.0: Remote(name, "there", sudo, lease_s)


@pytest.fixture
def machines():
    """Those of a lab; what it has connected is closed."""
    connected = Machines(Local())
    yield connected
    for host in connected._by_address.values():
        host.close()


def test_a_host_under_two_names_is_held_once(named, machines, tmp_path, monkeypatch):
    monkeypatch.setattr(host_recovery, "STATE_DIRECTORY", tmp_path / "state")
    named_twice = [named(name, lease_s=lease_s) for name, lease_s in (("a", 60.0), ("b", 30.0))]
    units = [SimpleNamespace(sites=(Site(remote),)) for remote in named_twice]
    with host_recovery.held(machines, units), host_recovery.held(machines, units):
        for unit in units:
            assert machines.opened(unit.sites[0]).names(str(tmp_path / "state")) == ["run.lock"]
    assert machines.ssh(named_twice[0]) is machines.ssh(named_twice[1])


def test_two_addresses_of_one_machine_are_refused_as_that(named, machines, tmp_path, monkeypatch):
    monkeypatch.setattr(host_recovery, "STATE_DIRECTORY", tmp_path / "state")
    units = [SimpleNamespace(sites=(Site(Remote("a", address, False, 60.0)),)) for address in ("dut1", "me@dut1")]
    with pytest.raises(InputError, match="dut1 and me@dut1 are one machine"), host_recovery.held(machines, units):
        pass


def test_the_labs_own_machine_by_an_address_is_refused_as_that(named, machines, tmp_path, monkeypatch):
    monkeypatch.setattr(host_recovery, "STATE_DIRECTORY", tmp_path / "state")
    units = [SimpleNamespace(sites=(Site(), Site(Remote("dut", "localhost", False, 60.0))))]
    with (
        pytest.raises(InputError, match="lab and localhost are one machine") as caught,
        host_recovery.held(machines, units),
    ):
        pass
    assert 'name it "lab"' in caught.value.hint


def test_the_labs_own_machine_may_have_an_address_where_it_has_no_other_name(named, machines, tmp_path, monkeypatch):
    monkeypatch.setattr(host_recovery, "STATE_DIRECTORY", tmp_path / "state")
    with host_recovery.held(machines, [SimpleNamespace(sites=(Site(Remote("dut", "localhost", False, 60.0)),))]):
        assert (tmp_path / "state/run.lock").exists()


def test_a_machine_that_another_lab_holds_is_not_taken_for_another_address(
    named, reached, machines, tmp_path, monkeypatch
):
    monkeypatch.setattr(host_recovery, "STATE_DIRECTORY", tmp_path / "state")
    other = reached()
    other.open()
    other.hold_machine(str(tmp_path / "state/run.lock"), "process 1 on lab1")
    units = [SimpleNamespace(sites=(Site(named("a")),))]
    with (
        pytest.raises(RequirementError, match="another run is active on there: process 1 on lab1"),
        host_recovery.held(machines, units),
    ):
        pass


def test_the_shortest_lease_of_a_host_holds_also_once_it_is_connected(named, machines):
    host, asked = machines.opened(Site(named("a"))), []
    host._ask = lambda call, arguments: asked.append((call, arguments)) or {}
    machines.ssh(named("b", lease_s=30.0))
    machines.ssh(named("a", lease_s=60.0))
    assert asked == [("identity", {"lease_s": 30.0})]


def test_a_host_that_may_and_may_not_use_sudo_is_refused(named, machines):
    machines.ssh(named("a", sudo=True))
    with pytest.raises(InputError, match="there: sudo is true in one scenario and false in another"):
        machines.ssh(named("b", sudo=False))


def test_a_state_folder_that_cannot_be_made_there_is_a_requirement(named, machines, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(host_recovery, "STATE_DIRECTORY", tmp_path / "file/state")
    with (
        pytest.raises(RequirementError, match=r"there: .*cannot write"),
        host_recovery.held(machines, [SimpleNamespace(sites=(Site(named("a")),))]),
    ):
        pass


def test_a_lock_without_a_token_is_never_taken_from_its_holder(tmp_path):
    held = LockedFile.hold(str(tmp_path / "run.lock"), "me", "")
    with pytest.raises(BlockingIOError, match="me"):
        LockedFile.hold(str(tmp_path / "run.lock"), "you", "")
    held.close()
    LockedFile.hold(str(tmp_path / "run.lock"), "you", "").close()


ENTRY = '{{"op":"{op}","resource":{{"kind":"hugepages","before":{before},"after":{after},"needed":0}},"version":1}}\n'


class WithPool(Local):
    """A host that only has a pool of hugepages."""

    def __init__(self, pages):
        self.pages = pages

    def names(self, folder):
        return []

    def exists(self, path):
        return False

    def read(self, path):
        return str(self.pages) if path.endswith("nr_hugepages") else "0"

    def write(self, path, text):
        self.pages = int(text)


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        ([("create", 10, 30)], 20),
        ([("create", 10, 30), ("removed", 10, 30)], 40),
        ([], 40),
    ],
)
def test_a_lease_gives_back_the_pages_that_the_bench_added(tmp_path, entries, left):
    journal = tmp_path / "b1.journal"
    journal.write_text("".join(ENTRY.format(op=op, before=low, after=high) for op, low, high in entries) + '{"op":"cr')
    host = WithPool(40)
    assert lease.undo(journal, host)
    assert host.pages == left
    assert not journal.exists()


def test_a_lease_leaves_the_journal_of_a_bench_that_has_nics_for_clean(tmp_path):
    journal, nic = tmp_path / "b1.journal", '{{"op":"{op}","resource":{{"kind":"nic","address":"0000:01:00.0"}}}}\n'
    journal.write_text(nic.format(op="create"))
    assert not lease.undo(journal, WithPool(0))
    assert journal.exists()
    journal.write_text(nic.format(op="create") + nic.format(op="removed"))
    assert lease.undo(journal, WithPool(0))


def test_a_lease_leaves_a_journal_with_a_damaged_line_to_clean(tmp_path):
    journal = tmp_path / "b1.journal"
    journal.write_text("\0\0\0\n" + ENTRY.format(op="create", before=10, after=30))
    host = WithPool(40)
    assert not lease.undo(journal, host)
    assert host.pages == 20, "what can be read is undone"
    assert journal.exists()
