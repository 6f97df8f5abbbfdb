"""A profile has no privileges: what it tries beyond saying streams fails, and pinchpoint names it."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from pinchpoint.host.confined import run_confined
from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.profiles import declared

HARMLESS = "def register():\n    raise SystemExit('over')\n"


@pytest.fixture(autouse=True, scope="module")
def namespaces(tmp_path_factory):
    path = tmp_path_factory.mktemp("profiles") / "harmless.py"
    path.write_text(HARMLESS)
    try:
        run_confined("pinchpoint.profiles.sandboxed", (str(path), "0"), "a profile")
    except RequirementError as error:
        pytest.skip(error.message)


@pytest.fixture
def refused(tmp_path):
    """The error about a profile of this text."""

    def make(text, longest_s=30.0):
        path = tmp_path / "profile.py"
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            declared.streams(str(path), 0, {}, longest_s)
        return caught.value.message.removeprefix(f"{path}: ")

    return make


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import socket\nsocket.socket()", "line 2: socket.__new__: a profile may not do this"),
        ("\nopen('/tmp/written', 'w')", "line 2: open('/tmp/written'): a profile may not write files"),
        ("import os\n\nos.system('true')", "line 3: os.system: a profile may not do this"),
        ("\nx = bytearray(4 << 30)", "line 2: it needs more than 512 MiB of memory"),
        ("while True: pass", "stopped: it used 3 s of CPU time and had not ended"),
    ],
)
def test_what_a_profile_may_not_do_is_named(refused, text, named):
    assert refused(text, longest_s=120.0) == named


def test_a_profile_that_sleeps_is_stopped_and_leaves_no_process(refused, tmp_path):
    begun = time.monotonic()
    assert refused("import time\ntime.sleep(600)", longest_s=1.0) == "stopped: it did not end within 1 s"
    while any(_names(path, str(tmp_path)) for path in Path("/proc").iterdir() if path.name.isdigit()):
        assert time.monotonic() - begun < 40
        time.sleep(0.1)


def _names(process, text):
    try:
        return text in (process / "cmdline").read_text()
    except OSError:
        return False


# The kernel keeps a profile from these, whatever it does to the interpreter: no audit hook is installed here.
ATTEMPTS = """
import encodings.idna, os, socket, sys
from pinchpoint.host.confinement import enter

def attempt(name, call):
    try:
        call()
        print(name, "done")
    except OSError as error:
        print(name, error.strerror)

def main():
    folder, pid = sys.argv[1], int(sys.argv[2])
    enter()
    attempt("uid", lambda: os.setuid(0) if os.getuid() else None)
    attempt("write", lambda: open(folder + "/written", "w"))
    attempt("remove", lambda: os.unlink(folder + "/attempts.py"))
    attempt("fork", os.fork)
    attempt("connect", lambda: socket.create_connection(("192.0.2.1", 9), 1))
    attempt("unix", lambda: socket.socket(socket.AF_UNIX))
    attempt("kill", lambda: os.kill(pid, 0))
    sys.stdout.flush()
    os._exit(0)
"""


def test_the_kernel_refuses_what_is_tried_without_the_audit_hook(tmp_path):
    (tmp_path / "attempts.py").write_text(ATTEMPTS)
    # The module is found beside the lab's package, which is on the path of the process.
    module = "pinchpoint.host.confinement import enter; sys.path.insert(0, sys.argv[1]); from attempts"
    printed = run_confined(module, (str(tmp_path), str(os.getpid())), "attempts").decode()
    tried = dict(line.split(" ", 1) for line in printed.splitlines())
    assert "done" not in tried.values(), tried
    assert list(tried) == ["uid", "write", "remove", "fork", "connect", "unix", "kill"]


def test_more_than_4_mib_are_not_taken(refused):
    said = refused("import os\nwhile True: os.write(1, b'x' * 65536)")
    assert "line 2" in said or "stopped" in said or "no account" in said


@pytest.mark.parametrize(
    "printed",
    [
        b"",
        b"[]",
        b'{"streams": []}',
        b'{"streams": [], "error": null, "more": 1}',
        b'{"streams": [], "error": {"line": -1, "message": ""}}',
        b'{"streams": [], "error": {"line": 1, "message": "' + b"x" * 3000 + b'"}}',
        b'{"streams": [' + b"[" * 100_000,
        b'{"streams": [{"name": null}], "error": null}',
        b"\xff\xfe",
    ],
)
def test_what_is_printed_is_read_strictly(printed):
    with pytest.raises((ValueError, msgspec.DecodeError, RecursionError)):
        declared.read(printed)


def test_a_profile_that_prints_an_account_itself_is_refused(refused):
    account = '{"streams": [], "error": null}'
    text = f"import os\nos.write(1, b'{account}')\n" + HARMLESS
    assert refused(text).startswith("what it printed is no account of streams: ")


def test_control_characters_of_a_profile_do_not_reach_the_terminal(refused):
    assert "\x1b" not in refused("raise ValueError('\\x1b[31mred')")
