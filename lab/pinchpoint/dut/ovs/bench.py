"""The resources of a private switch's bench: its daemons and their settings (ovs-vswitchd.conf.db(5)), and the rest."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from pinchpoint.bench.resource import AnyResource, Daemon, Namespace, Uptime
from pinchpoint.dut import attach, nics, remote_endpoints, vm_ends
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ovs import balancing, configured, guests
from pinchpoint.dut.ovs.kinds import linked, read_by_main
from pinchpoint.dut.ovs.places import OvsPlaces, quoted
from pinchpoint.dut.ovs.ports import bridges, driven, extra_ports, rules, underlay_routes, vdpa_known
from pinchpoint.dut.ovs.spec import CONFIG_KEYS, IN_KERNEL, Datapath, OvsDut, cards, ports, spec
from pinchpoint.host.interface import Host as Machine
from pinchpoint.model.scenario import Host, Scenario

_SCHEMA_NAME = "vswitch.ovsschema"
SCHEMA = f"/usr/share/openvswitch/{_SCHEMA_NAME}"
SWITCH = "ovs-vswitchd"  # the name of its daemon
_PLAIN, _WITH_DPDK = "openvswitch-switch/ovs-vswitchd", "openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
VSWITCHD = {way: f"/usr/lib/{_WITH_DPDK if way is Datapath.DPDK else _PLAIN}" for way in Datapath}
ELSEWHERE = "/usr/sbin/ovs-vswitchd"  # on systems other than Debian and its like: one program, with DPDK or without
_EAL = ("--in-memory", "--no-telemetry")


def database(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """A fresh database and its server."""
    file = f"{places.directory}/conf.db"
    words = ("ovsdb-server", file, f"--remote=p{places.database}")
    server = _daemon(places, "ovsdb-server", "ovsdb", words, (_control_cpu(scenario, places),))
    return [places.command("ovsdb-tool", "create", file, schema(scenario, places.outside)), server]


def vswitchd(scenario: Scenario, places: OvsPlaces) -> Daemon:
    """The switch itself, in the bench's namespace."""
    # PMD threads choose their own CPUs; all others inherit, and must not take a PMD's. Without
    # PMD threads the main thread forwards, and belongs on the CPU that a PMD would have; beside
    # them, where it serves ports, on none of the engine's.
    cpus = (_control_cpu(scenario, places),) if spec(scenario).polls else spec(scenario).pmd_cpus
    if read_by_main(scenario):
        cpus = (guests.spare_cpu(scenario, places.machine),)
    # Both ends of a tunnel are addresses of one namespace, whose kernel would route between them by itself.
    routes = ("--disable-system-route",) if spec(scenario).tunnels else ()
    words = (program(scenario, places.outside), places.database, *routes)
    return _daemon(places, SWITCH, "vswitchd", words, cpus, places.dut_netns)


def _daemon(
    places: OvsPlaces, name: str, files: str, words: tuple[str, ...], cpus: tuple[int, ...], netns: str | None = None
) -> Daemon:
    """`files`: how the names of its files begin."""
    pidfile, begin = places.pidfile(files), f"{places.directory}/{files}"
    own = (f"--pidfile={pidfile}", f"--log-file={begin}.log", f"--unixctl={begin}.ctl", "--detach", "--no-chdir")
    return Daemon(name, (*words, *own), pidfile, f"{begin}.log", places.bench_id, netns, cpus, places.environment)


def program(scenario: Scenario, host: Machine) -> str:
    """The path of the switch's program."""
    return spec(scenario).vswitchd or installed(host, spec(scenario).datapath)


def installed(host: Machine, datapath: Datapath) -> str:
    """Where the host's packages have the program of a datapath; Debian's path where there is none."""
    is_elsewhere = host.which(ELSEWHERE) and not any(host.which(path) for path in set(VSWITCHD.values()))
    return ELSEWHERE if is_elsewhere else VSWITCHD[datapath]


