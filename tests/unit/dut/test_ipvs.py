"""A service as IPVS has it: what is planned, what is refused, and what its counters say."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from pinchpoint.bench.resource import Command, Inside, TextFile
from pinchpoint.dut import ipvs, registry, vm
from pinchpoint.dut.device import Pages
from pinchpoint.dut.ipvs import Table, connections, per_cpu, tracked
from pinchpoint.dut.places import Places
from pinchpoint.host.guest import MODPROBE
from pinchpoint.host.guest_kernels import KERNELS
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.local import Local
from pinchpoint.model.errors import InputError
from pinchpoint.model.limits import Resource
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler, Service, Transport
from pinchpoint.scenario import parse

uml, qemu = KERNELS["uml"], KERNELS["qemu"]
SERVICE = Service(
    address="10.0.0.100",
    port=80,
    scheduler=Scheduler.ROUND_ROBIN,
    mode=Mode.FULL_NAT,
    clients=Range(0x0A000101, 2),
    local=Range(0x0A0100F0, 2),
    client_port="left",
    server_port="right",
    backends=(Backend("10.1.0.1", 8080), Backend("10.1.0.2", 80)),
)
TEXT = """
measure = "verify"
[guest]
kernel = "uml"
[dut]
kind = "ipvs"
[service]
address = "10.0.0.100"
port = 80
local = "10.1.0.240"
[[backend]]
address = "10.1.0.1"
[[port]]
name = "left"
[[port]]
name = "right"
[engine]
cpus = [0]
"""


def read(*changes):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "ipvs.toml")


def planned(wanted):
    made = (
        registry.device_of(wanted)
        .bench(wanted, Places("b1", PurePosixPath("/run/b1"), Local()))
        .resources(Pages(0, 0), [])
    )
    return [resource.resource if isinstance(resource, Inside) else resource for resource in made]


def commands(wanted, program):
    return [resource for resource in planned(wanted) if isinstance(resource, Command) and resource.argv[0] == program]


def test_a_virtual_server_masquerades_to_each_backend():
    assert list(ipvs.commands(SERVICE)) == [
        ("ipvsadm", "-A", "-t", "10.0.0.100:80", "-s", "rr"),
        ("ipvsadm", "-a", "-t", "10.0.0.100:80", "-r", "10.1.0.1:8080", "-m", "-w", "1"),
        ("ipvsadm", "-a", "-t", "10.0.0.100:80", "-r", "10.1.0.2:80", "-m", "-w", "1"),
    ]


def test_a_hash_is_of_the_client_s_address_and_port():
    first, *_ = ipvs.commands(replace(SERVICE, scheduler=Scheduler.HASH))
    assert first[-4:] == ("-s", "mh", "-b", "mh-port")


def test_local_addresses_are_taken_in_turn_each_with_its_ports():
    lines = list(ipvs.source_nat(replace(SERVICE, local_ports=Range(2000, 10))))
    sent = "-A POSTROUTING -p tcp -m ipvs --vaddr 10.0.0.100/32 --vport 80 --vdir ORIGINAL"
    assert lines == [
        "*nat",
        f"{sent} -m statistic --mode nth --every 2 --packet 0 -j SNAT --to-source 10.1.0.240:2000-2009",
        f"{sent} -j SNAT --to-source 10.1.0.241:2000-2009",
        "COMMIT",
    ]


def test_connections_are_tracked_for_full_nat_alone():
    assert ipvs.sysctls(SERVICE)["net/ipv4/vs/conntrack"] == "1"
    plain = read(('local = "10.1.0.240"', 'mode = "dnat"'))
    assert ipvs.sysctls(plain.service)["net/ipv4/vs/conntrack"] == "0"
    assert not commands(plain, "iptables-legacy-restore")
    assert not [
        resource
        for resource in planned(plain)
        if isinstance(resource, TextFile) and resource.path.endswith("source-nat.rules")
    ]


def test_time_outs_are_those_of_connection_tracking_and_of_ipvs():
    service = replace(SERVICE, opening_s=20.0, established_s=300.0, closed_s=5.0)
    wanted = {"syn_sent": "20", "syn_recv": "20", "established": "300", "time_wait": "5", "close": "5"}
    assert ipvs.tracking(service) == {
        f"net/netfilter/nf_conntrack_tcp_timeout_{name}": value for name, value in wanted.items()
    }
    assert ipvs.timeout(service) == ("ipvsadm", "--set", "300", "0", "0")
    assert ipvs.timeout(SERVICE) is None


def test_a_guest_loads_the_module_by_its_own_program_and_sets_the_size_of_its_own_table():
    wanted = read(
        ('kind = "ipvs"', 'kind = "ipvs"\nconn_tab_bits = 16'),
        ("port = 80\n", "port = 80\nmax_connections = 1000000\n"),
    )
    (loaded,) = commands(wanted, MODPROBE)
    assert (loaded.argv[1:], loaded.netns) == (("ip_vs", "conn_tab_bits=16"), None)
    sizes = [command.argv[2:] for command in commands(wanted, "sysctl") if command.netns is None]
    assert sizes == [("net/netfilter/nf_conntrack_max=1000000", "net/netfilter/nf_conntrack_buckets=262144")]


def test_what_becomes_of_a_reused_port_is_set_where_the_scenario_says_it():
    def reuse(wanted):
        words = [word for command in commands(wanted, "sysctl") for word in command.argv]
        return [word for word in words if word.startswith("net/ipv4/vs/conn_reuse_mode")]

    assert reuse(read()) == []
    assert reuse(read(('kind = "ipvs"', 'kind = "ipvs"\nconn_reuse_mode = 0'))) == ["net/ipv4/vs/conn_reuse_mode=0"]


def test_the_host_loads_it_by_modprobe():
    assert commands(read(('[guest]\nkernel = "uml"\n', "")), "modprobe")


@pytest.mark.parametrize(
    ("key", "changes", "words"),
    [
        ("closed_s = 5", [('local = "10.1.0.240"', 'mode = "dnat"')], 'expected none with mode = "dnat"'),
        ('local_ports = "1-9"', [('local = "10.1.0.240"', 'mode = "dnat"')], 'expected none with mode = "dnat"'),
        ("max_connections = 9", [('[guest]\nkernel = "uml"\n', "")], "expected none without a [guest]"),
        ("closed_s = 121", [], "expected whole seconds up to 120, after which IPVS forgets it"),
        ("opening_s = 61", [], "expected whole seconds up to 60, after which IPVS forgets it"),
        ("established_s = 1.5", [], "expected whole seconds, found 1.5"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(key, changes, words):
    with pytest.raises(InputError) as error:
        read(("port = 80\n", f"port = 80\n{key}\n"), *changes)
    assert words in error.value.message
    assert key.split(" ")[0] in error.value.message


def test_without_a_service_it_does_nothing():
    with pytest.raises(InputError, match=r'service: missing; dut.kind is "ipvs", which only balances a service'):
        parse(TEXT.partition("[service]")[0].replace("verify", "rates") + '[[port]]\nname = "left"\n', "x.toml")


def test_a_kernel_without_source_nat_is_named_with_what_mends_it():
    wanted = read()
    bench = registry.device_of(wanted).bench(wanted, Places("b1", PurePosixPath("/run/b1"), Local()))
    error = bench.refusal(CommandFailed(["iptables-legacy-restore", "x"], "can't initialize table `nat'"))
    assert error is not None
    assert error.hint is not None and 'mode = "dnat"' in error.hint


def test_a_guest_without_source_nat_is_told_of_the_kernel_that_has_it_and_of_dnat(monkeypatch):
    monkeypatch.setattr(uml, "has_module", lambda name, release=None: name.startswith("ip_vs"))
    monkeypatch.setattr(qemu, "has_module", lambda name, release=None: True)
    monkeypatch.setattr(vm, "probes", lambda *_: ())  # whatever this machine has
    wanted = read()
    missing = [
        need for need in registry.device_of(wanted).needs(wanted, Local()) if not need.ok and "module" in need.name
    ]
    assert [need.name.split(" ")[-1] for need in missing] == ["xt_ipvs", "xt_nat", "xt_statistic", "iptable_nat"]
    assert all('set guest.kernel = "qemu", or service.mode = "dnat"' in str(need.hint) for need in missing)


PER_CPU = """\
       Total Incoming Outgoing         Incoming         Outgoing
