# ruff: noqa
from trex_stl_lib.api import *


class Tuples(object):
    def get_streams(self, port_id=0, flows=30, **kwargs):
        program = STLScVmRaw(
            [
                STLVmTupleGen(
                    "t", ip_min="16.0.0.1", ip_max="16.0.0.4", port_min=2000, port_max=2009, limit_flows=flows
                ),
                STLVmWrFlowVar(fv_name="t.ip", pkt_offset="IP.src"),
                STLVmWrFlowVar(fv_name="t.port", pkt_offset="UDP.sport"),
                STLVmFixIpv4(offset="IP"),
            ]
        )
        builder = STLPktBuilder(pkt=Ether() / IP(dst="48.0.0.1") / UDP(dport=53), vm=program)
        return STLProfile([STLStream(packet=builder, mode=STLTXCont(percentage=10))]).get_streams()


def register():
    return Tuples()
