"""otg-examples, from a folder that an option names: its scripts run unmodified, its configurations are sent."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from otg_tools import PORT, joined, lengths, served, wait_for

pytestmark = pytest.mark.tier2("command:otg")

WITHIN_S = 60.0
LOCAL = ("localhost:5555", "localhost:5556", "localhost:5557", "localhost:5558", "localhost:5559", "localhost:5560")
SCAPY = pytest.mark.needs("scapy")  # the scripts themselves import it
B2B = "clab/ixia-c-b2b"
FRONT = """
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tls
    bind 127.0.0.1:8443 ssl crt {certificate}
    http-request set-header Host 127.0.0.1:{port}
    default_backend otg
backend otg
    server otg 127.0.0.1:{port}
"""


@pytest.fixture
def folder(request):
    """A copy of otg-examples."""
    if (path := request.config.getoption("--otg")) is None:
        pytest.skip("--otg FOLDER names no copy of otg-examples")
    return Path(path).absolute()


@contextmanager
def serving(locations):
    """The address of a server with a port for each location, two of them joined."""
    with joined(len(locations) // 2) as ends, served(map("=".join, zip(locations, ends, strict=True))) as address:
        yield address


def run(path, *words, cwd, api="", wrapper=()):
    """A script, which must end well. Returns how many frames of each port it has captured."""
    environment = os.environ | {"NO_PROXY": "*"} | ({"OTG_API": api} if api else {})
    done = subprocess.run([*wrapper, sys.executable, path, *words], cwd=cwd, env=environment, timeout=WITHIN_S,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return {capture.stem: len(lengths(capture.read_bytes())) for capture in cwd.glob("*.pcap")}


@pytest.mark.parametrize(
    ("script", "words", "captured"),
    [
        ("snappi/otg-flows.py", (), {}),
        ("snappi/otg-flows.py", ("-m", "flow"), {}),
        pytest.param(f"{B2B}/scapy2otg.py", (), {"p1": 20, "p2": 20}, marks=SCAPY),
        pytest.param(f"{B2B}/scapy2otg-port.py", (), {"p1": 20, "p2": 20}, marks=SCAPY),
    ],
)
def test_scripts_run_unmodified(script, words, captured, folder, tmp_path, nothing_left):
    with serving(LOCAL[:2]) as address:
        assert run(folder / script, *words, cwd=tmp_path, api=address) == captured


@pytest.mark.needs("haproxy")
def test_a_script_with_a_fixed_https_address_runs_behind_a_proxy(folder, tmp_path, nothing_left):
    """The name of the address is this machine's for the script alone."""
    key, certificate, hosts, front = (tmp_path / name for name in ("front.pem.key", "front.pem", "hosts", "front.cfg"))
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=otg", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words], check=True, capture_output=True)
    hosts.write_text("127.0.0.1 localhost clab-ixcb2b-ixia-c\n")
    front.write_text(FRONT.format(certificate=certificate, port=PORT))
    alone = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts)
    with serving(("eth1", "eth2")), subprocess.Popen(["haproxy", "-db", "-f", front]) as proxy:
        try:
            wait_for(lambda: listens(8443))
            assert run(folder / B2B / "otg.py", cwd=tmp_path, wrapper=alone) == {"p1": 1000, "p2": 1000}
        finally:
            proxy.terminate()


def listens(port):
    with socket.socket() as end:
        return end.connect_ex(("127.0.0.1", port)) == 0


def asked(address, path, body=None):
    """The status of the answer, and the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/{path}", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def configuration(path, monkeypatch):
    """What `otgen` makes of such a file."""
    for number, location in enumerate(LOCAL[:2], 1):
        monkeypatch.setenv(f"OTG_LOCATION_P{number}", location)
    return yaml.safe_load(os.path.expandvars(path.read_text()))


@pytest.mark.parametrize(
    ("file", "locations"),
    [
        ("docker-compose/b2b/otg.yml", LOCAL[:2]),
        ("docker-compose/b2b-3pair/otg.2pairs.yml", LOCAL[:4]),
        ("docker-compose/b2b-3pair/otg.3pairs.yml", LOCAL),
        ("clab/rtbh/otg.yml", ("eth1", "eth2")),
        ("clab/ixia-c-te-frr/otg.yml", ("te1:5555", "te2:5555")),
        ("hw/ixhw-b2b/otg.yml", LOCAL[:2]),
        ("otg/otg.yml", LOCAL[:2]),
        ("otg/b2b/interfaces.otg.yml", LOCAL[:2]),
    ],
)
def test_configurations_are_sent_and_every_frame_is_received(file, locations, folder, monkeypatch, nothing_left):
    config = configuration(folder / file, monkeypatch)
    packets = [flow["duration"]["fixed_packets"]["packets"] for flow in config["flows"]]

    def stopped(address):
        _, answer = asked(address, "monitor/metrics", {"choice": "flow", "flow": {}})
        rows = answer["flow_metrics"]
        return rows if all(row["transmit"] == "stopped" for row in rows) else None

    with serving(locations) as address:
        status, answer = asked(address, "config", config)
        assert status == 200, answer
        start = {"choice": "flow_transmit", "flow_transmit": {"state": "start"}}
        status, answer = asked(address, "control/state", {"choice": "traffic", "traffic": start})
        assert status == 200, answer
        rows = wait_for(lambda: stopped(address), WITHIN_S)
    assert [(int(row["frames_tx"]), int(row["frames_rx"])) for row in rows] == [(count, count) for count in packets]


@pytest.mark.parametrize("file", ["otg/b2b/bgp.otg.yml", "otg/b2b/isis.otg.yml"])
def test_protocols_are_refused_with_their_place(file, folder, monkeypatch, nothing_left):
    with serving(LOCAL[:2]) as address:
        status, answer = asked(address, "config", configuration(folder / file, monkeypatch))
    assert status == 400
    protocol = Path(file).name.partition(".")[0]
    assert any(line.startswith(f"devices[0].{protocol}: not supported") for line in answer["errors"]), answer
