"""The text of a scenario that real benches are tried with: one stream from left to right over long rings."""

FORWARD = "in_port={left},actions=output:{right}"


def one_way(
    measure: str,
    more: str,
    *,
    datapath: str = "dpdk",
    pmd: int = 1,
    rules: str = FORWARD,
    dut: str = "",
    stream: str = "",
    search: str = "",
) -> str:
    """A scenario of that measure; `more` are its tables, the rest are further lines of tables that it has.

    How much of the load the host lets the engine send is not judged: a busy machine shall not fail what
    is tried here.
    """
    return f'''
title = "one way"
measure = "{measure}"
[dut]
kind = "ovs"
datapath = "{datapath}"
pmd_cpus = [{pmd}]
{dut}
rules = """
{rules}
"""
[[port]]
name = "left"
ring = 4096
[[port]]
name = "right"
ring = 4096
[engine]
cpus = [0]
[[stream]]
from = "left"
to = "right"
{stream}
[search]
{search}
[validity]
gap_shortfall_ratio = 0.9
{more}
'''
