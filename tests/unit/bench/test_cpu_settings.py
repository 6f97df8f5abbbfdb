"""How the CPUs of a host are set, from planted files of its kernel; what the doctor says of it."""

import pytest

from pinchpoint.bench.requirements import steadiness
from pinchpoint.host import cpu_settings, facts
from pinchpoint.host.local import Local
from pinchpoint.host.numa import cpu_list, cpu_words

CPU = "sys/devices/system/cpu"
QUIET = {
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
    f"{CPU}/cpu0/topology/thread_siblings_list": "0\n",
    f"{CPU}/cpu1/topology/thread_siblings_list": "1\n",
    f"{CPU}/isolated": "1\n",
    f"{CPU}/vulnerabilities/meltdown": "Not affected\n",
    f"{CPU}/vulnerabilities/mds": "Vulnerable: Clear CPU buffers attempted, no microcode; SMT vulnerable\n",
    f"{CPU}/vulnerabilities/spectre_v1": "Mitigation: usercopy/swapgs barriers\n",
    "proc/cmdline": "quiet isolcpus=1 nohz_full=1\n",
    "proc/cpuinfo": "processor\t: 0\nmicrocode\t: 0x2b000461\n\nprocessor\t: 1\nmicrocode\t: 0x2b000461\n",
}


class Planted(Local):
    """A host of two CPUs whose files of the kernel are in a folder."""

    def __init__(self, root, files):
        self._root = root
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def read_bytes(self, path, offset=0):
        return super().read_bytes(f"{self._root}{path}", offset)

    def names(self, folder):
        return super().names(f"{self._root}{folder}")

    def cpus(self):
        return frozenset({0, 1})


def test_every_setting_is_a_fact_in_words(tmp_path):
    assert cpu_settings.cpu_settings(Planted(tmp_path, QUIET)) == {
        "frequency governor": "performance",
        "turbo": "off",
        "SMT siblings": "none",
        "isolated CPUs": "1; nohz_full 1",
        "mitigations": "vulnerable: mds; mitigated: spectre_v1",
        "microcode": "0x2b000461",
    }


def test_what_a_host_does_not_tell_is_absent(tmp_path):
    assert cpu_settings.cpu_settings(Planted(tmp_path, {})) == {}


def test_a_run_records_them_beside_the_other_facts_of_its_host(tmp_path):
    recorded = facts.host_facts(Planted(tmp_path, QUIET))
    assert (recorded["kernel options"], recorded["turbo"]) == ("quiet isolcpus=1 nohz_full=1", "off")


@pytest.mark.parametrize(
    ("by_cpu", "words"),
    [
        ({0: "performance", 1: "performance"}, "performance"),
        ({0: "powersave", 1: "performance", 2: "performance"}, "performance on CPU 1-2; powersave on CPU 0"),
        ({0: "", 1: ""}, ""),
    ],
)
def test_governors_are_told_apart_by_cpu(by_cpu, words):
    assert cpu_settings.governors(by_cpu) == words


@pytest.mark.parametrize(
    ("no_turbo", "boost", "word"),
    [("0\n", "", "on"), ("1\n", "", "off"), ("", "1\n", "on"), ("", "0\n", "off"), ("1", "1", "off"), ("", "", "")],
)
def test_turbo_is_told_by_either_driver(no_turbo, boost, word):
    assert cpu_settings.turbo(no_turbo, boost) == word


def test_a_core_with_several_cpus_is_counted_once():
    words = "2 cores with several CPUs, the first with 0,2"
    assert cpu_settings.shared_cores({0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)}) == words
    assert cpu_settings.shared_cores({0: (), 1: ()}) == ""


@pytest.mark.parametrize(
    ("cpus", "command_line", "words"),
    [
        ("\n", "quiet", "none"),
        ("2-3\n", "isolcpus=2-3", "2-3"),
        ("\n", "nohz_full=2 nohz_full=2-3 rcu_nocbs", "nohz_full 2-3; rcu_nocbs"),
        ("", "", ""),
    ],
)
def test_isolated_cpus_are_told_with_the_clock_and_rcu(cpus, command_line, words):
    assert cpu_settings.isolated(cpus, command_line) == words


@pytest.mark.parametrize(
    ("states", "command_line", "words"),
    [
        ({"mds": "Not affected\n"}, "", "none needed"),
        ({"itlb_multihit": "KVM: Mitigation: VMX disabled\n"}, "", "mitigated: itlb_multihit"),
        ({"itlb_multihit": "Processor vulnerable\n"}, "", "vulnerable: itlb_multihit"),
        ({"srbds": "Unknown: Dependent on hypervisor status\n"}, "", "unknown: srbds"),
        ({"mds": "Vulnerable\n"}, "mitigations=off", "mitigations=off; vulnerable: mds"),
    ],
)
def test_mitigations_are_a_line(states, command_line, words):
    assert cpu_settings.mitigations(states, command_line) == words


@pytest.mark.parametrize("text", ["", "0", "0-1", "0-3,8,10-11"])
def test_cpus_are_written_as_the_kernel_lists_them(text):
    assert cpu_words(cpu_list(text)) == text


def test_the_doctor_finds_a_quiet_host_well(tmp_path):
    assert all(probe.ok for probe in steadiness(Planted(tmp_path, QUIET)))


def test_the_doctor_says_what_makes_rates_steadier_and_requires_none_of_it(tmp_path):
    busy = {
        f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        f"{CPU}/cpu0/topology/thread_siblings_list": "0-1\n",
        f"{CPU}/cpu1/topology/thread_siblings_list": "0-1\n",
        f"{CPU}/isolated": "\n",
        "proc/cmdline": "quiet mitigations=off\n",
    }
    probes = list(steadiness(Planted(tmp_path, busy)))
    unsteady = {probe.name: probe for probe in probes if not probe.ok}
    assert list(unsteady) == ["frequency governor", "turbo", "SMT siblings", "isolated CPUs"]
    assert all(probe.hint and probe.mark == "unsteady" for probe in unsteady.values())
    assert not any(probe.needed for probe in probes)
    assert "cpupower frequency-set -g performance" in unsteady["frequency governor"].hint
