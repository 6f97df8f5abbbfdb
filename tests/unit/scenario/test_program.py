"""Which program is started as the switch comes from the command line and from nowhere else."""

import pytest

from pinchpoint.keys.source import CHANGED, Change, Source

AT = ("dut", "vswitchd")


def source(*changes):
    return Source('[dut]\nkind = "ovs"\n', "a.toml").changed(changes)


def test_the_command_line_may_name_it():
    assert source(Change(AT, "/opt/ovs", origin=CHANGED)).was_given(AT)


@pytest.mark.parametrize("origin", ["study.toml:7", ""])
def test_no_file_may_name_it_not_even_a_studys_short_form_or_a_sweep(origin):
    assert not source(Change(AT, "/tmp/x", origin=origin)).was_given(AT)


def test_what_a_sweep_puts_in_the_place_of_what_was_given_is_not_given():
    changed = source(Change(AT, "/opt/ovs", origin=CHANGED))
    assert not changed.changed([Change(AT, "/tmp/x")]).was_given(AT)
