"""What a change of its backends or of its configuration does to the connections through a balancer."""
