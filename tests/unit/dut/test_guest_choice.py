"""Which kernel a guest has where its file leaves it open; what the doctor says of each."""

from dataclasses import replace

import pytest
from support import OF_A_KIND

from pinchpoint.cli.program import Program
from pinchpoint.dut import placement, setup
from pinchpoint.dut.placement import boots, chosen
from pinchpoint.dut.setup import prepare
from pinchpoint.host.guest_kernels import KERNELS, Boot
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.keys.source import Source
from pinchpoint.scenario import parse
from pinchpoint.scenario.sweep import sweep_of

uml, qemu = KERNELS["uml"], KERNELS["qemu"]
PANIC = "the guest's kernel does not boot here: Kernel panic - not syncing: Attempted to kill init!"


class Machine:
    """What this machine is taken for: the kernels that are not there, do not boot, or lack the device's module."""

    def __init__(self):
        self.absent, self.panics, self.without_module = set(), set(), set()
        self.booted, self.is_late = [], False

    def boot(self, machine, word, timeout_s):
        self.booted.append(word)
        return Boot(1.5, PANIC if word in self.panics else "", self.is_late)


@pytest.fixture
def machine(monkeypatch):
    fake = Machine()
    monkeypatch.setattr(placement, "booted", fake.boot)
    for word, kernel in (("uml", uml), ("qemu", qemu)):
        monkeypatch.setattr(kernel, "has_module", lambda name, release=None, word=word: word not in fake.without_module)
    monkeypatch.setattr(
        Local, "which", lambda self, name: None if name == uml.PROGRAM and "uml" in fake.absent else name
    )
    monkeypatch.setattr(Local, "exists", lambda self, path: not ("initrd" in path and "qemu" in fake.absent))
    monkeypatch.setattr(qemu, "_has_kvm", lambda machine: False)
    return fake


def scenario(guest="[guest]\n"):
    return parse(OF_A_KIND.format(kind="bridge", dut="cpus = [3]", more=guest), "x.toml")


def kernel_of(guest="[guest]\n"):
    ((chosen_scenario,),) = [chosen([scenario(guest)], Local())]
    return chosen_scenario.guest.kernel


def test_user_mode_linux_is_taken_where_it_boots(machine):
    assert kernel_of() == "uml"


@pytest.mark.parametrize("why", ["absent", "panics", "without_module"])
def test_qemu_is_taken_where_user_mode_linux_is_of_no_use_and_is_not_booted_to_find_out(machine, why):
    getattr(machine, why).add("uml")
    assert kernel_of() == "qemu"
    assert "qemu" not in machine.booted


@pytest.mark.parametrize("guest", ['[guest]\nrelease = "6.12"\n', "[guest]\nnuma_nodes = 2\n"])
def test_qemu_is_taken_where_the_file_asks_for_what_only_it_can_be(machine, guest):
    assert (kernel_of(guest), machine.booted) == ("qemu", [])


def test_where_none_is_of_use_the_first_says_what_is_missing(machine):
    machine.absent |= {"uml", "qemu"}
    assert kernel_of() == "uml"


@pytest.mark.parametrize("word", ["uml", "qemu"])
def test_a_kernel_that_the_file_names_is_taken_unseen(machine, word):
    machine.panics.add(word)
    assert (kernel_of(f'[guest]\nkernel = "{word}"\n'), machine.booted) == (word, [])


def test_what_is_chosen_is_no_default_of_the_file_any_more(machine):
    assert "guest.kernel" in scenario().defaulted
    assert "guest.kernel" not in chosen([scenario()], Local())[0].defaulted


def test_all_points_of_a_run_get_the_same_kernel(machine):
    text = OF_A_KIND.format(kind="bridge", dut="cpus = [3]", more="[guest]\n")
    text += '[[sweep.factor]]\nname = "nodes"\nkeys = ["guest.numa_nodes"]\nlevels = [1, 2]\n'
    sweep = sweep_of(Source(text, "x.toml"), quick=False)
    assert {scenario.guest.kernel for scenario in sweep.scenarios} == {"auto"}
    program = Program("x", (sweep, replace(sweep, group="y"))).with_kernels(Local())
    assert [[scenario.guest.kernel for scenario in each.scenarios] for each in program.sweeps] == [["qemu", "qemu"]] * 2


def test_a_bench_is_planned_with_the_kernel_that_was_chosen(machine, monkeypatch):
    monkeypatch.setattr(setup, "find_engine", lambda host: "/bin/engine")
    machine.panics.add("uml")
    assert prepare(scenario(), Machines(Local())).scenario.guest.kernel == "qemu"


def test_the_doctor_says_of_each_kernel_that_is_here_whether_it_boots(machine):
    machine.panics.add("uml")
    broken, sound = boots(Local()).values()
    assert (broken.name, broken.ok, broken.needed, broken.detail) == ('guest.kernel = "uml"', False, False, PANIC)
    assert (sound.name, sound.ok, sound.detail) == (
        'guest.kernel = "qemu"',
        True,
        "Debian's kernel under qemu boots, TCG, emulated: 1.5 s",
    )
    machine.absent.add("qemu")
    assert [probe.name for probe in boots(Local()).values()] == [broken.name]


def test_the_doctor_does_not_call_a_kernel_broken_that_a_busy_machine_boots_slowly(machine):
    machine.panics.add("qemu")
    machine.is_late = True
    slow = boots(Local())["qemu"]
    assert (slow.ok, slow.hint) == (False, "")
    assert slow.detail.startswith("not booted after 30 s: this machine is busy")


def test_where_the_library_for_amx_is_not_built_the_doctor_says_how(machine, monkeypatch, tmp_path):
    machine.panics.add("uml")
    monkeypatch.setattr(uml, "_PTRACE", tmp_path / "uml-ptrace.so")
    broken = boots(Local())["uml"]
    assert broken.hint.startswith("with AMX it needs: mkdir -p /")
    assert broken.hint.endswith("/pinchpoint/host/uml_ptrace.c")
