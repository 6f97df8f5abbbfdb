"""What is in force in a running switch, read back from it, against what the scenario asked for.

A setting that the switch takes silently and does not follow would be measured
under a wrong name. Sources: `dpctl/ct-get-maxconns`, `dpif-netdev/pmd-rxq-show`,
`upcall/show`, `dpctl/show` (ovs-vswitchd(8)), the switch's log and `ethtool -k`. What
none of them tells is only known to be in the database, and is recorded as such.

Of its NICs the switch reports driver, link speed, queues, NUMA node, offloads and flow control
(ovs-vswitchd.conf.db(5), Interface, `status` and `options`).
"""

import json
import re
from collections.abc import Iterator, Mapping

from pinchpoint.bench.resource import Host
from pinchpoint.dut.ovs.bench import tuned
from pinchpoint.dut.ovs.kinds import read_by_main
from pinchpoint.dut.ovs.places import OvsPlaces, Unixctl
from pinchpoint.dut.ovs.spec import (
    BEST_EFFORT,
    IN_KERNEL,
    POLLED,
    Datapath,
    OvsPort,
    ends,
    every_port,
    pinned_queues,
    spec,
)
from pinchpoint.dut.ovs.text import receive_queues
from pinchpoint.host.interface import Host as Machine
from pinchpoint.host.processes import insisted
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.scenario import PACKED, SPLIT, Scenario

LOG_TIMEOUT_S = 1.0  # the switch may write its log by another thread
_AGAIN_S = 0.05
QUEUES_TIMEOUT_S = 5.0  # the switch gives a vhost-user port its queues after the link is up
_PMD = re.compile(r"^pmd thread numa_id -?\d+ core_id (\d+):", re.MULTILINE)
_PORT_CONFIG = re.compile(r"^\s+port \d+: (\S+) \((.+)\)$")
_FEATURE = re.compile(r"^([\w-]+): (on|off)", re.MULTILINE)
_LIMIT = re.compile(r"\(limit (\d+)\)")
_LOGGED = {
    "emc-insert-inv-prob": re.compile(r"\|INFO\|EMC insertion probability changed to (?:1/)?(zero|\d+)"),
    "smc-enable": re.compile(r"\|INFO\|SMC cache is (enabled|disabled)"),
    "tc-policy": re.compile(r"\|INFO\|tc: Using policy '(none|skip_sw|skip_hw)'"),
    "hw-offload": re.compile(r"\|INFO\|netdev: Flow API (Enabled)"),
}
_AS_STORED = {"zero": "0", "enabled": "true", "Enabled": "true", "disabled": "false"}
_OF_THE_KERNEL = ("hw-offload", "tc-policy")
_NEGOTIATED = re.compile(r"\|VHOST_CONFIG: \((\S+)\) negotiated Virtio features: 0x([0-9a-f]+)")
_RING_PACKED = 34  # VIRTIO_F_RING_PACKED (Virtio 1.1, 6)
_OFFLOADS = ("tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload")
_NIC_STATUS = ("driver_name", "link_speed", "max_rx_queues", "max_tx_queues", "numa_id")
_FLOW_CONTROL = ("rx-flow-ctrl", "tx-flow-ctrl", "flow-ctrl-autoneg")


def in_force(scenario: Scenario, places: OvsPlaces, control: Unixctl) -> dict[str, str]:
    """Every setting that the bench applied, as the switch and the hosts tell it, or as it is stored.

    Raises BenchError naming what was asked and what was found where the two differ.
    """
    settings = {key: f"{value} (stored in the database)" for key, value in _followed(scenario, places)}
    settings |= insisted(lambda: _told(scenario, places, control), BenchError, LOG_TIMEOUT_S, _AGAIN_S)
    if (limit := spec(scenario).tuning.conntrack_limit) is not None:
        answer = control.call("dpctl/ct-get-maxconns").strip()
        _same("conntrack limit", str(limit), answer)
        settings["conntrack limit"] = answer
    if spec(scenario).datapath in POLLED:
        settings |= _port_modes(scenario, places, control) | _cores(scenario, control)
    for host in scenario.hosts:
        machine = places.of_end(host.name, scenario.site_of(host))
        settings[f"offloads of {host.name}"] = _offloads(machine, places.host_netns(host.name))
    return settings


