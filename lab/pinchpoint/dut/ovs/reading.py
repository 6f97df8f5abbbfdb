"""From the keys of a scenario file to a private switch, its ports and hosts: the checks across its keys.

Of bridges there is the row that `dut.cascade` makes, and those beside it. Their rules hold placeholders: `{left}` for a
port; in a series `{i}`, `{u16:...}`, `{ipv4:...}`, `{mac:...}`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pinchpoint.dut import checks
from pinchpoint.dut.device import RawScenario, Read
from pinchpoint.dut.ovs import port_checks, spec
from pinchpoint.dut.ovs.ports import check_vdpa
from pinchpoint.dut.ovs.spec import IN_KERNEL, POLLED, Bridge, Datapath, Patch, Rule, RuleSeries, pinned_queues
from pinchpoint.dut.services import Option
from pinchpoint.keys import kinds
from pinchpoint.keys.lexical import Path
from pinchpoint.keys.reader import Element, Values, refuse_doubles
from pinchpoint.keys.source import Source, show
from pinchpoint.model import headers
from pinchpoint.model.scenario import Batch, Mode

_OF_BRIDGES = re.compile(r"to-.*|br[0-9]+")
# Extra ports and their peers, ports made in bulk, underlays of tunnels, patch ports between bridges, the kernel's own.
_OF_BENCH = re.compile(r"(idle|idlepeer|pp)[0-9]+|ul[0-9]+[ab](-ul[0-9]+[ab])?|.+-to-.+|ovs-(netdev|system)")

_Arrays = Mapping[str, Sequence[Element]]


def read(raw: RawScenario) -> Callable[[], Read]:
    """Check what the file gives; returns what makes the switch if there are no problems."""
    dut = raw.dut
    arrays = {**raw.arrays, "port": raw.ports, "host": raw.hosts}
    datapath = dut.get("datapath")
    checks.own_cpus(raw, "pmd_cpus", datapath in POLLED)
    checks.backend(raw, "datapath", Datapath.DPDK)
    _check_names(raw.source, arrays)
    check_bridges(raw.source, dut, arrays)
    _check_ports(raw)
    _check_nics(raw)
    _check_service(raw)
    action = raw.tables["blocked"].get("action")
    if action in spec.NEEDS_PMD and datapath and datapath not in POLLED:
        raw.mismatch(("blocked", "action"), f'another one where dut.datapath is "{datapath}"', action)
    is_batch = raw.measure is not None and issubclass(raw.measure, Batch)
    made = Rules(raw.source, dut, arrays).bridges(needs_rules=not (raw.tables["service"] or is_batch))
    return lambda: _read(raw, arrays, made)


def _read(raw: RawScenario, arrays: _Arrays, made: tuple[Bridge, ...]) -> Read:
    """Of a file without problems. The ports of guests are the device's own."""
    ports = [spec.OvsPort(**port.values) for port in raw.ports]
    of_guests = {name for port in ports if port.forwards_to for name in (port.name, port.forwards_to)}
    inner = tuple(port for port in ports if port.name in of_guests)
    return Read(
        replace(_dut(raw.dut, arrays, made), inner=inner),
        tuple(port for port in ports if port.name not in of_guests),
        tuple(spec.OvsHost(**host.values) for host in raw.hosts),
    )


def _check_names(source: Source, arrays: _Arrays) -> None:
    """Bridges, ports, hosts and tunnels have names of their own, and none that the bench itself gives."""
    seen = {name for bridge in arrays["bridge"] if (name := bridge.values.get("name"))}
    tunnels = [tunnel.values for tunnel in arrays["tunnel"]]
    ends = {f"{tunnel.get('name')}-{tunnel.get(end)}" for tunnel in tunnels for end in ("first", "second")}
    for table in ("bridge", "port", "host", "nic", "tunnel", "bond"):
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


