"""A private Open vSwitch with the userspace datapath: own database, daemons, sockets, namespace.

Ports are vhost-user clients (the engine is the server, so that its restart does
not need the switch's) or veth ends. Options: ovs-vswitchd.conf.db(5).
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

from pinchpoint.bench.host import run_command
from pinchpoint.bench.resource import (
    ENVIRONMENT_MARK,
    AnyResource,
    Command,
    Daemon,
    Hugepages,
    MarkedProcesses,
    Namespace,
    RunDirectory,
    TextFile,
    Veth,
)
from pinchpoint.model.scenario import Datapath, Scenario

BRIDGE = "br0"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
VSWITCHD = {
    Datapath.DPDK: "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
    Datapath.AF_XDP: "/usr/lib/openvswitch-switch/ovs-vswitchd",
    Datapath.AF_PACKET: "/usr/lib/openvswitch-switch/ovs-vswitchd",
    Datapath.KERNEL: "/usr/lib/openvswitch-switch/ovs-vswitchd",
}
HUGEPAGE_MB = 2
# What the two EALs allocate beyond the memory they were told: found by trying.
DPDK_OVERHEAD_MB = 64


@dataclass(frozen=True)
class OvsPlaces:
    """Where everything of one private switch is found."""

    bench_id: str
    directory: PurePosixPath

    @property
    def dut_netns(self) -> str:
        """The switch's namespace."""
        return f"pp-{self.bench_id}-dut"

    @property
    def engine_netns(self) -> str:
        """The namespace of the engine's ends of veth links."""
        return f"pp-{self.bench_id}-gen"

    @property
    def control(self) -> str:
        """ovs-vswitchd's unixctl socket."""
        return f"{self.directory}/vswitchd.ctl"

    @property
    def log(self) -> str:
        """ovs-vswitchd's log; it goes with the bench."""
        return f"{self.directory}/vswitchd.log"

    @property
    def management(self) -> str:
        """The bridge's OpenFlow socket."""
        return f"{self.directory}/{BRIDGE}.mgmt"

    @property
    def database(self) -> str:
        """The database's socket, as ovs-vsctl wants it."""
        return f"unix:{self.directory}/db.sock"

    @property
    def rules(self) -> str:
        """The file with all OpenFlow rules, one a line."""
        return f"{self.directory}/rules.txt"

    def vhost_socket(self, port: str) -> str:
        """The vhost-user socket of one port."""
        return f"{self.directory}/vhost-{port}.sock"

    def pidfile(self, daemon: str) -> str:
        """The pid file of one daemon."""
        return f"{self.directory}/{daemon}.pid"

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """Keeps every OVS tool away from the system's own switch."""
        folder = str(self.directory)
        return (
            ("OVS_RUNDIR", folder),
            ("OVS_LOGDIR", folder),
            ("OVS_DBDIR", folder),
            ("OVS_SYSCONFDIR", folder),
            (ENVIRONMENT_MARK, self.bench_id),
        )