def check_queues(scenario: Scenario, places: OvsPlaces, control: Unixctl) -> None:
    """Whether each engine port has its queues, on their cores, and its rings' layout; both ends must be up.

    Raises BenchError where the scenario asked for other queues, cores or layouts.
    """
    if spec(scenario).datapath not in POLLED:
        return

    def check() -> None:
        polled = polled_queues(control.call("dpif-netdev/pmd-rxq-show"))
        layouts = ring_layouts(places.host.read(places.log))
        by_main = read_by_main(scenario)
        for port in (port for port in every_port(scenario) if port not in by_main):
            _check_port(port, polled.get(port.name, {}))
            if (layout := layouts.get(places.vhost_socket(port.name))) is not None:
                _same(f"ring layout of {port.name}", port.ring_layout, layout)

    insisted(check, BenchError, QUEUES_TIMEOUT_S, _AGAIN_S)


def polled_queues(text: str) -> dict[str, dict[int, int]]:
    """`pmd-rxq-show`: port -> receive queue -> core of the PMD that polls it."""
    cores: dict[str, dict[int, int]] = {}
    for thread, port, queue in receive_queues(text):
        if thread != "main":
            cores.setdefault(port, {})[queue] = int(thread.removeprefix("core"))
    return cores


def logged(text: str) -> dict[str, str]:
    """Settings of other_config as the log reports them; it reports changes only, others have their default."""
    settings = {"emc-insert-inv-prob": "100", "smc-enable": "false", "hw-offload": "false", "tc-policy": "none"}
    for key, pattern in _LOGGED.items():
        for word in pattern.findall(text):
            settings[key] = _AS_STORED.get(word, word)
    return settings


def port_configs(text: str) -> dict[str, dict[str, str]]:
    """`dpctl/show`: port -> its configuration, e.g. `xdp-mode-in-use`; ports that print none are left out."""
    configs: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if port := _PORT_CONFIG.match(line):
            pairs = (pair.partition("=") for pair in port[2].partition(": ")[2].split(", "))
            configs[port[1]] = {name: value for name, _, value in pairs if value}
    return configs


def xdp_modes(shown: str, interfaces: str) -> dict[str, str]:
    """Port -> the XDP mode in use: in `dpctl/show` of Open vSwitch 3.1, a status of the interface in 3.5."""
    modes = {name: dict(status).get("xdp-mode") for name, (_, status) in json.loads(interfaces)["data"]}
    modes |= {name: config.get("xdp-mode-in-use", modes.get(name)) for name, config in port_configs(shown).items()}
    return {name: mode for name, mode in modes.items() if mode}


def ring_layouts(text: str) -> dict[str, str]:
    """The switch's log: socket of a vhost-user port -> the layout that was negotiated last."""
    layouts = {socket: int(features, 16) >> _RING_PACKED & 1 for socket, features in _NEGOTIATED.findall(text)}
    return {socket: PACKED if is_packed else SPLIT for socket, is_packed in layouts.items()}


def _told(scenario: Scenario, places: OvsPlaces, control: Unixctl) -> dict[str, str]:
    """Of the settings in the database those that the switch itself tells."""
    asked = {key: value for key, value in tuned(spec(scenario)).items() if key not in spec(scenario).other_config}
    log = logged(places.host.read(places.log))
    kernel = spec(scenario).datapath in IN_KERNEL
    told = {key: log[key] for key in _OF_THE_KERNEL} if kernel else log  # the kernel's datapath has neither cache
    confirmed: dict[str, str] = {}
    for key in asked.keys() & told.keys():
        _same(f"other_config:{key}", asked[key], told[key])
        confirmed[key] = told[key]
    if "flow-limit" in asked:
        confirmed["flow-limit"] = _flow_limit(int(asked["flow-limit"]), control.call("upcall/show"))
    return confirmed


def _flow_limit(asked: int, shown: str) -> str:
    """The limit in force follows the load, up to what was asked for."""
    now = max((int(limit) for limit in _LIMIT.findall(shown)), default=None)
    if now is None or now > asked:
        _same("other_config:flow-limit", f"at most {asked}", None if now is None else str(now))
    return str(asked) if now == asked else f"{asked} at most, {now} now"