def _check_ports(raw: RawScenario) -> None:
    """Queues and NICs are such as the datapath has; tc is the datapath of an offload, and of nothing else."""
    dut = raw.dut
    datapath = dut.get("datapath")
    if datapath == Datapath.TC and dut.get("hw_offload") is False:
        raw.mismatch(("dut", "hw_offload"), f'true where dut.datapath is "{Datapath.TC}"', False)
    if datapath not in (None, Datapath.TC) and dut.get("tc_policy") is not None:
        raw.mismatch(("dut", "tc_policy"), f'dut.datapath = "{Datapath.TC}" with it', dut["tc_policy"])
    if datapath not in (None, Datapath.AF_XDP) and dut.get("xdp_mode") is not None:
        raw.mismatch(("dut", "xdp_mode"), f'dut.datapath = "{Datapath.AF_XDP}" with it', dut["xdp_mode"])
    if datapath and datapath not in POLLED:
        checks.one_queue(raw, f'dut.datapath is "{datapath}"')
    for port in raw.ports:
        _check_affinity(raw.source, port, dut)
        if port.values.get("devargs") and not port.values.get("pci"):
            raw.mismatch((*port.at, "devargs"), "none where the port is no NIC", port.values["devargs"])
    if datapath and datapath != Datapath.DPDK:
        checks.no_vhost(raw, f'dut.datapath is "{datapath}"')
    check_vdpa(raw)
    port_checks.check(raw)


def _check_nics(raw: RawScenario) -> None:
    """NICs beside ports are DPDK's, and of no port."""
    ends = [port.values.get("pci") for port in raw.ports]
    ends += [port.values.get("engine_pci") for port in raw.ports if checks.is_beside(port, raw)]
    taken = set(filter(None, ends))
    for nic in raw.arrays["nic"]:
        if (datapath := raw.dut.get("datapath")) not in (None, Datapath.DPDK):
            raw.problem(nic.at, f'expected dut.datapath = "{Datapath.DPDK}" with [[nic]], found "{datapath}"')
        if (address := nic.values.get("address")) in taken:
            raw.problem((*nic.at, "pci"), f'expected one that nothing else has, found "{address}" again')
        taken.add(address)


def _check_service(raw: RawScenario) -> None:
    """A service is the userspace datapath's, on the first bridge; its settings are such as connection tracking has."""
    service = raw.tables["service"]
    if not service:
        return
    if (datapath := raw.dut.get("datapath")) in IN_KERNEL:
        why = "where there is a [service]: connections are the kernel's own otherwise, and so are their limits"
        raw.mismatch(("dut", "datapath"), f'"dpdk", "af_xdp" or "af_packet" {why}', datapath)
    for port in raw.ports:
        of_service = port.values.get("name") in (service.get("client_port"), service.get("server_port"))
        if of_service and (bridge := port.values.get("bridge", spec.FIRST_BRIDGE)) != spec.FIRST_BRIDGE:
            raw.mismatch((*port.at, "bridge"), f'"{spec.FIRST_BRIDGE}", which balances the [service]', bridge)
    if service.get("mode") == Mode.DNAT and service.get(Option.LOCAL_PORTS) is not None:
        raw.problem(("service", Option.LOCAL_PORTS), f'expected none with mode = "{Mode.DNAT}"')
    if service.get(Option.MAX_CONNECTIONS) is not None and raw.dut.get("conntrack_limit") is not None:
        raw.problem(("dut", "conntrack_limit"), "expected none with service.max_connections, which sets the same limit")
    for key in (Option.OPENING_S, Option.ESTABLISHED_S, Option.CLOSED_S):
        checks.whole_seconds(raw, key)


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
        tuning=spec.Tuning(**{key.model_field: dut[key.model_field] for key in spec.TUNING}),
        bridges=made,
        patches=patches(dut, arrays["patch"]),
        tunnels=tuple(spec.Tunnel(**tunnel.values) for tunnel in arrays["tunnel"]),
        arp_responders=tuple(spec.ArpResponder(**responder.values) for responder in arrays["arp_responder"]),
        extra_ports=spec.ExtraPorts(dut["extra_ports"], dut["extra_ports_kind"]),
        vswitchd=dut["vswitchd"],
        nics=tuple(spec.OvsNic(**nic.values) for nic in arrays["nic"]),
        xdp_mode=dut["xdp_mode"],
        mirrors=tuple(port_checks.mirrors(arrays["mirror"], arrays["port"])),
        bonds=tuple(port_checks.bonds(arrays["bond"])),
    )


