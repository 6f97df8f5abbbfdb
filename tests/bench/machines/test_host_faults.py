"""What a host by ssh can lack, and how benches there survive what goes wrong; `make test-hosts` is the long form."""

import json
import os
import signal
import subprocess

import pytest
from bench_tools import run, start, trials_in, wait_for
from fault_tools import site
from host_faults import Campaign

pytestmark = pytest.mark.tier2("faults of hosts by ssh")

LONG_LEASE_S = 60
SCENARIO = """
measure = "load"
runs_on = "far"
[host.far]
address = "{address}"
lease_s = {lease_s}
[dut]
kind = "bridge"
cpus = [1]
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
[load]
at_fps = [1000]
duration_s = {trial_s}
repeats = {repeats}
[search]
min_load_fps = 1000
max_load_fps = 5000
max_repeats = 100
[validity]
shortfall_ratio = 0.9
gap_shortfall_ratio = 0.9
"""
# A user who is not root, in an /etc of the host's own.
ADMIN = """
cp -a /etc /run/login/etc
mount --bind /run/login/etc /etc
mkdir /run/login/home
echo admin:x:4711:4711::/run/login/home:/bin/sh >>/etc/passwd
echo 'admin:*:19000:0:99999:7:::' >>/etc/shadow
echo admin:x:4711: >>/etc/group
rm -rf /etc/sudoers.d
"""
# Programs that come before the system's own.
PROGRAMS = "SetEnv PATH=/run/login/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture
def scenario(tmp_path):
    def write(name="far.toml", address="far", trial_s=0.1, repeats=2, lease_s=LONG_LEASE_S):
        path = tmp_path / name
        values = {"address": address, "trial_s": trial_s, "repeats": repeats, "lease_s": lease_s}
        path.write_text(SCENARIO.format(**values))
        return path

    return write


def python_of_the_host(planted):
    """Commands of a host whose python3 does that before the agent begins; its arguments are `-I -S -c AGENT`."""
    script = f"{planted}; import sys; exec(compile(sys.argv.pop(1), 'agent', 'exec'))"
    lines = f'#!/bin/sh\nexec /usr/bin/python3 "$1" "$2" "$3" "{script}" "$4"\n'
    return f"mkdir /run/login/bin\ncat >/run/login/bin/python3 <<'END'\n{lines}END\nchmod +x /run/login/bin/python3\n"


def killed_with_its_agent(far, scenario, out):
    """A bench that nobody will undo but `clean`; returns its journal."""
    lab = start("run", scenario, "--out", out, env=far.environment)
    wait_for(lambda: trials_in(out), "a trial")
    for pid in (*far.victims("agent"), lab.pid):
        os.kill(pid, signal.SIGKILL)
    lab.wait()
    (journal,) = far.root("/run/pinchpoint").glob("*.journal")
    return journal


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_eight_faults_at_random_moments_leave_nothing_and_lose_no_finished_trial(tmp_path):
    outcomes = Campaign(seed=4, faults=8, folder=tmp_path).run(sites=2)
    assert [outcome.wrong for outcome in outcomes] == [[]] * 8


@pytest.mark.usefixtures("nothing_left")
def test_a_user_whom_sudo_lets_be_root_runs_a_bench(scenario, tmp_path):
    with site(tmp_path / "far", setup=ADMIN) as far:
        log_in_as_admin(far, "Defaults use_pty\nadmin ALL=(root) NOPASSWD: ALL")
        done = run("run", scenario(), "--out", tmp_path / "runs", env=far.environment)
        assert done.returncode == 0, done.stderr
        wait_for(lambda: not far.holds(), "the host to hold nothing")


def log_in_as_admin(far, sudoers):
    far.root("/etc/sudoers").write_text(f"{sudoers}\n")
    config = far.folder / "config"
    config.write_text(config.read_text().replace("User root", "User admin"))


def test_a_user_whom_sudo_does_not_let_be_root_is_refused_in_its_words(tmp_path):
    with site(tmp_path / "far", setup=ADMIN) as far:
        for sudoers, values in (
            ("admin ALL=(root) ALL", "a password is required"),
            ("Defaults requiretty\nadmin ALL=(root) NOPASSWD: ALL", "you must have a tty"),
            ("", "a password is required"),
        ):
            log_in_as_admin(far, sudoers)
            assert_refused(far, values, "the user is not root, and sudo wants a password", "NOPASSWD")


def test_a_user_who_is_not_root_where_there_is_no_sudo_is_refused(tmp_path):
    few = "mkdir /run/login/bin\nln -s /usr/bin/python3 /usr/bin/id /usr/bin/env /bin/sh /run/login/bin"
    with site(tmp_path / "far", setup=ADMIN + few, sshd="SetEnv PATH=/run/login/bin") as far:
        log_in_as_admin(far, "")
        assert_refused(far, "sudo: not found", "or is not installed", "NOPASSWD")


def assert_refused(far, *values):
    done = run("clean", "--host", "far", env=far.environment)
    assert done.returncode == 3, done.stderr
    for word in values:
        assert word in done.stderr


