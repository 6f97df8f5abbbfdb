# ruff: noqa
from trex_stl_lib.api import *


class OnePacket(object):
    def get_streams(self, direction=0, **kwargs):
        pkt = Ether(dst="02:00:00:00:00:aa") / IP(src="192.0.2.1", dst="198.51.100.1") / UDP(sport=4000, dport=9)
        return STLStream(name="lonely", packet=STLPktBuilder(pkt=pkt / (50 * "y")), mode=STLTXCont(pps=100))


def register():
    return OnePacket()
