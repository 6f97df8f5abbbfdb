"""A balancer in XDP: what is planned, what is read."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from support import scenario_of

from pinchpoint.bench.resource import Command, Relay, TextFile
from pinchpoint.dut import registry, xdp
from pinchpoint.dut.device import Pages
from pinchpoint.dut.places import Places
from pinchpoint.host.local import Local
from pinchpoint.model.errors import DutError, InputError
from pinchpoint.model.limits import Resource

PLACE = PurePosixPath("/run/pinchpoint/b1")


def bench(**changes):
    wanted = scenario_of("xdp", dut="cpus = [3]")
    wanted = replace(wanted, dut=replace(wanted.dut, **changes))
    return registry.device_of(wanted).bench(wanted, Places("b1", PLACE, Local()))


def test_the_engine_holds_the_program_at_the_clients_port():
    planned = bench().resources(Pages(10, 10), ["engine"])
    (process,) = [resource for resource in planned if isinstance(resource, Relay)]
    words = " ".join(process.argv)
    assert words.startswith("engine balance-xdp --from left --to right --netns ")
    assert "--service 10.0.0.100:80 --own 02:00:00:00:0a:01" in words
    assert words.endswith("--backend 02:00:00:00:0b:00 --backend 02:00:00:00:0b:01")
    assert (process.cpu, process.awaited) == (3, True)
    (batch,) = [resource for resource in planned if isinstance(resource, TextFile) and resource.path.endswith(".ip")]
    assert "address add 10.0.0.100/32 dev left" in batch.lines, "so that the kernel answers who asks for it"


def test_a_program_of_the_user_s_is_attached_by_ip_and_its_maps_are_set():
    entry = xdp.Entry("backends", "00000001", "02000000")
    own = bench(object="/tmp/lb.o", section="lb", attach="native", entries=(entry,))
    planned = own.resources(Pages(10, 10), ["engine"])
    assert not [resource for resource in planned if isinstance(resource, Relay)]
    link, entries = (resource.argv for resource in planned[-2:] if isinstance(resource, Command))
    assert link[3:] == ("link", "set", "dev", "left", "xdpdrv", "obj", "/tmp/lb.o", "sec", "lb")
    assert " ".join(entries) == "bpftool map update name backends key hex 00 00 00 01 value hex 02 00 00 00"
    assert "xdp/port/{port}/balanced" not in {
        counter for place in registry.device("xdp").graph(own.scenario).places for counter in place.entered
    }


@pytest.mark.parametrize(("attach", "count"), [("native", 2), ("generic", 0)])
def test_the_engine_s_ends_take_what_a_driver_redirects(attach, count):
    own = bench(object="/tmp/lb.o", attach=attach)
    commands = [resource for resource in own.resources(Pages(10, 10), ["engine"]) if isinstance(resource, Command)]
    received = [command for command in commands if command.argv[-2:] == ("gro", "on")]
    assert [command.netns for command in received] == count * [own.places.engine_netns]


def test_an_entry_may_be_the_index_of_a_port_s_interface():
    own = bench(object="/tmp/lb.o", entries=(xdp.Entry("tx", "00000000", port="right"),))
    program = own.resources(Pages(10, 10), ["engine"])[-1]
    assert program.argv[:2] == ("sh", "-c") and program.argv[3:] == ("right", "tx", "00 00 00 00")
    assert program.netns == own.places.dut_netns, "the kernel looks for the interface where the command runs"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "map[1]: expected value or port, found neither"),
        ('value = "00"\nport = "left"', "map[1]: expected value or port, found both"),
        ('port = "middle"', 'map[1].port: expected the name of a [[port]] (left, right), found "middle"'),
        ('value = "0"', "map[1].value: expected bytes in hexadecimal digits"),
    ],
)
def test_an_entry_has_one_value(value, words):
    with pytest.raises(InputError) as caught:
        scenario_of("xdp", more=f'[[map]]\nname = "m"\nkey = "00"\n{value}\n')
    assert words in str(caught.value)


def test_what_a_map_counts_is_the_sum_of_its_numbers_over_all_cpus():
    ten = '["0x0a","0x00","0x00","0x00","0x01","0x00","0x00","0x00"]'
    assert xdp.summed(f'[{{"key":["0x00"],"value":{ten},"formatted":{{"value":1}}}}]') == 10 + (1 << 32)
    cpus = ",".join(f'{{"cpu":{cpu},"value":{ten}}}' for cpu in (0, 1))
    assert xdp.summed(f'[{{"key":["0x00"],"values":[{cpus}]}}]') == 2 * (10 + (1 << 32))
    for text in ('{"error":"no map"}', "", '[{"value":["10"]}]'):
        with pytest.raises(DutError, match="bpftool prints"):
            xdp.summed(text)


def test_an_object_that_counts_is_in_the_way_of_frames():
    places = registry.device("xdp").graph(bench(object="/tmp/lb.o", counter="sent").scenario).places
    assert "xdp/port/{port}/balanced" in {counter for place in places for counter in place.entered}


def test_without_an_object_there_are_no_maps_to_set_and_one_place():
    with pytest.raises(InputError, match=r"expected none without dut\.object"):
        scenario_of("xdp", more='[[map]]\nname = "m"\nkey = "00"\nvalue = "00"\n')
    with pytest.raises(InputError, match=r'dut\.attach: expected "generic" without dut\.object'):
        scenario_of("xdp", dut='attach = "native"')
    with pytest.raises(InputError, match=r"dut\.counter: expected none without dut\.object"):
        scenario_of("xdp", dut='counter = "m"')
    with pytest.raises(InputError, match=r"dut\.object"):
        scenario_of("xdp", dut='object = "/tmp/lb.o"')


def test_its_counter_is_read_by_the_port_at_which_it_is(monkeypatch):
    monkeypatch.setattr(xdp, "ask_relay", lambda *_: '{"type":"balance-xdp","balanced":12}')
    assert xdp.Balanced(Local(), None, "left").snapshot().counters == {"xdp/port/left/balanced": 12}


def test_it_remembers_no_connection():
    balancer = xdp.Stateless()
    balancer.flush()
    assert (balancer.tracked(), [limit.resource for limit in balancer.limits()]) == (
        0,
        [Resource.SOFTIRQ, Resource.QDISC],
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [('[guest]\nkernel = "qemu"\n', "into this machine's kernel"), ('[[host]]\nname = "h"\n', "host")],
)
def test_what_it_cannot_is_refused(more, words):
    with pytest.raises(InputError, match=words):
        scenario_of("xdp", more=more)
