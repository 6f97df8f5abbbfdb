"""Trends in words, bars and XML."""

from xml.etree import ElementTree

from stored_runs import history

from pinchpoint.findings.trend import trends
from pinchpoint.model.comparison import Trend, TrendChange, TrendRun, TrendSegment
from pinchpoint.report.trend import details, headline, render_junit, sparkline


def _trend(name: str, changed: tuple[str, ...] = ()) -> Trend:
    runs = tuple(
        TrendRun(f"r{i}", f"2026-01-0{i + 1}T00:00:00+00:00", value, None, None, ())
        for i, value in enumerate((8e6, 1e6))
    )
    levels = (TrendSegment(0, 1, 8e6, 8e6, 8e6, "one"), TrendSegment(1, 2, 1e6, 1e6, 1e6, "one"))
    change = TrendChange("r1", runs[1].started, 0.125, True, changed)
    return Trend(name, "NDR", "fps", "by the book", runs, levels, (change,), ("r9: too hot", "r8: too hot"), 2)


def test_bars_reach_from_the_lowest_to_the_highest_with_a_rule_between_levels() -> None:
    assert sparkline(_trend("a")) == "█│▁  1.00 to 8.00 Mpps"
    (steady,) = trends(history([3e6] * 200))
    assert len(sparkline(steady).split("  ")[0]) == 120


def test_words_tell_the_change_and_what_was_left_out() -> None:
    trend = _trend("a", ("kernel 6.1 -> 6.2",))
    assert headline(trend) == "worse since 2026-01-02 00:00: -87.5 % (r1)"
    assert list(details(trend)) == [
        "now 1.00 Mpps: one",
        "NDR: by the book",
        "2026-01-02 00:00 r1: 8.00 Mpps to 1.00 Mpps (-87.5 %); changed there: kernel 6.1 -> 6.2",
        "not compared: r9 and 1 more: too hot",
    ]


def test_xml_stays_whole_whatever_the_names_are() -> None:
    hostile = "<&\"'\x00\x1b]]>"
    root = ElementTree.fromstring(render_junit([_trend(hostile, (hostile,)), _trend("b")]))
    assert [suite.get("name") for suite in root] == ["<&\"'��]]>", "b"]
    assert "<&\"'��]]>" in (root[0][0][0].text or "")
