"""The daemons of a private Open vSwitch and their settings (ovs-vswitchd.conf.db(5), Open_vSwitch other_config)."""

from pathlib import PurePosixPath

from pinchpoint.bench.resource import AnyResource, Command, Daemon
from pinchpoint.dut.attach import pci_arguments
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.spec import POLLED, Datapath, OvsDut, ports, spec
from pinchpoint.host.interface import COMMAND_TIMEOUT_S, Host
from pinchpoint.model.scenario import Scenario

_SCHEMA_NAME = "vswitch.ovsschema"
SCHEMA = f"/usr/share/openvswitch/{_SCHEMA_NAME}"
SWITCH = "ovs-vswitchd"  # the name of its daemon
_PLAIN = "/usr/lib/openvswitch-switch/ovs-vswitchd"
VSWITCHD = {
    Datapath.DPDK: "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
    Datapath.AF_XDP: _PLAIN,
    Datapath.AF_PACKET: _PLAIN,
    Datapath.KERNEL: _PLAIN,
    Datapath.TC: _PLAIN,
}
# Both ends of a tunnel are addresses of one namespace, whose kernel would route between them by itself.
_ROUTES = {True: ("--disable-system-route",), False: ()}
_EAL = ("--in-memory", "--no-telemetry")


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
    return [command(places, "ovsdb-tool", "create", f"{folder}/conf.db", schema(scenario, places.machine)), daemon]


def vswitchd(scenario: Scenario, places: OvsPlaces) -> Daemon:
    """The switch itself, in the bench's namespace."""
    # PMD threads choose their own CPUs; all others inherit, and must not take a PMD's. Without
    # PMD threads the main thread forwards, and belongs on the CPU that a PMD would have.
    cpus = (_control_cpu(scenario),) if spec(scenario).datapath in POLLED else spec(scenario).pmd_cpus
    return Daemon(
        name=SWITCH,
        argv=(
            program(scenario),
            places.database,
            f"--pidfile={places.pidfile('vswitchd')}",
            f"--log-file={places.log}",
            f"--unixctl={places.control}",
            "--detach",
            "--no-chdir",
            *_ROUTES[bool(spec(scenario).tunnels)],
        ),
        pidfile=places.pidfile("vswitchd"),
        log=places.log,
        bench_id=places.bench_id,
        netns=places.dut_netns,
        cpus=cpus,
        environment=places.environment,
    )


def program(scenario: Scenario) -> str:
    """The path of the switch's program."""
    return spec(scenario).vswitchd or VSWITCHD[spec(scenario).datapath]


def schema(scenario: Scenario, host: Host) -> str:
    """The database schema that belongs to the program: beside it as built, as installed with it, or the system's."""
    if spec(scenario).vswitchd is None:
        return SCHEMA
    folder = PurePosixPath(program(scenario)).parent
    places = (folder / _SCHEMA_NAME, folder.parent / "share/openvswitch" / _SCHEMA_NAME)
    return next((str(place) for place in places if host.exists(str(place))), SCHEMA)


def settings(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the switch must find in its database when it starts."""
    if not (wanted := _other_config(scenario)):
        return []
    words = (f"other_config:{key}={quoted(value)}" for key, value in wanted.items())
    return [command(places, "ovs-vsctl", *vsctl(places, "--no-wait"), "set", "Open_vSwitch", ".", *words)]


def _other_config(scenario: Scenario) -> dict[str, str]:
    dut = spec(scenario)
    config: dict[str, str] = {}
    if dut.datapath is Datapath.DPDK:
        config |= {
            "dpdk-init": "true",
            "dpdk-socket-mem": str(dut.memory_mb),
            "dpdk-lcore-mask": _mask((_control_cpu(scenario),)),
            "dpdk-extra": " ".join((*pci_arguments(_nics(scenario)), *_EAL)),
        }
    if dut.datapath in POLLED:
        config["pmd-cpu-mask"] = _mask(dut.pmd_cpus)
    return config | tuned(dut) | dict(dut.other_config)


def _nics(scenario: Scenario) -> tuple[str, ...]:
    """NICs, each with the representors that its ports have. Functions that serve rings are attached by their ports."""
    representors: dict[str, list[str]] = {}
    for port in ports(scenario):
        if port.pf:
            representors.setdefault(port.pf, []).append(str(port.representor))
    wanted = {port.pci: port.pci for port in scenario.ports if port.pci}
    wanted |= {nic: f"{nic},representor=[{','.join(numbers)}]" for nic, numbers in representors.items()}
    return tuple(wanted.values())


def tuned(dut: OvsDut) -> dict[str, str]:
    """The settings that stand in the database, as it holds them."""
    tuning = dut.tuning
    asked = {
        "emc-insert-inv-prob": tuning.emc_insert_inv_prob,
        "smc-enable": tuning.smc,
        "flow-limit": tuning.flow_limit,
        "max-idle": tuning.max_idle_ms,
        "hw-offload": tuning.hw_offload if dut.datapath is not Datapath.TC else True,
        "tc-policy": tuning.tc_policy,
    }
    return {key: str(value).lower() for key, value in asked.items() if value is not None}


def limits(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the database has no place for: set once the datapath is there."""
    most = spec(scenario).tuning.conntrack_limit
    return [] if most is None else [appctl(places, "dpctl/ct-set-maxconns", str(most))]


def switch_versions(scenario: Scenario, places: OvsPlaces) -> dict[str, str]:
    """What the running switch says of itself: its version and its DPDK's; of a build of one's own, with its path."""
    names = ("ovs_version", "dpdk_version")
    argv = ["ovs-vsctl", *vsctl(places), "--if-exists", "get", "Open_vSwitch", ".", *names]
    answers = places.host.run(argv, environment=places.environment).splitlines()
    versions = {name: answer.strip().strip('"') for name, answer in zip(names, answers, strict=False)}
    own = f"{spec(scenario).vswitchd} " if spec(scenario).vswitchd else ""
    return {f"switch {own}{name}": value for name, value in versions.items() if value not in ("", "[]", "none")}


def command(places: OvsPlaces, *argv: str, timeout_s: float = COMMAND_TIMEOUT_S) -> Command:
    """A command that speaks to this switch and no other."""
    return Command(argv, netns=None, environment=places.environment, timeout_s=timeout_s)


def vsctl(places: OvsPlaces, *options: str, timeout_s: int = 30) -> list[str]:
    """The options of every ovs-vsctl call."""
    return [f"--db={places.database}", f"--timeout={timeout_s}", *options]


def appctl(places: OvsPlaces, *words: str) -> Command:
    """A command to the running switch."""
    return command(places, "ovs-appctl", "-t", places.control, "--timeout=10", *words)


def quoted(value: str) -> str:
    """A database string (ovs-vsctl(8), "Database Values")."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _control_cpu(scenario: Scenario) -> int:
    """Where ovs-vswitchd's other threads run: not on a PMD's CPU."""
    return scenario.engine.cpus[0]


def _mask(cpus: tuple[int, ...]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))
