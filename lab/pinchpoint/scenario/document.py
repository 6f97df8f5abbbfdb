"""Prints docs/scenario.md from the table of keys: `python -m pinchpoint.scenario.document`."""

import json
from collections.abc import Iterator

from pinchpoint.scenario import keys
from pinchpoint.scenario.key import Computed, Key, Required, Table, Unset

INTRODUCTION = """\
# Scenario files

A scenario is one TOML file that says what to build, what to send and what to
find. It needs four things: a device under test with its rules, two ports, a
stream between them, and the CPUs that each side may use. Everything else has
a default; the effective values are stored with every run.

* Sizes, times and rates carry their unit in the key's name: `_mb` (MiB), `_s`
  (seconds), `_fps` (frames per second), `_bytes`.
* A frame's size includes its 4 bytes of check sequence, as in RFC 1242: the
  smallest is 64.
* Addresses and ports may be ranges, `"16.0.0.1-16.0.0.255"`. The frames of a
  stream go round their five-tuples: frame number n has tuple n modulo `flows`,
  and the first range in `order` moves with every frame.
* A rule names a port in braces, `in_port={left},actions=output:{right}`; the
  port's number is filled in when the bench is built.
* What is wrong with a file is reported all at once, one line each, with file,
  line and key. The elements of an array of tables are counted from 1. Nothing
  has been built at that point, and the exit code is 2.
* A file holds at most 1 MiB of UTF-8. It cannot run commands, name files of
  the host, or load code into the switch.
"""

EXAMPLE = '''\
title = "Source NAT behind 10,000 rules that never match"

[dut]
kind = "ovs"
datapath = "dpdk"
pmd_cpus = [2, 3]
memory_mb = 1024
emc_insert_inv_prob = 1
other_config = { pmd-perf-metrics = true }
rules = """
# what is bound for the servers goes through connection tracking
table=0,priority=100,ip,in_port={left},nw_dst=48.0.0.0/8,actions=ct(commit,table=1,nat(src=10.0.0.1))
table=1,priority=100,ip,actions=mod_dl_dst:02:00:00:00:01:02,output:{right}
"""

[[dut.rule_series]]
rule = "priority=200,ip,nw_dst={ipv4:49.0.0.0},actions=mod_dl_dst:{mac:02:00:00:00:00:00},output:{right}"
count = 10_000

[[port]]
name = "left"
ring = 2048

[[port]]
name = "right"
ring = 2048

[engine]
cpus = [1]

[[stream]]
from = "left"
to = "right"
frame_bytes = 64
ipv4_src = "16.0.0.1-16.0.0.255"
ipv4_dst = "48.0.0.1-48.0.255.255"
udp_src = 1025
udp_dst = "1000-1003"
order = ["ipv4_dst", "ipv4_src"]
flows = 65536

[search]
loss_ratios = [0, 0.005]
duration_sum_s = 21

[validity]
shortfall_ratio = 0.001
gap_shortfall_ratio = 0.02

[latency]
at = [0.5, 0.9]
'''


def page() -> str:
    """The whole page, as docs/scenario.md holds it."""
    return "\n".join(
        [
            INTRODUCTION,
            "## Example",
            "",
            "```toml",
            f"{EXAMPLE}```",
            "",
            "## Keys",
            "",
            "This part is generated from the parser's own table of keys.",
            "",
            *(line for table in keys.TABLES for line in _table(table)),
        ]
    )


def _table(table: Table) -> Iterator[str]:
    if table.name:
        yield f"### `{table.header}`"
        yield ""
        limit = f" At most {table.at_most}." if table.at_most else ""
        yield table.doc + limit
    else:
        yield "### At the top of the file"
    yield ""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for key in table.keys:
        yield f"| `{key.name}` | {_cell(key.kind.expected)} | {_cell(_default(key))} | {_cell(key.doc)} |"
    yield ""


def _default(key: Key) -> str:
    if isinstance(key.default, Required):
        return "required"
    if isinstance(key.default, Computed | Unset):
        return key.default.words
    return f"`{toml(key.default)}`"


def toml(value: object) -> str:
    """A default as it would stand in the file."""
    if isinstance(value, list):
        return "[" + ", ".join(toml(element) for element in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(element)}" for key, element in value.items()) + "}"
    if isinstance(value, float):
        return f"{value:_.0f}" if value.is_integer() else repr(value)
    return json.dumps(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
