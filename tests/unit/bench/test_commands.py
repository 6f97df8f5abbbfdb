"""`pinchpoint clean` and `doctor`, and what reaches the user when something fails."""

from pathlib import Path

import pytest

from pinchpoint.bench import builder, requirements
from pinchpoint.bench.builder import Cleaned
from pinchpoint.cli import inspect, main
from pinchpoint.dut.ovs import device as needs
from pinchpoint.dut.registry import default, device, device_of
from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError
from pinchpoint.scenario import load

QUICKSTART = Path(__file__).parents[3] / "studies" / "quickstart"


def test_clean_tells_what_it_could_not_remove_and_exits_4(monkeypatch, capsys):
    monkeypatch.setattr(inspect.os, "geteuid", lambda: 0)
    monkeypatch.setattr(builder, "clean", lambda host: Cleaned(("b1: mkdir /x",), (), ("b2: mkdir /y: busy",)))
    assert main.main(["clean"]) == 4
    told = capsys.readouterr()
    assert "undone: b1: mkdir /x" in told.out
    assert "not removed: b2: mkdir /y: busy" in told.err
    assert "nothing to remove" not in told.out


@pytest.mark.parametrize(("alive", "told"), [((), True), (("b1",), False)])
def test_clean_lowers_a_session_that_a_killed_run_left_raised_and_no_live_run_uses(monkeypatch, capsys, alive, told):
    monkeypatch.setattr(inspect.os, "geteuid", lambda: 0)
    monkeypatch.setattr(builder, "clean", lambda host: Cleaned((), alive, ()))
    monkeypatch.setattr(inspect, "lower_left_session", lambda: True)
    assert main.main(["clean"]) == 0
    assert ("undone: the priority of this session" in capsys.readouterr().out) is told


def test_clean_without_root_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(inspect.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(builder, "clean", lambda host: pytest.fail("nothing can be removed"))
    assert main.main(["clean"]) == 3
    assert "sudo pinchpoint clean" in capsys.readouterr().err


def test_what_failed_beside_an_error_is_told_with_it(monkeypatch, capsys):
    def fail(host):
        cause = BenchError("ovs-vsctl failed")
        cause.add_note("not removed: a namespace")
        raise BenchError("the switch refused a rule") from cause

    monkeypatch.setattr(inspect.os, "geteuid", lambda: 0)
    monkeypatch.setattr(builder, "clean", fail)
    assert main.main(["clean"]) == 4
    assert capsys.readouterr().err == "pinchpoint: the switch refused a rule\nnot removed: a namespace\n"


def test_an_interrupted_command_promises_nothing(monkeypatch, capsys):
    def interrupt(host):
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect.os, "geteuid", lambda: 0)
    monkeypatch.setattr(builder, "clean", interrupt)
    assert main.main(["clean"]) == 130
    assert capsys.readouterr().err.strip() == "pinchpoint: interrupted"


def test_doctor_asks_for_the_hugepages_of_the_quickstart(monkeypatch):
    asked = []

    def note(host, pages, _otherwise):
        asked.append(pages)
        return requirements.Probe("hugepages", True, "")

    monkeypatch.setattr(needs, "hugepages", note)
    monkeypatch.setattr(needs, "kernel_module", lambda host, name, *_: requirements.Probe(name, True, ""))
    list(device(default()).flavours(Local()))
    needed = {device_of(scenario).pages(scenario) for path in QUICKSTART.glob("*.toml") if (scenario := load(path))}
    assert needed == set(asked)
