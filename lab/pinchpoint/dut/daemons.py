"""The daemons of a private Open vSwitch and their settings (ovs-vswitchd.conf.db(5), Open_vSwitch other_config)."""

from pinchpoint.bench.host import run_command
from pinchpoint.bench.resource import AnyResource, Command, Daemon
from pinchpoint.dut.places import OvsPlaces
from pinchpoint.model.scenario import Datapath, Scenario

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_PLAIN = "/usr/lib/openvswitch-switch/ovs-vswitchd"
VSWITCHD = {
    Datapath.DPDK: "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
    Datapath.AF_XDP: _PLAIN,
    Datapath.AF_PACKET: _PLAIN,
    Datapath.KERNEL: _PLAIN,
}
POLLED = frozenset({Datapath.DPDK, Datapath.AF_XDP})  # PMD threads poll the ports


def database(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """A fresh database and its server."""
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
    return [command(places, "ovsdb-tool", "create", f"{folder}/conf.db", SCHEMA), daemon]


def vswitchd(scenario: Scenario, places: OvsPlaces) -> Daemon:
    """The switch itself, in the bench's namespace."""
    # PMD threads choose their own CPUs; all others inherit, and must not take a PMD's. Without
    # PMD threads the main thread forwards, and belongs on the CPU that a PMD would have.
    cpus = (_control_cpu(scenario),) if scenario.dut.datapath in POLLED else scenario.dut.pmd_cpus
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


def settings(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the switch must find in its database when it starts."""
    if not (wanted := _other_config(scenario)):
        return []
    words = (f"other_config:{key}={quoted(value)}" for key, value in wanted.items())
    return [command(places, "ovs-vsctl", *vsctl(places, "--no-wait"), "set", "Open_vSwitch", ".", *words)]


def _other_config(scenario: Scenario) -> dict[str, str]:
    dut = scenario.dut
    config: dict[str, str] = {}
    if dut.datapath is Datapath.DPDK:
        config |= {
            "dpdk-init": "true",
            "dpdk-socket-mem": str(dut.memory_mb),
            "dpdk-lcore-mask": _mask((_control_cpu(scenario),)),
            "dpdk-extra": "--no-pci --in-memory --no-telemetry",
        }
    if dut.datapath in POLLED:
        config["pmd-cpu-mask"] = _mask(dut.pmd_cpus)
    return config | dict(dut.other_config)


def switch_versions(places: OvsPlaces) -> dict[str, str]:
    """What the running switch says of itself: its version and its DPDK's."""
    names = ("ovs_version", "dpdk_version")
    argv = ["ovs-vsctl", *vsctl(places), "--if-exists", "get", "Open_vSwitch", ".", *names]
    answers = run_command(argv, environment=places.environment).splitlines()
    found = {name: answer.strip().strip('"') for name, answer in zip(names, answers, strict=False)}
    return {f"switch {name}": value for name, value in found.items() if value not in ("", "[]")}


def command(places: OvsPlaces, *argv: str) -> Command:
    """A command that speaks to this switch and no other."""
    return Command(tuple(argv), netns=None, environment=places.environment)


def vsctl(places: OvsPlaces, *options: str) -> list[str]:
    """The options of every ovs-vsctl call."""
    return [f"--db={places.database}", "--timeout=30", *options]


def quoted(value: str) -> str:
    """A database string (ovs-vsctl(8), "Database Values")."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _control_cpu(scenario: Scenario) -> int:
    """Where ovs-vswitchd's other threads run: not on a PMD's CPU."""
    return scenario.engine.cpus[0]


def _mask(cpus: tuple[int, ...]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))
