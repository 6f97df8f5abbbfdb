"""The lab on emulated NICs, for real and slowly: `make test-nics`. Nothing here depends on how fast that is."""

import pytest
from nic_tools import has_a_rate, has_carried, measured, measured_by_ssh

pytestmark = [pytest.mark.tier2("emulated NICs"), pytest.mark.needs("qemu")]


@pytest.mark.parametrize("model", ["virtio-net-pci", "vmxnet3"])
def test_a_switch_between_nics_has_a_rate_and_the_nics_are_given_back(tmp_path, model):
    result = has_a_rate(measured(tmp_path, (f"{model}-{model}", f"{model}-{model}")))
    assert "uio_pci_generic, without an IOMMU" in result["settings"]["NIC of left"]


def test_frames_cross_a_switch_between_e1000e_nics_behind_an_iommu(tmp_path):
    result = has_carried(measured(tmp_path, ("e1000e-e1000e", "e1000e-e1000e"), ("--iommu",)))
    assert "vfio-pci, IOMMU group" in result["settings"]["NIC of left"]


def test_frames_cross_a_loop_between_two_bridges_of_one_switch(tmp_path):
    cables = ("virtio-net-pci-virtio-net-pci",) * 3
    result = has_a_rate(measured(tmp_path, cables, scenario="loop.toml"))
    assert "uio_pci_generic" in result["settings"]["NIC of far"]


def test_a_switch_between_nics_of_another_machine_has_a_rate(tmp_path):
    result = has_a_rate(measured_by_ssh(tmp_path, ("virtio-net-pci-virtio-net-pci", "virtio-net-pci-virtio-net-pci")))
    assert "uio_pci_generic, without an IOMMU" in result["settings"]["NIC of left"]
