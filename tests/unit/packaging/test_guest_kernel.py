"""packaging/guest-kernel: which packages a release is, and what is taken out of them; apt is replaced."""

import lzma
import struct
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "packaging/guest-kernel"
OWN = "linux-image-6.1.0-9-amd64\nlinux-image-6.1.0-56-amd64\nlinux-image-6.1.0-56-cloud-amd64\nlinux-image-amd64\n"
BACKPORTS = (
    "linux-image-6.12.95+deb12-amd64\nlinux-image-6.12.95+deb12-amd64-unsigned\nlinux-image-6.12.9+deb12-amd64\n"
)
PARTS = """linux-image-7.3.4+deb13-amd64
 |Depends: dracut
  Depends: linux-base-7.3.4+deb13-amd64
  Depends: linux-binary-7.3.4+deb13-amd64
  Depends: linux-modules-7.3.4+deb13-amd64
  PreDepends: linux-base
"""


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("guest_kernel", str(PROGRAM))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def asked(program, monkeypatch):
    """What apt was asked; it knows the kernels of OWN, and those of BACKPORTS where it is shown that suite."""
    lines = []

    def run(*words, cwd=None):
        lines.append(words)
        if "pkgnames" in words:
            suite = next((word for word in words if word.startswith("Dir::State::Lists=")), "")
            return OWN if not suite else BACKPORTS if "backports" in suite else ""
        return PARTS if "depends" in words else ""

    monkeypatch.setattr(program, "run", run)
    return lines


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("6.1", "linux-image-6.1.0-56-amd64"),
        ("6.1.0-9", "linux-image-6.1.0-9-amd64"),
        ("6.12", "linux-image-6.12.95+deb12-amd64"),
        ("6.12.9+deb12-amd64", "linux-image-6.12.9+deb12-amd64"),
    ],
)
def test_a_release_is_the_newest_kernel_of_that_name(program, asked, tmp_path, wanted, name):
    assert program.of_release(wanted, tmp_path)[0] == name


def test_a_suite_is_read_in_a_folder_of_its_own_and_verified_by_debians_keys(program, asked, tmp_path):
    _, options = program.of_release("6.12", tmp_path)
    assert f"Dir::State::Lists={tmp_path}/bookworm-backports/lists" in options
    assert "Dir::Etc::SourceParts=/dev/null" in options
    (line,) = (tmp_path / "bookworm-backports/sources.list").read_text().splitlines()
    assert line.startswith("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http")
    assert not [words for words in asked if "trixie" in " ".join(words)], (
        "the first suite that has it is the last asked"
    )


def test_a_release_that_nobody_has_is_refused(program, asked, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        program.of_release("5.10", tmp_path)
    assert end.value.code == 3
    assert "no kernel 5.10: neither this machine's sources of packages nor bookworm," in capsys.readouterr().err


def test_a_divided_kernel_is_all_of_its_packages(program, asked):
    assert program.parts_of("linux-image-7.3.4+deb13-amd64", ()) == [
        "linux-base-7.3.4+deb13-amd64",
        "linux-binary-7.3.4+deb13-amd64",
        "linux-modules-7.3.4+deb13-amd64",
    ]


@pytest.mark.parametrize("place", ["lib", "usr/lib"])
def test_modules_are_found_where_any_release_of_debian_has_them(program, tmp_path, place):
    driver = "modules/6.12.1/kernel/drivers/net/dummy.ko"
    (tmp_path / place / driver).parent.mkdir(parents=True)
    (tmp_path / place / driver).write_text("x")
    program.join_lib(tmp_path)
    assert [(tmp_path / lib / driver).read_text() for lib in ("lib", "usr/lib")] == ["x", "x"]
    program.keep(tmp_path / "lib/modules/6.12.1", tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").rglob("*.ko")] == ["dummy.ko"]


def image(payload):
    """A kernel as a boot loader starts it: one sector, four of setup, 16 bytes, the payload and its length."""
    header = bytearray(5 * 512 + 16)
    header[0x1F1] = 4
    struct.pack_into("<II", header, 0x248, 16, len(payload) + 4)
    return bytes(header) + payload + struct.pack("<I", 7)


def test_a_kernel_is_unpacked_where_its_packing_is_known(program):
    assert program.plain_kernel(image(lzma.compress(b"\x7fELF..."))) == b"\x7fELF..."
    assert program.plain_kernel(image(b"\x1f\x8b...")) is None


def test_compressed_modules_are_plain_in_the_file_system_with_which_the_guest_begins(program, tmp_path):
    plain, packed = tmp_path / "a.ko", tmp_path / "b.ko.xz"
    plain.write_bytes(b"a")
    packed.write_bytes(lzma.compress(b"b"))
    assert [program.plain_module(module) for module in (plain, packed)] == [b"a", b"b"]
