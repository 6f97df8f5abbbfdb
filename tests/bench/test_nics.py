"""A smoke round of tests/nics: one virtual machine with four emulated NICs. `make test-nics` has the rest."""

import pytest
from nic_tools import has_a_rate, measured_by_ssh

pytestmark = [pytest.mark.tier2("emulated NICs"), pytest.mark.needs("qemu")]


def test_a_switch_between_emulated_nics_of_another_machine_has_a_rate_and_the_nics_are_given_back(tmp_path):
    one = has_a_rate(measured_by_ssh(tmp_path, ("virtio-net-pci-virtio-net-pci", "virtio-net-pci-virtio-net-pci")))
    assert "uio_pci_generic, without an IOMMU" in one["settings"]["NIC of left"]
