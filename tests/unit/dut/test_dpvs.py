"""DPVS: its configuration, the commands that describe a service, and what its tools print (recorded from 1.10.2)."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import served_text

from pinchpoint.bench.resource import Command, Daemon
from pinchpoint.dut.device import Pages
from pinchpoint.dut.dpvs import DEVICE, live, what_is_wrong
from pinchpoint.dut.places import Places
from pinchpoint.host.local import Local
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.scenario import Backend
from pinchpoint.scenario import parse

RECORDED = Path(__file__).parent / "recorded"


def recorded(name):
    return (RECORDED / f"dpvs-{name}.txt").read_text()


def scenario(more="", dut=""):
    return parse(served_text("dpvs", dut).replace("port = 80\n", f"port = 80\n{more}\n", 1), "x.toml")


def test_links_have_their_counters():
    links = live.links(recorded("links"))
    assert list(links) == ["dpdk0", "dpdk1"]
    assert (links["dpdk0"]["ipackets"], links["dpdk1"]["opackets"]) == (159, 154)
    assert {links[port][name] for port in links for name in ("imissed", "rx_nombuf", "ierrors", "oerrors")} == {0}


def test_a_worker_s_polls_and_those_that_brought_nothing():
    cpus = live.cpus(recorded("cpus"))
    assert (cpus["1"]["pktburst"], cpus["1"]["zpktburst"]) == (17_640_388, 17_640_226)
    assert cpus["0"]["ipackets"] == 0


def test_local_ports_are_added_up_over_all_local_addresses():
    assert live.pool(recorded("addresses")) == live.Pool(used=30, free=2_064_322, misses=0)


def test_connections_are_told_by_backend():
    assert live.dealt(recorded("services")) == {"10.1.0.1:8080": 10, "10.1.0.2:8080": 10, "10.1.0.3:8081": 10}


def test_its_log_says_what_it_took_from_its_file():
    settings = live.settings_in(recorded("log"))
    assert (settings["conn_pool_size"], settings["tcp_timeout_time_wait"]) == (65_536, 7)
    assert "kni" not in settings, "a word is no number"


@pytest.mark.parametrize("read", [live.links, live.cpus, live.pool])
def test_what_is_no_answer_is_an_error_that_shows_it(read):
    with pytest.raises(DutError, match="segmentation fault"):
        read("segmentation fault")


@given(st.text(max_size=300))
def test_nothing_else_is_raised_whatever_is_printed(said):
    for read in (live.links, live.cpus, live.pool):
        with suppress(DutError):
            read(said)
    live.dealt(said)
    live.settings_in(said)


def test_the_file_has_the_table_and_the_time_outs_of_the_service():
    made = scenario("max_connections = 100_000\nopening_s = 5\nestablished_s = 60\nclosed_s = 2")
    lines = [line.strip() for line in live.lines(made.service, 2, "/run/b/dpvs.log")]
    assert "<init> conn_pool_size 100000" in lines
    assert {"syn_sent 5", "syn_recv 5", "established 60", "time_wait 2", "fin_wait 2"} <= set(lines)
    assert lines.count("{") == 0 and "".join(lines).count("{") == "".join(lines).count("}")


def test_a_backend_draws_from_one_pool_of_each_local_address():
    backends = [Backend(address=f"10.1.0.{number}", port=8080) for number in (1, 2, 3)]
    counted = live.pool(recorded("addresses"))
    assert live.local_places(2, backends, counted.used + counted.free) == 2 * 64_511 * 3


def test_backends_that_share_a_pool_of_local_ports_empty_it_sooner():
    sharing = [Backend(address="10.1.0.1", port=8080), Backend(address="10.1.0.17", port=8080)]
    assert live.local_places(1, sharing, 16 * 64_511) == 64_511
    assert live.local_places(1, [*sharing, Backend(address="10.1.0.2", port=8080)], 16 * 64_511) == 64_511 * 3 // 2


def test_local_ports_that_are_not_so_many_whole_pools_make_no_limit():
    backends = [Backend(address="10.1.0.1", port=80)]
    assert live.local_places(1, backends, 64_510) is None
    assert live.local_places(1, backends, 0) is None


def test_a_service_is_described_address_by_address():
    service = scenario().service
    made = [" ".join(argv) for argv in live.setup(service, {"left": 0, "right": 1}, "dpip", "ipvsadm")]
    assert made == [
        "dpip addr add 10.0.0.100/32 dev dpdk0",
        "dpip route add 10.0.1.1/32 dev dpdk0",
        "dpip route add 10.0.1.2/31 dev dpdk0",
        "dpip route add 10.0.1.4/32 dev dpdk0",
        "dpip route add 10.1.0.1/32 dev dpdk1",
        "dpip route add 10.1.0.2/32 dev dpdk1",
        "ipvsadm -A -t 10.0.0.100:80 -s rr",
        "ipvsadm -a -t 10.0.0.100:80 -r 10.1.0.1:80 -b -w 1",
        "ipvsadm -a -t 10.0.0.100:80 -r 10.1.0.2:80 -b -w 1",
        "ipvsadm -P -t 10.0.0.100:80 -z 10.1.0.240 -F dpdk1",
    ]


def test_its_master_shares_the_engine_s_cpu_unless_it_has_one_of_its_own():
    made = scenario()
    for control, asked in ((None, "0@0,1@1"), (2, "0@2,1@1")):
        changed = replace(made, dut=replace(made.dut, control_cpu=control), engine=replace(made.engine, cpus=(0,)))
        bench = DEVICE.bench(changed, Places("b", PurePosixPath("/run/b"), Local()))
        (daemon,) = (resource for resource in bench.resources(Pages(0, 0), []) if isinstance(resource, Daemon))
        assert asked in daemon.argv and "--no-huge" in daemon.argv


def test_a_result_says_which_cpus_its_two_threads_poll_on():
    made = scenario()
    for control, said in ((None, "master on CPU 0, which the engine uses too"), (2, "master on CPU 2")):
        changed = replace(made, dut=replace(made.dut, control_cpu=control), engine=replace(made.engine, cpus=(0,)))
        facts = DEVICE.bench(changed, Places("b", PurePosixPath("/run/b"), Local())).facts()
        assert facts["DPVS polls"] == f"worker on CPU 1, {said}"


def test_its_tools_are_given_the_bench_s_own_socket():
    bench = DEVICE.bench(scenario(), Places("b", PurePosixPath("/run/b"), Local()))
    made = [
        resource
        for resource in bench.resources(Pages(0, 0), [])
        if isinstance(resource, Command) and "ipvsadm" in resource.argv[0]
    ]
    assert made and all(command.environment == (("DPVS_IPC_FILE", "/run/b/dpvs.ipc"),) for command in made)


def test_a_program_is_required_and_the_command_that_builds_one_is_named(tmp_path):
    (probe,) = (need for need in DEVICE.needs(scenario(), Local()) if need.name == "dut.program")
    assert not probe.ok and "packaging/build-dpvs" in probe.hint
    assert "not executable" in what_is_wrong(Local(), str(tmp_path / "dpvs"))
    for name in ("dpvs", "dpip", "ipvsadm"):
        (tmp_path / name).touch(0o755)
    assert what_is_wrong(Local(), str(tmp_path / "dpvs")) == ""


def test_a_program_is_looked_for_on_the_benchs_host():
    class Far(Local):
        name = "far"

        def which(self, program):
            return program

    assert what_is_wrong(Far(), "/opt/far/dpvs") == ""


def test_a_file_does_not_choose_what_runs_as_root():
    with pytest.raises(InputError, match="command line"):
        scenario(dut='program = "/tmp/dpvs"')


@pytest.mark.parametrize(
    "more", ["max_connections = 65_535", "opening_s = 0.4", "closed_s = 2.5", "established_s = 4e7"]
)
def test_numbers_that_it_would_replace_by_its_own_are_refused(more):
    with pytest.raises(InputError, match=f"service.{more.partition(' ')[0]}"):
        scenario(more)


@pytest.mark.parametrize("more", ['mode = "dnat"', 'scheduler = "hash"', 'local_ports = "2000-2099"'])
def test_what_was_not_tried_with_it_is_refused(more):
    with pytest.raises(InputError, match="service"):
        scenario(more)
