"""Compares the frames that were sent here with those that TRex would send: a program for `test_public.py`.

Argument: the folder `scripts` of a release of TRex. Reads lines of JSON from stdin, {"profile": PATH, "sent":
[[FRAME, ...], ...]} with the frames of each stream as hexadecimal digits, and writes one line for each,
{"differences": [[STREAM, FRAME, FIELD, TEXT], ...]} or {"error": TEXT}. The packets and their instructions come from
TRex's own library with the scapy that it carries, which also takes the frames apart. What the instructions do is
written down here, as the documentation of TRex's field engine and its server have it. Nothing of the lab is used.
"""

import base64
import json
import sys
import types
from pathlib import Path

_LIBRARIES = ("scapy-2.4.3", "texttable-0.8.4", "simpy-3.0.10", "dpkt-1.9.1", "jsonpickle-2.0.0", "simple_enum")
_LENGTHS, _SUMS = ("len", "plen"), ("chksum", "cksum")


def main():
    """One profile after another."""
    load = _loader(Path(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = {"differences": list(_differences(load(asked["profile"]), asked["sent"]))}
        except Exception as error:  # whatever a profile raises
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)


def _differences(streams, sent):
    """(stream, frame, field, in words), of the first frame of each field that differs."""
    streams = [told for told in (stream.to_json() for stream in streams) if told["enabled"]]
    if len(streams) != len(sent):
        yield 0, 0, "streams", f"{len(streams)} there, {len(sent)} here"
        return
    for number, (stream, frames) in enumerate(zip(streams, sent, strict=True)):
        machine = _Machine(stream["vm"]["instructions"], base64.b64decode(stream["packet"]["binary"]))
        seen = set()
        for place, frame in enumerate(map(bytes.fromhex, frames)):
            for field, words in (*_compared(machine.frame(), frame, stream.get("flags", 0)), *_wrong(frame)):
                if field not in seen:
                    seen.add(field)
                    yield number, place, field, words


def _compared(told, frame, flags):
    """The fields in which a frame differs from what is `told` of TRex's, with both values."""
    there = bytearray(told.filled(frame))
    if not flags & 1:  # then the source is the port's own
        there[6:12] = frame[6:12]
    if not flags >> 1 & 3:
        there[:6] = frame[:6]
    for at, size, least, most in told.ranges:
        if not least <= int.from_bytes(frame[at : at + size], "big") <= most:
            yield f"random at {at}", f"expected {least} to {most}, found {frame[at : at + size].hex()}"
    is_as_long = told.size is None or told.size == len(frame)
    if not is_as_long:
        yield "size", f"{told.size} bytes there, {len(frame)} here"
    ours, theirs = _headers(frame), _headers(bytes(there))
    if [name for name, _ in ours] != [name for name, _ in theirs]:
        yield "headers", f"{'/'.join(name for name, _ in theirs)} there, {'/'.join(name for name, _ in ours)} here"
        return
    passed = (*_SUMS, *_LENGTHS) if told.is_trimmed or not is_as_long else _SUMS
    for (name, values), (_, here) in zip(theirs, ours, strict=True):
        for field, value in values.items():
            if field not in passed and value != here[field]:
                yield f"{name}.{field}", f"{value} there, {here[field]} here"


def _headers(frame):
    """Each header's name and fields, down to UDP, TCP or ICMP; what VXLAN carries as well."""
    from scapy.all import Ether

    layer, found = Ether(frame), []
    while layer and layer.name not in ("Raw", "Padding"):
        found.append((layer.name, dict(layer.fields)))
        behind = layer.payload
        layer = behind if layer.name not in ("UDP", "TCP", "ICMP") or behind.name == "VXLAN" else None
    return found


def _wrong(frame):
    """Checksums of a frame that scapy computes otherwise."""
    from scapy.all import Ether

    packet = Ether(frame)
    layer = packet
    while layer:
        for field in _SUMS:
            if field in layer.fields:
                delattr(layer, field)
        layer = layer.payload
    right = _headers(bytes(packet))
    for (name, values), (_, here) in zip(right, _headers(frame), strict=False):
        for field in _SUMS:
            if field in values and values[field] != here[field]:
                yield f"{name}.{field}", f"{here[field]:#06x} here, right is {values[field]:#06x}"


def _loader(scripts):
    """TRex's own reader of profiles; what it needs for talking to a server is left empty."""
    for name in _LIBRARIES:
        sys.path.insert(0, str(scripts / "external_libs" / name))
    sys.path.insert(0, str(scripts / "automation" / "trex_control_plane" / "interactive"))
    package = types.ModuleType("trex")
    package.__path__ = [str(scripts / "automation" / "trex_control_plane" / "interactive" / "trex")]
    sys.modules["trex"] = package
    sys.modules["zmq"] = types.ModuleType("zmq")
    printed, sys.stdout = sys.stdout, sys.stderr
    from trex.stl.api import STLProfile

    sys.stdout = printed
    return lambda path: STLProfile.load(path, direction=0, port_id=0).get_streams()


class _Frame:
    """One of TRex's frames. `random`: places of bytes that are; `ranges`: (place, size, least, greatest) of numbers."""

    def __init__(self, octets, random, ranges, size, is_trimmed):
        self.octets, self.random, self.ranges = octets, random, ranges
        self.size, self.is_trimmed = size, is_trimmed  # without check sequence; None: random

    def filled(self, other):
        """With another frame's bytes in the place of random ones."""
        octets = self.octets if self.size is None else self.octets[: self.size]
        return bytes(other[at] if at in self.random and at < len(other) else octet for at, octet in enumerate(octets))


class _Variable:
    """A flow_var: `value` of the next frame."""

    def __init__(self, said):
        self.size, self.step, self.op = said["size"], said.get("step", 1), said.get("op", "random")
        self.listed = said.get("value_list") or []
        self.is_random = self.op == "random" or said["type"] == "flow_var_rand_limit"
        if self.listed:
            self.least, self.most, first = 0, len(self.listed) - 1, 0
            first = self.most if self.op == "dec" else 0
        else:
            self.least, self.most, first = said["min_value"], said["max_value"], said.get("init_value", 0)
            pad = -(self.most - self.least + 1) % self.step  # a range becomes a whole number of steps
            self.least, self.most = (self.least - pad, self.most) if self.op == "dec" else (self.least, self.most + pad)
        self._at = first

    @property
    def value(self):
        return self.listed[self._at] if self.listed else self._at

    @property
    def ends(self):
        """The least and the greatest value."""
        return (min(self.listed), max(self.listed)) if self.listed else (self.least, self.most)

    def advance(self):
        """Round the range; to begin anew takes one step as well."""
        span = self.most - self.least + 1
        sign = -1 if self.op == "dec" else 1
        self._at = self.least + (self._at - self.least + sign * self.step) % span


class _Tuple:
    """A tuple_flow_var: a new address for each packet, a new port for each round of addresses."""

    def __init__(self, said):
        self.ips, self.ports = (said["ip_min"], said["ip_max"]), (said["port_min"], said["port_max"])
        self.limit, self.ip, self.port, self.number = said["limit_flows"], said["ip_min"], said["port_min"], 1

    def advance(self):
        self.number += 1
        if self.limit and self.number > self.limit:
            self.ip, self.port, self.number = self.ips[0], self.ports[0], 1
            return
        self.ip += 1
        if self.ip > self.ips[1]:
            self.ip = self.ips[0]
            self.port = self.port + 1 if self.port < self.ports[1] else self.ports[0]


class _Machine:
    """The instructions of a stream, run once for each frame."""

    def __init__(self, instructions, packet):
        self._instructions, self._packet, self._is_first = instructions, packet, True
        self._variables = {}
        for said in instructions:
            if said["type"] in ("flow_var", "flow_var_rand_limit"):
                self._variables[said["name"]] = _Variable(said)
            elif said["type"] == "tuple_flow_var":
                self._variables[said["name"]] = _Tuple(said)

    def frame(self):
        """The next one."""
        frame, random, ranges, size = bytearray(self._packet), set(), [], len(self._packet)
        is_trimmed = any(said["type"] == "trim_pkt_size" for said in self._instructions)
        for said in self._instructions:
            kind = said["type"]
            if kind in ("flow_var", "flow_var_rand_limit", "tuple_flow_var"):
                if not self._is_first:
                    self._variables[said["name"]].advance()
            elif kind == "write_flow_var":
                self._write(said, frame, random, ranges)
            elif kind == "write_mask_flow_var":
                self._write_masked(said, frame, random)
            elif kind == "trim_pkt_size":
                variable = self._variables[said["name"]]
                size = None if variable.is_random else variable.value
            elif kind == "fix_checksum_ipv4":
                _fix(frame, said["pkt_offset"], random)
            elif kind == "fix_checksum_hw":
                _fix(frame, said["l2_len"], random)
            else:
                raise ValueError(f"instruction {kind}")
        self._is_first = False
        return _Frame(frame, random, ranges, size, is_trimmed)

    def _write(self, said, frame, random, ranges):
        name, _, part = said["name"].partition(".")
        variable, at = self._variables[name], said["pkt_offset"]
        if isinstance(variable, _Tuple):
            size, value = (4, variable.ip) if part == "ip" else (2, variable.port)
        else:
            size, value = variable.size, variable.value
            if variable.is_random:
                random |= set(range(at, at + size))
                ranges.append([at, size, *(end + said["add_value"] for end in variable.ends)])
        order, most = "big" if said["is_big_endian"] else "little", (1 << 8 * size) - 1
        frame[at : at + size] = (value + said["add_value"] & most).to_bytes(size, order)

    def _write_masked(self, said, frame, random):
        variable, at, size = self._variables[said["name"]], said["pkt_offset"], said["pkt_cast_size"]
        order, shift, mask = "big" if said["is_big_endian"] else "little", said["shift"], said["mask"]
        if variable.is_random:
            random |= set(range(at, at + size))
        number = variable.value + said["add_value"]
        number = (number << shift if shift > 0 else number >> -shift) & mask
        kept = int.from_bytes(frame[at : at + size], order) & ~mask
        frame[at : at + size] = (kept | number).to_bytes(size, order)


def _fix(frame, at, random):
    """The IPv4 header's checksum (RFC 1071)."""
    if frame[at] >> 4 != 4:
        return
    end = at + 4 * (frame[at] & 15)
    if any(place in random for place in range(at, end)):
        random |= {at + 10, at + 11}
    frame[at + 10 : at + 12] = bytes(2)
    total = sum(int.from_bytes(frame[place : place + 2], "big") for place in range(at, end, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    frame[at + 10 : at + 12] = (~total & 0xFFFF).to_bytes(2, "big")


if __name__ == "__main__":
    main()