def hugepages_needed(scenario: Scenario) -> int:
    """2 MiB pages that the switch and the engine take together; 0 without DPDK."""
    if scenario.dut.datapath is not Datapath.DPDK:
        return 0
    return -(-(scenario.dut.memory_mb + scenario.engine.memory_mb + DPDK_OVERHEAD_MB) // HUGEPAGE_MB)


def bench(scenario: Scenario, places: OvsPlaces, hugepages_total: int, hugepages_free: int) -> list[AnyResource]:
    """Everything to build for `scenario`, in order of dependency."""
    missing = max(0, hugepages_needed(scenario) - hugepages_free)
    resources: list[AnyResource] = [RunDirectory(str(places.directory)), MarkedProcesses(places.bench_id)]
    if missing:
        resources.append(Hugepages(before=hugepages_total, after=hugepages_total + missing))
    resources.append(Namespace(places.dut_netns))
    if scenario.dut.datapath is Datapath.AF_PACKET:
        resources.append(Namespace(places.engine_netns))
        resources += [_veth(port.name, scenario, places) for port in scenario.ports]
    resources += _database(scenario, places)
    if settings := _settings(scenario):
        words = (f"other_config:{key}={_quoted(value)}" for key, value in settings.items())
        options = _vsctl(places, "--no-wait")
        resources.append(_command(places, "ovs-vsctl", *options, "set", "Open_vSwitch", ".", *words))
    resources.append(_vswitchd(scenario, places))
    resources.append(_command(places, "ovs-vsctl", *_vsctl(places), *_bridge(scenario, places)))
    resources.append(_rules_file(scenario, places))
    resources.append(_command(places, "ovs-ofctl", "-O", "OpenFlow14", "add-flows", places.management, places.rules))
    return resources


def _command(places: OvsPlaces, *argv: str) -> Command:
    return Command(tuple(argv), netns=None, environment=places.environment)


def _vsctl(places: OvsPlaces, *options: str) -> list[str]:
    return [f"--db={places.database}", "--timeout=30", *options]


def _veth(port: str, scenario: Scenario, places: OvsPlaces) -> Veth:
    largest = max(stream.frame_bytes for stream in scenario.streams)
    return Veth(port, places.dut_netns, port, places.engine_netns, mtu=max(1500, largest - 18))


def _database(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    folder = places.directory
    daemon = Daemon(
        name="ovsdb-server",
        argv=(
            "ovsdb-server",
            f"{folder}/conf.db",
            f"--remote=p{places.database}",
            f"--pidfile={places.pidfile('ovsdb')}",
            f"--log-file={folder}/ovsdb.log",
            f"--unixctl={folder}/ovsdb.ctl",
            "--detach",
            "--no-chdir",
        ),
        pidfile=places.pidfile("ovsdb"),
        log=f"{folder}/ovsdb.log",
        bench_id=places.bench_id,
        cpus=(_control_cpu(scenario),),
        environment=places.environment,
    )
    return [_command(places, "ovsdb-tool", "create", f"{folder}/conf.db", SCHEMA), daemon]


def switch_versions(places: OvsPlaces) -> dict[str, str]:
    """What the running switch says of itself: its version and its DPDK's."""
    names = ("ovs_version", "dpdk_version")
    argv = ["ovs-vsctl", *_vsctl(places), "--if-exists", "get", "Open_vSwitch", ".", *names]
    answers = run_command(argv, environment=places.environment).splitlines()
    found = {name: answer.strip().strip('"') for name, answer in zip(names, answers, strict=False)}
    return {f"switch {name}": value for name, value in found.items() if value not in ("", "[]")}


def _vswitchd(scenario: Scenario, places: OvsPlaces) -> Daemon:
    # PMD threads choose their own CPUs; all others inherit, and must not take a PMD's. Without
    # PMD threads the main thread forwards, and belongs on the CPU that a PMD would have.
    kernel = scenario.dut.datapath is Datapath.AF_PACKET
    cpus = scenario.dut.pmd_cpus if kernel else (_control_cpu(scenario),)
    return Daemon(
        name="ovs-vswitchd",
        argv=(
            VSWITCHD[scenario.dut.datapath],
            places.database,
            f"--pidfile={places.pidfile('vswitchd')}",
            f"--log-file={places.log}",
            f"--unixctl={places.control}",
            "--detach",
            "--no-chdir",
        ),
        pidfile=places.pidfile("vswitchd"),
        log=places.log,
        bench_id=places.bench_id,
        netns=places.dut_netns,
        cpus=cpus,
        environment=places.environment,
    )


def _settings(scenario: Scenario) -> dict[str, str]:
    dut = scenario.dut
    config: dict[str, str] = {}
    if dut.datapath is Datapath.DPDK:
        config |= {
            "dpdk-init": "true",
            "dpdk-socket-mem": str(dut.memory_mb),
            "dpdk-lcore-mask": _mask((_control_cpu(scenario),)),
            "dpdk-extra": "--no-pci --in-memory --no-telemetry",
            "pmd-cpu-mask": _mask(dut.pmd_cpus),
        }
    return config | dict(dut.other_config)


def _bridge(scenario: Scenario, places: OvsPlaces) -> list[str]:
    # fail_mode secure: without a controller no NORMAL flow appears; only the scenario's rules forward.
    words = ["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev", "fail_mode=secure"]
    words.append("protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15")
    for number, port in enumerate(scenario.ports, start=1):
        words += ["--", "add-port", BRIDGE, port.name, "--", "set", "interface", port.name]
        words.append(f"ofport_request={number}")
        if scenario.dut.datapath is Datapath.DPDK:
            words += ["type=dpdkvhostuserclient", f"options:vhost-server-path={places.vhost_socket(port.name)}"]
    return words


def _rules_file(scenario: Scenario, places: OvsPlaces) -> TextFile:
    bridge = scenario.dut.bridges[0]
    return TextFile(
        path=places.rules,
        lines=tuple(with_port_numbers(rule.text, scenario) for rule in bridge.rules),
        series=tuple((with_port_numbers(s.rule, scenario), s.count, s.first) for s in bridge.rule_series),
    )


def with_port_numbers(rule: str, scenario: Scenario) -> str:
    """The rule with every `{name}` replaced by that port's OpenFlow number."""
    for number, port in enumerate(scenario.ports, start=1):
        rule = rule.replace(f"{{{port.name}}}", str(number))
    return rule


def rule_place(scenario: Scenario, rules_line: int) -> int | None:
    """The scenario file's line that became line `rules_line` (from 1) of the rules file."""
    bridge = scenario.dut.bridges[0]
    if rules_line <= len(bridge.rules):
        return bridge.rules[rules_line - 1].line
    rules_line -= len(bridge.rules)
    for series in bridge.rule_series:
        if rules_line <= series.count:
            return series.line
        rules_line -= series.count
    return None


def _control_cpu(scenario: Scenario) -> int:
    """Where ovs-vswitchd's other threads run: not on a PMD's CPU."""
    return scenario.engine.cpus[0]


def _mask(cpus: tuple[int, ...]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))


def _quoted(value: str) -> str:
    """A database string (ovs-vsctl(8), "Database Values")."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
