"""packaging/build-wheel and packaging/offline, without building or downloading: arguments; drivers in the wheel."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGING = ROOT / "packaging"
DRIVERS = "virtio memif null tap pcap af_xdp e1000 igc ixgbe i40e ice iavf vmxnet3 ena"


def ended(program, *words, **more):
    told = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    done = subprocess.run([PACKAGING / program, *words], **told, **more)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("program", "usage"), [("build-wheel", "FOLDER"), ("offline", "WHEEL FOLDER [PACKAGE...]")])
def test_without_arguments_the_usage_is_printed(program, usage):
    code, said = ended(program)
    assert code == 2 and said.endswith(f"{program} {usage}\n")


def test_a_wheel_that_is_not_there_and_a_folder_that_is_are_refused(tmp_path):
    assert ended("offline", str(tmp_path / "x.whl"), str(tmp_path / "new")) == (
        2, f"{tmp_path}/x.whl: no such wheel\nhint: make wheel, then dist/*.whl\n",
    )  # fmt: skip
    (tmp_path / "x.whl").write_bytes(b"")
    code, said = ended("offline", str(tmp_path / "x.whl"), str(tmp_path))
    assert code == 2 and "exists already" in said


@pytest.mark.parametrize("code", [0, 1])
def test_a_folder_for_other_machines_is_there_once_it_is_whole(tmp_path, code):
    stubs, place, work = tmp_path / "stubs", tmp_path / "place", tmp_path / "work"
    for folder in (stubs, work):
        folder.mkdir()
    in_their_place = {
        "python3": 'mkdir -p "$3/bin"; echo "#!/bin/sh" >"$3/bin/pip"; chmod +x "$3/bin/pip"',  # -m venv FOLDER
        "apt-get": f"exit {code}",
        "dpkg-scanpackages": "echo Package: none",
    }
    for program, script in in_their_place.items():
        (stubs / program).write_text(f"#!/bin/sh\n{script}\n")
        (stubs / program).chmod(0o755)
    (tmp_path / "x.whl").write_bytes(b"")
    environment = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}", "TMPDIR": str(work)}
    assert ended("offline", str(tmp_path / "x.whl"), str(place / "new"), env=environment)[0] == code
    assert [folder.name for folder in place.iterdir()] == ([] if code else ["new"])
    assert list(work.iterdir()) == []
    if not code:
        assert {made.name for made in (place / "new").iterdir()} == {"wheels", "packages", "install"}


def test_the_scripts_are_shell_and_so_is_the_one_that_is_written():
    text = (PACKAGING / "offline").read_text()
    written = text.partition("<<END\n")[2].partition("\nEND\n")[0].replace("\\$", "$").replace("\\\\", "\\")
    for script in (text, written, (PACKAGING / "build-wheel").read_text()):
        subprocess.run(["sh", "-n"], input=script, text=True, timeout=60, check=True)


def test_a_signal_ends_both_scripts_by_way_of_what_they_undo(tmp_path):
    """A plain sh does not run its trap of EXIT then, and a policy-rc.d that stays keeps every service from starting."""
    traps = [line for line in (PACKAGING / "offline").read_text().splitlines() if line.startswith("trap 'exit ")]
    assert len(traps) == 4 and traps[:2] == traps[2:]
    made = tmp_path / "made"
    made.touch()
    script = "\n".join((f"trap 'rm {made}' EXIT", *traps[:2], "kill -TERM $$", ":"))
    assert subprocess.run(["sh", "-c", script], timeout=60, check=False).returncode == 143
    assert not made.exists()


def test_libpcap_is_built_without_what_the_wheel_does_not_carry_and_the_wheel_says_which_glibc_it_asks_for():
    text = (PACKAGING / "build-wheel").read_text()
    assert {"--without-dpdk", "--without-libnl", "--disable-rdma", "--disable-dbus"} <= set(text.split())
    assert "glibc=$(getconf GNU_LIBC_VERSION" in text
    assert "--compatibility manylinux_$glibc" in text


def test_every_driver_that_the_page_names_is_linked_into_the_wheel():
    archives = re.search(r'WHOLE: &str = "(.*?)";', (ROOT / "engine/port/build.rs").read_text(), re.DOTALL)[1].split()
    assert {f"net_{name}" for name in DRIVERS.split()} <= set(archives)
    assert DRIVERS.replace(" ", ", ") in " ".join((ROOT / "docs/how-to.md").read_text().split())