CPU    Conns  Packets  Packets            Bytes            Bytes
  0       96      2EE      258             C288             AB18
  ~       96      2EE      258             C288             AB18

     Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s
          13       5E       4B             1851             1563
"""  # recorded on Linux 6.1
SERVERS = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A000064:0050 rr  
  -> 0A010003:1F91      Masq    1      7          50        
  -> 0A010002:1F90      Masq    1      0          43        
"""  # noqa: W291
TRACKED = (
    "cpu=0   \tfound=487 invalid=0 insert=0 insert_failed=33 drop=47 early_drop=2 error=0 search_restart=0 "
    "clash_resolve=0 chaintoolong=0 \ncpu=1   \tfound=13 invalid=4 insert=0 insert_failed=0 drop=0 early_drop=0 "
    "error=0 search_restart=0 clash_resolve=0 chaintoolong=0 \n"
)


def test_counters_by_cpu_are_hexadecimal_and_their_sum_is_no_cpu():
    assert per_cpu(PER_CPU) == {
        0: {"connections": 150, "packets_in": 750, "packets_out": 600, "bytes_in": 49800, "bytes_out": 43800}
    }


def test_connections_are_those_of_all_backends():
    assert connections(SERVERS) == (7, 93)


def test_a_full_table_is_a_drop_that_is_no_clash():
    table = tracked(TRACKED)
    assert (table["found"], table["invalid"], table["insert_failed"]) == (500, 4, 33)
    assert table["table_full"] == 14


