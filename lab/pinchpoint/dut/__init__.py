"""One module per device under test: what its bench consists of, and how to talk to it."""
