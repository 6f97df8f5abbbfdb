"""What readings of a running device say together."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pinchpoint.causes.catalogue import CATALOGUE
from pinchpoint.cli.main import main
from pinchpoint.dut.ovs.kinds import KIND, PortKind
from pinchpoint.dut.registry import device
from pinchpoint.dut.watching import Attached, watchable
from pinchpoint.host.local import Local
from pinchpoint.model.causes import Sign
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.hops import DropKind
from pinchpoint.model.watch import Reading, RecordHead
from pinchpoint.observe.snapshot import Snapshot
from pinchpoint.report.observed import watch_view
from pinchpoint.run.watch import begun, readings, watched
from pinchpoint.store.codec import SCHEMA

OVS = device("ovs")


def head(variant="dpdk"):
    return RecordHead(SCHEMA, "ovs", variant, "/run/x", ("left", "right"), "here", "")


def reading(elapsed_s=1.0, went_back=(), unpaired=(), **more):
    counted = {
        "ovs/port/left/rx_pkts": 1000,
        "ovs/port/right/tx_pkts": 600,
        "ovs/port/right/tx_drop": 300,
        "ovs/port/right/ovs_tx_mtu_exceeded_drops": 300,
        "ovs/pmd/core1/packets_received": 1000,
        "ovs/pmd/core1/packet_recirculations": 1000,
        "ovs/pmd/core1/processing_cycles": 990_000,
        "ovs/pmd/core1/idle_cycles": 10_000,
        **more,
    }
    gauges = {"elapsed_s/pmd": elapsed_s, "ovs/rxq/core1/left/0/enabled": 1.0}
    return Reading(0.0, elapsed_s, counted, gauges, went_back, unpaired)


def test_the_path_has_what_each_place_counted_and_lost():
    view = watched(OVS, head(), [reading(), reading()])
    assert view.seconds == 2.0
    assert [hop.name for hop in view.hops] == ["switch receives", "datapath", "switch sends"]
    assert (view.hops[0].frames_in, view.hops[2].frames_in, view.hops[2].frames_out) == (2000, 1800, 1200)
    (drop,) = view.hops[2].drops
    assert (drop.frames, drop.kind) == (600, DropKind.MTU)


def test_causes_are_those_of_a_bench():
    view = watched(OVS, head(), [reading()])
    assert [suspicion.cause for suspicion in view.suspicions] == ["mtu", "recirculation"]
    assert view.signs[Sign.PASSES] == 2.0


def test_a_counter_that_went_back_makes_its_place_unknown_and_is_named():
    view = watched(OVS, head(), [reading(went_back=("ovs/port/left/rx_pkts",))])
    assert view.hops[0].frames_in is None
    assert any("went back" in line for line in watch_view(view).figures)


def test_an_unknown_variant_is_refused():
    with pytest.raises(InputError, match="no datapath 'warp'"):
        watched(OVS, head("warp"), [reading()])
    with pytest.raises(InputError, match="cannot be watched"):
        watchable(device("wire"))
    assert watchable(OVS) is OVS


def test_the_view_lists_every_drop_once_and_rates_a_second():
    view = watch_view(watched(OVS, head(), [reading(**{"ovs/port/right/ovs_tx_qos_drops": 0})] * 3))
    columns = {column.key: [cell.text for cell in column.cells] for column in view.path.columns}
    assert columns["place"] == ["switch receives", "datapath", "switch sends"]
    assert columns["drop"] == ["", "100 pps", "300 pps"]
    assert columns["reason"][1] == "not explained", "of 1,000 frames, 900 went on"
    assert columns["reason"][-1] == "larger than the MTU of right"
    assert any(line.startswith("likely: frames larger") for line in view.causes)


def test_nothing_known_is_absent_and_never_zero():
    view = watch_view(watched(OVS, head(), [Reading(0.0, 1.0, {}, {})]))
    assert {cell.text for column in view.path.columns[1:3] for cell in column.cells} == {"-"}


POLICED = {  # what the switch counted in 4 s while ingress_policing_rate held all of nul0 back
    "ovs/port/nul0/rx_pkts": 72_100_000, "ovs/port/nul0/rx_drop": 72_000_096, "ovs/port/nul0/rx_errs": 0,
    "ovs/port/nul0/rx_missed_errors": 0, "ovs/port/nul0/ovs_rx_qos_drops": 72_000_000,
    "ovs/port/nul1/rx_pkts": 72_300_000, "ovs/port/nul1/rx_drop": 0, "ovs/port/nul1/rx_missed_errors": 0,
    "ovs/pmd/core1/packets_received": 72_400_000, "ovs/coverage/drop_action_of_pipeline": 72_400_000,
    "ovs/port/nul0/tx_pkts": 0, "ovs/port/nul0/tx_drop": 0, "ovs/port/nul1/tx_pkts": 0, "ovs/port/nul1/tx_drop": 0,
}  # fmt: skip


def test_an_ingress_policer_is_named_as_the_rules_drop_and_its_frames_came_in_once():
    found = watched(OVS, replace(head(), ports=("nul0", "nul1")), [Reading(0.0, 4.0, POLICED, {})])
    receives, datapath, _ = found.hops
    assert receives.frames_in == 72_100_000 + 72_300_000 + 96, "policed frames were received: not added again"
    assert [(drop.name, drop.frames, drop.limits, drop.kind) for drop in receives.drops] == [
        ("ingress policer of nul0", 72_000_000, "rules", DropKind.POLICER),
        ("nul0 dropped on receive", 96, "dut", DropKind.RECEIVE_RING),
    ]
    assert (receives.unexplained, datapath.unexplained) == (0, 0)
    policer = next(one for one in found.suspicions if one.cause == "policer")
    assert "ovs-vsctl set interface nul0 ingress_policing_rate" in policer.mend


def test_drops_and_polled_ports_of_an_ovn_host_carry_their_logical_names():
    named = {"ovs/logical/nul0/vm1-port0": 1.0, "ovs/rxq/core1/nul0/0/enabled": 1.0}
    found = watched(OVS, replace(head(), ports=("nul0", "nul1")), [Reading(0.0, 4.0, POLICED, named)])
    assert [drop.name for drop in found.hops[0].drops] == [
        "ingress policer of nul0 (vm1-port0)",
        "nul0 (vm1-port0) dropped on receive",
    ]
    assert found.threads[0].ports == ("nul0 (vm1-port0)",)
    policer = next(one for one in found.suspicions if one.cause == "policer")
    assert "ovs-vsctl set interface nul0 ingress_policing_rate" in policer.mend, "commands name the interface"


KINDS = {f"{KIND}h1a1": float(PortKind.AF_XDP), f"{KIND}h1b1": float(PortKind.KERNEL)}
MIXED_HEAD = RecordHead(SCHEMA, "ovs", "af_xdp", "/run/x", ("h1a1", "h1b1"), "here", "")
BY_MAIN = {
    **KINDS, "ovs/rxq/main/h1b1/0/enabled": 1.0, "ovs/rxq/core1/h1a1/0/enabled": 1.0,
    "elapsed_s/pmd": 9.0, "elapsed_s/threads": 9.0, "host/thread/main/cpu": 0.0, "host/thread/pmd-c01/id:8/cpu": 1.0,
}  # fmt: skip
FROM_KERNEL = {  # 400 kfps for 9 s from a kernel port, whose packet socket the main thread reads
    "ovs/port/h1b1/rx_pkts": 3_100_000, "ovs/port/h1b1/rx_drop": 0, "host/socket/h1b1/drops": 1_400_000,
    "ovs/port/h1a1/rx_pkts": 0, "ovs/port/h1a1/rx_drop": 0,
    "ovs/pmd/main/packets_received": 1_640_000, "ovs/pmd/main/packet_recirculations": 0,
    "ovs/pmd/core1/packets_received": 0, "ovs/pmd/core1/processing_cycles": 100,
    "ovs/pmd/core1/idle_cycles": 27_000_000_000,
    "ovs/port/h1a1/tx_pkts": 1_640_000, "ovs/port/h1a1/tx_drop": 0,
    "host/thread/main/run_ns": 3_500_000_000, "host/thread/main/run_delay_ns": 5_100_000_000,
    "host/thread/pmd-c01/id:8/run_ns": 9_000_000_000, "host/thread/pmd-c01/id:8/run_delay_ns": 0,
}  # fmt: skip


def test_a_kernel_port_beside_others_closes_its_row_and_its_thread_is_the_main_thread():
    found = watched(OVS, MIXED_HEAD, [Reading(0.0, 9.0, FROM_KERNEL, BY_MAIN)])
    reads = found.hops[0]
    assert (reads.frames_in, reads.frames_out, reads.unexplained) == (3_100_000, 1_640_000, 60_000)
    assert [(drop.name, drop.frames, drop.limits) for drop in reads.drops] == [
        ("packet socket of h1b1 full", 1_400_000, "dut")
    ]
    main = next(load for load in found.threads if load.name == "main thread")
    assert main.ports == ("h1b1",)
    assert found.waited["main thread"] == pytest.approx(5.1 / 9)
    assert found.waited["PMD core 1"] == 0.0
    assert [one.cause for one in found.suspicions] == ["main-thread", "preempted"], "the idle PMD is no imbalance"
    assert "ovs-vsctl set interface h1b1 type=afxdp" in found.suspicions[0].mend
    view = watch_view(found)
    shown = {column.key: [cell.text for cell in column.cells] for column in view.threads.columns}
    assert (shown["ports"], shown["waited"]) == (["h1a1", "h1b1"], ["0.00 %", "56.7 %"])
    reasons = next(column for column in view.path.columns if column.key == "reason")
    assert [cell.text for cell in reasons.cells][:2] == ["packet socket of h1b1 full", "not explained"]


FROM_XDP = {
    "ovs/port/h1a1/rx_pkts": 3_600_000, "ovs/port/h1a1/rx_drop": 40_312, "ovs/port/h1a1/xsk_queue_0_rx_dropped": 24_419,
    "ovs/port/h1b1/rx_pkts": 0, "ovs/port/h1b1/rx_drop": 0, "ovs/port/h1b1/tx_pkts": 3_559_688,
    "ovs/port/h1b1/tx_drop": 0, "ovs/pmd/core1/packets_received": 3_559_688,
    "ovs/pmd/core1/processing_cycles": 26_900_000_000, "ovs/pmd/core1/idle_cycles": 100_000_000,
    "ovs/pmd/main/packets_received": 12, "host/thread/main/run_ns": 9_000_000,
}  # fmt: skip


def test_what_an_af_xdp_port_drops_is_named_and_a_main_thread_with_little_to_do_is_no_idle_one():
    found = watched(OVS, MIXED_HEAD, [Reading(0.0, 9.0, FROM_XDP, BY_MAIN)])
    reads = found.hops[0]
    assert {drop.name: drop.frames for drop in reads.drops} == {
        "AF_XDP socket of h1a1 full": 24_419,
        "AF_XDP rings of h1a1 full": 40_312 - 24_419,
    }
    assert reads.frames_in == 3_600_000
    assert abs(reads.unexplained) < 100
    assert "imbalance" not in [one.cause for one in found.suspicions]
    assert found.signs[Sign.IDLEST] == found.signs[Sign.BUSY], "of the threads that poll"


def test_two_threads_that_poll_may_have_the_work_of_one_whatever_the_main_thread_does():
    idle = {"ovs/pmd/core2/packets_received": 0, "ovs/pmd/core2/processing_cycles": 0, "ovs/pmd/core2/idle_cycles": 9}
    found = watched(OVS, MIXED_HEAD, [Reading(0.0, 9.0, {**FROM_XDP, **idle}, BY_MAIN)])
    (imbalance,) = [one for one in found.suspicions if one.cause == "imbalance"]
    assert "ovs-vsctl set interface h1a1 options:n_rxq" in imbalance.mend


@pytest.mark.parametrize("cause", CATALOGUE, ids=lambda cause: cause.name)
def test_no_advice_for_a_switch_in_service_names_a_key_of_a_scenario(cause):
    advice = cause.in_service(OVS.commands(cause.name, {}))
    assert not re.search(r"\b(dut|port|engine)\.[a-z]", advice), advice


def test_readings_in_which_ports_or_threads_came_or_went_are_left_out_of_the_path():
    came = reading(unpaired=("ovs/port/new/rx_pkts", "ovs/pmd/core2/packets_received"))
    gone = reading(went_back=("ovs/port/right/tx_pkts",))
    elsewhere = reading(unpaired=("ovs/lookups/hit",))
    found = watched(OVS, head(), [reading(), came, gone, elsewhere])
    assert (found.seconds, found.left_out) == (2.0, 2)
    assert found.hops[0].frames_in == 2000
    assert found.resets == ("ovs/port/right/tx_pkts",)
    assert any(line.startswith("2 readings left out") for line in watch_view(found).figures)


def test_a_reading_that_is_alone_with_what_came_and_went_says_nothing_of_that_place():
    found = watched(OVS, head(), [reading(unpaired=("ovs/pmd/core2/packets_received",))])
    assert (found.hops[0].frames_in, found.hops[0].frames_out, found.hops[1].frames_in) == (1000, None, None)


def test_a_port_that_comes_later_is_counted_and_one_that_goes_is_polled_no_more():
    more = {"ovs/port/later/rx_pkts": 50, "ovs/pmd/core1/packets_received": 1050}
    first = reading()
    state = {f"{KIND}later": float(PortKind.VHOST), "ovs/rxq/core1/later/0/enabled": 1.0}
    found = watched(OVS, head(), [first, replace(reading(**more), gauges={"elapsed_s/pmd": 1.0, **state})])
    assert found.hops[0].frames_in == 2050
    assert found.threads[0].ports == ("later",)


def test_a_guest_that_is_down_hides_nothing_of_the_others():
    down = replace(head(), ports=("left", "right", "down"))
    kinds = {f"{KIND}down": float(PortKind.FORMER_VHOST), f"{KIND}left": float(PortKind.VHOST)}
    gone = replace(reading(), gauges={**reading().gauges, **kinds})
    assert watched(OVS, down, [gone]).hops[0].frames_in == 1000


def test_a_port_that_was_made_anew_is_unknown_and_not_zero():
    fell = tuple(f"ovs/port/new/{name}" for name in ("rx_pkts", "tx_pkts"))
    new = replace(reading(went_back=fell), gauges={**reading().gauges, f"{KIND}new": float(PortKind.VHOST)})
    assert watched(OVS, head(), [new]).hops[0].frames_in is None


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a/x",), "a/x went back: what it counted meanwhile is not known"),
        (("a/x", "a/y"), "counters went back: a/x, a/y: a port or the device was restarted"),
        (("a/x", "a/y", "b/z", "b/u"), "counters went back: a/x, a/y, b/z and 1 more: a port or"),
    ],
)
def test_one_counter_alone_that_went_back_is_no_restart(names, words):
    figures = watch_view(watched(OVS, head(), [reading(went_back=names)])).figures
    assert any(line.startswith(words) for line in figures), figures


@pytest.mark.parametrize(("readings", "told"), [(1, False), (3, False), (60, True)])
def test_what_the_switch_may_not_have_published_yet_is_not_called_unexplained(readings, told):
    """Of 1,000 frames a second 600 are sent, 370 dropped by counters that come up to 1.2 s late."""
    late = {"ovs/coverage/drop_action_of_pipeline": 370, "ovs/port/right/tx_drop": 0}
    late["ovs/port/right/ovs_tx_mtu_exceeded_drops"] = 0
    view = watch_view(watched(OVS, head(), [reading(**late)] * readings))
    reasons = next(column for column in view.path.columns if column.key == "reason")
    assert ("not explained" in [cell.text for cell in reasons.cells]) is told


def test_each_stretch_of_readings_may_miss_what_is_published_late():
    late, came = reading(**{"ovs/coverage/drop_action_of_pipeline": 370}), reading(unpaired=("ovs/port/new/rx_pkts",))
    whole, parts = (watched(OVS, head(), [*[late] * 30, *between, *[late] * 30]) for between in ((), (came,)))
    assert (whole.left_out, parts.left_out) == (0, 1)
    assert whole.unsure["datapath"] > 0
    assert parts.unsure["datapath"] == pytest.approx(2 * whole.unsure["datapath"], abs=1)


@pytest.mark.parametrize(("lost", "told"), [(7, "7.00 pps"), (-7, "-7.00 pps"), (0, "")])
def test_a_small_loss_that_lasts_is_told_and_so_is_more_out_than_in(lost, told):
    """Of 1,000 frames a second for a minute; what is read late at one end is at most 50 of all of them."""
    sent = {"ovs/port/right/tx_pkts": 1000 - lost, "ovs/port/right/tx_drop": 0}
    sent["ovs/port/right/ovs_tx_mtu_exceeded_drops"] = 0
    view = watch_view(watched(OVS, head(), [reading(**sent)] * 60))
    columns = {column.key: [cell.text for cell in column.cells] for column in view.path.columns}
    at = columns["place"].index("datapath")
    assert (columns["drop"][at], columns["reason"][at]) == (told, told and "not explained")


def test_what_could_not_be_read_is_said():
    found = watched(OVS, replace(head(), unread={"sockets": "ss failed: no\n  command: ss"}), [reading()])
    assert "not read: sockets: ss failed: no" in watch_view(found).figures


class Counting:
    """A collector whose counter grows by one each time."""

    name = "counting"
    count = 0

    def can_run(self):
        return None

    def snapshot(self):
        self.count += 1
        return Snapshot(float(self.count), {"x": self.count})


class Refused(Counting):
    """One that may not read."""

    name = "refused"

    def can_run(self):
        return "no permission"


def test_readings_follow_each_other_until_it_is_over():
    attached = Attached("p", "dpdk", (), (Counting(), Refused()), {}, lambda: None)
    begins, bracket = begun(OVS, attached, Local())
    assert begins.unread == {"refused": "no permission"}
    slept, clock = [], iter(range(100))
    made = readings(bracket, 2.0, lambda: len(slept) == 3, lambda: float(next(clock)), slept.append)
    assert [reading.differences for reading in made] == [{"x": 1}] * 3
    assert len(slept) == 3


STATS = (Path(__file__).parents[1] / "dut" / "recorded" / "ovs-pmd-stats.txt").read_text()


@pytest.fixture
def printed(tmp_path):
    """A file of what a switch printed, in a folder."""
    file = tmp_path / "pmd-stats-show"
    file.write_text(STATS)
    return file


@pytest.mark.parametrize("place", ["file", "folder"])
def test_text_that_a_switch_printed_is_read_from_a_file_or_a_folder(printed, place, capsys):
    assert main(["watch", str(printed if place == "file" else printed.parent)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "PMD core 2 99.0 %" in said
    assert "likely: many masks" in said
    assert "missing: ovs-ofctl dump-ports BRIDGE (would show what each port received" in said


def test_text_that_no_switch_printed_is_bad_input(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("PMD core 2 is slow\n")
    assert main(["watch", str(tmp_path / "notes.txt")]) == 2
    assert "expected a recording of `pinchpoint watch --record`, or what" in capsys.readouterr().err
    assert main(["watch", str(tmp_path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no running switch found there, nor output of Open vSwitch commands; expected e.g. pmd-stats-show" in said


def test_a_packed_report_is_to_be_unpacked_first(tmp_path, capsys):
    packed = tmp_path / "sosreport-a.tar.xz"
    packed.write_bytes(b"\xfd7zXZ\x00 packed")
    assert main(["watch", str(packed)]) == 2
    assert f"unpack it first: tar xf {packed}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", [("--for", "1s"), ("--every", "2s"), ("--record", "new.jsonl"), ("--wire", "a=b")])
def test_options_of_a_running_switch_are_refused_with_text(printed, option, capsys):
    assert main(["watch", str(printed), *option]) == 2
    assert option[0] in capsys.readouterr().err


def test_text_cannot_be_joined_with_recordings(printed, capsys):
    assert main(["watch", str(printed), str(printed)]) == 2
    assert "not a recording" in capsys.readouterr().err


def test_a_stored_run_is_shown_and_not_watched(tmp_path, capsys):
    (tmp_path / "run.json").write_text("{}")
    assert main(["watch", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path} is a stored run" in said
    assert f"pinchpoint show {tmp_path}" in said


def ending(device, readings, place):
    """A device of which nothing more is read after some readings, since its run has ended and its directory is gone."""

    class Ending(type(device)):
        def attach(self, path, host):
            left = iter(range(readings + 1))

            class Gone(Counting):
                def snapshot(self):
                    if next(left, None) is None:
                        place.rmdir()
                        raise DutError("no answer")
                    return super().snapshot()

            return Attached(str(place), "dpdk", (), (Gone(),), {}, lambda: None)

    return Ending(**vars(device))


def at_once(bracket, every_s, is_over):
    """The readings without the time between them."""
    return readings(bracket, 0.0, is_over, sleep=lambda duration_s: None)


@pytest.mark.parametrize(("kept", "code", "words"), [(2, 0, "the run has ended"), (0, 6, "pinchpoint show RUN")])
def test_a_run_that_ends_while_its_switch_is_watched_is_said(kept, code, words, tmp_path, monkeypatch, capsys):
    place = tmp_path / "bench"
    place.mkdir()
    monkeypatch.setattr("pinchpoint.dut.registry.device", lambda kind: ending(OVS, kept, place))
    monkeypatch.setattr("pinchpoint.cli.watch.readings", at_once)
    assert main(["watch", str(place)]) == code
    assert words in capsys.readouterr().err


def test_what_the_kernels_datapath_drops_by_rules_is_named_by_its_flows():
    seen = {"ovs/port/left/rx_pkts": 1000, "ovs/port/right/tx_pkts": 600, "ovs/flows/dropped": 395}
    rule = "dropped by/br0 table=0,udp,in_port=1"
    found = causes_in_service("kernel", seen | {"ovs/rules/dropped": 380, rule: 380})
    datapath = found.hops[1]
    assert [(drop.frames, drop.limits) for drop in datapath.drops] == [(395, "rules")]
    assert datapath.unexplained == 5
    assert [one.cause for one in found.suspicions] == ["rule-drop"]
    assert found.suspicions[0].evidence[-1] == "most of them by the rule br0 table=0,udp,in_port=1"


def causes_in_service(variant, seen):
    return watched(OVS, head(variant), [Reading(0.0, 5.0, seen, {})])


def test_a_drop_of_the_pipeline_in_service_is_a_rules_only_where_rules_were_read():
    dropped = {
        "ovs/port/left/rx_pkts": 1000,
        "ovs/port/right/tx_pkts": 600,
        "ovs/coverage/drop_action_of_pipeline": 400,
    }
    named = {
        "no-rule": {"ovs/rules/dropped": 0},
        "rule-drop": {"ovs/rules/dropped": 400},
        "tracked-drop": {"ovs/rules/dropped": 400, "ovs/rules/dropped_by_tracking": 400},
    }
    for cause, rules in named.items():
        assert [one.cause for one in causes_in_service("dpdk", dropped | rules).suspicions] == [cause]
    assert causes_in_service("dpdk", dropped).suspicions == (), "which it was is not known"


def test_what_an_ingress_filter_of_the_kernel_drops_never_reached_the_datapath():
    seen = {"ovs/port/left/rx_pkts": 1000, "ovs/port/right/tx_pkts": 600, "host/queue/dut/left/filtered": 400}
    found = watched(OVS, head("kernel"), [Reading(0.0, 5.0, seen, {})])
    assert [hop.unexplained for hop in found.hops] == [0, 0, 0]
    assert [one.cause for one in found.suspicions] == ["policer"]
    assert "ovs-vsctl set interface left ingress_policing_rate" in found.suspicions[0].mend
