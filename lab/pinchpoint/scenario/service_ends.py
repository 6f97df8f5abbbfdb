"""Checks of a service whose ends are more than plain connections: kernel sockets, long answers, a header, tags."""

from collections.abc import Mapping, Sequence
from typing import Final

from pinchpoint.keys.reader import Element, Values, lookup
from pinchpoint.keys.source import Source
from pinchpoint.measure import registry as measures
from pinchpoint.measure.kind import Arrays, needed
from pinchpoint.model import addresses
from pinchpoint.model.scenario import Between, Mode, Transport

ByTable = Mapping[str, Values]
"""The values of tables by their names."""
SOCKETS: Final = tuple(measure.name for measure in measures.measures() if issubclass(measure.made, Between))
"""The measures whose kernel sockets may be the clients and the backends."""
_LONGEST_HEADER: Final = 107  # bytes, of the PROXY protocol
MOST_CLIENTS: Final = 256  # addresses of the clients' namespace


def check_sockets(source: Source, measure: str, tables: ByTable, arrays: Arrays) -> None:
    """Kernel sockets can be the clients and the backends. Fills in the ends."""
    service, why = tables["service"], f'with measure = "{measure}"'
    needed(source, {"port": 2, "backend": 1}, arrays)
    _fill_ends(source, service, tables["sockets"], arrays["port"])
    if arrays["host"]:
        source.problem(("host",), f"expected no [[host]] {why} and a [service]: its clients and backends are the ends")
    if tables["sockets"].get("transport") == Transport.UDP:
        source.mismatch(("sockets", "transport"), f'"{Transport.TCP}" where there is a [service] {why}', "udp")
    _check_kernels(source, service, arrays["backend"], why)
    if (clients := service.get("clients")) and clients.count > MOST_CLIENTS:
        source.mismatch(("service", "clients"), f"at most {MOST_CLIENTS} addresses {why}", f"{clients.count:,}")
    if lookup(source.data, ("service", "client_ports")) is not None:
        source.problem(("service", "client_ports"), f"expected none {why}: the kernel chooses them")


def _fill_ends(source: Source, service: Values, sockets: Values, ports: Sequence[Element]) -> None:
    """Those of the service, whose ports are checked elsewhere."""
    for key in ("client", "server"):
        if sockets.get(key) is not None:
            source.problem(("sockets", key), f"expected none where there is a [service]: service.{key}_port has it")
    ends = [service.get(key) for key in ("client_port", "server_port")]
    if len({*ends, None}) == 3 and {*ends} <= {port.values.get("name") for port in ports}:
        sockets["client"], sockets["server"] = ends


def _check_kernels(source: Source, service: Values, backends: Sequence[Element], why: str) -> None:
    """Their addresses are of IPv4, their answers take the way back through the device, and one server is all."""
    if service.get("mode") == Mode.DIRECT:
        expected = f"another {why}: kernel sockets have no way to the client past the device"
        source.mismatch(("service", "mode"), expected, Mode.DIRECT.value)
    if service.get("proxy_protocol") is not None:
        source.problem(("service", "proxy_protocol"), f"expected none {why}: its servers read no header")
    if is_v6(service) or any(addresses.is_v6(backend.values.get("address", "")) for backend in backends):
        source.problem(
            ("service", "address"), f"expected IPv4 on both sides {why}: its sockets have no other addresses"
        )
    numbered = [backend for backend in backends if "port" in backend.values]
    for backend in numbered[1:]:
        if (own := backend.values["port"]) != (port := numbered[0].values["port"]):
            expected = f"{port}, as backend[1].port is, {why}: one server has the addresses of all"
            source.mismatch((*backend.at, "port"), expected, own)


def one_segment(service: Values) -> int:
    """Bytes of a request or an answer that are one segment: of either family, less a time stamp and its padding."""
    return 1440 - 12 * bool(service.get("timestamps"))


def check_answers(source: Source, measure: str, tables: ByTable) -> None:
    """Answers of several segments are sent by TCP, through the device; a request is one segment."""
    service, asks = tables["service"], tables.get(measure, {})
    answer, request = asks.get("answer_bytes", 0), asks.get("request_bytes", 0)
    is_udp, most = service.get("transport") == Transport.UDP, one_segment(service)
    if request > most:
        source.mismatch((measure, "request_bytes"), f"at most {most:,} with service.timestamps = true", request)
    if answer > most and (is_udp or service.get("mode") == Mode.DIRECT):
        key = f'transport = "{Transport.UDP}"' if is_udp else f'mode = "{Mode.DIRECT}"'
        source.mismatch((measure, "answer_bytes"), f"at most {most:,} with service.{key}", answer)


def check_programs(source: Source, measure: str, service: Values) -> None:
    """Real servers have addresses of IPv4, and their answers take the way back through the device."""
    if service.get("mode") == Mode.DIRECT:
        problem = f'expected false with mode = "{Mode.DIRECT}": real servers have no way to the client past the device'
        source.problem((measure, "programs"), problem)
    if is_v6(service):
        source.problem((measure, "programs"), "expected false with a service of IPv6: the engine verifies it")
    if service.get("proxy_protocol") is not None:
        source.problem((measure, "programs"), "expected false with service.proxy_protocol: real servers read no header")


def check_header(source: Source, measure: str, tables: ByTable) -> None:
    """A request and the PROXY header before it may be one segment."""
    asks, service = tables.get(measure, {}).get("request_bytes", 0), tables["service"]
    most = one_segment(service) - _LONGEST_HEADER
    if service.get("proxy_protocol") is not None and asks > most:
        expected = f"at most {most:,} with service.proxy_protocol, whose header stands before the first"
        source.mismatch((measure, "request_bytes"), expected, asks)


def check_tags(source: Source, tables: ByTable, ports: Sequence[Element]) -> None:
    """Only a veth pair of connections has VLAN interfaces."""
    if tables["service"].get("vlan") is None:
        return
    why = [
        *(["a [guest], whose ports are taps"] if tables["guest"].get("kernel") else []),
        *(f"port[{number}].interface" for number, port in enumerate(ports, 1) if port.values.get("interface")),
    ]
    for other in why:
        source.problem(("service", "vlan"), f"expected none with {other}")


def is_v6(service: Values) -> bool:
    """Whether its virtual servers have addresses of IPv6."""
    virtual = service.get("address")
    return virtual is not None and addresses.is_v6(virtual.as_addresses())
