"""What the doctor calls missing, and what merely is not here."""

import json
import signal
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pinchpoint.bench import requirements
from pinchpoint.cli import doctor as doctors
from pinchpoint.cli.doctor import carry_out, doctor, steps
from pinchpoint.dut import registry
from pinchpoint.dut.device import Flavour
from pinchpoint.engine import process
from pinchpoint.engine.protocol import Backend
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import InputError, RequirementError

BOOTS = requirements.Probe("guest.kernel", True, "boots", needed=False)
HERE = (Flavour("a switch", (requirements.Probe("ovs-vswitchd", True, "here"),), "mem"),)


def diagnosis(monkeypatch, *lacking, options=(), steadiness=(), flavours=HERE, boots=()):
    """The doctor's result on a machine where only these backends of the engine cannot run."""
    names = ("mem", "af_packet", "af_xdp", "xdp_live", "dpdk")
    backends = tuple(Backend(name, name not in lacking, "here", "no such thing", "get it") for name in names)
    monkeypatch.setattr(process, "backends", lambda host: backends)
    monkeypatch.setattr(process, "find_engine", lambda host: "/bin/engine")
    monkeypatch.setattr(requirements, "steadiness", lambda host: steadiness)
    monkeypatch.setattr(doctors, "_flavours", lambda host: {"ovs": flavours})
    monkeypatch.setattr(doctors.nics, "probes", lambda host: [])
    monkeypatch.setattr(doctors.vm, "probes", lambda host: [])
    monkeypatch.setattr(doctors.placement, "boots", lambda host: {word: BOOTS for word in boots})
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements.os, "sched_getaffinity", lambda _: {0, 1})
    return CliRunner().invoke(doctor, list(options), standalone_mode=False)


@pytest.mark.parametrize(("backend", "code"), [("dpdk", 3), ("af_packet", 3), ("af_xdp", 0), ("xdp_live", 0)])
def test_only_a_backend_that_a_scenario_can_ask_for_is_missed(monkeypatch, backend, code):
    result = diagnosis(monkeypatch, backend)
    assert result.return_value == code
    (line,) = (line for line in result.output.splitlines() if f"engine backend {backend}" in line)
    assert line.startswith("missing" if code else "not here")


def test_a_host_whose_rates_vary_is_told_what_mends_it_and_is_no_failure(monkeypatch):
    turbo = requirements.Probe("turbo", False, "on", "turn it off", needed=False, mark="unsteady")
    result = diagnosis(monkeypatch, steadiness=(turbo,))
    assert result.return_value == 0
    line, hint = (line.split() for line in result.output.splitlines() if "turbo" in line or "turn it off" in line)
    assert (line, hint) == (["unsteady", "turbo", "on"], ["hint:", "turn", "it", "off"])


def test_checks_that_are_ok_are_one_line_unless_all_are_asked_for(monkeypatch):
    folded = diagnosis(monkeypatch, "xdp_live").output
    assert "8 checks ok: pinchpoint doctor --all shows them" in folded
    assert not [line for line in folded.splitlines() if line.startswith("ok ")]
    shown = diagnosis(monkeypatch, "xdp_live", options=["--all"]).output
    assert len([line for line in shown.splitlines() if line.startswith("ok ")]) == 8
    assert "checks ok" not in shown


LOADABLE = requirements.Probe("kernel module bridge", True, "can be loaded")
MODULE = requirements.Probe("kernel module bridge", False, "no module", "boot another kernel")
PROGRAM = replace(requirements.packaged("ipvsadm", False, "not installed", "ipvsadm"), needed=False)


def ends_with(result):
    return result.output.splitlines()[-1]


@pytest.mark.parametrize(
    ("flavour", "sentence"),
    [
        (Flavour("the bridge", (LOADABLE,)), "The bridge: ready"),
        (Flavour("the bridge", (LOADABLE,), "xdp_live"), "The bridge: needs engine backend xdp_live: get it"),
        (Flavour("a balancer", (PROGRAM, MODULE)), "A balancer: needs ipvsadm and 1 more: apt-get install ipvsadm"),
        (Flavour("a switch", (MODULE,)), "A switch: needs kernel module bridge: boot another kernel"),
        (
            Flavour("the bridge", (MODULE,), fits_guest=True),
            "The bridge: needs kernel module bridge, here or in a guest: "
            "apt-get install user-mode-linux or packaging/guest-kernel",
        ),
    ],
)
def test_each_flavour_of_a_device_has_a_sentence_on_whether_it_can_run(monkeypatch, flavour, sentence):
    assert ends_with(diagnosis(monkeypatch, "xdp_live", flavours=(flavour,))) == sentence


