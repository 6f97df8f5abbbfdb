"""How long forwarding stands still while the DUT is changed."""
