"""docs/scenario.md, from the tables of keys: `python packaging/reference/scenario.py > docs/scenario.md`."""

from collections.abc import Iterator
from dataclasses import replace

from pinchpoint.dut import registry
from pinchpoint.keys.key import Computed, Key, Required, Table, Unset
from pinchpoint.measure import registry as measures
from pinchpoint.measure.kind import MeasureKind
from pinchpoint.model.effective import toml_of
from pinchpoint.model.headers import HEADERS
from pinchpoint.scenario import keys, sweep_keys

INTRODUCTION = """\
# Scenario files

A scenario is one TOML file that says what to build, what to send and what to
find. Every scenario needs a device under test. Measures that send frames also
need two ports with a stream between them; socket workloads need two hosts;
measures of a load balancer need two ports and a service.
Everything else has a default; the effective values are stored with every run.
"""
RULES = """\
A table that the measure does not use is an error.

* Sizes, times and rates carry their unit in the key's name: `_mb` (MiB), `_s`
  (seconds), `_fps` (frames per second), `_bytes`. Times and frame rates may also be texts
  with a unit: `trial_duration_s = "50ms"`, `max_load_fps = "3Mpps"`.
* A frame's size includes its 4 bytes of check sequence, as in RFC 1242: the
  smallest is 64.
* Addresses and ports may be ranges, `"16.0.0.1-16.0.0.255"`; `"16.0.0.0/24"` is all
  addresses of that prefix. The frames of a
  stream cycle through their five-tuples: frame number n has tuple n modulo `flows`,
  and the first field in `order` advances with every frame, or all do (`together`).
* A field of a header may also be a list, `[80, 443]`, or one with weights, `[[80, 3], [443, 1]]`: three times 80, then
  443. Or a table: `{first = "10.0.0.9", step = -1, count = 9}`; `{random = "1024-65535", count = 1000}`, 1,000 numbers
  that follow from `seed`; `{zipf = 1.1, first = "10.0.0.1", count = 1000}`, of which each frame draws one, the first
  ones most often (exponent 1.1). Of IPv6 addresses the last 64 bits vary.
* A rule names a port of its own bridge in braces,
  `in_port={left},actions=output:{right}`; the port's number is filled in when
  the bench is built. Hosts and tunnels are named in the same way, and
  `{to-br1}` is the patch port towards the bridge br1.
* All errors of a file are reported at once, one line each, with file, line and
  key. The elements of an array of tables are counted from 1. Nothing is built,
  and the exit code is 2.
* With `[sweep]`, one file makes many scenarios, each named after the file and
  its levels, `cascade.bridges-10.numa-same`. Each is checked like a file of
  its own; an error names the level that caused it.
* A file holds at most 1 MiB of UTF-8. It cannot run commands, name files of
  the host, or load code into the switch.
"""

STUDIES = """\
## Studies

A study is a folder with scenario files and a `study.toml`, which names them, the
published figures to compare with theirs, and the sentences that its report
computes. Files are named without a folder: a study reads only files of its own.
"""

EXAMPLE = '''\
title = "Source NAT behind 10,000 rules that never match"

[dut]
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


HOSTS_EXAMPLE = '''\
title = "TCP bandwidth through a row of bridges"
measure = "bandwidth"

# alice is on br0, bob on the last bridge; what lies between is built anew for
# each level of "bridges".
[dut]
datapath = "kernel"
pmd_cpus = [0]
cascade = 2
rules = """
priority=10,in_port={alice},actions=output:{to-br1}
priority=10,in_port={to-br1},actions=output:{alice}
"""
transit_rules = """
priority=20,in_port={to-previous},actions=output:{to-next}
priority=20,in_port={to-next},actions=output:{to-previous}
actions=NORMAL
"""

# Rules that no frame takes: these are of other addresses.
[[dut.rule_series]]
rule = "priority=5,udp,nw_src={ipv4:10.0.0.0},tp_dst=9,actions=drop"
count = 0

