"""The Grafana dashboard asks for metrics that the OpenMetrics exports write."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import sample
from trials import measurement

from pinchpoint.export import Stored, openmetrics
from pinchpoint.measure.forwarding import of_threads
from pinchpoint.measure.rates.run import of_overload, of_the_rates_alone
from pinchpoint.measure.soak import metrics as soak
from pinchpoint.measure.soak.metrics import Window
from pinchpoint.measure.soak.run import Soak
from pinchpoint.model.result import Band, LossFloor, RateStatus, ReceiveRate
from pinchpoint.model.trial import Drop, Hop
from pinchpoint.model.watch import RecordHead, Watched

DASHBOARD = json.loads((Path(__file__).parents[3] / "packaging/grafana/pinchpoint.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
METRIC = re.compile(r"\bpinchpoint_\w+")
LABELS = re.compile(r"(\w+)(?:=|!=|=~)\"")
WINDOW = Window(0.0, 10.0, 1e6, 10_000_000, 3, 0.0, 0.0, 0.0, 0.0, 0.5)


def expressions():
    yield from (target["expr"] for panel in PANELS for target in panel["targets"])
    yield from (variable["query"]["query"] for variable in VARIABLES.values() if variable["type"] == "query")


def of_runs():
    """What runs of rates and of a soak export; the names of their figures are those that the measures give them."""
    info, result, trials = sample.sample_run()
    band, floor = Band(1e6, 1.2e6), LossFloor(1e-4, 1e-5, 1e-3, 1e4, 9)
    ndr, pdr = (sample.rate(ratio, 1e6, 1.1e6, RateStatus.FOUND) for ratio in (0.0, 0.005))
    rates = (replace(ndr, band=band, floor=floor), replace(pdr, band=band))
    mrr = ReceiveRate(2e6, 1.5e6, 1.4e6, 1.6e6, band, 7, 1.0, 0.95)
    figures = (*of_the_rates_alone(rates), *of_overload(mrr, None), *of_threads(trials[0].threads, {}))
    figures += tuple(soak.metrics([WINDOW], ring=1000))
    window = measurement(Soak.kind, scenario="forward", metrics=tuple(soak.window_metrics(WINDOW)))
    scenarios = (replace(result.scenarios[0], metrics=figures),)
    return openmetrics.of_runs([Stored(info, replace(result, scenarios=scenarios), trials, (window,))])


def of_a_watch():
    totals = openmetrics.WatchTotals(RecordHead(1, "reference", "", "/run/x", ("left",), "lab", "2026-01-02T03:04:05Z"))
    drop = Drop("receive ring of left full", 3, "rx_dropped", "dut")
    threads = sample.sample_run()[2][0].threads
    totals.add(Watched(1.0, (Hop("switch receives", 100, 97, (drop,)),), threads, {}, ()))
    return totals.text()


@pytest.fixture(scope="module")
def written():
    """The labels of every metric that is written, by its name."""
    lines = [line for text in (of_runs(), of_a_watch()) for line in text.splitlines() if not line.startswith("#")]
    return {METRIC.match(line)[0]: set(LABELS.findall(line)) for line in lines}


@pytest.mark.parametrize("expression", list(expressions()))
def test_each_metric_of_the_dashboard_is_one_that_is_exported_with_the_labels_asked_for(expression, written):
    for name in METRIC.findall(expression):
        assert name in written
        asked = re.search(rf"{name}{{(.*?)}}\[?", expression)
        if asked:
            assert {*LABELS.findall(asked[1])} <= {*written[name], "instance"}, name


def test_every_variable_that_is_asked_for_is_declared():
    used = {name for text in map(json.dumps, PANELS) for name in re.findall(r"\$\{?(\w+)", text)}
    assert used - {"__interval", "__rate_interval"} == VARIABLES.keys()


def test_every_override_names_a_series_of_its_panel():
    for panel in PANELS:
        legends = [target["legendFormat"] for target in panel["targets"]]
        series = {legend.replace("{{of}}", end) for legend in legends for end in ("value", "low", "high")}
        for override in panel["fieldConfig"]["overrides"]:
            wanted = [override["matcher"]["options"], *(setting["value"] for setting in override["properties"])]
            assert {name for name in wanted if isinstance(name, str)} <= series
