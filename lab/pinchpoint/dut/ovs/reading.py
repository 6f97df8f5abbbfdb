"""From the keys of a scenario file to a private switch, its ports and hosts: the checks across its keys."""

import re
from collections.abc import Callable, Mapping, Sequence

from pinchpoint.dut import checks
from pinchpoint.dut.device import RawScenario, Read
from pinchpoint.dut.ovs import bridges, spec, vdpa
from pinchpoint.dut.ovs.keys import FIRST_BRIDGE, NEEDS_PMD, TUNING
from pinchpoint.dut.ovs.spec import IN_KERNEL, POLLED, Bridge, Datapath, pinned_queues
from pinchpoint.dut.services import Option
from pinchpoint.keys.reader import Element, Values
from pinchpoint.keys.source import Source
from pinchpoint.model.scenario import Batch, Mode

_OF_BRIDGES = re.compile(r"to-.*|br[0-9]+")
# Extra ports and their peers, ports made in bulk, underlays of tunnels, patch ports between bridges, the kernel's own.
_OF_BENCH = re.compile(r"(idle|idlepeer|pp)[0-9]+|ul[0-9]+[ab](-ul[0-9]+[ab])?|.+-to-.+|ovs-(netdev|system)")

_Arrays = Mapping[str, Sequence[Element]]


def read(raw: RawScenario, source: Source) -> Callable[[], Read]:
    """Check what the file gives; returns what makes the switch if there are no problems."""
    dut = raw.dut
    arrays = {**raw.arrays, "port": raw.ports, "host": raw.hosts}
    datapath = dut.get("datapath")
    checks.own_cpus(raw, source, "pmd_cpus", datapath in POLLED)
    checks.backend(raw, source, "datapath", Datapath.DPDK)
    _check_names(source, arrays)
    bridges.check_bridges(source, dut, arrays)
    _check_ports(raw, source)
    _check_service(raw, source)
    action = raw.tables["blocked"].get("action")
    if action in NEEDS_PMD and datapath and datapath not in POLLED:
        source.mismatch(("blocked", "action"), f'another one where dut.datapath is "{datapath}"', action)
    is_batch = raw.measure is not None and issubclass(raw.measure, Batch)
    made = bridges.Rules(source, dut, arrays).bridges(needs_rules=not (raw.tables["service"] or is_batch))
    return lambda: Read(
        _dut(dut, arrays, made),
        tuple(spec.OvsPort(**port.values) for port in raw.ports),
        tuple(spec.OvsHost(**host.values) for host in raw.hosts),
    )


def _check_names(source: Source, arrays: _Arrays) -> None:
    """Bridges, ports, hosts and tunnels have names of their own, and none that the bench itself gives."""
    seen = {name for bridge in arrays["bridge"] if (name := bridge.values.get("name"))}
    tunnels = [tunnel.values for tunnel in arrays["tunnel"]]
    ends = {f"{tunnel.get('name')}-{tunnel.get(end)}" for tunnel in tunnels for end in ("first", "second")}
    for table in ("bridge", "port", "host", "tunnel"):
        for element in arrays[table]:
            name, at = element.values.get("name"), (*element.at, "name")
            if not name:
                continue
            if table != "bridge" and name in seen:
                source.problem(at, f'expected a unique name, found "{name}" again')
            elif table != "bridge" and _OF_BRIDGES.fullmatch(name):
                source.problem(at, f'expected a different name: "{name}" is the name of a bridge')
            elif _OF_BENCH.fullmatch(name):
                source.problem(at, f'expected a different name: "{name}" is reserved for ports that the bench creates')
            elif name in ends:
                source.problem(at, f'expected a different name: "{name}" is an end of a tunnel')
            seen.add(name)


