"""A smoke round of tests/nics: one virtual machine with four emulated NICs. `make test-nics` has the rest."""

from nic_tools import has_measured, measured


def test_a_switch_between_emulated_nics_has_a_rate_and_gives_the_nics_back(tmp_path):
    has_measured(measured(tmp_path, ("e1000e-e1000e", "e1000e-e1000e")))