def schema(scenario: Scenario, host: Machine) -> str:
    """The database schema that belongs to the program: beside it as built, as installed with it, or the system's."""
    if spec(scenario).vswitchd is None:
        return SCHEMA
    folder = PurePosixPath(program(scenario, host)).parent
    places = (folder / _SCHEMA_NAME, folder.parent / "share/openvswitch" / _SCHEMA_NAME)
    return next((str(place) for place in places if host.exists(str(place))), SCHEMA)


def settings(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the switch must find in its database when it starts."""
    if not (wanted := _other_config(scenario, places)):
        return []
    words = (f"other_config:{key}={quoted(value)}" for key, value in wanted.items())
    return [places.vsctl("--no-wait", "set", "Open_vSwitch", ".", *words)]


def _other_config(scenario: Scenario, places: OvsPlaces) -> dict[str, str]:
    dut = spec(scenario)
    config: dict[str, str] = {}
    if dut.datapath is Datapath.DPDK:
        config |= {
            "dpdk-init": "true",
            "dpdk-socket-mem": str(dut.memory_mb),
            "dpdk-lcore-mask": _mask((_control_cpu(scenario, places),)),
            "dpdk-extra": " ".join((*attach.pci_arguments(_nics(scenario)), *_EAL)),
        }
    if dut.polls:
        config["pmd-cpu-mask"] = _mask(dut.pmd_cpus)
    return config | tuned(dut) | dict(dut.other_config)


def _nics(scenario: Scenario) -> tuple[str, ...]:
    """NICs, each with the representors that its ports have. Functions that serve rings are attached by their ports."""
    representors: dict[str, list[str]] = {}
    for port in ports(scenario):
        if port.pf:
            representors.setdefault(port.pf, []).append(str(port.representor))
    own = ((port, scenario.link(port).device.nic) for port in ports(scenario))
    wanted = {nic: driven(nic, port.devargs) for port, nic in own if nic}
    wanted |= {nic: f"{nic},representor=[{','.join(numbers)}]" for nic, numbers in representors.items()}
    wanted |= {nic.address: driven(nic.address, nic.devargs) for nic in spec(scenario).nics}
    return tuple(wanted.values())


def tuned(dut: OvsDut) -> dict[str, str]:
    """The settings that stand in the database, as it holds them."""
    asked = {name: getattr(dut.tuning, key) for key, name in CONFIG_KEYS.items()}
    if dut.datapath is Datapath.TC:
        asked["hw-offload"] = True
    return {name: str(value).lower() for name, value in asked.items() if value is not None}


def limits(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the database has no place for: set once the datapath is there."""
    most = spec(scenario).tuning.conntrack_limit
    return [] if most is None else [places.appctl("dpctl/ct-set-maxconns", str(most))]


def switch_versions(scenario: Scenario, places: OvsPlaces) -> dict[str, str]:
    """What the running switch says of itself: its version and its DPDK's; of a build of one's own, with its path."""
    names = ("ovs_version", "dpdk_version")
    answers = places.ask_vsctl("--if-exists", "get", "Open_vSwitch", ".", *names).splitlines()
    versions = {name: answer.strip().strip('"') for name, answer in zip(names, answers, strict=False)}
    own = f"{spec(scenario).vswitchd} " if spec(scenario).vswitchd else ""
    return {f"switch {own}{name}": value for name, value in versions.items() if value not in ("", "[]", "none")}


def _control_cpu(scenario: Scenario, places: OvsPlaces) -> int:
    """Where ovs-vswitchd's other threads run, not on a PMD's CPU: on the engine's first, or a free one without it."""
    if own := scenario.engine_cpus_at(scenario.site):
        return own[0]
    return min(places.machine.cpus() - set(spec(scenario).pmd_cpus), default=spec(scenario).pmd_cpus[0])


def _mask(cpus: tuple[int, ...]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))


_OLD_ENOUGH_S = 11  # before a kernel has run for ten seconds ovs-vswitchd 3.1 counts no CPU, and takes no upcalls


