"""NICs of Open vSwitch without an end of the engine, `[[nic]]`, and what its files say of any NIC's driver."""

from dataclasses import dataclass
from typing import Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table

_DEVARG: Final = r"[a-z][a-z0-9_]{0,62}=[A-Za-z0-9_.:-]{1,64}"
DEVARGS: Final = kinds.matching(
    rf"(?:{_DEVARG}(?:,{_DEVARG}){{0,15}})?", 'driver arguments such as "dv_flow_en=1,mprq_en=0", or nothing'
)


@dataclass(frozen=True)
class OvsNic:
    """A NIC of the switch whose cable leads to another one of it, or to another machine, and not to the engine."""

    name: str  # in rules
    bridge: str
    address: str  # on the PCI bus of the device's machine
    queues: int
    devargs: str = ""
    no_iommu: bool = False  # it may be given to a process without an IOMMU


def table(bridge: Key) -> Table:
    """The table of such a NIC; `bridge` is the key that a port has, too."""
    return Table("nic",
        "A NIC of the switch (dpdk only) without an end of the engine: two of them joined by a cable make a loop "
        "between two bridges; one alone is an uplink to another machine.", (
        Key("name", kinds.port_name(), "In braces, its port in the rules of its bridge."),
        bridge,
        Key("pci", kinds.pci_address(), "Its PCI address.", field="address"),
        Key("queues", kinds.integer(1, 64), "Its receive queues.", 1),
        Key("devargs", DEVARGS, "Arguments of its driver (DPDK's devargs, behind the address).", ""),
        Key("no_iommu", kinds.boolean(), "As of a port: whether it may be used without an IOMMU.", False),
    ), at_most=64)  # fmt: skip
