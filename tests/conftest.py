"""Settings of all tests."""

import gc
import os
import signal
from pathlib import Path

import needs
import pytest
from hypothesis import HealthCheck, settings

import pinchpoint  # noqa: F401  before a test imports numpy, so that no thread takes the signals of another

# Machines are shared and noisy: how long an example takes says nothing about the code.
settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")

# A shell that starts the tests in the background has them ignore SIGINT; so would everything they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


MARKS = (  # unit/tiers.py makes docs/testing.md of the first two
    "tier1(*behaviours): run by `make test`, which it shows these behaviours",
    "tier2(*behaviours): run by `make test-all` only, unless the test has tier1 as well",
    "subject(target): of tier2, but run only by that target, when its subject changes",
    "thorough: long, e.g. a share of errors over many simulated runs; `make test-all` runs it",
    "needs(*names): skipped where the machine lacks one of them (bench/needs.py)",
)


def pytest_addoption(parser):
    """Files of others, which are no part of the project; how long what is tested for long is tested."""
    parser.addoption("--trex", metavar="FOLDER", help="`scripts` of a TRex release: its profiles are imported")
    parser.addoption("--otg", metavar="FOLDER", help="a copy of otg-examples: its scripts are run")
    parser.addoption("--watched", type=int, default=120, metavar="S", help="watch a changing switch for S seconds")


def pytest_configure(config):
    """Register the marks. What is imported and collected stays: to look through it takes half of that time."""
    gc.disable()
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


def pytest_collection_finish():
    """From here on garbage is collected, of what the tests make."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item):
    """Skip, before any fixture, what this machine lacks something for."""
    for name in needs.needed(item):
        if why := needs.lack(name):
            pytest.skip(why)


def pytest_terminal_summary(terminalreporter):
    """What was skipped, by reason; `make test` prints it again at its end."""
    lines = needs.reasons(terminalreporter.stats.get("skipped", []))
    for line in lines:
        terminalreporter.write_line(line)
    if collected := os.environ.get("PINCHPOINT_SKIPPED"):
        with Path(collected).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