def hugepages_needed(scenario: Scenario) -> int:
    """2 MiB pages that the switch, the engine, the relay and guests take together; 0 without DPDK."""
    if spec(scenario).datapath is not Datapath.DPDK:
        return 0
    engine_mb = scenario.engine.memory_mb if scenario.ports_at(scenario.site) else 0
    relayed = len(relayed_hosts(scenario))
    relay_mb = attach.relay_memory_mb(relayed) if relayed else 0
    return attach.pages_of(spec(scenario).memory_mb + engine_mb + relay_mb) + guests.pages(scenario)


def bench(
    scenario: Scenario, places: OvsPlaces, pages: Pages, engine: Sequence[str] = ("pinchpoint-engine",)
) -> list[AnyResource]:
    """Everything to build for `scenario`, in order of dependency; `engine` is the command that starts one."""
    return [
        *attach.foundation(places, pages, hugepages_needed(scenario)),
        Namespace(places.dut_netns),
        *nics.resources(places.machine, cards(scenario), places.bench_id, places.dut_netns),
        *_links(scenario, places),
        *database(scenario, places),
        *settings(scenario, places),
        *([Uptime(_OLD_ENOUGH_S)] if scenario.guest else []),
        vswitchd(scenario, places),
        *vdpa_known(scenario, places),
        bridges(scenario, places),
        *configured.mirrors(scenario, places),
        *configured.links_up(scenario, places),
        *underlay_routes(scenario, places),
        *limits(scenario, places),
        *extra_ports(scenario, places),
        *rules(scenario, places),
        *balancing.resources(scenario, places),
        *guests.resources(scenario, places),
        *_relays(scenario, places, engine),
        *vm_ends.machines(
            scenario,
            places,
            over_rings=spec(scenario).datapath is Datapath.DPDK,
            offloads=_completes(scenario),
        ),
    ]


def _completes(scenario: Scenario) -> bool:
    """Whether a checksum may be left to it: a userspace switch hands on what it read, which stays wrong."""
    return spec(scenario).datapath in IN_KERNEL


def ends_with_the_switch(scenario: Scenario, places: OvsPlaces, resources: Sequence[AnyResource]) -> list[AnyResource]:
    """Those of `resources` (the bench's) that must be made again once the switch has ended.

    What its database holds comes back by itself: bridges, ports, mirrors, settings; guests wait for it.
    """
    held = (bridges(scenario, places), *configured.mirrors(scenario, places), *extra_ports(scenario, places))
    lasting: list[AnyResource] = [*held, *guests.resources(scenario, places)]
    switch = next(n for n, resource in enumerate(resources) if isinstance(resource, Daemon) and resource.name == SWITCH)
    others = (resource for resource in resources[switch:] if resource not in lasting)
    return [resource for resource in others if not isinstance(resource, vm_ends.OWN)]


def _links(scenario: Scenario, places: OvsPlaces) -> list[AnyResource]:
    """What the switch's kernel ports are the ends of."""
    links: list[AnyResource] = [*attach.veths(replace(scenario, ports=linked(scenario)), places)]
    links += [] if spec(scenario).datapath is Datapath.DPDK else vm_ends.taps(scenario, places)
    return [*links, *remote_endpoints.links(scenario, places, offloads=_completes(scenario))]


def relayed_hosts(scenario: Scenario) -> tuple[Host, ...]:
    """Those that reach the switch by way of the relay: of a DPDK switch all that are no virtual machines."""
    return tuple(host for host in scenario.hosts if not host.vm) if spec(scenario).datapath is Datapath.DPDK else ()


def _relays(scenario: Scenario, places: OvsPlaces, engine: Sequence[str]) -> list[AnyResource]:
    """The relay that joins hosts' links to vhost-user ports, one process on the engine's first CPU.

    It comes after the switch's ports, which connect to it.
    """
    hosts = relayed_hosts(scenario)
    if not hosts:
        return []
    process = attach.host_relay(places, engine, [host.name for host in hosts], scenario.engine.cpus[0])
    return [*(attach.plain_frames(host.name, places.dut_netns) for host in hosts), process]