def test_a_device_that_only_a_guests_kernel_has_is_ready_there(monkeypatch):
    def flavours(self, host, guest=None):
        probe = LOADABLE if guest and guest.kernel == "qemu" else MODULE
        yield Flavour("the bridge", (probe,), fits_guest=True)

    monkeypatch.setattr(type(registry.device("ovs")), "flavours", flavours)
    here = tuple(registry.device("ovs").flavours(None))
    told = ends_with(diagnosis(monkeypatch, flavours=here, boots=("uml", "qemu")))
    assert told == 'The bridge: ready in a guest, guest.kernel = "qemu"'


def test_the_next_step_is_to_provide_what_is_missing_or_to_begin(monkeypatch):
    told = []
    monkeypatch.setattr(doctors, "next_step", lambda *words: told.append(words))
    diagnosis(monkeypatch)
    diagnosis(monkeypatch, flavours=(Flavour("a switch", (replace(PROGRAM, needed=True),)),))
    assert told == [("init",), ("doctor", "--fix")]


def test_machines_are_told_what_is_needed(monkeypatch):
    probes = json.loads(diagnosis(monkeypatch, "xdp_live", options=["--json"]).output)
    lacking = [(probe["name"], probe["needed"], probe["hint"]) for probe in probes if not probe["ok"]]
    assert lacking == [("engine backend xdp_live", False, "get it")]


POLICY = "/usr/sbin/policy-rc.d"
THEIRS = "#!/bin/sh\nexit 101\n"


class Fake:
    """A host that notes what it is asked to run and write."""

    name = ""

    def __init__(self, policy=None, failing="", pages=0, killed=None):
        self.ran, self.written, self.policy, self.failing, self.pages = [], [], policy, failing, pages
        self.killed = killed  # by this signal while it installs

    def run(self, argv, environment=(), timeout_s=0.0):
        self.ran.append(" ".join(argv))
        if argv[0] == self.failing:
            raise CommandFailed(argv, "no network")
        if argv[:2] == ("apt-get", "install") and self.killed:
            signal.raise_signal(self.killed)
        if argv[0] == "rm":
            self.policy = None
        return ""

    def write(self, path, text):
        self.written.append(path)
        self.policy = text

    def read(self, path):
        return self.policy if path == POLICY else str(self.pages)

    def exists(self, path):
        return self.policy is not None

    def which(self, program):
        return f"/bin/{program}"


MISSING = [
    requirements.packaged("a", False, "not installed", "alpha"),
    requirements.packaged("b", False, "not installed", "alpha"),
    requirements.packaged("c", True, "there", "gamma"),
    requirements.Probe("d", False, "no module", remedy=requirements.Remedy(modules=("tun",)), needed=False),
    requirements.Probe("e", False, "reboot"),
]
INSTALL = "apt-get install --yes --no-remove --no-install-recommends alpha"


def fixing(monkeypatch, host, options, answer=None, terminal=True, root=True, missing=MISSING):
    monkeypatch.setattr(doctors, "_diagnosis", lambda *_: (missing, []))
    monkeypatch.setattr(doctors, "host_at", lambda address: host)
    monkeypatch.setattr(doctors, "pool", lambda host: (host.pages, host.pages))
    monkeypatch.setattr(doctors, "_asks", lambda: terminal)
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0 if root else 1000)
    return CliRunner().invoke(doctor, ["--fix", *options], standalone_mode=False, input=answer)


def test_a_package_that_two_things_lack_is_installed_once_and_what_only_some_need_is_left():
    assert list(map(str, steps(MISSING))) == ["apt-get update", INSTALL]
    assert list(map(str, steps(MISSING, everything=True)))[2:] == ["modprobe tun"]


def test_where_dnf_is_the_package_manager_hints_and_steps_are_its_own():
    here, debian = Fake(), Fake()
    here.which = lambda program: None if program == "apt-get" else f"/bin/{program}"
    absent = requirements.packaged("tc", False, "not installed", "iproute2")
    theirs = requirements.as_here(absent, here)
    assert theirs.hint == "dnf install iproute iproute-tc"
    assert list(map(str, steps([theirs]))) == ["dnf install --assumeyes iproute iproute-tc"]
    assert requirements.as_here(absent, debian) == absent


