"""Network cards from recorded trees of sysfs: what is refused, what is bound, and what comes back."""

import json
from dataclasses import replace
from pathlib import PurePosixPath

import msgspec
import pytest

from pinchpoint.bench import actions
from pinchpoint.bench import resource as r
from pinchpoint.bench.journal import Entry
from pinchpoint.dut import nics as ports
from pinchpoint.dut.ovs.settings import nic_words
from pinchpoint.host import nics
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import BenchError, DutError, RequirementError
from pinchpoint.model.site import Remote, Site
from pinchpoint.scenario import parse

LEFT, ENGINE, STRANGER = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0"
PCI = "/sys/bus/pci"
SCENARIO = f"""
[dut]
datapath = "dpdk"
pmd_cpus = [1]
rules = "actions=drop"
[[port]]
name = "left"
pci = "{LEFT}"
engine_pci = "{ENGINE}"
[[port]]
name = "right"
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
"""


class Tree:
    """A machine as files and answers; a driver that is bound to a card makes its interface."""

    name = ""

    def __init__(self):
        self.files = {f"{PCI}/drivers/{name}/bind": "" for name in ("e1000e", "vfio-pci", "mlx5_core")}
        self.answers, self.asked = {}, []
        self.interfaces = {}

    def card(self, address, driver="e1000e", group="7", interface="", kind="0x020000"):
        place = f"{PCI}/devices/{address}"
        self.files |= {f"{place}/class": f"{kind}\n", f"{place}/vendor": "0x8086\n", f"{place}/device": "0x10d3\n"}
        self.files |= {f"{place}/numa_node": "-1\n", f"{place}/driver_override": "(null)\n"}
        self.interfaces[address] = interface
        if group:
            self.files[f"/sys/kernel/iommu_groups/{group}/devices/{address}"] = ""
        self.bound(address, driver)
        return self

    def bound(self, address, driver):
        place, interface = f"{PCI}/devices/{address}", self.interfaces[address]
        self.files[f"{place}/uevent"] = f"DRIVER={driver}\nPCI_CLASS=20000\n" if driver else "PCI_CLASS=20000\n"
        net = f"/sys/class/net/{interface}"
        own = {f"{place}/net/{interface}": "", f"{net}/mtu": "1400", f"{net}/flags": "0x1003"} if interface else {}
        for path in own:
            self.files.pop(path, None)
        if driver and driver != "vfio-pci":
            self.files |= own

    def read(self, path):
        if path not in self.files:
            raise FileNotFoundError(2, "No such file", path)
        return self.files[path]

    def exists(self, path):
        return any(file == path or file.startswith(f"{path}/") for file in self.files)

    def names(self, folder):
        if not self.exists(folder):
            raise FileNotFoundError(2, "No such folder", folder)
        return sorted(
            {file[len(folder) + 1 :].partition("/")[0] for file in self.files if file.startswith(f"{folder}/")}
        )

    def write(self, path, text):
        self.asked.append(("write", path, text))
        if path.endswith("/driver/unbind"):
            self.bound(text, "")
        elif path.endswith("/drivers_probe"):
            wanted = self.files[f"{PCI}/devices/{text}/driver_override"].strip()
            self.bound(text, wanted if wanted != "(null)" else "e1000e")
        elif path.endswith("/bind"):
            self.bound(text, PurePosixPath(path).parent.name)
        else:
            self.files[path] = text if text.strip() else "(null)\n"

    def run(self, argv, *_, **__):
        self.asked.append(tuple(argv))
        answer = self.answers.get(" ".join(argv), "")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def which(self, program):
        return f"/sbin/{program}" if program in self.answers else None

    def signal(self, *_):
        return []


@pytest.fixture
def machine():
    tree = Tree().card(LEFT, interface="eth1").card(ENGINE, group="8", interface="eth2")
    tree.files["/proc/uptime"] = "1 1"
    return tree


def scenario(**changes):
    wanted = parse(SCENARIO, "nics.toml")
    left, right = wanted.ports
    return replace(wanted, ports=(replace(left, **changes), right))


def here(wanted):
    return ports.at(wanted, wanted.site)


