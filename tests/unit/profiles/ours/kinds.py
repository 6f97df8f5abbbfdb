# ruff: noqa
from trex_stl_lib.api import *


class Kinds(object):
    def packet(self, pkt, where, fixup=0, **range):
        vm = STLVM()
        vm.var(name="v", size=2, **range)
        vm.write(fv_name="v", pkt_offset=where, offset_fixup=fixup)
        return STLStream(packet=STLPktBuilder(pkt=pkt / ("k" * 30), vm=vm), mode=STLTXCont(pps=1000))

    def get_streams(self, direction=0, **kwargs):
        ip = IP(src="198.18.0.1", dst="198.19.0.1") / UDP(sport=1025, dport=12)
        macs = Ether(src="02:00:00:00:00:00", dst="02:00:00:00:00:02") / ip
        return [
            self.packet(Ether() / Dot1Q(vlan=100) / ip, "UDP.sport", min_value=1000, max_value=1999, op="dec", step=2),
            self.packet(macs, "Ether.src", 4, min_value=1, max_value=1000, op="inc"),
            self.packet(Ether() / IPv6(dst="2001:db8::1") / TCP(), "TCP.dport", min_value=1, max_value=9, op="random"),
        ]


def register():
    return Kinds()
