"""How many 64-byte frames one core builds and sends into net_null: ours stamped, testpmd's not."""

import re
import time
from pathlib import Path

from peers import engine, stream, testpmd, trial

from pinchpoint.engine import protocol

SECONDS = 3.0
NULL = "net_null0,no-rx=1"


def ours(core: int) -> float:
    """Frames per second of the engine: 65,536 five-tuples, checksums, a signature in every frame."""
    ports = [protocol.PortRequest("null", "dpdk", NULL, None, 1024, 1024, ())]
    with engine(ports, core) as running:
        running.run(trial([stream(0, "null", "null")], 0.5))
        result = running.run(trial([stream(0, "null", "null")], SECONDS))
    return result.streams[0].sent / result.duration_s


def theirs(core: int, folder: Path) -> float:
    """Frames per second of testpmd flowgen: 65,536 flows, checksums, no signature; median of its own samples."""
    log = folder / "testpmd.log"
    with testpmd([NULL], core, log):
        time.sleep(SECONDS + 1.5)
    rates = sorted(int(rate) for rate in re.findall(r"Tx-pps:\s+(\d+)", log.read_text(errors="replace")))
    busy = [rate for rate in rates if rate > 0]
    return float(busy[len(busy) // 2])
