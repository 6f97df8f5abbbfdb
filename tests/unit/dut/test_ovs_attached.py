"""A switch in service is found by its run directory; whatever is wrong there is said, and nothing is changed."""

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.dut.ovs.hops import in_service
from pinchpoint.dut.ovs.live import InService, _interface_types, _ports, attach
from pinchpoint.dut.ovs.spec import Datapath
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import DutError, RequirementError


class Answering:
    """A host with these files that gives these outputs, by the first word of a command."""

    name = ""

    def __init__(self, files=None, outputs=None):
        self.files, self.outputs, self.asked = files or {}, outputs or {}, []

    def read(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        if isinstance(self.files[path], Exception):
            raise self.files[path]
        return self.files[path]

    def exists(self, path):
        return path in self.files

    def run(self, argv, netns=None, environment=()):
        self.asked.append(argv)
        if argv[0] not in self.outputs:
            raise CommandFailed(argv, "connection refused")
        return self.outputs[argv[0]]


def test_a_folder_without_a_running_switch_says_what_to_give():
    with pytest.raises(RequirementError, match="no running switch found there") as caught:
        attach("/x", Answering())
    assert "PLACE" in caught.value.hint
    with pytest.raises(RequirementError, match="no running switch"):
        attach("/x", Answering({"/x/vswitchd.pid": "77"}))  # its process is gone
    with pytest.raises(RequirementError, match="no running switch"):
        attach("/x", Answering({"/x/vswitchd.pid": "no number"}))


def test_what_needs_root_says_so():
    with pytest.raises(RequirementError, match="no permission") as caught:
        attach(None, Answering({"/var/run/openvswitch/ovs-vswitchd.pid": PermissionError()}))
    assert "sudo" in caught.value.hint
    with pytest.raises(RequirementError, match="no control socket of process 77"):
        attach("/x", Answering({"/x/vswitchd.pid": "77", "/proc/77": ""}))


PORTS = """OFPST_PORT_DESC reply (xid=0x2):
 1(left): addr:00:00:00:00:00:01
     config:     0
 2(right): addr:00:00:00:00:00:02
 LOCAL(br0): addr:00:00:00:00:00:03
"""


def in_service_on(host):
    return InService("", PurePosixPath("/x"), host)


def test_ports_are_named_by_their_numbers_without_the_bridges_own():
    assert _ports(in_service_on(Answering(outputs={"ovs-ofctl": PORTS})), "br0") == {"1": "left", "2": "right"}
    with pytest.raises(DutError, match="br0: the switch does not answer"):
        _ports(in_service_on(Answering()), "br0")


def test_types_of_interfaces_are_read_from_the_database():
    table = {"headings": ["type"], "data": [["dpdkvhostuserclient"], [""]]}
    assert list(_interface_types(json.dumps(table))) == ["dpdkvhostuserclient", ""]


@given(st.one_of(st.text(max_size=200), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_hostile_tables_have_no_types(text):
    assert all(isinstance(kind, str) for kind in _interface_types(text))


@pytest.mark.parametrize("datapath", Datapath)
def test_the_path_in_service_begins_where_the_switch_counts(datapath):
    assert "veth" not in [place.name for place in in_service(datapath).places]
    assert in_service(datapath).places
