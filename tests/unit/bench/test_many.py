"""Many processes, or one that is fed: how many at a time, what is told, and how they end."""

import sys
import time
from pathlib import Path

import pytest

from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.model.errors import RequirementError

PYTHON = [sys.executable, "-S", "-c"]


# Fails if it sees more than three of its kind, itself included.
CROWD = """
import sys, time, pathlib
own = pathlib.Path(sys.argv[1])
own.touch()
time.sleep(0.05)
crowd = len(list(own.parent.iterdir()))
own.unlink()
sys.exit(crowd > 3)
"""


class Left(Exception):
    pass


def leave(_):
    raise Left


def test_every_command_runs_once_and_progress_ends_with_all(tmp_path):
    told = []
    run_many(told.append, (["touch", str(tmp_path / str(n))] for n in range(9)), 4, ())
    assert len(list(tmp_path.iterdir())) == 9
    assert told == sorted(told)
    assert told[-1] == 9


def test_no_more_run_at_a_time_than_asked_for(tmp_path):
    run_many(lambda _: None, ([*PYTHON, CROWD, str(tmp_path / str(n))] for n in range(12)), 3, ())


def test_the_first_failure_is_told_in_its_own_words_and_the_others_end():
    commands = [["sleep", "60"], ["ls", "/no/such/place"]]
    began = time.monotonic()
    with pytest.raises(CommandFailed, match="/no/such/place"):
        run_many(lambda _: None, commands, 2, ())
    assert time.monotonic() - began < 30


def test_leaving_ends_what_runs_at_once():
    began = time.monotonic()
    with pytest.raises(Left):
        run_many(leave, [["sleep", "60"]] * 3, 3, ())
    with pytest.raises(Left):
        run_fed(leave, ["sleep", "60"], (), ())
    with pytest.raises(Left):
        run_fed(leave, ["sleep", "60"], ("x" * 100 for _ in range(10**9)), ())
    assert time.monotonic() - began < 30


def test_lines_reach_the_process_all_and_in_order(tmp_path):
    target = tmp_path / "got"
    told = []
    run_fed(told.append, [*PYTHON, f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"],
            (str(n) for n in range(50_000)), (("LC_ALL", "C"),), pipe_bytes=4096)  # fmt: skip
    assert Path(target).read_text().split() == [str(n) for n in range(50_000)]
    assert told == sorted(told)


def test_a_process_that_ends_before_all_is_read_is_told():
    with pytest.raises(CommandFailed, match="no more"):
        run_fed(lambda _: None, [*PYTHON, "import sys; sys.exit('no more')"], (str(n) for n in range(10**6)), ())


def test_a_missing_program_is_a_requirement():
    with pytest.raises(RequirementError, match="no-such-program"):
        run_many(lambda _: None, [["no-such-program"]], 1, ())


def test_a_failed_command_of_thousands_of_words_is_told_in_short():
    with pytest.raises(CommandFailed) as caught:
        run_fed(lambda _: None, [*PYTHON, "import sys; sys.exit('no')", *["--"] * 5000], (), ())
    assert len(str(caught.value)) < 2000


WARNS = "import sys; sys.stderr.write('watch out\\n'); sys.stderr.flush(); "


@pytest.mark.parametrize("then", ["", "sys.stderr.close(); "])
def test_one_that_warns_is_given_all_lines_all_the_same(tmp_path, then):
    target = tmp_path / "got"
    program = f"{WARNS}{then}open({str(target)!r}, 'w').write(sys.stdin.read())"
    run_fed(lambda _: None, [*PYTHON, program], (str(n) for n in range(200_000)), ())
    assert target.read_text().count("\n") == 200_000


def test_one_that_ends_well_without_all_lines_has_failed():
    with pytest.raises(CommandFailed, match=r"lines, before it had read all of them: watch out"):
        run_fed(lambda _: None, [*PYTHON, f"{WARNS}sys.stdin.readline()"], (str(n) for n in range(10**6)), ())


SLEEPS = "open(sys.argv[1], 'w').close(); import time; time.sleep(60)"


def leave_after(happened: Path, looks: int):
    """Leaves when it has been called so often since the file is there."""
    seen = iter(range(looks))
    return lambda done: happened.exists() and next(seen, None) is None and leave(done)


@pytest.mark.parametrize("does", [WARNS, "import os, sys; os.close(2); "])
def test_one_that_warns_and_goes_on_can_be_left(tmp_path, does):
    began = time.monotonic()
    for number, run in enumerate((lambda argv, look: run_fed(look, argv, (), ()),
                                  lambda argv, look: run_many(look, [argv], 1, ()))):  # fmt: skip
        done = tmp_path / str(number)
        with pytest.raises(Left):
            run([*PYTHON, does + SLEEPS, str(done)], leave_after(done, 4))
    assert time.monotonic() - began < 20


def test_many_that_warn_are_no_failures(tmp_path):
    run_many(lambda _: None, ([*PYTHON, f"{WARNS}open({str(tmp_path / str(n))!r}, 'w')"] for n in range(6)), 3, ())
    assert len(list(tmp_path.iterdir())) == 6


def test_what_outlives_a_process_with_its_stderr_is_not_waited_for():
    began = time.monotonic()
    run_many(lambda _: None, [["sh", "-c", "sleep 20 &"]], 1, ())
    run_fed(lambda _: None, ["sh", "-c", "sleep 20 &"], (), ())
    assert time.monotonic() - began < 15


def test_one_that_does_not_end_in_time_is_told_and_ended():
    with pytest.raises(CommandFailed, match=r"did not end within 0\.2 s"):
        run_fed(lambda _: None, ["sleep", "60"], (), (), timeout_s=0.2)
