"""NDR and PDRs, then latency."""
