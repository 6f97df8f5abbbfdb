"""Frame loss rate against offered load (RFC 2544, 26.3)."""
