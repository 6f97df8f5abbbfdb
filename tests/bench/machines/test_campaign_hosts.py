"""Campaigns over machines by ssh, and over sites of several hosts: real sshd, each in namespaces of its own."""

import pytest
from bench_tools import run, start, wait_for
from campaign_tools import log_of, only_folder, require_whole, write_campaign
from spanning_tools import spanning
from ssh_tools import far_machines

pytestmark = pytest.mark.tier2("campaigns over hosts by ssh")

MACHINES = '[[machine]]\nname = "one"\naddress = "one"\n[[machine]]\nname = "two"\naddress = "two"\n'
SPANNING = 'scenarios = ["span.toml"]\nrepeats = 2\nretries = 0\n'
SITE = '[[machine]]\nname = "rack"\nhosts = {{ gen = "gen", dut = "dut", {sink} = "sink" }}\n'


@pytest.fixture
def two(tmp_path):
    """Two machines, which hold nothing at the end."""
    with far_machines(tmp_path / "far", "one", "two") as (machines, environment):
        yield machines, environment
        assert [machine.holds() for machine in machines.values()] == [[], []]


def of(out, machine, what):
    return [entry for entry in log_of(out) if (entry["machine"], entry["what"]) == (machine, what)]


@pytest.mark.tier1("a campaign of two machines", "host:ssh")
@pytest.mark.usefixtures("nothing_left")
def test_two_machines_by_ssh_share_a_campaign(two, tmp_path):
    _, environment = two
    path, out = write_campaign(tmp_path, sizes=4, repeats=1, more=MACHINES), tmp_path / "runs"
    done = run("campaign", path, "--out", out, "--no-ceiling", "--quiet", env=environment)
    assert done.returncode == 0, done.stderr
    require_whole(only_folder(out), 4)
    assert of(out, "one", "finished") and of(out, "two", "finished")


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_two_machines_by_ssh_share_a_campaign_and_one_whose_sshd_is_killed_comes_back(two, tmp_path):
    machines, environment = two
    path, out = write_campaign(tmp_path, sizes=4, repeats=2, more=MACHINES), tmp_path / "runs"
    lab = start("campaign", path, "--out", out, "--no-ceiling", "--quiet", env=environment)
    wait_for(lambda: of(out, "one", "finished") and of(out, "two", "finished"), "a unit of each machine", 300)
    wait_for(machines["two"].holds, "a bench on the second", 300)
    machines["two"].kill_sshd()
    wait_for(lambda: of(out, "two", "lost"), "the loss", 300)
    wait_for(lambda: not machines["two"].holds(), "its bench to be undone", 300)
    lost = of(out, "two", "lost")[0]
    wait_for(
        lambda: any(event["unit"] == lost["unit"] for event in of(out, "one", "finished")), "its unit elsewhere", 300
    )
    machines["two"].start_sshd()
    _, said = lab.communicate(timeout=300)
    assert lab.returncode == 0, said
    require_whole(only_folder(out), 8)


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_a_machine_that_never_answered_is_left_out_with_the_reason(two, tmp_path):
    machines, environment = two
    machines["two"].kill_sshd()
    path, out = write_campaign(tmp_path, sizes=1, repeats=2, more=MACHINES), tmp_path / "runs"
    done = run("campaign", path, "--out", out, "--no-ceiling", "--quiet", env=environment)
    assert done.returncode == 0, done.stderr
    assert "two was excluded: " in done.stderr
    assert "Connection refused" in done.stderr
    require_whole(only_folder(out), 2)
    assert {entry["machine"] for entry in log_of(out) if entry["what"] == "begun"} == {"one"}


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_points_that_span_hosts_are_measured_at_a_site(hosts, tmp_path):
    (tmp_path / "span.toml").write_text(spanning())
    path, out = tmp_path / "c.toml", tmp_path / "runs"
    path.write_text(SPANNING + SITE.format(sink="sink"))
    planned = run("campaign", path, "--dry-run", env=hosts.environment)
    assert (planned.returncode, "1 machine: rack" in planned.stdout) == (0, True), planned.stderr
    done = run("campaign", path, "--out", out, "--no-ceiling", "--quiet", env=hosts.environment)
    assert done.returncode == 0, done.stderr + done.stdout
    require_whole(only_folder(out), 2)


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_a_site_is_lost_with_one_of_its_hosts_awaited_and_its_unit_measured_once_it_is_back(hosts, tmp_path):
    (tmp_path / "span.toml").write_text(spanning())
    path, out = tmp_path / "c.toml", tmp_path / "runs"
    path.write_text(SPANNING.replace("2", "1") + SITE.format(sink="sink"))
    lab = start("campaign", path, "--out", out, "--no-ceiling", "--quiet", env=hosts.environment)
    wait_for(lambda: all(hosts.holds()), "a bench", 300)
    hosts.sink.kill_sshd()
    wait_for(lambda: of(out, "rack", "lost"), "the loss", 300)
    wait_for(lambda: not any(hosts.holds()), "the bench to be undone", 300)
    hosts.sink.start_sshd()
    _, said = lab.communicate(timeout=300)
    assert lab.returncode == 0, said
    require_whole(only_folder(out), 1)


@pytest.mark.subject(target="test-hosts")
@pytest.mark.usefixtures("nothing_left")
def test_a_point_whose_hosts_no_site_has_is_impossible_with_what_to_add(hosts, tmp_path):
    (tmp_path / "span.toml").write_text(spanning())
    path, out = tmp_path / "c.toml", tmp_path / "runs"
    path.write_text(SPANNING + SITE.format(sink="drain"))
    told = 'has the hosts dut, gen, sink, which its scenario names: [[machine]] hosts = {dut = "ADDRESS"'
    planned = run("campaign", path, "--dry-run", env=hosts.environment)
    assert f"span cannot be measured: no machine {told}" in planned.stdout, planned.stdout + planned.stderr
    done = run("campaign", path, "--out", out, "--no-ceiling", "--quiet", env=hosts.environment)
    assert done.returncode == 4, "nothing was measured"
    assert any(event["what"] == "impossible" and told in event["reason"] for event in log_of(out))
