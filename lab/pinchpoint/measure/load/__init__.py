"""What given rates cost the DUT."""
