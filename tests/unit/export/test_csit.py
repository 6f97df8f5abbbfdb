"""CSIT's test cases satisfy its model, latency included: version 1.5.1, after resources/model_schema of FD.io CSIT."""

from collections import Counter
from dataclasses import replace

import jsonschema
import pytest
import sample
import sample_measures

from pinchpoint.export import Stored, csit
from pinchpoint.model import hdr
from pinchpoint.model.errors import InputError
from pinchpoint.model.result import LatencyPoint


def record(required, **properties):
    every = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**every, "required": list(properties) if required is ... else required}


def quantity(unit):
    return record(..., value={"type": "number", "minimum": 0}, unit={"const": unit})


TEXT, NAME = {"type": "string"}, {"type": "string", "minLength": 1}
RATE = record(["rate"], rate=quantity("pps"), bandwidth=quantity("bps"))
BOUNDS = record(..., lower=RATE, upper=RATE)
WHOLE = {"type": "integer", "minimum": 0}
TIMES = record(..., avg=WHOLE, min=WHOLE, max={"type": "integer", "minimum": 1}, hdrh=TEXT, unit={"const": "us"})
AT_LOADS = record(..., pdr_0=TIMES, pdr_10=TIMES, pdr_50=TIMES, pdr_90=TIMES)
RESULTS = [
    record(..., type={"const": "unknown"}),
    record(["type", "ndr", "pdr"], type={"const": "ndrpdr"}, ndr=BOUNDS, pdr=BOUNDS,
           latency_forward=AT_LOADS, latency_reverse=AT_LOADS),
    record(["type", "bandwidth"], type={"const": "hoststack"}, bandwidth=quantity("bps"),
           retransmits=quantity("packets")),
]  # fmt: skip
KINDS = ["device", "gso", "hoststack", "mrr", "ndrpdr", "reconf", "soak"]
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
MODEL = record(
    ..., duration={"type": "number", "minimum": 0}, dut_type=NAME, dut_version=NAME, end_time=TIME, start_time=TIME,
    hosts={"type": "array", "minItems": 1, "items": TEXT}, telemetry={"type": "array", "items": TEXT}, message=TEXT,
    passed={"type": "boolean"}, result={"oneOf": RESULTS}, tags={"type": "array", "items": TEXT},
    test_documentation=TEXT, test_id=NAME, test_name_long=NAME, test_name_short=NAME, test_type={"enum": KINDS},
    tg_type=NAME, tg_version=NAME, version={"const": "1.5.1"},
)  # fmt: skip
MODEL["oneOf"] = [
    {"properties": {"passed": {"const": True}, "message": {"const": ""}}},
    {"properties": {"passed": {"const": False}, "message": {"minLength": 1}}},
]
VALIDATOR = jsonschema.Draft202012Validator(MODEL)
NANOSECONDS = {7_400: 90, 8_600: 9, 21_000_000: 1}


def timed(shares, streams=("left",), histogram=None):
    """The sample with latency at these shares of the PDR of snat-255, for a stream from each of these ports."""
    info, result, trials = sample.sample_run()
    snat = next(scenario for scenario in result.scenarios if scenario.scenario == "snat-255")
    pdr = next(rate for rate in snat.rates if rate.loss_ratio == 0.005)
    model = next(trial for trial in trials if trial.scenario == "snat-255" and trial.phase == "latency")
    packed = hdr.encode(NANOSECONDS) if histogram is None else histogram
    latency = replace(model.latency, count=100, min_ns=7_400, mean_ns=217_434.0, max_ns=21_000_123)
    counts = replace(model.streams[0], latency=latency, latency_histogram=packed)
    model = replace(model, streams=tuple(replace(counts, tx_port=port) for port in streams))
    made = [replace(model, id=f"timed-{share}", load_fps=share * pdr.lower_fps) for share in shares]
    points = tuple(LatencyPoint(0.0, trial.load_fps, trial.id, latency, "") for trial in made)
    scenarios = tuple(replace(snat, latency=points) if one is snat else one for one in result.scenarios)
    run = Stored(info, replace(result, scenarios=scenarios), (*trials, *made))
    return next(case for case in csit.of_run(run) if case.name == "snat-255")


def test_every_case_satisfies_the_model():
    info, result, trials = sample.sample_run()
    windows_info, windows, made = sample_measures.measures_run()
    for run in (Stored(info, result, trials), Stored(windows_info, windows, measurements=made)):
        for case in csit.of_run(run):
            if case.document is not None:
                VALIDATOR.validate(case.document)


def test_latency_at_the_models_loads_is_in_microseconds_with_its_histogram():
    document = timed([0.01, 0.1, 0.497, 0.9]).document
    VALIDATOR.validate(document)
    forward = document["result"]["latency_forward"]
    assert list(forward) == ["pdr_0", "pdr_10", "pdr_50", "pdr_90"]
    numbers = forward["pdr_50"]
    assert (numbers["min"], numbers["avg"], numbers["max"], numbers["unit"]) == (7, 217, 21_001, "us")
    assert hdr.decode(numbers["hdrh"]) == Counter({7: 90, 9: 9, 21_007: 1})
    assert "latency_reverse" not in document["result"]


def test_streams_of_a_direction_are_added_up_and_the_other_direction_is_the_reverse():
    result = timed([0.0, 0.1, 0.5, 0.9], ("left", "left", "right")).document["result"]
    VALIDATOR.validate({**timed([]).document, "result": result})
    counts = {
        way: sum(hdr.decode(result[f"latency_{way}"]["pdr_0"]["hdrh"]).values()) for way in ("forward", "reverse")
    }
    assert counts == {"forward": 200, "reverse": 100}


@pytest.mark.parametrize(
    ("shares", "histogram", "why"),
    [
        ([0.1, 0.5, 0.9], None, "missing: 0 %; as shares of the NDR: latency.at = [0.0101]"),
        ([0.0, 0.1, 0.4, 0.9], None, "missing: 50 % (1.56 Mpps); as shares of the NDR: latency.at = [0.503]"),
        ([0.0, 0.1, 0.5, 0.9], "", "a stream has no latency histogram"),
    ],
)
def test_latency_without_all_loads_or_without_histograms_is_left_out_with_the_reason(shares, histogram, why):
    case = timed(shares, histogram=histogram)
    assert "latency_forward" not in case.document["result"]
    assert any(line.startswith("latency_forward") and line.endswith(why) for line in case.left_out)


def test_a_histogram_that_cannot_be_read_names_its_trial():
    with pytest.raises(InputError, match=r"trials.jsonl, trial timed-0.0: latency_histogram: "):
        timed([0.0, 0.1, 0.5, 0.9], histogram="AAAA")