def lacking(machine, wanted):
    return [(need.name, need.detail) for need in ports.needs(machine, here(wanted)) if not need.ok]


def test_free_cards_are_taken_as_they_are_found(machine):
    machine.answers["ip -j address show dev eth1"] = json.dumps(
        [
            {
                "addr_info": [
                    {"local": "192.0.2.1", "prefixlen": 24, "scope": "global"},
                    {"local": "fe80::1", "prefixlen": 64, "family": "inet6", "scope": "link"},
                ]
            }
        ]
    )
    machine.answers["ip -4 route show table all dev eth1"] = (
        "192.0.2.0/24 proto kernel scope link src 192.0.2.1 linkdown\n198.51.100.0/24 via 192.0.2.9 linkdown\n"
    )
    assert lacking(machine, scenario()) == []
    left, engine = ports.resources(machine, here(scenario()), "b1", "pp-b1-dut")
    assert left == r.Nic(
        address=LEFT,
        bench_id="b1",
        driver="vfio-pci",
        driver_before="e1000e",
        interface="eth1",
        mtu=1400,
        is_up=True,
        addresses=("192.0.2.1/24 scope global",),
        routes=("-4 198.51.100.0/24 via 192.0.2.9",),
    )
    assert engine.address == ENGINE
    assert "was e1000e, eth1 up, MTU 1400, 192.0.2.1/24" in left.describe()


def in_use(machine):
    machine.files[f"{PCI}/devices/{LEFT}/uio/uio0/dev"] = ""
    machine.answers[f"sh -c {nics.OPENED_BY} sh /dev/uio0"] = "/proc/4711/fd/9\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.answers.update({"ip -4 -j route show default": '[{"dst": "default", "dev": "eth1"}]'}), "default"),
        (
            lambda m: m.answers.update(
                {"ip -4 -j route show default": '[{"dst": "default", "nexthops": [{"dev": "eth9"}, {"dev": "eth1"}]}]'}
            ),
            "eth1 carries the default route",
        ),
        (lambda m: m.card(STRANGER, driver="nvme", group="7", kind="0x010802"), f"other devices: {STRANGER} (nvme)"),
        (lambda m: m.files.update({f"{PCI}/devices/{LEFT}/sriov_numvfs": "4\n"}), "4 virtual functions"),
        (lambda m: m.files.update({"/sys/class/net/eth1/master/uevent": "INTERFACE=bond0\n"}), "a port of bond0"),
        (lambda m: m.files.update({"/sys/class/net/eth1/upper_eth1.7/mtu": ""}), "eth1.7 depend on eth1"),
        (lambda m: m.files.update({f"{PCI}/devices/{LEFT}/net/eth3": ""}), "several interfaces"),
        (in_use, "/dev/uio0 of process 4711"),
        (lambda m: m.files.pop(f"{PCI}/devices/{LEFT}/class"), "no network card has this address"),
        (lambda m: m.card(LEFT, kind="0x010802"), "no network card has this address"),
    ],
)
def test_a_card_in_use_is_refused_with_the_reason(machine, change, words):
    change(machine)
    ((name, detail),) = lacking(machine, scenario())
    assert name == f"NIC {LEFT}"
    assert words in detail


@pytest.mark.parametrize("local", ["192.0.2.1:22", "[::ffff:192.0.2.1]:22", "192.0.2.1%eth1:22"])
def test_a_card_whose_address_has_a_connection_is_refused_and_the_connection_named(machine, local):
    info = {"local": "192.0.2.1", "prefixlen": 24, "scope": "global"}
    machine.answers["ip -j address show dev eth1"] = json.dumps([{"addr_info": [info]}])
    machine.answers["ss -Htn state established"] = f"0      0      {local}  192.0.2.7:51234\n"
    ((_, detail),) = lacking(machine, scenario())
    assert detail == f"eth1 has 192.0.2.1, which a connection uses: {local} - 192.0.2.7:51234"


