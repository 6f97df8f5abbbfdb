"""Whether a balancer does what its service says."""
