"""The words by which a run names the hosts that its benches stand on: what `pack --anonymous` has to replace."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final

_COMMON: Final = frozenset({"root", "localhost"})  # they identify nobody
_KINDS: Final = frozenset({"kind", "datapath", "measure", "mode"})  # keys whose values are words of Pinchpoint


def names_of_hosts(files: Mapping[str, bytes]) -> list[str]:
    """Names, logins and addresses of the hosts in the scenarios and in their texts; addresses of IP are not names.

    A word that is also a key of a scenario or a kind of device stays, since a scenario could not be read without it.
    """
    info = json.loads(files.get("run.json", b"{}"))
    texts = [table for text in info.get("sources", {}).values() if (table := _table(text))]
    scenarios = info.get("scenarios", ())
    placed = [part for one in scenarios if isinstance(one, dict) for part in (one, *one.get("engines", ()))]
    remotes = [part["remote"] for part in placed if isinstance(part, dict) and isinstance(part.get("remote"), dict)]
    found = [word for one in remotes for word in _words(str(one.get("name", "")), one)]
    for table in texts:
        hosts = table.get("host")
        for name, one in hosts.items() if isinstance(hosts, dict) else ():
            found += _words(name, one if isinstance(one, dict) else {})
        found += _of_machines(table.get("machine"))
    plain = [{**table, "host": (), "machine": ()} for table in texts]
    kept = {*_COMMON, *_vocabulary([*scenarios, *plain]), *info}
    return [word for word in dict.fromkeys(found) if word not in kept]


def _table(text: str) -> dict[str, Any]:
    with suppress(tomllib.TOMLDecodeError):
        return tomllib.loads(text)
    return {}


def _of_machines(machines: object) -> Iterator[str]:
    """Of the machines of a campaign file, also of the hosts of sites; their names there are those of scenarios."""
    for one in machines if isinstance(machines, list) else ():
        if isinstance(one, dict):
            yield from _words(str(one.get("name", "")), one)
            hosts = one.get("hosts")
            for name, address in hosts.items() if isinstance(hosts, dict) else ():
                yield from _words(name, {"address": address})


def _words(name: str, remote: Mapping[str, Any]) -> Iterator[str]:
    """Of `[ssh://][login@]host[:port]`, as ssh(1) takes it: the login, the host and its first label."""
    login, _, host = str(remote.get("address", "")).removeprefix("ssh://").rpartition("@")
    bare, _, port = host.rpartition(":")
    if port.isdecimal() and ":" not in bare:
        host = bare
    for word in (name, login, host, host.partition(".")[0]):
        if word and not word.isdecimal() and not _is_ip(word):
            yield word


def _is_ip(word: str) -> bool:
    with suppress(ValueError):
        ip_address(word.strip("[]"))
        return True
    return False


def _vocabulary(value: object) -> Iterator[str]:
    """Every key, and the values of those that have words of Pinchpoint."""
    if isinstance(value, list):
        for one in value:
            yield from _vocabulary(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            if key in _KINDS and isinstance(one, str):
                yield one
            yield from _vocabulary(one)
