"""The lab from Python: what `import pinchpoint` offers, and how a run is started, read and interrupted."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pinchpoint
from pinchpoint.api import calls
from pinchpoint.model.errors import InputError, RequirementError

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "run"


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Replaces `pinchpoint` by a program of Python; remembers nothing, prints what the program prints."""

    def be(code):
        monkeypatch.setattr(calls, "_COMMAND", ("-c", code))

    return be


def test_a_run_is_loaded_with_median_interval_verdict_and_frames():
    run = pinchpoint.load(GOLDEN)
    snat = run["snat-255"]
    assert (snat.ndr.median_fps, snat.ndr.interval_fps) == (3.1e6, (3.1e6, 3.115e6))
    assert snat.limit == "forwarding_core" and snat.verdict.startswith("PMD core 1 is saturated")
    assert len(snat.trials) == sum(name == "snat-255" for name in run.trials.column("scenario"))
    assert [result.name for result in run] == [result.name for result in run.results]
    assert repr(run) == f"Run(path={GOLDEN!r})"


def test_a_scenario_that_there_is_not_is_refused_with_those_there_are():
    with pytest.raises(KeyError, match="there are forward"):
        pinchpoint.load(GOLDEN)["back"]


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such run folder or bundle"):
        pinchpoint.load(tmp_path / "absent")
    with pytest.raises(InputError, match=r"no run\.json"):
        pinchpoint.load(tmp_path)


def test_run_and_measure_are_functions_and_still_packages_of_the_lab():
    import pinchpoint.run.order
    from pinchpoint.measure.registry import measures

    assert callable(pinchpoint.run) and callable(pinchpoint.measure)
    assert pinchpoint.run.order.units and measures()


def test_importing_the_lab_imports_nothing_else():
    code = "import sys, pinchpoint; print(*(one for one in sys.modules if one.startswith('pinchpoint.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_a_finished_run_is_read_from_the_folder_that_the_command_names(command, tmp_path):
    command(f"import shutil; shutil.copytree({str(GOLDEN)!r}, 'made'); print('{{\"run_id\": \"made\"}}')")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert len(pinchpoint.run("a.toml", out=tmp_path).results) > 1
        with pytest.raises(InputError, match="returns them all"):
            (tmp_path / "made").rename(tmp_path / "before")
            pinchpoint.measure("a.toml", out=tmp_path)


def test_options_become_those_of_the_command_and_a_text_becomes_a_file(command, tmp_path):
    told = "import sys; sys.stderr.write('pinchpoint: ' + ' '.join(sys.argv[1:])); sys.exit(2)"
    command(told)
    with pytest.raises(InputError) as error:
        pinchpoint.run("title = 'x'\n", set={"dut.smc": True, "engine.cpus": [2, 3]}, quick=True, out=tmp_path)
    words = error.value.message.split()
    assert words[0] == "run" and words[1].endswith("/scenario.toml")
    assert "--set=dut.smc=true" in words and "--set=engine.cpus=[2," in words and "--quick" in words


def test_an_error_of_the_command_is_raised_as_its_own_kind_with_its_hint(command):
    command("import sys; sys.stderr.write('pinchpoint: no memory\\n  hint: free some\\n'); sys.exit(3)")
    with pytest.raises(RequirementError) as error:
        pinchpoint.run("a.toml")
    assert (error.value.message, error.value.hint) == ("no memory", "free some")


def test_an_interruption_is_passed_on_and_waits_until_the_bench_is_gone(command, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    command(
        "import signal, sys, time, pathlib\n"
        f"signal.signal(signal.SIGINT, lambda *_: (pathlib.Path({str(gone)!r}).touch(), sys.exit(130)))\n"
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\ntime.sleep(60)"
    )

    def sleep(_):
        if (tmp_path / "ready").exists() and not gone.exists():
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(calls.time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        pinchpoint.run("a.toml")
    assert gone.exists()


def test_the_notebook_of_the_docs_runs(tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT / "docs")}}).execute()
    assert any("PMD core 1 is saturated" in str(cell.get("outputs")) for cell in notebook.cells)
