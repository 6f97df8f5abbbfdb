"""The longest burst without loss (RFC 2544, 26.4; RFC 9004)."""
