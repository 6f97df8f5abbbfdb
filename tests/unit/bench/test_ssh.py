"""A host by ssh, as far as it can be tried without one: what stands for ssh runs the command on this machine."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinchpoint.host import lease, machines, ssh
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import LOCAL, OWN, at_hand, on
from pinchpoint.host.locked import LockedFile
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.host.ssh import Ssh
from pinchpoint.model.errors import HostLostError, InputError, RequirementError
from pinchpoint.model.scenario import Remote
from pinchpoint.run import away

HERE = 'for last; do :; done; exec sh -c "$last"'


@pytest.fixture
def reached(tmp_path, monkeypatch):
    """A host for which that script stands for ssh."""
    opened = []
    monkeypatch.setattr(Ssh, "_check", lambda self, found: None)  # these tests need no root

    def make(script=HERE, **given):
        program = tmp_path / f"ssh-{len(opened)}"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        opened.append(Ssh("there", sudo=False, program=str(program), **given))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_what_is_asked_of_it_is_done_there(reached, tmp_path):
    host = reached()
    host.open()
    host.write(str(tmp_path / "x"), "a text")
    assert host.read(str(tmp_path / "x")) == "a text"
    assert host.cpus() == OWN.cpus()
    assert host.run(["sh", "-c", "echo $0"]) == "sh\n"
    with pytest.raises(CommandFailed, match="no such"):
        host.run(["sh", "-c", "echo no such >&2; exit 1"])
    with pytest.raises(FileNotFoundError, match="missing"):
        host.read(str(tmp_path / "missing"))


def test_the_host_at_hand_is_that_one_inside_the_block_alone(reached):
    host = reached()
    host.open()
    with on(host):
        assert (at_hand(), LOCAL.name) == (host, "there")
    assert (at_hand(), LOCAL.name) == (OWN, "")


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


def test_another_architecture_is_refused_with_both_names(monkeypatch):
    monkeypatch.setattr(ssh.platform, "machine", lambda: "x86_64")
    with pytest.raises(RequirementError, match="aarch64, and this lab's engine is for x86_64"):
        Ssh("there")._check({"uid": 0, "machine": "aarch64"})


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
    with pytest.raises(HostLostError, match="expected an object, found None"):
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


def test_pings_renew_the_lease(reached, tmp_path):
    host = reached(lease_s=5.0)
    host.open()
    time.sleep(6.0)
    assert not host.is_lost()


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
    found = {}
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(Ssh, "_check", lambda self, found: None)
    monkeypatch.setattr(machines, "_machines", lambda: found)
    yield lambda name, sudo=False, lease_s=60.0: Remote(name, "there", sudo, lease_s)
    for one in found.values():
        one.close()


def test_a_host_under_two_names_is_held_once(named, tmp_path, monkeypatch):
    monkeypatch.setattr(away, "STATE_DIRECTORY", tmp_path / "state")
    named_twice = [named(name, lease_s=lease_s) for name, lease_s in (("a", 60.0), ("b", 30.0))]
    units = [SimpleNamespace(remote=one, remotes=(one,)) for one in named_twice]
    with away.held(units), away.held(units):
        for unit in units:
            with machines.standing_on(unit.remote):
                assert LOCAL.names(str(tmp_path / "state")) == ["run.lock"]
    assert machines.machine(units[0].remote) is machines.machine(units[1].remote)


def test_the_shortest_lease_of_a_host_holds_also_once_it_is_connected(named):
    with machines.standing_on(named("a")):
        asked = []
        host = machines.machine(named("a"))
        host._ask = lambda call, given: asked.append((call, given)) or {}
        machines.machine(named("b", lease_s=30.0))
        machines.machine(named("a", lease_s=60.0))
    assert asked == [("identity", {"lease_s": 30.0})]


def test_a_host_that_may_and_may_not_use_sudo_is_refused(named):
    machines.machine(named("a", sudo=True))
    with pytest.raises(InputError, match="there: sudo is true in one scenario and false in another"):
        machines.machine(named("b", sudo=False))


def test_a_state_folder_that_cannot_be_made_there_is_a_requirement(named, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(away, "STATE_DIRECTORY", tmp_path / "file/state")
    with (
        pytest.raises(RequirementError, match=r"there: .*cannot write"),
        away.held([SimpleNamespace(remotes=(named("a"),))]),
    ):
        pass


def test_a_lock_without_a_token_is_never_taken_from_its_holder(tmp_path):
    held = LockedFile.hold(str(tmp_path / "run.lock"), "me", "")
    with pytest.raises(BlockingIOError, match="me"):
        LockedFile.hold(str(tmp_path / "run.lock"), "you", "")
    held.close()
    LockedFile.hold(str(tmp_path / "run.lock"), "you", "").close()


ENTRY = '{{"op":"{op}","resource":{{"kind":"hugepages","before":{before},"after":{after},"needed":0}},"version":1}}\n'


class WithPool(type(OWN)):
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
