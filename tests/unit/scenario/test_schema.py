"""`pinchpoint check --schema`: the JSON Schema takes what the parser takes, and refuses what editors underline."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from reference.scenario import STUDY_EXAMPLE
from support import scenario_text

from pinchpoint.cli.main import main
from pinchpoint.keys.key import Computed, Required, Unset
from pinchpoint.keys.reader import schema_in_unit_of
from pinchpoint.scenario import keys, sweep_keys
from pinchpoint.scenario.schema import FORMS, SCENARIO, STUDY, schema_of

ROOT = Path(__file__).parents[3]
STUDY_FILES = sorted(ROOT.glob("studies/*/study.toml"))
STUDIES = {"example": STUDY_EXAMPLE, **{path.parent.name: path.read_text() for path in STUDY_FILES}}
SCENARIO_FILES = sorted({*ROOT.glob("studies/*/*.toml"), *ROOT.glob("benchmarks/*.toml")} - {*STUDY_FILES})
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES_FILES = {"scenarios", "published", "finding"}  # a study's or a campaign's keys
SCHEMAS = {form: schema_of(form) for form in FORMS}
FACTOR = "[[sweep.factor]]\nname = 'a'\n"


def shown():
    """Every scenario that a document shows."""
    for path in DOCUMENTS:
        for number, text in enumerate(BLOCK.findall(path.read_text()), 1):
            if not NAMES_FILES & tomllib.loads(text).keys():
                yield pytest.param(text, id=f"{path.name}-{number}")


def errors(form, text, draft=Draft202012Validator):
    """Where the schema refuses a file of that text, as it would be underlined."""
    return sorted({error.json_path for error in draft(SCHEMAS[form]).iter_errors(tomllib.loads(text))})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("draft", [Draft202012Validator, Draft7Validator])
def test_it_is_a_schema_also_to_editors_that_read_it_as_draft_7(form, draft):
    draft.check_schema(SCHEMAS[form])


@pytest.mark.parametrize("path", SCENARIO_FILES, ids=lambda path: path.stem)
def test_every_shipped_scenario_is_valid(path):
    assert errors(SCENARIO, path.read_text()) == errors(SCENARIO, path.read_text(), Draft7Validator) == []


@pytest.mark.parametrize("text", list(shown()))
def test_every_scenario_that_a_document_shows_is_valid(text):
    assert errors(SCENARIO, text) == []


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_valid(name):
    assert errors(STUDY, STUDIES[name]) == errors(STUDY, STUDIES[name], Draft7Validator) == []


def test_every_kind_of_key_says_its_schema_and_takes_its_default():
    for table in (*keys.known(), *sweep_keys.STUDY_TABLES):
        for key in table.keys:
            assert key.kind.schema, f"{table.header} {key.name}: Kind(..., schema=...)"
            if not isinstance(key.default, Required | Computed | Unset):
                Draft202012Validator(schema_in_unit_of(key.name, key.kind.schema)).validate(key.default)


BRIDGE = '[dut]\nkind = "bridge"\n'


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [
        (SCENARIO, "nonsense = 1", "$"),
        (SCENARIO, "[nonsense]", "$"),
        (SCENARIO, "[search]\nnonsense = 1", "$.search"),
        (SCENARIO, "[[stream]]\n[[stream]]\nnonsense = 1", "$.stream[1]"),
        (SCENARIO, "[[dut.rule_series]]\nnonsense = 1", "$.dut.rule_series[0]"),
        (SCENARIO, f'{BRIDGE}datapath = "dpdk"', "$.dut"),
        (SCENARIO, f'{BRIDGE}[[patch]]\nfrom = "a"', "$.patch"),
        (SCENARIO, '[dut]\nvswitchd = "/bin/true"', "$.dut"),
        (SCENARIO, "[host.far]\nnonsense = 1", "$.host.far"),
        (SCENARIO, "[[host]]\nnonsense = 1", "$.host[0]"),
        (SCENARIO, f"{FACTOR}keys = ['numa']\nlevels = ['any']\nnonsense = 1", "$.sweep.factor[0]"),
        (STUDY, "scenarios = ['a']\nnonsense = 1", "$"),
        (STUDY, "scenarios = ['a']\n[[finding]]\nkind = 'fall'\nnonsense = 1", "$.finding[0]"),
    ],
)
def test_a_key_that_there_is_not_is_underlined_where_it_stands(form, text, place):
    assert errors(form, text) == [place]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('measure = "rate"', "$.measure"),
        ("[engine]\ncpus = [4096]", "$.engine.cpus[0]"),
        ("[engine]\nmemory_mb = 1", "$.engine.memory_mb"),
        ("[search]\nexceed_ratio = 1.0", "$.search.exceed_ratio"),
        ('[search]\ntrial_duration_s = "3Mpps"', "$.search.trial_duration_s"),
        ("[[port]]\nring = 1000", "$.port[0].ring"),
        ('[[stream]]\neth_src = "03:00:00:00:00:01"', "$.stream[0].eth_src"),
        ("[[stream]]\nvlan = 4096", "$.stream[0].vlan"),
        ("[[stream]]\ntcp_dst = { first = 5 }", "$.stream[0].tcp_dst"),
        ("[[stream]]\nframe_bytes = '64 to 128'", "$.stream[0].frame_bytes"),
        ("[[stream]]\nlayers = ['ipx']", "$.stream[0].layers[0]"),
        ('[dut]\nother_config = { pmd-cpu-mask = "1" }', "$.dut.other_config"),
        (FACTOR, "$.sweep.factor[0]"),
    ],
)
def test_a_value_that_the_kind_of_its_key_refuses_is_underlined(text, place):
    assert errors(SCENARIO, text) == [place]


@pytest.mark.parametrize(
    "more",
    [
        '[search]\ntrial_duration_s = "50ms"\nmin_load_fps = "10 kpps"\nmax_load_fps = "3Mpps"',
        '[load]\nat_fps = ["10kpps", 20000]',
        'eth_dst = "02:00:00:00:00:0A"\nudp_dst = "9-10"\nipv4_dst = "48.0.0.0/24"',
        'vlan = [5, 6]\nipv6_dst = "2001:db8::1-2001:db8::9"\ntcp_dst = {first = 9, step = -1, count = 9}',
        "layers = ['ethernet', {vlan = {id = 5}}, {ipv4 = {ttl = 9}}, 'tcp']\nframe_bytes = [128, [256, 2]]",
    ],
)
def test_values_may_be_written_as_the_parser_reads_them(more):
    assert errors(SCENARIO, scenario_text(more=more)) == []


def test_keys_are_explained_as_in_the_reference_with_their_defaults():
    search = SCHEMAS[SCENARIO]["properties"]["search"]["properties"]
    about = search["max_repeats"]
    assert about["description"].startswith("How often one invalid trial is repeated.")
    assert (about["minimum"], about["maximum"], about["default"]) == (0, 100, 8)


@pytest.mark.parametrize(("words", "form"), [(["--schema"], SCENARIO), (["--schema", "study"], STUDY)])
def test_the_command_prints_it(words, form, capsys):
    assert main(["check", *words]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(SCHEMAS[form]))


def test_a_form_that_there_is_not_is_refused(capsys):
    assert main(["check", "--schema", "campaign"]) == 2
    assert "'scenario', 'study'" in capsys.readouterr().err
