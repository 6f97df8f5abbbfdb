"""What the user of an Open vSwitch can set against a cause. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pinchpoint.dut.ovs.dropping import CONFIGURED

Seen = Mapping[str, float]

_SMC: Final = f"{CONFIGURED}smc-enable"
_EMC: Final = f"{CONFIGURED}emc-insert-inv-prob"
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "policer": ("raise ingress_policing_rate of the port", "the rates of its QoS record"),
    "mtu": ("raise mtu_request of the port",),
    "buffers": ("raise dut.memory_mb",),
    "tracking-limit": ("raise dut.conntrack_limit", "the limit of the zone"),
    "flow-limit": ("raise dut.flow_limit",),
    "false-offload": ("name outputs in the place of NORMAL in table 0",),
    "slow-path": ("raise dut.flow_limit", "raise dut.max_idle_ms"),
    "copies": ("name the port in the place of NORMAL without a learnt address, FLOOD or ALL",),
    "imbalance": ("set port.rxq_affinity", "let pmd-auto-lb deal the queues out"),
    "main-thread": ('set dut.datapath = "af_xdp" or "dpdk"',),
    "preempted": ("name another CPU in dut.pmd_cpus",),
    "flow-control": ("set options:tx-flow-ctrl=false of the port",),
}
"""By the name of the cause."""


def advice(cause: str, seen: Seen) -> Sequence[str]:
    """Imperatives, without what is in force."""
    return (*_SETTINGS.get(cause, ()), *_caches(cause, seen))


def _caches(cause: str, seen: Seen) -> Iterator[str]:
    if cause in ("masks", "many-flows") and not seen.get(_SMC):
        yield "try dut.smc = true"
    if cause == "many-flows" and seen.get(_EMC) != 0:
        yield "try dut.emc_insert_inv_prob = 0, which saves the vain insertions"
