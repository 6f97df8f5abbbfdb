# ruff: noqa
import argparse
from trex.stl.api import *


class Mix:
    sizes = ((60, 7), (570, 4), (1514, 1))

    def stream(self, size, weight, clients, direction):
        ends = ("10.1.0.1", "10.2.0.1")
        src, dst = ends if direction == 0 else reversed(ends)
        pkt = Ether() / IP(src=src, dst=dst) / UDP(sport=1025, dport=12)
        vm = STLVM()
        vm.var(name="client", min_value=1, max_value=clients, size=2, op="inc")
        vm.write(fv_name="client", pkt_offset="IP.src", offset_fixup=2)
        vm.var(name="port", min_value=5000, max_value=5003, size=2, op="inc")
        vm.write(fv_name="port", pkt_offset="UDP.dport")
        vm.fix_chksum()
        pkt = pkt / ("x" * (size - len(pkt)))
        return STLStream(packet=STLPktBuilder(pkt=pkt, vm=vm), mode=STLTXCont(pps=weight), isg=0.5)

    def get_streams(self, direction, tunables, **kwargs):
        parser = argparse.ArgumentParser()
        parser.add_argument("--clients", type=int, default=6)
        args = parser.parse_args(tunables)
        return [self.stream(size, weight, args.clients, direction) for size, weight in self.sizes]


def register():
    return Mix()
