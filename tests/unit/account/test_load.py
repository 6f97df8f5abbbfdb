"""How loaded the DUT's packet threads were."""

import pytest

from pinchpoint.account.cpus import dut_threads, siblings_s
from pinchpoint.dut.ovs import DEVICE
from pinchpoint.model.trial import BusyBy

loads = DEVICE.loads

SEEN = {
    "elapsed_s/pmd": 1.25,
    "ovs/pmd/core1/packets_received": 1_000_000,
    "ovs/pmd/core1/packet_recirculations": 1_000_000,
    "ovs/pmd/core1/emc_hits": 2_000_000,
    "ovs/pmd/core1/processing_cycles": 1_300_000_000,
    "ovs/pmd/core1/idle_cycles": 1_950_000_000,
    "ovs/pmd/main/packets_received": 0,
    "host/thread/main/run_ns": 400_000_000,
    "host/thread/pmd-c01/id:8/run_delay_ns": 70_000,
    "host/thread/pmd-c01/id:8/involuntary_switches": 2,
    "host/thread/pmd-c01/id:8/cpu": 1.0,
}


def test_busy_share_counts_only_the_seconds_with_traffic():
    (load,) = loads(SEEN, traffic_s=1.0)
    assert load.clock_hz == pytest.approx(2.6e9)
    assert load.busy_share == pytest.approx(0.5), "1.3 of the 2.6 G cycles of one second, not of 1.25"
    assert load.cycles_per_packet == pytest.approx(1300)
    assert load.busy_by is BusyBy.CYCLES
    assert (load.detail, load.recirculated) == ({"emc_hits": 2_000_000}, 1_000_000)


def test_an_idle_main_thread_is_not_listed():
    assert [load.name for load in loads(SEEN, 1.0)] == ["PMD core 1"]


def test_the_main_threads_load_is_its_processor_time():
    seen = SEEN | {"ovs/pmd/main/packets_received": 5}
    main = loads(seen, 0.5)[-1]
    assert (main.name, main.cpu) == ("main thread", None)
    assert (main.busy_share, main.busy_by) == (pytest.approx(0.8), BusyBy.PROCESSOR_TIME)
    assert main.cycles_per_packet is None


def test_missing_counters_stay_missing():
    (load,) = loads({"ovs/pmd/core1/packets_received": 5}, 1.0)
    assert (load.busy_share, load.busy_by, load.cycles_per_packet, load.slow_path) == (None, None, None, None)
    assert load.detail == {}


def test_lookups_by_the_slow_path_are_those_whose_upcall_was_lost_too():
    (load,) = loads(
        SEEN | {f"ovs/pmd/core1/miss_with_{end}_upcall": n for end, n in (("success", 5), ("failed", 2))}, 1
    )
    assert load.slow_path == 7
    assert load.detail == {"emc_hits": 2_000_000, "upcalls": 5, "lost_upcalls": 2}
    assert load.detail.keys() <= DEVICE.figures.keys()


def test_beside_pmds_the_main_thread_forwards_nothing_and_is_no_witness():
    seen = SEEN | {"host/thread/main/run_delay_ns": 9_000_000}
    assert [thread.name for thread in dut_threads(seen, {})] == ["pmd-c01/id:8"]
    alone = {"host/thread/main/run_delay_ns": 9_000_000}
    assert [thread.name for thread in dut_threads(alone, {})] == ["main"]


def test_what_the_host_did_to_each_thread_is_kept():
    (thread,) = dut_threads(SEEN, {0: 500_000})
    assert (thread.name, thread.core, thread.run_delay_ns, thread.involuntary_switches) == (
        "pmd-c01/id:8",
        1,
        70_000,
        2,
    )


def test_the_engines_own_probes_are_no_disturbance():
    (thread,) = dut_threads(SEEN, {1: 60_000})
    assert thread.run_delay_ns == 10_000
    (thread,) = dut_threads(SEEN, {1: 90_000})
    assert thread.run_delay_ns == 0


def test_a_wait_that_the_switchs_own_threads_caused_is_its_own():
    """As on benches without PMDs, where all threads of the switch share a CPU."""
    seen = {
        "host/thread/main/run_delay_ns": 9_000_000,
        "host/thread/main/cpu": 1.0,
        "host/sibling/handler3-70/run_ns": 2_000_000,
        "host/sibling/handler3-70/cpu": 1.0,
        "host/sibling/revalidator4-71/run_ns": 4_000_000,
        "host/sibling/revalidator4-71/cpu": 1.0,
        "host/sibling/urcu5-72/run_ns": 50_000_000,
        "host/sibling/urcu5-72/cpu": 0.0,
    }
    (main,) = dut_threads(seen, {})
    assert (main.run_delay_ns, main.own_delay_ns) == (9_000_000, 6_000_000)
    assert siblings_s(seen) == pytest.approx({1: 0.006, 0: 0.05})


def test_no_more_of_a_wait_is_the_switchs_own_than_there_was():
    seen = SEEN | {"host/sibling/handler3-70/run_ns": 10**9, "host/sibling/handler3-70/cpu": 1.0}
    (thread,) = dut_threads(seen, {})
    assert (thread.run_delay_ns, thread.own_delay_ns) == (70_000, 70_000)


def test_beside_pmds_the_main_thread_takes_time_from_whoever_shares_its_cpu():
    seen = SEEN | {"host/thread/main/cpu": 0.0}
    assert siblings_s(seen) == pytest.approx({0: 0.4})


def test_a_thread_knows_the_ports_that_it_polls():
    polled = {"ovs/rxq/core1/left/0/enabled": 1.0, "ovs/rxq/core1/right/0/enabled": 0.0}
    seen = {"ovs/pmd/core1/packets_received": 5, **polled, "ovs/rxq/core2/right/1/enabled": 1.0}
    (load,) = loads(seen, 1.0)
    assert load.ports == ("left",)
