"""What `campaign --resume` asks for before it measures, and what its exit code says."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from sample import sample_run
from served import keep
from support import scenario_text

from pinchpoint.cli import campaign as cli
from pinchpoint.cli.main import main
from pinchpoint.host import facts
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.model.campaign import Bench, Campaign, Control, Entry, Requirement, Unit, What
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import Outcome, RateStatus, RunResult
from pinchpoint.run.checkpoint import require_same
from pinchpoint.run.run import unmeasured
from pinchpoint.run.stored import StoredRun
from pinchpoint.scenario import parse
from pinchpoint.serve.acts import Acts
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.codec import SCHEMA

HOW = cli._How(Machines(Local()), quiet=True)


def unit(name, programs):
    return Unit(name, name, 1, Requirement(), 10.0, programs=programs)


def asked(programs=(), control=(), benches=()):
    made = Control(unit("campaign-control", dict(control)), {}, 60.0, 0.1)
    return Campaign("c", "c", (unit("x", dict(programs)),), benches, (), False, 1, control=made)


@pytest.fixture
def folder(tmp_path):
    """Makes a campaign's folder, with these lines in its log."""

    def make(campaign, *entries, info=None):
        run = keep(tmp_path / "runs", "going", sample_run(), done=1)
        opened = CampaignFolder(run)
        opened.write_campaign(campaign)
        if info:
            run.write_info(info)
        for entry in entries:
            opened.append(entry)
        return opened

    return make


def test_a_folder_chooses_no_program_for_its_control_either(folder):
    made = folder(asked(control={"dut.vswitchd": "/tmp/evil"}))
    with pytest.raises(InputError, match="it measures /tmp/evil"):
        cli._resumed(made.path, HOW)


def test_a_campaign_of_a_cluster_is_resumed_on_one(folder):
    made = folder(asked(), Entry(What.BEGUN, "", "x", "x.a1", "n7"))
    with pytest.raises(InputError, match="measured on a cluster, on n7") as raised:
        cli._resumed(made.path, replace(HOW, builds=(("new", "/opt/new"),)))
    assert raised.value.hint.endswith("--build new=/opt/new --cluster ADDRESS")


def test_a_campaign_that_was_begun_on_something_else_is_refused_once_and_not_by_each_attempt(folder):
    info = replace(sample_run()[0], host={**facts.host_facts(Local()), "kernel": "another"})
    with pytest.raises(InputError, match="kernel: another then"):
        cli._resumed(folder(asked(), info=info).path, HOW)


def test_a_short_form_that_no_scenario_has_is_said(tmp_path, capsys):
    (tmp_path / "plain.toml").write_text(scenario_text())
    file = tmp_path / "campaign.toml"
    file.write_text('scenarios = ["plain.toml"]\n')
    cli._loaded(file, {}, quick=False, ceiling=False)
    assert capsys.readouterr().err == ""
    cli._loaded(file, {}, quick=True, ceiling=False)
    assert "--quick changes nothing" in capsys.readouterr().err


def test_what_an_older_version_did_not_record_of_the_host_is_no_difference(monkeypatch):
    monkeypatch.setattr(facts, "host_facts", lambda host: {"kernel": "6.1", "turbo": "on"})
    info = replace(sample_run()[0], host={"kernel": "6.1"}, versions=facts.versions(Local()))
    require_same(info, Local())


@pytest.mark.parametrize(
    ("campaign", "machine"), [(asked(), "n7"), (asked({"dut.vswitchd": "/opt/new/x"}, benches=(Bench("n7"),)), "n7")]
)
def test_what_needs_options_to_be_resumed_is_not_resumed_from_a_page(folder, campaign, machine):
    made = folder(campaign, Entry(What.BEGUN, "", "x", "x.a1", machine))
    shelf = SimpleNamespace(run=lambda _: made.run)
    with pytest.raises(InputError, match="resumed by its command"):
        Acts(shelf, ("false",)).resume("going")


def test_a_campaign_that_measured_nothing_has_not_succeeded(folder):
    made = folder(asked())
    result = unmeasured(parse(scenario_text(), "x.toml"), Outcome.IMPOSSIBLE, "planted", 0.0)
    made.run.write_result(RunResult(SCHEMA, "going", True, (result,)))
    assert cli._code(made, StoredRun(made.run), False, HOW) == 4


def test_a_campaign_of_which_every_rate_was_refused_could_not_be_decided(folder, capsys):
    made = folder(asked())
    measured = next(scenario for scenario in sample_run()[1].scenarios if scenario.rates)
    refused = tuple(replace(rate, status=RateStatus.REFUSED, reason="no quiet trial") for rate in measured.rates)
    result = replace(measured, rates=refused, metrics=())
    made.run.write_result(RunResult(SCHEMA, "going", True, (result,)))
    assert cli._code(made, StoredRun(made.run), False, HOW) == 9
    assert "could not be decided: " in capsys.readouterr().err


@pytest.mark.parametrize("address", ["local", "", "10.0.0.1", "ray://10.0.0.1:10001", "10.0.0.1:x", ":6379"])
def test_no_address_at_which_ray_would_start_a_cluster_of_its_own_is_taken(address, tmp_path, capsys):
    assert main(["campaign", "--resume", str(tmp_path), "--cluster", address]) == 2
    assert "expected the HOST:PORT of the head of a running cluster, or auto" in capsys.readouterr().err