def test_a_host_whose_key_has_changed_is_refused_with_the_warning(tmp_path):
    with site(tmp_path / "far") as far:
        known = far.folder / "known_hosts"
        known.write_text(f"{far.there} {(far.folder / 'key.pub').read_text()}")
        assert_refused(far, "its host key has changed: it was reinstalled", "ssh-keygen -f", "hint: compare")


def test_a_host_of_another_architecture_is_refused_before_anything_is_built(scenario, tmp_path):
    setup = python_of_the_host("import platform; platform.machine = lambda: 'aarch64'")
    with site(tmp_path / "far", setup=setup, sshd=PROGRAMS) as far:
        done = run("run", scenario(), "--out", tmp_path / "runs", env=far.environment)
        assert done.returncode == 3, done.stderr
        assert "far: it is aarch64, and this lab's engine is for x86_64" in done.stderr
        assert not (tmp_path / "runs").exists()
        cleaned = run("clean", "--host", "far", env=far.environment)
        assert cleaned.returncode == 0, "nothing of the engine is needed to tidy"


@pytest.mark.usefixtures("nothing_left")
def test_a_clock_that_is_off_and_jumps_is_stated_and_changes_nothing(scenario, tmp_path):
    clock = "import time; true = time.time; time.time = lambda: true() + float(open('/run/login/clock').read())"
    setup = python_of_the_host(clock) + "echo 3600 >/run/login/clock\n"
    with site(tmp_path / "far", setup=setup, sshd=PROGRAMS) as far:
        lab = start("run", scenario(trial_s=1, repeats=4, lease_s=5), "--out", tmp_path / "runs", env=far.environment)
        wait_for(lambda: trials_in(tmp_path / "runs"), "a trial")
        agents = far.victims("agent")
        far.root("/run/login/clock").write_text("-7200\n")
        _, said = lab.communicate(timeout=90)
        assert lab.returncode == 0, said
        assert "lost" not in said
        assert len(agents) == 1
        (folder,) = (tmp_path / "runs").iterdir()
        versions = json.loads((folder / "run.json").read_text())["versions"]
        assert versions["clock of far"].startswith("3600 s ahead of the lab's")


def test_a_full_disk_there_is_named_and_nothing_is_left_half_done(scenario, tmp_path):
    setup = "mount -t tmpfs -o size=1m disk /var/cache\nmount -o remount,size=16m /run"
    with site(tmp_path / "far", setup=setup) as far:
        done = run("run", scenario(), "--out", tmp_path / "runs", env=far.environment)
        assert done.returncode == 3, done.stderr
        assert "far: /var/cache/pinchpoint/" in done.stderr
        assert "cannot write: No space left on device" in done.stderr
        assert "hint: free some space there, see ssh far df -h /var/cache" in done.stderr
        wait_for(lambda: not far.holds(), "the host to hold nothing")
        assert list(far.root("/var/cache/pinchpoint").iterdir()) == []
        subprocess.run(["nsenter", "--mount", "-t", str(far.pid), "mount", "-o", "remount,size=64m", "/var/cache"])
        subprocess.run(["dd", "if=/dev/zero", f"of={far.root('/run/login/full')}"], check=False, capture_output=True)
        done = run("run", scenario(), "--out", tmp_path / "runs", env=far.environment)
        assert done.returncode == 3, done.stderr
        assert "far: /run/pinchpoint" in done.stderr
        assert "cannot write: No space left on device" in done.stderr
        assert not (tmp_path / "runs").exists()


def test_two_addresses_of_one_machine_are_refused_as_that(scenario, tmp_path):
    with site(tmp_path / "far") as far:
        files = scenario("a.toml", "far"), scenario("b.toml", "root@far")
        done = run("run", *files, "--out", tmp_path / "runs", env=far.environment)
        assert done.returncode == 2, done.stderr
        assert "far and root@far are one machine" in done.stderr
        wait_for(lambda: not far.holds(), "the host to hold nothing")


@pytest.mark.usefixtures("nothing_left")
def test_clean_goes_on_where_another_stopped_and_past_a_damaged_journal(scenario, tmp_path):
    with site(tmp_path / "far") as far:
        journal = killed_with_its_agent(far, scenario(trial_s=5), tmp_path / "runs")
        lines = journal.read_bytes().splitlines(keepends=True)
        damaged = next(number for number, line in enumerate(lines) if b'"namespace"' in line)
        journal.write_bytes(b"".join([*lines[:damaged], b"\0" * 40 + b"\n", *lines[damaged + 1 :]]))
        for pid in far.victims("engine"):
            os.kill(pid, signal.SIGKILL)
        done = run("clean", "--host", "far", env=far.environment)
        assert done.returncode == 4, done.stderr
        assert f"far: /run/pinchpoint/{journal.name}:{damaged + 1}: not a journal entry" in done.stderr
        wait_for(lambda: not far.holds(), "the host to hold nothing")
        again = run("clean", "--host", "far", env=far.environment)
        assert (again.returncode, again.stdout) == (0, "nothing to remove\n")