def test_a_connection_over_a_link_local_address_counts(machine):
    info = {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"}
    machine.answers["ip -j address show dev eth1"] = json.dumps([{"addr_info": [info]}])
    machine.answers["ss -Htn state established"] = "0      0      [fe80::1]%eth1:22  [fe80::2]%eth1:51234\n"
    ((_, detail),) = lacking(machine, scenario())
    assert detail.startswith("eth1 has fe80::1, which a connection uses")


def test_where_addresses_cannot_be_listed_nothing_is_taken(machine):
    machine.answers["ip -j address show dev eth1"] = CommandFailed(["ip"], "timed out")
    with pytest.raises(BenchError, match="timed out"):
        lacking(machine, scenario())


def test_a_route_whose_gateway_comes_later_in_the_list_is_restored(machine):
    routes = ("-4 10.0.0.0/8 via 172.31.1.1 onlink", "-4 198.51.100.0/24 via 192.0.2.9")
    left = replace_struct(taken(machine), routes=routes)
    actions.create(left, machine)
    first, run = "ip -4 route replace 10.0.0.0/8 via 172.31.1.1 onlink dev eth1", machine.run
    refused = []

    def once(argv, *options, **named):
        if " ".join(argv) == first and not refused:
            refused.append(argv)
            raise CommandFailed(argv, "Nexthop has invalid gateway.")
        return run(argv, *options, **named)

    machine.run = once
    actions.remove(left, machine)
    assert [" ".join(words) for words in machine.asked if "replace" in words][-1] == first


def test_where_connections_cannot_be_listed_nothing_is_taken(machine):
    machine.answers["ss -Htn state established"] = CommandFailed(["ss"], "no permission")
    with pytest.raises(BenchError, match="no permission"):
        lacking(machine, scenario())


def test_a_bridge_or_a_card_of_the_same_bench_may_share_the_group(machine):
    machine.card("0000:00:01.0", driver="pcieport", group="7", kind="0x060400")
    machine.card(ENGINE, group="7")
    assert lacking(machine, scenario()) == []


def test_without_an_iommu_a_card_is_used_only_where_a_key_or_the_user_says_so(machine):
    for address in (LEFT, ENGINE):
        group = "7" if address == LEFT else "8"
        del machine.files[f"/sys/kernel/iommu_groups/{group}/devices/{address}"]
    machine.files[nics.UNSAFE] = "N\n"
    ((name, detail),) = lacking(machine, scenario())
    assert (name, LEFT in detail) == ("IOMMU", True)
    first, *cards = ports.resources(machine, here(scenario(no_iommu=True)), "b1", "")
    assert lacking(machine, scenario(no_iommu=True)) == []
    assert first == r.NoIommu("N")
    assert {card.driver for card in cards} == {"vfio-pci"}
    machine.files[nics.UNSAFE] = "Y\n"
    assert lacking(machine, scenario()) == []
    assert not any(
        isinstance(resource, r.NoIommu)
        for resource in ports.resources(machine, here(scenario(no_iommu=True)), "b1", "")
    )


def test_a_kernel_whose_vfio_needs_an_iommu_gets_another_driver(machine):
    for address, group in ((LEFT, "7"), (ENGINE, "8")):
        del machine.files[f"/sys/kernel/iommu_groups/{group}/devices/{address}"]
    machine.files[f"{PCI}/drivers/uio_pci_generic/bind"] = ""
    assert lacking(machine, scenario(no_iommu=True)) == []
    cards = ports.resources(machine, here(scenario(no_iommu=True)), "b1", "")
    assert [card.driver for card in cards] == ["uio_pci_generic", "uio_pci_generic"]


def test_a_bifurcated_driver_stays_and_the_devices_interface_goes_where_the_device_runs(machine):
    machine.card(LEFT, driver="mlx5_core", interface="eth1").card(ENGINE, driver="mlx5_core", interface="eth2")
    left, engine = ports.resources(machine, here(scenario()), "b1", "pp-b1-dut")
    assert (left.driver, left.netns, engine.netns) == ("", "pp-b1-dut", "")
    actions.create(left, machine)
    assert machine.asked[-1] == ("ip", "link", "set", "dev", "eth1", "netns", "pp-b1-dut")


def taken(machine):
    (left, *_) = ports.resources(machine, here(scenario()), "b1", "")
    machine.files["/proc/self/stat"] = ""
    return left


def test_a_card_comes_back_with_its_driver_its_settings_and_its_interface(machine):
    left = replace_struct(
        taken(machine), addresses=("192.0.2.1/24 scope global",), routes=("-4 198.51.100.0/24 via 192.0.2.9",)
    )
    actions.create(left, machine)
    assert nics.driver(machine, LEFT) == "vfio-pci"
    machine.asked.clear()
    for _ in range(2):  # `clean` may come after an undo that was cut short
        actions.remove(left, machine)
        assert nics.driver(machine, LEFT) == "e1000e"
        assert machine.files[f"{PCI}/devices/{LEFT}/driver_override"] == "(null)\n"
    assert [words[1:] for words in machine.asked if words[0] == "ip"][:4] == [
        ("link", "set", "dev", "eth1", "mtu", "1400"),
        ("link", "set", "dev", "eth1", "up"),
        ("address", "replace", "192.0.2.1/24", "scope", "global", "dev", "eth1"),
        ("-4", "route", "replace", "198.51.100.0/24", "via", "192.0.2.9", "dev", "eth1"),
    ]


def replace_struct(struct, **changes):
    return msgspec.structs.replace(struct, **changes)


def test_an_interface_that_comes_back_by_another_name_gets_its_own(machine, monkeypatch):
    monkeypatch.setattr("pinchpoint.bench.actions.RENAME_S", 0.0)
    left = taken(machine)
    actions.create(left, machine)
    machine.interfaces[LEFT] = "eth0"
    actions.remove(left, machine)
    assert ("ip", "link", "set", "dev", "eth0", "name", "eth1") in machine.asked


def test_a_driver_that_does_not_take_the_card_is_an_error_that_says_which_is_bound(machine):
    left = taken(machine)
    machine.bound = lambda address, driver: None  # no driver comes or goes
    with pytest.raises(BenchError, match="asked for driver vfio-pci, found e1000e"):
        actions.create(left, machine)


def test_a_card_that_was_pulled_out_is_no_error_at_the_end(machine):
    left = taken(machine)
    machine.files = {path: text for path, text in machine.files.items() if LEFT not in path}
    actions.remove(left, machine)


def test_the_unsafe_mode_ends_with_the_bench_and_only_then(machine):
    machine.files[nics.UNSAFE] = "N\n"
    actions.create(r.NoIommu("N"), machine)
    assert machine.files[nics.UNSAFE] == "1"
    machine.files[nics.UNSAFE] = "Y\n"  # as the kernel prints it
    actions.remove(r.NoIommu("Y"), machine)
    assert machine.files[nics.UNSAFE] == "Y\n"
    actions.remove(r.NoIommu("N"), machine)
    assert machine.files[nics.UNSAFE] == "0"


def test_the_journal_holds_all_that_is_needed_to_give_a_card_back(machine):
    entry = Entry("create", taken(machine))
    assert msgspec.json.decode(msgspec.json.encode(entry), type=Entry) == entry


def test_a_card_that_is_not_there_is_named_before_anything_is_planned(machine):
    with pytest.raises(RequirementError, match=r"0000:09:00\.0: no network card"):
        ports.resources(machine, here(scenario(pci="0000:09:00.0")), "b1", "")


def test_cards_of_an_engine_elsewhere_are_taken_on_its_own_host(machine):
    site = Site(Remote("gen", "gen", True, 60.0), ("left", "right"))
    wanted = replace(scenario(engine_pci=LEFT, no_iommu=True), sites=(Site(), site))
    beside, there = here(wanted), ports.at(wanted, site)
    assert (beside.of_device, beside.of_engine) == ({"left": LEFT}, {})
    assert (there.of_device, there.of_engine, there.without_iommu) == ({}, {"left": LEFT}, {LEFT})
    (taken,) = ports.resources(machine, there, "b1")
    assert (taken.address, taken.netns) == (LEFT, ""), "no namespace of the device is there"
    assert list(ports.settings(machine, beside)) == ["NIC of left"]
    assert list(ports.settings(machine, there)) == ["NIC of left, engine's end"]


def test_doctor_says_of_each_card_what_it_is_and_of_its_embedded_switch_who_is_behind_it(machine):
    net = "/sys/class/net"
    machine.files |= {f"{net}/eth1/speed": "25000\n", f"{net}/eth1/carrier": "1\n"}
    machine.files |= {f"{net}/eth1/phys_switch_id": "e8ebd3\n", f"{net}/eth1/phys_port_name": "p0\n"}
    machine.files |= {f"{PCI}/devices/{LEFT}/net/eth1_0": "", f"{net}/eth1_0/flags": "0x1002\n"}
    machine.files |= {f"{net}/eth1_0/phys_switch_id": "e8ebd3\n", f"{net}/eth1_0/phys_port_name": "pf0vf0\n"}
    machine.answers["devlink"] = ""
    machine.answers[f"devlink -j dev eswitch show pci/{LEFT}"] = json.dumps(
        {"dev": {f"pci/{LEFT}": {"mode": "switchdev", "inline-mode": "none"}}}
    )
    by_name = {probe.name: probe for probe in ports.probes(machine)}
    assert by_name["IOMMU"].detail == "2 groups"
    assert by_name[f"NIC {LEFT}"].detail == (
        "8086:10d3, e1000e, IOMMU group 7, NUMA node unknown, eth1 25 Gbit/s, embedded switch: switchdev, "
        "representors: eth1_0 (pf0vf0)"
    )
    assert not any(probe.needed for probe in by_name.values())


def test_a_card_is_recorded_with_the_cpus_that_its_interrupts_go_to(machine):
    machine.files |= {f"{PCI}/devices/{LEFT}/msi_irqs/{irq}": "msix\n" for irq in (40, 41, 42)}
    machine.files |= {"/proc/irq/40/smp_affinity_list": "0-2\n", "/proc/irq/41/smp_affinity_list": "5\n"}
    assert nics.interrupt_cpus(machine, LEFT) == "0-2,5", "of interrupt 42 nothing is told"
    (probe,) = (probe for probe in ports.probes(machine) if LEFT in probe.name)
    assert "interrupts on CPU 0-2,5" in probe.detail
    assert nics.interrupt_cpus(machine, ENGINE) == ""


def test_what_the_switch_reports_of_a_nic_is_recorded_and_what_it_lacks_is_said():
    row = [["map", [["driver_name", "net_mlx5"], ["link_speed", "100Gbps"], ["numa_id", "1"],
            ["rx_csum_offload", "true"]]],
           ["map", [["dpdk-devargs", "0000:01:00.0"], ["rx-flow-ctrl", "true"]]]]  # fmt: skip
    assert nic_words(json.dumps({"headings": ["status", "options"], "data": [row]})) == (
        "driver name net_mlx5, link speed 100Gbps, max rx queues not reported, max tx queues not reported, numa id 1, "
        "rx csum offload true, rx-flow-ctrl true"
    )


@pytest.mark.parametrize(
    "text", ["", "{}", '{"data": []}', '{"data": [[1, 2]]}', '{"data": [[["map", 3], ["map", []]]]}']
)
def test_an_interface_in_another_form_is_an_error_with_the_text(text):
    with pytest.raises(DutError, match="unknown form"):
        nic_words(text)


@pytest.mark.parametrize("told", ["", "{", "[]", "null", '{"dev": {}}', '{"dev": []}', "\x00"])
def test_what_devlink_prints_otherwise_is_no_mode(machine, told):
    machine.answers |= {"devlink": "", f"devlink -j dev eswitch show pci/{LEFT}": told}
    assert nics.eswitch(machine, LEFT) == ""


@pytest.mark.parametrize("text", ["-1", "4294967295", "", "fast", "9" * 30, "1e3"])
def test_a_speed_that_is_none_is_unknown(machine, text):
    machine.files["/sys/class/net/eth1/speed"] = text
    card = nics.read(machine, LEFT)
    assert card is not None
    assert card.interface is not None
    assert card.interface.speed_mbps is None
