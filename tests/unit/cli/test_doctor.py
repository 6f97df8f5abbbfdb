"""What the doctor calls missing, and what merely is not here."""

import json

import pytest
from click.testing import CliRunner

from pinchpoint.bench import requirements
from pinchpoint.cli import inspect
from pinchpoint.cli.inspect import doctor
from pinchpoint.engine import process
from pinchpoint.engine.protocol import Backend


def diagnosis(monkeypatch, *lacking, options=()):
    """The doctor's result on a machine where only these backends of the engine cannot run."""
    names = ("mem", "af_packet", "af_xdp", "xdp_live", "dpdk")
    found = tuple(Backend(name, name not in lacking, "here", "no such thing", "get it") for name in names)
    monkeypatch.setattr(process, "backends", lambda: found)
    monkeypatch.setattr(process, "find_engine", lambda: "/bin/engine")
    monkeypatch.setattr(inspect, "_device_probes", lambda: [requirements.Probe("ovs-vswitchd", True, "here")])
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements.os, "sched_getaffinity", lambda _: {0, 1})
    return CliRunner().invoke(doctor, list(options), standalone_mode=False)


@pytest.mark.parametrize(("backend", "code"), [("dpdk", 3), ("af_packet", 3), ("af_xdp", 0), ("xdp_live", 0)])
def test_only_a_backend_that_a_scenario_can_ask_for_is_missed(monkeypatch, backend, code):
    result = diagnosis(monkeypatch, backend)
    assert result.return_value == code
    (line,) = (line for line in result.output.splitlines() if f"engine backend {backend}" in line)
    assert line.startswith("missing" if code else "not here")


def test_machines_are_told_what_is_needed(monkeypatch):
    probes = json.loads(diagnosis(monkeypatch, "xdp_live", options=["--json"]).output)
    lacking = [(probe["name"], probe["needed"], probe["hint"]) for probe in probes if not probe["ok"]]
    assert lacking == [("engine backend xdp_live", False, "get it")]