class Kernel:
    """Answers what a table asks; `listed` is the length of IPVS's list at each look."""

    def __init__(self, listed):
        self.listed = iter(listed)
        self.ran = []

    def run(self, argv, netns):
        assert netns == "ns"
        self.ran.append(tuple(argv))
        if argv[0] == "wc":
            return f"{next(self.listed) + 1} /proc/net/ip_vs_conn\n"
        asked = {"nf_conntrack_max": "4096", "time_wait": "120", "expire_nodest_conn": "0", "count": "12"}
        asked["udp_timeout"] = "30"
        return next((f"{value}\n" for name, value in asked.items() if argv[-1].endswith(name)), "")


def test_limits_are_read_back_and_ports_count_by_backend():
    service = replace(SERVICE, local_ports=Range(2000, 10))
    limits = {limit.resource: limit for limit in Table(service, Kernel([]), "ns").limits()}
    assert limits[Resource.TABLE].size == 4096
    assert limits[Resource.LOCAL_PORTS].size == 2 * 10 * 2
    assert limits[Resource.LOCAL_PORTS].sustained_cps == 40 / 120
    assert limits[Resource.MEMORY].size is None


def test_of_udp_the_virtual_server_its_source_nat_and_its_times_are_others():
    service = replace(SERVICE, transport=Transport.UDP, closed_s=4.0)
    assert next(iter(ipvs.commands(service)))[2] == "-u"
    assert "-p udp -m ipvs" in "\n".join(ipvs.source_nat(service))
    assert ipvs.timeout(service) == ("ipvsadm", "--set", "0", "0", "4")
    assert ipvs.tracking(service) == {"net/netfilter/nf_conntrack_udp_timeout": "4"}
    for closed_s, held_s in ((4.0, 4.0), (None, 30.0)):
        table = Table(replace(service, closed_s=closed_s), Kernel([]), "ns")
        limits = {limit.resource: limit for limit in table.limits()}
        assert limits[Resource.LOCAL_PORTS].held_s == held_s
        assert limits[Resource.LOCAL_PORTS].source.endswith("nf_conntrack_udp_timeout = 30")


@pytest.mark.parametrize("mode", ['local = "10.1.0.240"', 'mode = "dnat"'])
def test_of_udp_the_time_is_set_in_every_mode_and_has_no_fixed_end(mode):
    keys = 'port = 80\ntransport = "udp"\n'
    scenario = read(("port = 80\n", f"{keys}closed_s = 300\n"), ('local = "10.1.0.240"', mode))
    assert scenario.service.closed_s == 300
    with pytest.raises(InputError, match=r"closed_s: expected whole seconds, found 1\.5"):
        read(("port = 80\n", f"{keys}closed_s = 1.5\n"), ('local = "10.1.0.240"', mode))


def test_without_full_nat_only_memory_bounds_it():
    plain = replace(SERVICE, mode=Mode.DNAT, local=None)
    assert [limit.resource for limit in Table(plain, Kernel([]), "ns").limits()] == [Resource.MEMORY]


def test_a_flush_removes_the_virtual_server_until_its_connections_are_gone():
    kernel = Kernel([3, 0, 0])
    table = Table(SERVICE, kernel, "ns")
    table.flush()
    words = [" ".join(argv) for argv in kernel.ran if argv[0] != "wc"]
    assert words == [
        "sysctl -n net/ipv4/vs/expire_nodest_conn",
        "sysctl -qw net/ipv4/vs/expire_nodest_conn=1",
        "ipvsadm -D -t 10.0.0.100:80",
        "conntrack -F",
        "sysctl -qw net/ipv4/vs/expire_nodest_conn=0",
        *(" ".join(command) for command in ipvs.commands(SERVICE)),
    ]
    assert table.tracked() == 12, "what is tracked beside its own table"


V6 = replace(
    SERVICE,
    address="fd00::64",
    local=Range(0xFD000002 << 96 | 0xF0, 2),
    backends=(Backend("fd00:2::1", 8080),),
)


def test_a_service_of_ipv6_has_its_addresses_in_brackets():
    assert list(ipvs.commands(V6)) == [
        ("ipvsadm", "-A", "-t", "[fd00::64]:80", "-s", "rr"),
        ("ipvsadm", "-a", "-t", "[fd00::64]:80", "-r", "[fd00:2::1]:8080", "-m", "-w", "1"),
    ]
    rules = "\n".join(ipvs.source_nat(V6))
    assert "--vaddr fd00::64/128 --vport 80" in rules
    assert "--to-source [fd00:2::f0]:1024-65535" in rules
    assert ipvs.restore(V6.family) == "ip6tables-legacy-restore"
    assert ipvs.sysctls(V6)["net/ipv6/conf/all/forwarding"] == "1"


def test_with_direct_return_backends_are_gateways():
    service = replace(SERVICE, mode=Mode.DIRECT, local=None, backends=(Backend("10.1.0.1", 80),))
    assert [words[-3] for words in ipvs.commands(service)][-1] == "-g"
    assert ipvs.sysctls(service)["net/ipv4/vs/conntrack"] == "0"


def test_connections_to_backends_of_ipv6_are_counted():
    line = "  -> [fd00:0002:0000:0000:0000:0000:0000:0001]:1F90      Masq    1      3          5"
    assert connections(line) == (3, 5)
