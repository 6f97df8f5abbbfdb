"""Rules in bulk: why Open vSwitch closed a connection is told."""

import pytest

from pinchpoint.dut.ovs import bulk
from pinchpoint.host.interface import CommandFailed


@pytest.mark.parametrize(
    "output", ["ovs-ofctl: OpenFlow packet receive failed (Broken pipe)", "Connection reset by peer"]
)
def test_a_connection_that_was_closed_for_silence_is_told_with_what_to_do(output):
    error = bulk._explained(CommandFailed(["ovs-ofctl", "add-flow"], output), 40)
    assert output in error.message and "said nothing for 1 s" in error.message
    assert error.exit_code == 4
    assert "build.concurrency" in error.hint


def test_any_other_failure_is_told_as_it_is():
    error = CommandFailed(["ovs-ofctl", "add-flow"], "unknown action teleport")
    assert bulk._explained(error, 40) is error
