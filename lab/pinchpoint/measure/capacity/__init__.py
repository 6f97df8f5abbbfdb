"""How many connections a balancer holds at once, how fast it forgets them, and how they age."""
