"""packaging/check-rust and packaging/install-packages: where Rust comes from; dpkg and Rust are stand-ins."""

import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[3] / "packaging"
BASICS = ("awk", "chmod", "cut", "dirname", "head", "readlink", "rm", "sh", "sort")  # what the scripts need anywhere
RUST = "rustc-web cargo-web rust-web-clippy rustfmt-web"


@pytest.fixture
def machine(tmp_path):
    """Runs a script on a machine that has BASICS and the programs that are named, each with the lines of its script."""

    def run(script, *arguments, **programs):
        for name in BASICS:
            (tmp_path / name).symlink_to(shutil.which(name))
        for name, lines in programs.items():
            (tmp_path / name.replace("_", "-")).write_text(f"#!/bin/sh\n{lines}\n")
            (tmp_path / name.replace("_", "-")).chmod(0o755)
        words = [str(PACKAGING / script), *arguments]
        return subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)

    return run


def test_a_new_enough_toolchain_is_used_as_it_is(machine):
    done = machine("check-rust", cargo="", rustc="echo 'rustc 1.90.0 (1159e78c4 2025-09-14)'")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("owner", "hint"),
    [
        ("exit 1", "rustup update stable"),
        ("echo rustc: /usr/bin/rustc", f"which replaces rustc: apt-get install {RUST}"),
        ("echo rustc-web: /usr/bin/rustc", "add Debian's security archive to apt's sources"),
    ],
)
def test_an_old_toolchain_is_named_with_what_to_do(machine, tmp_path, owner, hint):
    done = machine("check-rust", cargo="", rustc="echo rustc 1.63.0", dpkg_query=owner)
    assert done.returncode == 3
    assert f"{tmp_path}/rustc 1.63.0 is too old; the engine needs Rust 1.90 or newer" in done.stderr
    assert hint in done.stderr


def test_the_version_wanted_is_the_engines(machine):
    cargo = (PACKAGING.parent / "engine/Cargo.toml").read_text()
    (wanted,) = (line.split('"')[1] for line in cargo.splitlines() if line.startswith("rust-version"))
    assert f"needs Rust {wanted} or newer" in machine("check-rust").stderr


@pytest.mark.parametrize("cargo", [{}, {"cargo": ""}])
def test_rust_is_installed_where_there_is_no_cargo(machine, cargo):
    done = machine("install-packages", "run", dpkg_query="echo installed", id="echo 1000", **cargo)
    assert (done.returncode, RUST in done.stderr) == ((0, False) if cargo else (3, True))
