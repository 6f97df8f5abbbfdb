"""How the CPUs of a host are set: what decides how fast they run, and how steadily.

Sources: Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst, hw-vuln/, kernel-parameters.txt;
Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pinchpoint.host import numa
from pinchpoint.host.interface import PROC, SYS, Host, names_in, text_at
from pinchpoint.host.processes import field
from pinchpoint.model import units

CPUS: Final = f"{SYS}/devices/system/cpu"
NO_TURBO: Final = f"{CPUS}/intel_pstate/no_turbo"
BOOST: Final = f"{CPUS}/cpufreq/boost"
GOVERNOR, TURBO, SIBLINGS, ISOLATED = "frequency governor", "turbo", "SMT siblings", "isolated CPUs"
_WEAKNESSES: Final = f"{CPUS}/vulnerabilities"
_ISOLATING: Final = ("nohz_full", "rcu_nocbs")
_STATE: Final = re.compile("(?:KVM: |Processor )?(mitigation|vulnerable|unknown)", re.IGNORECASE)


def cpu_settings(host: Host) -> dict[str, str]:
    """Facts by name, in words; what the host does not tell is absent."""
    cpus, command_line = sorted(host.cpus()), text_at(host, f"{PROC}/cmdline")
    states = {name: text_at(host, f"{_WEAKNESSES}/{name}") for name in names_in(host, _WEAKNESSES)}
    facts = {
        GOVERNOR: governors({cpu: text_at(host, f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor").strip() for cpu in cpus}),
        TURBO: turbo(text_at(host, NO_TURBO), text_at(host, BOOST)),
        SIBLINGS: shared_cores(threads(host, cpus)),
        ISOLATED: isolated(text_at(host, f"{CPUS}/isolated"), command_line),
        "mitigations": mitigations(states, command_line),
        "microcode": field(text_at(host, f"{PROC}/cpuinfo"), "microcode"),
    }
    return {name: words for name, words in facts.items() if words}


def threads(host: Host, cpus: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The CPUs of each CPU's core, itself among them; none where that is unknown."""
    return {cpu: numa.cpus_at(host, f"{CPUS}/cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}


def governors(by_cpu: Mapping[int, str]) -> str:
    """One word where all CPUs have the same; empty where none has any, as in most virtual machines."""
    words = sorted({word for word in by_cpu.values() if word})
    if len(words) <= 1:
        return "".join(words)
    cpus = {word: numa.cpu_words(cpu for cpu, own in by_cpu.items() if own == word) for word in words}
    return "; ".join(f"{word} on CPU {cpus[word]}" for word in words)


def turbo(no_turbo: str, boost: str) -> str:
    """`on` or `off`, by the file of intel_pstate or that of other drivers; empty where there is neither."""
    return {"0": "on", "1": "off"}.get(no_turbo.strip() or {"1": "0", "0": "1"}.get(boost.strip(), ""), "")


def shared_cores(siblings: Mapping[int, tuple[int, ...]]) -> str:
    """How many cores have several CPUs; empty where that is unknown."""
    if shared := sorted({cpus for cpus in siblings.values() if len(cpus) > 1}):
        return f"{units.counted(len(shared), 'core')} with several CPUs, the first with {numa.cpu_words(shared[0])}"
    return "none" if any(siblings.values()) else ""


def isolated(cpus: str, command_line: str) -> str:
    """From the scheduler (isolcpus=), then from its clock and from RCU's callbacks."""
    options = [f"{name} {value}".strip() for name in _ISOLATING for value in _option(command_line, name)]
    return "; ".join(filter(None, (cpus.strip(), *options))) or ("none" if command_line else "")


def mitigations(states: Mapping[str, str], command_line: str) -> str:
    """The processor's weaknesses: those left open, those mitigated; the others do not affect it."""
    kinds = {name: match[1].lower() for name, state in states.items() if (match := _STATE.match(state))}
    parts = [f"mitigations={value}" for value in _option(command_line, "mitigations")]
    for kind, words in (("vulnerable", "vulnerable"), ("mitigation", "mitigated"), ("unknown", "unknown")):
        if names := [name for name, own in kinds.items() if own == kind]:
            parts.append(f"{words}: {', '.join(names)}")
    return "; ".join(parts) or ("none needed" if states else "")


def _option(command_line: str, name: str) -> list[str]:
    """The value of an option, empty where it has none; nothing where it is not given. The last one holds."""
    values = [value for word, _, value in (part.partition("=") for part in command_line.split()) if word == name]
    return values[-1:]
