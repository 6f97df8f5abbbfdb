"""How many connections a second a balancer opens, in a burst and for ever, and what ends either."""