_PREVIOUS, _NEXT = "{to-previous}", "{to-next}"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NUMBER = re.compile(r"[0-9]{1,5}")
# What `ovs-ofctl dump-flows`, `dump-meters` and `dump-groups` print beside the rules: headings, and counters, which
# `add-flows` skips. Bands of a meter have lines of their own there.
_HEADING = re.compile(r"(?:NXST|OFPST)_(?:FLOW|METER_CONFIG|GROUP_DESC) reply\b")
_BAND = re.compile(r"type=\w+")
_COUNTERS = re.compile(r"\b(?:duration|n_packets|n_bytes|idle_age|hard_age)=[^,\s]+,?\s*")
_NEEDED = re.compile(r"\b(meter|group)[:=](\d+)")
_NUMBERED = {"meter": "meter", "group": "group_id"}
_HIGHEST = {"u16": 2**16 - 1, "ipv4": 2**32 - 1, "mac": 2**48 - 1}
_ENDS = (("from", "first"), ("to", "second"))  # key and field of each end of a patch or a tunnel


def row(dut: Values) -> list[str]:
    """The names of the bridges in a row: br0, br1, ..."""
    return [f"br{number}" for number in range(dut.get("cascade", 1))]


def check_bridges(source: Source, dut: Values, arrays: Mapping[str, Sequence[Element]]) -> None:
    """Bridges have names of their own, and those that ports, hosts, patches and tunnels name are there."""
    refuse_doubles(source, arrays["bridge"], row(dut))
    own = (name for bridge in arrays["bridge"] if (name := bridge.values.get("name")))
    there = list(dict.fromkeys((*row(dut), *own)))
    for table in ("port", "host", "nic", "arp_responder", "patch", "tunnel"):
        keys = _ENDS if table in ("patch", "tunnel") else (("bridge", "bridge"),)
        for element, (key, field) in ((element, end) for element in arrays[table] for end in keys):
            _place(source, element, key, field, there, row(dut)[-1])
    _check_ends(source, arrays["patch"], patches(dut, ()))
    _check_ends(source, arrays["tunnel"], None)


def _place(source: Source, element: Element, key: str, field: str, there: Sequence[str], last: str) -> None:
    """Put the bridge meant in place of "last", and refuse one that is not there."""
    name = element.values.get(field)
    if name == spec.LAST_BRIDGE:
        element.values[field] = last
    elif name and name not in there:
        near = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
        source.mismatch((*element.at, key), f"the name of a bridge ({near})", name)


def _check_ends(source: Source, elements: Sequence[Element], joined: Sequence[Patch] | None) -> None:
    """Two ends are two bridges; no two patches (`joined`: those of the row) join the same."""
    pairs = {frozenset((patch.first, patch.second)) for patch in joined or ()}
    for element in elements:
        first, second = element.values.get("first"), element.values.get("second")
        if not first or not second:
            continue
        if first == second:
            source.problem((*element.at, "to"), f'expected a bridge other than "from", found "{first}" in both')
        pair = frozenset((first, second))
        if joined is not None and pair in pairs:
            expected = "expected a pair of bridges that no other patch joins"
            source.problem(element.at, f"{expected}, found {first} and {second} again")
        pairs.add(pair)


def patches(dut: Values, elements: Sequence[Element]) -> tuple[Patch, ...]:
    """The patches of the row, then those of the file."""
    chain = (Patch(first, second) for first, second in pairwise(row(dut)))
    return (*chain, *(Patch(**patch.values) for patch in elements))