[[host]]
name = "alice"
address = "192.168.7.1/24"
cpus = [0]

[[host]]
name = "bob"
bridge = "last"
address = "192.168.7.2/24"
cpus = [1]

[sockets]
client = "alice"
server = "bob"
connections = 32
duration_s = 10
repeats = 1

# 4 x 2 x 2 = 16 scenarios, each measured 7 times.
[sweep]
repeats = 7
order = "random"
seed = 2544
point_name = "io"

[[sweep.factor]]
name = "bridges"
keys = ["dut.cascade"]
levels = [2, 10, 20, 50]
quick = [2, 10]
falling = true

[[sweep.factor]]
name = "extra rules"
unit = "rules"
keys = ["dut.rule_series[1].count"]
levels = [0, 500_000]

# Points are listed where one number does not say what changes.
[[sweep.point]]
name = "kernel"

[[sweep.point]]
name = "AF_XDP"
quick = false
"dut.datapath" = "af_xdp"
"dut.pmd_cpus" = [2]
"host[1].cpus" = [1]
'''

LAYERS_EXAMPLE = """\
title = "Tagged frames of 1,000 hosts, TCP over IPv6, and a tunnel"

[dut]
datapath = "dpdk"
pmd_cpus = [1]
rules = "actions=NORMAL"

[[port]]
name = "left"

[[port]]
name = "right"

# Two ranges of Ethernet addresses advance together: 1,000 flows.
[[stream]]
from = "left"
to = "right"
vlan = 100
vlan_pcp = 5
eth_src = "02:00:00:00:00:01-02:00:00:00:03:e8"
eth_dst = "02:00:00:01:00:01-02:00:00:01:03:e8"

[[stream]]
from = "left"
to = "right"
frame_bytes = "96-1518"
ipv6_dst = "2001:db8::1-2001:db8::ff"
tcp_src = { random = "1024-65535", count = 1000 }
tcp_dst = [[80, 3], [443, 1]]
flows = 100_000
burst_frames = 32

# The keys above set fields of a header that stands there once: here `vlan`.
[[stream]]
from = "right"
to = "left"
vlan = 7
layers = [
    "ethernet", "vlan", { ipv4 = { src = "192.0.2.1", dst = "192.0.2.2" } }, "udp", { vxlan = { vni = 42 } },
    "ethernet", { ipv4 = { dst = { first = "10.0.0.9", step = -1, count = 9 } } }, "udp",
]
"""

GUEST_EXAMPLE = """\
title = "The kernel datapath of Open vSwitch, on a machine whose kernel lacks it"

# The switch and its datapath run in a kernel of their own, on CPU 1 of this machine.
[guest]
kernel = "auto"

[dut]
datapath = "kernel"
pmd_cpus = [1]
rules = "in_port={left},actions=output:{right}"

[[port]]
name = "left"

[[port]]
name = "right"

[[stream]]
from = "left"
to = "right"

[search]
min_load_fps = 1_000
max_load_fps = 200_000
"""

STUDY_EXAMPLE = """\
title = "Bridges in a row"
about = "What each further bridge costs, by NUMA placement."
source = "Open vSwitch 2.17, kernel datapath, 2 x 32 cores"
scenarios = ["cascade"]

[quick]
"sockets.duration_s" = 1
"sweep.repeats" = 2

[[published]]
group = "cascade"
metric = "goodput"
unit = "bit/s"
factor = "bridges"
title = "iperf 2, 32 streams"
file = "throughput.csv"
where = { factor = "bridges", numa = "any", streams = 32 }
x = "level"
y = "gbit_per_s"
times = 1e9

[[published]]
group = "cascade"
metric = "goodput"
unit = "bit/s"
factor = "extra rules"
title = "the same, by rules"
levels = { bridges = 2 }
points = [[0, 178e9], [500_000, 177e9]]

[[finding]]
kind = "fall"
group = "cascade"
metric = "goodput"
factor = "bridges"

[[conclusion]]
says = "Ten bridges carry what two carry."
source = "throughput.csv"
group = "cascade"
metric = "goodput"
over = { bridges = 10 }
under = { bridges = 2 }
least = 0.95
most = 1.05
needs = { kernel_datapath = true, cpus = 64 }

[[step]]
group = "cascade"
question = "Is it the bridges?"
experiment = "Two bridges in the place of ten"
published = "178 Gbit/s instead of 176"
"""


def page() -> str:
    """The whole page, as docs/scenario.md holds it."""
    return "\n".join(
        [
            INTRODUCTION,
            *_measures(),
            RULES,
            "## Example",
            "",
            "```toml",
            f"{EXAMPLE}```",
            "",
            "## Example: hosts, a row of bridges and a sweep",
            "",
            "```toml",
            f"{HOSTS_EXAMPLE}```",
            "",
            "## Example: headers of frames",
            "",
            "```toml",
            f"{LAYERS_EXAMPLE}```",
            "",
            *_headers(),
            "## Example: a device in a guest",
            "",
            "```toml",
            f"{GUEST_EXAMPLE}```",
            "",
            "## Keys",
            "",
            "This part is generated from the parser's own table of keys.",
            "",
            *(line for table in keys.of_kind(registry.default()).every for line in _table(table)),
            *_devices(),
            STUDIES,
            "```toml",
            f"{STUDY_EXAMPLE}```",
            "",
            *(line for table in sweep_keys.STUDY_TABLES for line in _table(table, "`study.toml`")),
        ]
    )


def _headers() -> Iterator[str]:
    """What `layers` may say."""
    yield "Headers of `layers`, with their fields. Fields in italics have one value for all frames."
    yield ""
    yield "| header | bytes | behind | fields |"
    yield "|---|---|---|---|"
    for name, header in HEADERS.items():
        fields = (f"`{key}`" if row.varies else f"*`{key}`*" for key, row in header.fields.items())
        behind = ", ".join(header.behind) + (", or first" if name == "ethernet" else "")
        yield f"| `{name}` | {header.bytes} | {behind} | {', '.join(fields)} |"
    yield ""


def _measures() -> Iterator[str]:
    """What there is to measure, the default first."""
    yield "| `measure` | finds | needs |"
    yield "|---|---|---|"
    for measure in sorted(measures.measures(), key=lambda measure: measure.name != measures.DEFAULT):
        table = measure.table(registry.device(registry.default()).keys)
        needs = ["`[service]`"] if measure.is_served else []
        needs += [_needed(name, measure) for name in measure.needs]
        needs += [f"`{table.header}`"] if any(isinstance(key.default, Required) for key in table.keys) else []
        yield f"| `{measure.name}` | {measure.finds} | {', '.join(needs)} |"
    yield ""


def _needed(name: str, measure: MeasureKind) -> str:
    instead = " or `[service]` and `[[backend]]`" if name == "stream" and measure.through_service else ""
    return f"`[[{name}]]`{instead}"


def _devices() -> Iterator[str]:
    """What other kinds of devices have in the place of the default's keys."""
    for kind in registry.kinds():
        if kind == registry.default():
            continue
        declared = registry.device(kind)
        yield f'## `dut.kind = "{kind}"`: {declared.title}'
        yield ""
        yield from _table(keys.dut_table(kind))
        if declared.keys.port:
            yield from _table(
                replace(keys.port_table(kind), doc="Beside the keys of every kind:", keys=declared.keys.port)
            )
        for table in declared.keys.arrays:
            yield from _table(table)


def _table(table: Table, file: str = "the file") -> Iterator[str]:
    if table.name:
        yield f"### `{table.header}`"
        yield ""
        yield table.words
    else:
        yield f"### At the top of {file}"
    yield ""
    if not table.keys:
        return
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
    if isinstance(key.default, float) and key.default.is_integer():
        return f"`{key.default:_.0f}`"
    value = [_whole(item) for item in key.default] if isinstance(key.default, list) else key.default
    return f"`{toml_of(value)}`"


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
