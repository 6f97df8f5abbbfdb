"""Loss over a long time."""