class Rules:
    """Reads the rules of every bridge, checking their placeholders against the ports that the bridge has."""

    def __init__(self, source: Source, dut: Values, arrays: Mapping[str, Sequence[Element]]) -> None:
        self.source = source
        self.dut = dut
        self.arrays = arrays
        self.names = _names(dut, arrays)
        self._there = set[str]()  # meters and groups of the bridge whose rules are read

    def bridges(self, needs_rules: bool) -> tuple[Bridge, ...]:
        """br0, the rest of its row, the bridges beside it. `needs_rules`: whether br0 must have any."""
        self._count()
        table, series = "[[dut.rule_series]]", self.arrays["dut.rule_series"]
        first = self._bridge(spec.FIRST_BRIDGE, self.dut, ("dut", "rules"), series, table if needs_rules else "")
        return (first, *self._transit(), *self._others())

    def _bridge(self, name: str, values: Values, at: Path, series: Sequence[Element], table: str) -> Bridge:
        """With rules at `at` and in series; it must have any where there is a `table` for them."""
        meters, groups = (self._numbered(kind, values, at, name) for kind in ("meter", "group"))
        rules = self._judged(self._lines(values.get("rules", ""), at), at, name)
        made = self._series(series, name)
        answers = any(responder.values.get("bridge") == name for responder in self.arrays["arp_responder"])
        if table and "rules" in values and not (rules or series or answers):
            self.source.problem(at, f"expected at least one rule here or in {table}")
        self._there = set()
        return Bridge(name, rules, made, meters, groups)

    def _numbered(self, kind: str, values: Values, rules_at: Path, bridge: str) -> tuple[Rule, ...]:
        """The meters or groups of a bridge; from now on its rules may name them."""
        at: Path = (*rules_at[:-1], f"{kind}s")
        read = list[Rule]()
        for rule in self._lines(values.get(f"{kind}s", ""), at):
            if read and _BAND.match(rule.text):
                read[-1] = replace(read[-1], text=f"{read[-1].text} {rule.text}")
            else:
                read.append(rule)
        for rule in read:
            number = re.search(rf"\b{_NUMBERED[kind]}=(\d+)", rule.text)
            if number is None or rule.text.startswith("-"):
                told = f"expected a {kind} with its number ({_NUMBERED[kind]}=...), found {show(rule.text)}"
                self.source.problem(at, told, rule.line)
            elif (word := f"{kind}:{number[1]}") in self._there:
                self.source.problem(at, f"expected each {kind} once, found {word} again", rule.line)
            else:
                self._there.add(word)
        return self._judged(read, at, bridge)

    def _transit(self) -> Iterator[Bridge]:
        names = row(self.dut)
        at: Path = ("dut", "transit_rules")
        read = list(self._lines(self.dut.get("transit_rules", ""), at))
        if len(names) > 1 and not read and "transit_rules" in self.dut:
            self.source.problem(at, "expected at least one rule")
        for number, name in enumerate(names[1:], start=1):
            near, far = f"{{to-br{number - 1}}}", f"{{to-br{number + 1}}}"
            kept = (rule for rule in read if _NEXT not in rule.text or number < len(names) - 1)
            rules = (Rule(rule.text.replace(_PREVIOUS, near).replace(_NEXT, far), rule.line) for rule in kept)
            yield Bridge(name, self._judged(rules, at, name), ())

    def _others(self) -> Iterator[Bridge]:
        for bridge in self.arrays["bridge"]:
            own = [series for series in self.arrays["bridge.rule_series"] if series.at[:2] == bridge.at]
            table = "[[bridge.rule_series]]" if "name" in bridge.values else ""
            yield self._bridge(bridge.values.get("name", ""), bridge.values, (*bridge.at, "rules"), own, table)

    def _count(self) -> None:
        series = (*self.arrays["dut.rule_series"], *self.arrays["bridge.rule_series"])
        answered = [answer.values["ipv4"].count for answer in self.arrays["arp_responder"] if "ipv4" in answer.values]
        total = sum(element.values.get("count", 0) for element in series) + sum(answered)
        if total > spec.MOST_RULES:
            expected = f"expected at most {spec.MOST_RULES:,} rules in all, found {total:,}"
            self.source.problem(("dut", "rule_series"), expected)

    def _lines(self, text: str, at: Path) -> Iterator[Rule]:
        for number, line in enumerate(text.split("\n")):
            rule = _COUNTERS.sub("", line.replace("\t", " ")).strip()
            if rule and not rule.startswith("#") and not _HEADING.match(rule):
                yield Rule(rule, self.source.text_line(at, number))

    def _judged(self, rules: Iterable[Rule], at: Path, bridge: str) -> tuple[Rule, ...]:
        """The same, their problems noted."""
        judged = tuple(rules)
        for rule in judged:
            for problem in self._problems(rule.text, bridge):
                self.source.problem(at, problem, rule.line)
        return judged

    def _series(self, elements: Sequence[Element], bridge: str) -> tuple[RuleSeries, ...]:
        made = []
        for element in elements:
            at, values = (*element.at, "rule"), element.values
            if {"rule", "count", "first"} <= values.keys():
                text, count, first = values["rule"].strip(), values["count"], values["first"]
                made.append(RuleSeries(text, count, first, self.source.line(at)))
                for problem in self._problems(text, bridge, first + count - 1):
                    self.source.problem(at, problem)
        return tuple(made)

    def _problems(self, rule: str, bridge: str, last: int | None = None) -> Sequence[str]:
        """`last`: the highest i of a series."""
        placeholders = _placeholder_problems(rule, self.names.get(bridge, []), last)
        return _text_problems(rule) or [*_absent(rule, self._there), *placeholders]


