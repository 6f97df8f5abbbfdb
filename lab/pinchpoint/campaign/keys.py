"""Every key of a campaign file, once."""

import re
from typing import Any, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.kinds import Kind, MismatchError, check, is_plain
from pinchpoint.model.site import LAB
from pinchpoint.model.units import parsed_duration

MOST_NAMES = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


def _is_path(value: str) -> bool:
    return is_plain(value) and value.endswith(".toml") and len(value) <= 1024


def _is_stem(value: str) -> bool:
    return 0 < len(value) <= 100 and is_plain(value) and "/" not in value


def _hosts(value: Any) -> dict[str, str]:
    check(isinstance(value, dict) and 0 < len(value) <= MOST_NAMES and LAB not in value)
    addresses = {kinds.machine_name().read(name): kinds.destination().read(host) for name, host in value.items()}
    check(len(set(addresses.values())) == len(addresses))
    return addresses


def _seconds(value: Any) -> float:
    seconds = parsed_duration(value) if isinstance(value, str) else None
    if seconds is None:
        raise MismatchError
    return seconds


# Of a machine, a variant or a build: a part of names of scenarios and of files.
NAME: Final = kinds.matching(_NAME, "1 to 32 letters, digits, - or _, the first a letter or digit")
NAMES: Final = kinds.listed("a list of different names, each " + NAME.expected, NAME, MOST_NAMES)
STEMS: Final = kinds.listed(
    "a list of different names of scenario files, without folder and .toml", kinds.texts("", _is_stem), MOST_NAMES
)
PATH: Final = kinds.texts("the path of a scenario file (.toml), from the campaign file's folder", _is_path)
PATHS: Final = kinds.listed(
    "a list of different paths of scenario files (.toml), from the campaign file's folder", PATH, MOST_NAMES
)
HOSTS: Final = Kind(
    f'a table NAME = "ADDRESS" of different addresses, each {kinds.destination().expected}, no NAME being "{LAB}"',
    _hosts,
)
DURATION: Final = Kind('a time like "90s", "10m" or "1h30m"', _seconds)
MOST_RULES: Final = 256
MOST_MACHINES: Final = 1000

TOP: Final = Table("", "", (
    Key("title", kinds.text(), "What the campaign shows, in a few words.", Computed("the file's name")),
    Key("scenarios", PATHS, "The scenario files; a file with [sweep] at all its points."),
    Key("builds", NAMES, "Builds of the device's program; --build NAME=PATH says where each is.", Unset("none")),
    Key("repeats", kinds.integer(1, 1000), "How often each point is measured.", Unset("as the scenario files say")),
    Key("measured_on", kinds.word("any", "every"),
        '"any": each unit on whichever machine is free; "every": each point on every machine.', "any"),
    Key("budget", DURATION, "The time that the campaign may take.", Unset("as long as it needs"), "budget_s"),
    Key("budget_cost", kinds.number(0, 1e9), "What its machines may cost, by their cost_per_hour.",
        Unset("as much as it needs")),
    Key("retries", kinds.integer(0, 10), "How often a unit that failed is tried again, elsewhere if possible.", 1),
))  # fmt: skip

VARIANT: Final = Table("variant",
    'A variant of every scenario. Besides its name it holds the keys that it sets, in quotes: `"dut.smc" = true`.', (
    Key("name", NAME, "Its name in results and rules."),
), at_most=64, is_open=True)  # fmt: skip

MACHINE: Final = Table("machine",
    "A machine that measures. Without any, this one does; with --cluster every node that has the resource `bench`.", (
    Key("name", NAME, "Its name in results and rules; of a cluster's node the value of its label `machine`."),
    Key("address", kinds.destination(), "As for ssh(1): HOST, USER@HOST, or a Host of ssh_config.",
        Unset("this machine, or a node of the cluster")),
    Key("hosts", HOSTS,
        'A site: the address of each host by the name that scenarios have for it, e.g. {gen = "10.0.1.1", dut = '
        '"10.0.1.2"}. It measures one unit at a time, of scenarios that name hosts.', Unset("one machine")),
    Key("sudo", kinds.boolean(), "Whether a user other than root becomes root there by `sudo -n`.", True),
    Key("labels", NAMES, "Words that [[need]] asks for.", Unset("none")),
    Key("cpus", kinds.integer(1, 4096), "How many CPUs it has, each host of a site.",
        Unset("unknown; for a node, what it reports")),
    Key("cost_per_hour", kinds.number(0, 1e6), "What an hour of measuring costs.", 0),
), at_most=MOST_MACHINES)  # fmt: skip

_CHOSEN = (
    Key("scenario", STEMS, "Scenario files, without folder and .toml.", Unset("all")),
    Key("variant", NAMES, "Variants.", Unset("all")),
    Key("build", NAMES, "Builds.", Unset("all")),
)
_CHOSEN_ON = (*_CHOSEN, Key("machine", NAMES, "Machines.", Unset("all")))

EXCLUDE: Final = Table("exclude", "Combinations to leave out: those that match every key.", _CHOSEN_ON, MOST_RULES)
ONLY: Final = Table(
    "only", "With any of these tables, only combinations that match one of them are measured.", _CHOSEN_ON, MOST_RULES
)
NEED: Final = Table("need", "What combinations need of a machine, besides the CPUs that their scenarios name.", (
    *_CHOSEN,
    Key("labels", NAMES, "Labels that the machine must have, all of them.", Unset("none")),
    Key("cpus", kinds.integer(1, 4096), "CPUs that it must have at least.", Unset("those that are named")),
), MOST_RULES)  # fmt: skip
PRIORITY: Final = Table("priority", "What is measured first.", (
    *_CHOSEN,
    Key("priority", kinds.integer(-1000, 1000), "The highest first; 0 where no table matches."),
), MOST_RULES)  # fmt: skip
CONTROL: Final = Table("control",
    "A scenario by which machines are compared with each other, and each with its own past.", (
    Key("scenario", PATH, "A short scenario without [sweep], with one main figure.", Unset("no control")),
    Key("every", DURATION, "The time after which a machine measures it again.", "30m", "every_s"),
    Key("tolerance", kinds.number(0.01, 1), "The largest share by which a machine may differ before it is excluded.",
        0.1),
))  # fmt: skip
ARRAYS: Final = (VARIANT, MACHINE, EXCLUDE, ONLY, NEED, PRIORITY)
TABLES: Final = (TOP, *ARRAYS, CONTROL)
