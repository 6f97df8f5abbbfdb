"""Settings of all tests."""

import signal

from hypothesis import HealthCheck, settings

import pinchpoint  # noqa: F401  before a test imports numpy, so that no thread takes the signals of another

# Machines are shared and noisy: how long an example takes says nothing about the code.
settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")

# A shell that starts the tests in the background has them ignore SIGINT; so would everything they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
