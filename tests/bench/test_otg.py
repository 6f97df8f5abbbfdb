"""A snappi script against `pinchpoint otg` on a real link: every frame is counted."""

import pytest
import snappi
from otg_tools import joined, lengths, served, wait_for

pytestmark = pytest.mark.tier2("command:otg")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Where the server keeps its folder; SIGTERM must not leave it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield lambda: sorted(path.name for path in tmp_path.glob("pinchpoint-otg-*"))
    assert list(tmp_path.glob("pinchpoint-otg-*")) == []


@pytest.fixture
def api(folders):
    """snappi's client of a server that may use both ends, called as such scripts call them."""
    with joined() as ends, served(f"localhost:{5555 + nth}={end}" for nth, end in enumerate(ends)) as address:
        assert len(folders()) == 1
        yield snappi.api(location=address)


def two_flows(api):
    """A thousand frames one way, two thousand the other, with patterns."""
    config = api.config()
    left, right = config.ports.port(name="left", location="localhost:5555").port(
        name="right", location="localhost:5556"
    )
    for number, (sender, receiver) in enumerate(((left, right), (right, left)), 1):
        flow = config.flows.flow(name=f"flow {number}")[-1]
        flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = sender.name, [receiver.name]
        flow.size.fixed, flow.rate.pps = 64 * number, 1000 * number
        flow.duration.fixed_packets.packets = 1000 * number
        flow.metrics.enable = flow.metrics.loss = True
        flow.metrics.latency.enable = True
        ethernet, ip, udp = flow.packet.ethernet().ipv4().udp()
        ethernet.src.value = f"02:00:00:00:00:0{number}"
        ip.src.increment.start, ip.src.increment.count = "10.0.0.1", 10
        ip.dst.value = "10.1.0.1"
        udp.src_port.decrement.start, udp.src_port.decrement.step, udp.src_port.decrement.count = 6000, 2, 4
        udp.dst_port.values = [4000, 4044, 4060]
    return config


def transmit(api, state, names=()):
    control = api.control_state()
    control.traffic.flow_transmit.state = state
    if names:
        control.traffic.flow_transmit.flow_names = list(names)
    api.set_control_state(control)


def flows(api):
    request = api.metrics_request()
    request.flow.flow_names = []
    return api.get_metrics(request).flow_metrics


def ports(api):
    request = api.metrics_request()
    request.port.column_names = [request.port.FRAMES_TX, request.port.FRAMES_RX]
    return api.get_metrics(request).port_metrics


@pytest.mark.tier1("command:otg")
def test_a_script_sends_counts_and_stops(nothing_left, api):
    config = two_flows(api)
    api.set_config(config)
    assert api.get_config().flows[1].name == "flow 2"
    transmit(api, "start")
    ended = wait_for(lambda: [flow for flow in flows(api) if flow.transmit == "stopped"][1:] and flows(api))
    assert [(flow.name, flow.frames_tx, flow.frames_rx) for flow in ended] == [
        ("flow 1", 1000, 1000), ("flow 2", 2000, 2000)
    ]  # fmt: skip
    assert [flow.bytes_rx for flow in ended] == [64_000, 256_000]
    assert [flow.loss for flow in ended] == [0.0, 0.0]
    assert all(0 < flow.latency.minimum_ns <= flow.latency.average_ns <= flow.latency.maximum_ns for flow in ended)
    assert [(port.name, port.frames_tx, port.frames_rx) for port in ports(api)] == [
        ("left", 1000, 2000), ("right", 2000, 1000)
    ]  # fmt: skip

    for flow in config.flows:
        flow.duration.continuous.gap = 12
    api.set_config(config)
    transmit(api, "start", ["flow 1"])
    moving = wait_for(lambda: [flow for flow in flows(api) if flow.frames_rx and 500 < flow.frames_rx_rate < 2000])[0]
    assert moving.transmit == "started"
    with pytest.raises(Exception, match="flows are transmitting; stop them first"):
        transmit(api, "start")
    wait_for(lambda: flows(api)[0].frames_rx > moving.frames_rx)
    transmit(api, "stop")
    first, second = flows(api)
    assert first.transmit == "stopped" and first.frames_tx == first.frames_rx > moving.frames_rx
    assert (second.frames_tx, second.transmit) == (0, "stopped")

    config.flows[0].packet.pfcpause()
    with pytest.raises(Exception, match=r"flows\[0\].packet\[3\].pfcpause: not supported"):
        api.set_config(config)


def test_percentages_of_a_told_speed_and_captures(nothing_left, api):
    """What snappi's first example asks for: a speed, and a capture."""
    config = two_flows(api)
    config.layer1.layer1(name="layer", port_names=["left", "right"], speed="speed_1_gbps")
    config.captures.capture(name="capture", port_names=["left", "right"])
    config.options.port_options.location_preemption = True
    config.flows[0].metrics.enable = False
    config.flows[0].rate.percentage = 0.1
    assert list(api.set_config(config).warnings) == []
    control = api.control_state()
    control.port.capture.port_names, control.port.capture.state = ["right"], "start"
    api.set_control_state(control)
    transmit(api, "start")
    wait_for(lambda: [one for one in flows(api) if one.transmit == "stopped"] and ports(api)[0].frames_tx)
    request = api.metrics_request()
    request.port.port_names = ["right"]
    (right,) = api.get_metrics(request).port_metrics
    assert (right.frames_rx, right.bytes_rx) == (1000, 64_000)
    request = api.capture_request()
    request.port_name = "right"
    assert lengths(api.get_capture(request).read()) == [60] * 1000
