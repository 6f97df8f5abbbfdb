"""The lab on emulated NICs, for real and slowly: `make test-nics`. Nothing here depends on how fast that is."""

import pytest
from nic_tools import has_measured, measured

MACHINES = {
    "e1000e without an IOMMU": (("e1000e-e1000e", "e1000e-e1000e"), ()),
    "e1000e with an IOMMU": (("e1000e-e1000e", "e1000e-e1000e"), ("--iommu",)),
    "vmxnet3 and virtio": (("vmxnet3-vmxnet3", "virtio-net-pci-virtio-net-pci"), ()),
    "three models": (("e1000e-vmxnet3", "virtio-net-pci-e1000e"), ()),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_switch_between_nics_has_a_rate_and_gives_them_back(tmp_path, name):
    cables, options = MACHINES[name]
    one, trials = has_measured(measured(tmp_path, cables, options))
    assert one["settings"]["NIC of left"].startswith("0000:00:11.0: ")
    assert ("IOMMU group" if options else "without an IOMMU") in one["settings"]["NIC of left"]
    for trial in trials:
        assert trial["ledger"]["offered"] >= trial["ledger"]["received"]
