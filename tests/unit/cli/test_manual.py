"""The man pages and completion scripts of the wheel: all there, up to date, and roff reads them without a warning."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from reference import manual

SHARE = Path(__file__).parents[3] / "packaging" / "wheel" / "data" / "share"
PAGES = sorted(path for path in manual.files() if path.endswith(".1"))
AGAIN = "make manual"


def test_the_wheel_has_what_the_commands_say_now():
    there = {str(path.relative_to(SHARE)): path.read_text() for path in SHARE.rglob("*") if path.is_file()}
    assert there == manual.files(), f"write them again: {AGAIN}"


def test_every_command_has_a_page_and_is_named_in_the_main_one():
    names = {"-".join(words) for words, _ in manual.commands()}
    assert {Path(page).stem for page in PAGES} == names
    see = manual.files()["man/man1/pinchpoint.1"].partition(".SH SEE ALSO")[2].replace("\\-", "-")
    assert set(re.findall(r"^\.BR (\S+) \(1\)", see, re.MULTILINE)) == names - {"pinchpoint"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("page", PAGES)
def test_roff_reads_every_page_without_a_warning(page):
    words = ["groff", "-man", "-Tutf8", "-ww", "-z", "-rCHECKSTYLE=2"]
    done = subprocess.run(words, input=manual.files()[page], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_what_roff_would_take_for_its_own_is_escaped():
    assert manual._text(".so 'a\\b' `c` --d ~e") == "\\&.so \\(aqa\\eb\\(aq \\(gac\\(ga \\-\\-d \\(tie"
