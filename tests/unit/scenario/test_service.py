"""What a balancer does, as a scenario file says it."""

import pytest

from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Backend, Mode, Range, Scheduler
from pinchpoint.scenario import parse

TEXT = """
measure = "verify"
[dut]
kind = "nft"
[service]
address = "10.0.0.100"
port = 80
clients = "10.0.1.1-10.0.1.4"
local = "10.1.0.240-10.1.0.241"
[[backend]]
address = "10.1.0.1"
port = 8080
[[backend]]
address = "10.1.0.2"
[[port]]
name = "left"
[[port]]
name = "right"
"""


def read(*changes):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "service.toml")


def problem(*changes):
    with pytest.raises(InputError) as found:
        read(*changes)
    return found.value.message


def test_a_service_has_defaults_that_name_its_ports():
    service = read().service
    assert service is not None
    assert (service.scheduler, service.mode) == (Scheduler.ROUND_ROBIN, Mode.FULL_NAT)
    assert (service.client_port, service.server_port) == ("left", "right")
    assert service.clients == Range(0x0A000101, 4) and service.locals == ("10.1.0.240", "10.1.0.241")
    assert service.backends == (Backend("10.1.0.1", 8080), Backend("10.1.0.2", 80))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([('local = "10.1.0.240-10.1.0.241"\n', "")], 'mode = "full-nat" needs addresses'),
        ([("port = 80\n", 'port = 80\nmode = "dnat"\n')], "expected none with mode"),
        ([('"10.1.0.2"', '"10.1.0.1"\nport = 8080')], 'found "10.1.0.1:8080" again'),
        ([("port = 80\n", 'port = 80\nserver_port = "left"\n')], "expected a port other than client_port"),
        ([("port = 80\n", 'port = 80\nserver_port = "middle"\n')], "the name of a [[port]] (left, right)"),
        ([("port = 80\n", 'port = 80\nscheduler = "fair"\n')], '"round-robin"'),
        ([('"nft"', '"bridge"')], "a device that balances (nft)"),
        ([('"10.0.0.100"', '"10.0.0"')], '"a.b.c.d"'),
        ([('"verify"', '"rates"')], '"verify" where there is [service]'),
    ],
)
def test_a_service_that_cannot_be_says_what_to_write(changes, words):
    assert words in problem(*changes)
