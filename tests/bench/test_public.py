"""Profiles that others publish, from a folder that an option names: none of them is part of the project."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pinchpoint.cli.main import main
from pinchpoint.engine import protocol
from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.engine.streams import Shape, Steady, stream_request
from pinchpoint.engine.trials import run_of
from pinchpoint.host.local import Local
from pinchpoint.otg.captures import frames
from pinchpoint.scenario import load_sweep

pytestmark = pytest.mark.tier2("command:import")

AIMS = {"Python profiles": 0.80, "YAML profiles": 0.74}  # shares of those of one release
COMPARED = 40  # frames of each stream
FEWEST = 30  # profiles whose frames are compared
FPS = 20_000.0


@pytest.fixture
def folder(request):
    """The folder `scripts` of a release of TRex."""
    if (path := request.config.getoption("--trex")) is None:
        pytest.skip("--trex FOLDER names no `scripts` of a TRex release")
    return Path(path).absolute()


@pytest.fixture
def refusal(tmp_path, capsys):
    """Why a profile is not imported; nothing if it is. What is imported passes `check`."""

    def make(path):
        out = tmp_path / "imported.toml"
        out.unlink(missing_ok=True)
        code = main(["import", str(path), "-o", str(out)])
        told = capsys.readouterr().err.partition("pinchpoint: ")[2]
        if code == 0:
            assert load_sweep(out).scenarios[0].streams, path
            return ""
        assert code == 2 and str(path) in told, f"{path}: {told}"
        return told.splitlines()[0].removeprefix(f"{path}: ")

    return make


def test_trex_profiles_are_imported_or_refused_with_their_reason(folder, refusal, capsys):
    kinds = {
        "Python profiles": sorted((folder / "stl").rglob("*.py")),
        "YAML profiles": [path for name in ("avl", "cap2") for path in sorted((folder / name).glob("*.yaml"))],
    }
    shares = {}
    for kind, paths in kinds.items():
        assert paths, f"{folder} has no {kind}"
        told = {path: why for path in paths if (why := refusal(path))}
        shares[kind] = 1 - len(told) / len(paths)
        with capsys.disabled():
            print(f"\n{len(paths) - len(told)} of {len(paths)} {kind} are imported; refused:")
            print("\n".join(f"  {path.relative_to(folder)}: {why}" for path, why in told.items()))
    assert all(shares[kind] >= aim for kind, aim in AIMS.items()), shares


@pytest.fixture
def sent(tmp_path):
    """The frames that the engine sends of a stream, the first `COMPARED`, as hexadecimal digits."""
    ports = tuple(protocol.PortRequest(name, "mem", "pair", None, 1024, 1024, ()) for name in ("a", "b"))
    workers, kept = (protocol.WorkerRequest(0, ("a", "b")),), tmp_path / "kept.pcapng"
    request = protocol.Open(workers=workers, eal_args=(), ports=ports, link_timeout_s=5.0)
    with closing(ProcessInstrument(request, Local(), log=tmp_path / "engine.log")) as engine:
        engine.open()

        def send(stream):
            kept.unlink(missing_ok=True)
            asked = msgspec.structs.replace(
                stream_request(0, stream, FPS), tx_port="a", rx_port="b", limit_frames=COMPARED,
                shape=Shape(steady=Steady()),
            )  # fmt: skip
            message = run_of("compared", 1, COMPARED / FPS + 0.01, 0.05, [asked])
            capture = protocol.CaptureRequest(str(kept), 2 * COMPARED)
            assert engine.transmit(msgspec.structs.replace(message, capture=capture)).status == "completed"
            return [frame.data.hex() for frame in frames(kept.read_bytes()) if frame.is_received]

        yield send


def test_imported_streams_have_the_frames_that_trex_sends(folder, sent, tmp_path, capsys):
    """Field by field; sizes may differ where the import says so, and random numbers lie in the range that they have."""
    program = [sys.executable, str(Path(__file__).with_name("trex_frames.py")), str(folder)]
    out, equal, sized, not_compared = tmp_path / "imported.toml", [], [], {}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trex:
        for path in sorted((folder / "stl").rglob("*.py")):
            out.unlink(missing_ok=True)
            if main(["import", str(path), "-o", str(out)]) != 0:
                continue
            streams = load_sweep(out).scenarios[0].streams
            print(json.dumps({"profile": str(path), "sent": list(map(sent, streams))}), file=trex.stdin, flush=True)
            told = json.loads(trex.stdout.readline())
            if "error" in told:
                not_compared[path.name] = told["error"]
                continue
            differences = told["differences"]
            assert [told for told in differences if told[2] != "size"] == [], path
            assert not differences or " bytes there" in out.read_text(), (path, differences)
            (sized if differences else equal).append(path.name)
        trex.stdin.close()
    with capsys.disabled():
        print(f"\n{len(equal)} profiles send what TRex sends, {len(sized)} in other sizes, as they say: {sized}")
        print(f"not compared: {not_compared}")
    assert len(equal) + len(sized) >= FEWEST