def _names(dut: Values, arrays: Mapping[str, Sequence[Element]]) -> dict[str, list[str]]:
    """What rules may name, by bridge."""
    names: dict[str, list[str]] = defaultdict(list)
    for table in ("port", "host", "nic"):
        for element in arrays[table]:
            if {"name", "bridge"} <= element.values.keys():
                names[element.values["bridge"]].append(element.values["name"])
    whole = [patch for patch in arrays["patch"] if {"first", "second"} <= patch.values.keys()]
    for patch in patches(dut, whole):
        names[patch.first].append(f"to-{patch.second}")
        names[patch.second].append(f"to-{patch.first}")
    for tunnel in arrays["tunnel"]:
        for end in ("first", "second"):
            if {"name", end} <= tunnel.values.keys():
                names[tunnel.values[end]].append(tunnel.values["name"])
    return names


def _text_problems(rule: str) -> list[str]:
    if not rule or rule.startswith("#"):
        return ["expected a rule, found none"]
    if not kinds.is_plain(rule):
        return [f"expected text without control characters, found {show(rule)}"]
    if len(rule) > kinds.LONGEST_RULE:
        return [f"expected at most {kinds.LONGEST_RULE:,} characters, found {len(rule):,}"]
    return []


def _absent(rule: str, there: Collection[str]) -> Iterator[str]:
    """The meters and groups that a rule names, and its bridge has not."""
    for kind, number in _NEEDED.findall(rule):
        if f"{kind}:{number}" not in there:
            yield f"{kind}:{number}: there is no {kind} {number}; its bridge's key {kind}s makes them"


def _placeholder_problems(rule: str, ports: Collection[str], last: int | None) -> list[str]:
    """What is wrong with the placeholders of a single rule, or of a series whose highest i is `last`."""
    unknown = [name for name in _PLACEHOLDER.findall(rule) if name not in ports]
    told = (_unknown(name, ports) if last is None else _series_problem(name, ports, last) for name in unknown)
    problems = [problem for problem in told if problem]
    if re.search(r"[{}]", _PLACEHOLDER.sub("", rule)):
        problems.append("a brace without its partner")
    return problems


def _series_problem(name: str, ports: Collection[str], last: int) -> str:
    if name == "i":
        return ""
    kind, colon, value = name.partition(":")
    if not colon or kind not in _HIGHEST:
        return _unknown(name, (*ports, "i", "u16:...", "ipv4:...", "mac:..."))
    what = "number" if kind == "u16" else "address"
    try:
        first = _first(kind, value)
    except ValueError:
        return f"{{{name}}} has no valid {what}"
    return f"{{{name}}} runs past the last {what} at i = {last:,}" if first + last > _HIGHEST[kind] else ""


def _unknown(name: str, known: Collection[str]) -> str:
    choices = ", ".join(f"{{{choice}}}" for choice in known) or "no port names yet"
    return f"{{{name}}} is unknown; known here: {choices}"


def _first(kind: str, value: str) -> int:
    """Raises ValueError."""
    if kind != "u16":
        return (headers.IPV4 if kind == "ipv4" else headers.MAC).number(value)
    if not _NUMBER.fullmatch(value) or int(value) > _HIGHEST[kind]:
        raise ValueError(value)
    return int(value)
