"""What a NIC's own counters say, whatever its driver calls them. Pure.

Names are those of DPDK's extended statistics (rte_ethdev.h, and each driver's own): `rx_missed_errors`,
`rx_mbuf_allocation_errors` and `rx_errors` of every driver; pause frames, damaged frames and discards by driver:
e1000, igb, ice and i40e `rx_xoff_packets`, ixgbe `rx_flow_control_xoff_packets`, bnxt `rx_pause_frames`;
mlx5 `rx_phy_crc_errors` and `rx_phy_discard_packets`, by ethtool `rx_crc_errors_phy`, `rx_discards_phy` and,
only there `rx_pause_ctrl_phy`. The drivers virtio and vmxnet3 have none of these.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_PAUSES: Final = re.compile(r"(rx|tx)_(?:(?:flow_control_)?xoff_packets|pause_frames|pause_ctrl_phy|pfc_frames)")
_CRC: Final = re.compile(r"rx_(?:phy_)?crc_errors(?:_phy)?")
_DISCARDS: Final = re.compile(r"rx_(?:phy_discard_packets|discards_phy)")
Stats = Mapping[str, int]


@dataclass(frozen=True)
class NicCounts:
    """Of one trial; what a driver does not count is 0 here: only what is more than that is ever used."""

    no_buffers: int  # receive buffers that could not be allocated
    damaged: int  # frames that arrived with errors
    discarded: int  # frames that the NIC had no room for before they reached a queue
    pauses_received: int  # the other end asked to wait
    pauses_sent: int


def counts(stats: Stats) -> NicCounts:
    """From the growth of a port's statistics."""
    by_driver = _most(stats, _CRC), _most(stats, _DISCARDS)
    return NicCounts(
        no_buffers=max(0, stats.get("rx_mbuf_allocation_errors", 0)),
        damaged=max(stats.get("rx_errors", 0), by_driver[0]),
        discarded=by_driver[1],
        pauses_received=_paused(stats, "rx"),
        pauses_sent=_paused(stats, "tx"),
    )


def _most(stats: Stats, name: re.Pattern[str]) -> int:
    """A driver may have two names for one counter: they are not added up."""
    return max((value for key, value in stats.items() if name.fullmatch(key)), default=0)


def _paused(stats: Stats, way: str) -> int:
    found = (value for key, value in stats.items() if (one := _PAUSES.fullmatch(key)) and one[1] == way)
    return max(found, default=0)
