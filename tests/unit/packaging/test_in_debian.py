"""packaging/in-debian: what of this machine a bare root file system gets, and what is refused; no root is made."""

import os
import sys
import tarfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "packaging/in-debian"
TARGETS = """\
http://archive.example/debian/ bookworm Debian
http://archive.example/debian/ bookworm-updates Debian
http://archive.example/security/ bookworm-security Debian-Security
"""


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("in_debian", str(PROGRAM))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_mirrors_are_those_of_this_machine(program):
    assert program.mirrors(TARGETS) == ("http://archive.example/debian/", "http://archive.example/security/")


def test_a_machine_without_a_security_archive_is_told_what_to_add(program, capsys):
    with pytest.raises(SystemExit) as ended:
        program.mirrors(TARGETS.splitlines()[0])
    assert ended.value.code == 3
    assert capsys.readouterr().err == (
        "in-debian: no source of packages on this machine is labelled Debian-Security\n"
        "hint: add it to /etc/apt; apt-get update\n"
    )


def test_the_command_sees_how_registries_are_reached_and_nothing_else(program, monkeypatch):
    for name in list(program.os.environ):
        monkeypatch.delenv(name)
    carried = {"https_proxy": "http://proxy.example", "PIP_INDEX_URL": "http://pip.example", "CARGO_NET_RETRY": "3"}
    for name, value in {**carried, "CARGO_HOME": "/opt/cargo", "PYTHONPATH": "/opt", "SOME_TOKEN": "secret"}.items():
        monkeypatch.setenv(name, value)
    seen = program.environment()
    assert set(seen) - set(carried) == {"HOME", "LANG", "PATH", "TERM"}
    assert {name: seen[name] for name in carried} == carried


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["../trixie", "true"], "expected the name of a release, like trixie, got '../trixie'"),
        (["trixie"], "a COMMAND is missing"),
    ],
)
def test_bad_arguments_are_named(program, monkeypatch, capsys, words, message):
    monkeypatch.setattr(sys, "argv", ["in-debian", *words])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_root_ends_with_its_call_and_what_a_killed_call_left_ends_with_the_next(program, monkeypatch, tmp_path):
    monkeypatch.setattr(program, "CACHE", tmp_path)
    (tmp_path / "hostname").write_text("bare\n")
    with tarfile.open(tmp_path / "trixie.tar", "w") as archive:
        archive.add(tmp_path / "hostname", "etc/hostname")
    at_work, killed = tmp_path / f"trixie.{os.getppid()}", tmp_path / "bookworm.999999999"
    for folder in (at_work, killed):
        folder.mkdir()
    with pytest.raises(RuntimeError), program.root_file_system("trixie", None, fresh=False) as root:
        assert (root / "etc/hostname").read_text() == "bare\n"
        raise RuntimeError
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [at_work]


def test_a_folder_of_something_else_is_not_written_to(program, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(program, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(program, "bootstrap", lambda release, archive: None)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("mine")
    with pytest.raises(SystemExit) as ended, program.root_file_system("trixie", tmp_path / "mine", fresh=False):
        pytest.fail("a root file system was made")
    assert ended.value.code == 3
    assert f"{tmp_path}/mine: not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


def test_a_kept_root_of_another_release_is_refused(program, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(program, "CACHE", tmp_path / "cache")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/debian_version").write_text("12.11\n")
    (tmp_path / "etc/os-release").write_text("VERSION_CODENAME=bookworm\n")
    with pytest.raises(SystemExit), program.root_file_system("trixie", tmp_path, fresh=False):
        pytest.fail("a root file system was made")
    assert f"{tmp_path}: holds another release than trixie" in capsys.readouterr().err