def _cores(scenario: Scenario, control: Unixctl) -> dict[str, str]:
    """A switch without any port to poll has no PMD thread."""
    polled = len(every_port(scenario)) - len(read_by_main(scenario)) + len(scenario.hosts)
    if not polled or "pmd-cpu-mask" in spec(scenario).other_config:
        return {}
    with_pmd = sorted(map(int, _PMD.findall(control.call("dpif-netdev/pmd-rxq-show"))))
    cores = ",".join(map(str, with_pmd))
    _same("cores with a PMD thread", ",".join(map(str, sorted(spec(scenario).pmd_cpus))), cores)
    return {"PMD cores": cores}


def other_config(places: OvsPlaces) -> dict[str, str]:
    """What the database holds, which says nothing of whether the switch follows it."""
    shown = places.ask_vsctl("--format=json", "--columns=other_config", "list", "Open_vSwitch")
    (((_, pairs),),) = json.loads(shown)["data"]
    return dict(pairs)


def _followed(scenario: Scenario, places: OvsPlaces) -> Iterator[tuple[str, str]]:
    """Settings as they are stored. Raises BenchError where another was asked for."""
    asked = tuned(spec(scenario)) | dict(spec(scenario).other_config)
    stored = other_config(places) if asked else {}
    for key, value in asked.items():
        _same(f"other_config:{key}", value, stored.get(key))
        yield key, stored[key]


def _port_modes(scenario: Scenario, places: OvsPlaces, control: Unixctl) -> dict[str, str]:
    if spec(scenario).datapath is not Datapath.AF_XDP:
        return {}
    interfaces = places.ask_vsctl("--format=json", "--columns=name,status", "list", "Interface")
    modes = xdp_modes(control.call("dpctl/show"), interfaces)
    if (asked := spec(scenario).xdp_mode) not in (None, BEST_EFFORT):
        by_main = {port.name for port in read_by_main(scenario)}
        for name in (name for name in ends(scenario) if name not in by_main):
            _same(f"xdp mode of {name}", str(asked), modes.get(name))
    return {f"xdp mode of {name}": modes.get(name, "not reported") for name in ends(scenario)}


def _offloads(host: Machine, netns: str) -> str:
    features = dict(_FEATURE.findall(host.run(["ethtool", "-k", Host.INTERFACE], netns)))
    return ", ".join(f"{name} {features.get(name, 'not reported')}" for name in _OFFLOADS)


def _check_port(port: OvsPort, queues: Mapping[int, int]) -> None:
    _same(f"receive queues of {port.name}", str(port.queues), str(len(queues)), _UNPOLLED)
    for queue, core in pinned_queues(port.rxq_affinity):
        where = queues.get(queue)
        _same(f"core of {port.name}'s queue {queue}", str(core), None if where is None else str(where))


_REFUSED = "the switch did not take this setting: see its log and ovs-vswitchd.conf.db(5)"
# ovs-vswitchd.conf.db(5), pmd-rxq-affinity: the PMD becomes isolated.
_UNPOLLED = "a core to which a queue is pinned (rxq_affinity) polls no other: pin all queues, or name more pmd_cpus"


def _same(what: str, asked: str, actual: str | None, hint: str = _REFUSED) -> None:
    if actual != asked:
        raise BenchError(f"{what}: asked for {asked}, found {'nothing' if actual is None else actual}", hint)


def nics(scenario: Scenario, places: OvsPlaces) -> Iterator[tuple[str, str]]:
    """(name, words) of each port that is a NIC. Raises DutError where the database has another form."""
    for port in scenario.ports:
        if scenario.link(port).device.nic:
            columns = ("--format=json", "--columns=status,options", "list", "Interface", port.name)
            yield f"NIC of {port.name}, by the switch", nic_words(places.ask_vsctl(*columns))


def nic_words(text: str) -> str:
    """Of the row that `ovs-vsctl --format=json list Interface NAME` prints; what it lacks is called not reported."""
    try:
        (((_, status), (_, options)),) = json.loads(text)["data"]
        told, asked = dict(status), dict(options)
    except (ValueError, KeyError, TypeError) as error:
        raise DutError(f"the database shows an interface in an unknown form: {text[:200]!r}") from error
    parts = [f"{name.replace('_', ' ')} {told.get(name, 'not reported')}" for name in _NIC_STATUS]
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in sorted(told.items()) if name.endswith("_offload")]
    flow = [f"{name} {asked[name]}" for name in _FLOW_CONTROL if name in asked]
    return ", ".join(str(part) for part in (*parts, *(flow or ["flow control not set"])))