def _check_ports(raw: RawScenario, source: Source) -> None:
    """Queues and NICs are such as the datapath has; tc is the datapath of an offload, and of nothing else."""
    dut = raw.dut
    datapath = dut.get("datapath")
    if datapath == Datapath.TC and dut.get("hw_offload") is False:
        source.mismatch(("dut", "hw_offload"), f'true where dut.datapath is "{Datapath.TC}"', False)
    if datapath not in (None, Datapath.TC) and dut.get("tc_policy") is not None:
        source.mismatch(("dut", "tc_policy"), f'dut.datapath = "{Datapath.TC}" with it', dut["tc_policy"])
    if datapath and datapath not in POLLED:
        checks.one_queue(raw, source, f'dut.datapath is "{datapath}"')
    for port in raw.ports:
        _check_affinity(source, port, dut)
    if datapath and datapath != Datapath.DPDK:
        checks.no_vhost(raw, source, f'dut.datapath is "{datapath}"')
    vdpa.check(raw, source)


def _check_service(raw: RawScenario, source: Source) -> None:
    """A service is the userspace datapath's, on the first bridge; its settings are such as connection tracking has."""
    service = raw.tables["service"]
    if not service:
        return
    if (datapath := raw.dut.get("datapath")) in IN_KERNEL:
        why = "where there is a [service]: connections are the kernel's own otherwise, and so are their limits"
        source.mismatch(("dut", "datapath"), f'"dpdk", "af_xdp" or "af_packet" {why}', datapath)
    for port in raw.ports:
        of_service = port.values.get("name") in (service.get("client_port"), service.get("server_port"))
        if of_service and (bridge := port.values.get("bridge", FIRST_BRIDGE)) != FIRST_BRIDGE:
            source.mismatch((*port.at, "bridge"), f'"{FIRST_BRIDGE}", which balances the [service]', bridge)
    if service.get("mode") == Mode.DNAT and service.get(Option.LOCAL_PORTS) is not None:
        source.problem(("service", Option.LOCAL_PORTS), f'expected none with mode = "{Mode.DNAT}"')
    if service.get(Option.MAX_CONNECTIONS) is not None and raw.dut.get("conntrack_limit") is not None:
        source.problem(("dut", "conntrack_limit"), "expected none beside service.max_connections, which sets the same")
    for key in (Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S):
        if (value := service.get(key)) is not None and value != int(value):
            source.mismatch(("service", key), "whole seconds", value)


def _check_affinity(source: Source, port: Element, dut: Values) -> None:
    text, at = port.values.get("rxq_affinity"), (*port.at, "rxq_affinity")
    if not text:
        return
    if dut.get("datapath") and dut["datapath"] not in POLLED:
        source.mismatch(at, f'"" where dut.datapath is "{dut["datapath"]}": no PMD thread polls', text)
    pairs, cpus = pinned_queues(text), dut.get("pmd_cpus", ())
    queues = [queue for queue, _ in pairs]
    if len(set(queues)) < len(queues) or max(queues) >= port.values.get("queues", max(queues) + 1):
        source.mismatch(at, f"each queue once, from 0 to {port.values.get('queues', 1) - 1}", text)
    if cpus and any(cpu not in cpus for _, cpu in pairs):
        source.mismatch(at, f"CPUs of dut.pmd_cpus ({', '.join(map(str, cpus))})", text)


def _dut(dut: Values, arrays: _Arrays, made: tuple[Bridge, ...]) -> spec.OvsDut:
    return spec.OvsDut(
        datapath=Datapath(dut["datapath"]),
        pmd_cpus=dut["pmd_cpus"],
        memory_mb=dut["memory_mb"],
        other_config=dut["other_config"],
        tuning=spec.Tuning(**{key.model_field: dut[key.model_field] for key in TUNING}),
        bridges=made,
        patches=bridges.patches(dut, arrays["patch"]),
        tunnels=tuple(spec.Tunnel(**tunnel.values) for tunnel in arrays["tunnel"]),
        arp_responders=tuple(spec.ArpResponder(**responder.values) for responder in arrays["arp_responder"]),
        extra_ports=spec.ExtraPorts(dut["extra_ports"], dut["extra_ports_kind"]),
        vswitchd=dut["vswitchd"],
    )