def test_what_will_be_run_is_shown_before_it_is_asked_and_no_means_no(monkeypatch):
    host = Fake()
    result = fixing(monkeypatch, host, [], answer="n\n")
    shown, _, asked = result.output.partition("Run these commands?")
    assert INSTALL in shown and "nothing was changed" in asked
    assert (host.ran, host.written, result.return_value) == ([], [], 3)


def test_yes_runs_them_while_services_stay_stopped_and_looks_again(monkeypatch):
    host = Fake()
    result = fixing(monkeypatch, host, [], answer="y\n")
    assert host.written == [POLICY]
    assert host.ran == [f"chmod 755 {POLICY}", "apt-get update", INSTALL, f"rm -f {POLICY}"]
    assert result.return_value == 3  # they are still missing on this host
    assert "still missing" in result.output


def test_without_a_terminal_nothing_is_done_unless_it_was_agreed_to(monkeypatch):
    host = Fake()
    result = fixing(monkeypatch, host, [], terminal=False)
    assert (type(result.exception), host.ran) == (InputError, [])
    assert INSTALL in result.output
    fixing(monkeypatch, host, ["--yes"], terminal=False)
    assert INSTALL in host.ran


def test_only_root_is_asked(monkeypatch):
    host = Fake()
    result = fixing(monkeypatch, host, ["--yes"], root=False)
    assert (type(result.exception), host.ran) == (RequirementError, [])


def test_a_step_that_fails_ends_it_with_code_3_and_leaves_no_policy(monkeypatch):
    host = Fake(failing="apt-get")
    result = fixing(monkeypatch, host, ["--yes"])
    assert isinstance(result.exception, RequirementError) and "no network" in str(result.exception)
    assert host.ran[-1] == f"rm -f {POLICY}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_packages_are_installed_leaves_no_policy(monkeypatch, number):
    host = Fake(killed=number)
    before = signal.signal(number, lambda *_: pytest.fail("it would have ended here"))
    try:
        fixing(monkeypatch, host, ["--yes"])
    finally:
        signal.signal(number, before)
    assert host.ran[-1] == f"rm -f {POLICY}"


@pytest.fixture
def left():
    """The policy that a --fix has left that was killed by SIGKILL."""
    host, seen = Fake(), []
    carry_out(host, steps(MISSING), lambda _: seen.append(host.policy))
    return seen[-1]


def test_a_policy_that_a_killed_fix_has_left_is_replaced_and_removed(monkeypatch, left):
    host = Fake(policy=left)
    fixing(monkeypatch, host, ["--yes"])
    assert host.written == [POLICY] and host.policy is None


def test_a_policy_that_a_killed_fix_has_left_is_removed_though_nothing_is_missing_any_more(monkeypatch, left):
    host = Fake(policy=left)
    result = fixing(monkeypatch, host, ["--yes"], missing=())
    assert host.policy is None and f"removed {POLICY}" in result.output


def test_a_policy_that_was_there_stays_as_it_is(monkeypatch):
    host = Fake(policy=THEIRS)
    fixing(monkeypatch, host, ["--yes"])
    assert (host.written, host.ran) == ([], ["apt-get update", INSTALL])


def test_hugepages_that_the_kernel_did_not_reserve_are_missed(monkeypatch):
    host = Fake(policy=THEIRS, pages=100)
    result = fixing(monkeypatch, host, ["--yes", "--hugepages", "700"])
    assert host.ran[-1] == "sysctl -w vm.nr_hugepages=700"
    assert "reserved 100 of 700" in str(result.exception)


def test_a_larger_pool_of_hugepages_is_not_made_smaller():
    assert steps([], hugepages=700, pool=2000) == []
    assert list(map(str, steps([], hugepages=700, pool=600))) == ["sysctl -w vm.nr_hugepages=700"]


@pytest.mark.parametrize("options", [["--yes"], ["--hugepages", "7"], ["--fix", "--json"]])
def test_options_that_do_not_go_together_are_refused(options):
    assert isinstance(CliRunner().invoke(doctor, options, standalone_mode=False).exception, InputError)
