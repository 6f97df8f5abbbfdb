"""The time to make rules, ports or links."""
