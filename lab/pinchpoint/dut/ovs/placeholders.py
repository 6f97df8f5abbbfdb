"""Placeholders in OpenFlow rules: `{left}` for a port; in a series `{i}`, `{u16:...}`, `{ipv4:...}`, `{mac:...}`."""

import re
from collections.abc import Collection

from pinchpoint.dut.ovs.spec import RuleSeries
from pinchpoint.keys.kinds import MismatchError, check, ipv4_address, mac_address

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NUMBER = re.compile(r"[0-9]{1,5}")
_HIGHEST = {"u16": 2**16 - 1, "ipv4": 2**32 - 1, "mac": 2**48 - 1}


def rule_problems(rule: str, ports: Collection[str]) -> list[str]:
    """What is wrong with the placeholders of a single rule; empty if nothing is."""
    return _problems(rule, ports, None)


def series_problems(series: RuleSeries, ports: Collection[str]) -> list[str]:
    """What is wrong with the placeholders of a series; empty if nothing is."""
    return _problems(series.rule, ports, series.first + series.count - 1)


def _problems(rule: str, ports: Collection[str], last: int | None) -> list[str]:
    problems = []
    for name in _PLACEHOLDER.findall(rule):
        if name in ports:
            continue
        problem = _unknown(name, ports) if last is None else _series_problem(name, ports, last)
        if problem:
            problems.append(problem)
    if re.search(r"[{}]", _PLACEHOLDER.sub("", rule)):
        problems.append("a brace without its partner")
    return problems


def _series_problem(name: str, ports: Collection[str], last: int) -> str:
    if name == "i":
        return ""
    kind, colon, value = name.partition(":")
    if not colon or kind not in _HIGHEST:
        return _unknown(name, (*ports, "i", "u16:...", "ipv4:...", "mac:..."))
    what = "number" if kind == "u16" else "address"
    try:
        first = _first(kind, value)
    except MismatchError:
        return f"{{{name}}} has no valid {what}"
    return f"{{{name}}} runs past the last {what} at i = {last:,}" if first + last > _HIGHEST[kind] else ""


def _unknown(name: str, known: Collection[str]) -> str:
    choices = ", ".join(f"{{{choice}}}" for choice in known) or "no port names yet"
    return f"{{{name}}} is unknown; known here: {choices}"


def _first(kind: str, value: str) -> int:
    if kind == "u16":
        check(_NUMBER.fullmatch(value) is not None and int(value) <= _HIGHEST[kind])
        return int(value)
    return ipv4_address(value) if kind == "ipv4" else mac_address(value)
