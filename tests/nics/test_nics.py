"""The lab on emulated NICs, for real and slowly: `make test-nics`. Nothing here depends on how fast that is."""

import pytest
from nic_tools import has_a_rate, has_carried, measured

pytestmark = [pytest.mark.tier2("emulated NICs"), pytest.mark.needs("qemu")]


@pytest.mark.parametrize("model", ["virtio-net-pci", "vmxnet3"])
def test_a_switch_between_nics_has_a_rate_and_the_nics_are_given_back(tmp_path, model):
    one = has_a_rate(measured(tmp_path, (f"{model}-{model}", f"{model}-{model}")))
    assert "uio_pci_generic, without an IOMMU" in one["settings"]["NIC of left"]


def test_frames_cross_a_switch_between_e1000e_nics_behind_an_iommu(tmp_path):
    one = has_carried(measured(tmp_path, ("e1000e-e1000e", "e1000e-e1000e"), ("--iommu",)))
    assert "vfio-pci, IOMMU group" in one["settings"]["NIC of left"]
