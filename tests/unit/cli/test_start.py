"""What the program does not do when it starts."""

import subprocess
import sys
from pathlib import Path

LAB = Path(__file__).parents[3] / "lab"


def _answers(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(LAB), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_help_is_printed_without_importing_numpy_or_scipy() -> None:
    code = "import sys; from pinchpoint.cli.main import main; main(['--help']); print('imported', *sys.modules)"
    help_text, _, imported = _answers(code).rpartition("imported")
    assert "Exit codes:" in help_text
    assert not [name for name in ("numpy", "scipy") if name in imported.split()]


def test_numpy_and_scipy_start_no_thread_that_would_take_the_signals_of_the_main_one() -> None:
    code = "import os, pinchpoint, numpy, scipy.stats; print(len(os.listdir('/proc/self/task')))"
    assert _answers(code).strip() == "1"
