"""The documentation site builds without a warning, from pages that each stand in the navigation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_it_has_the_readme_the_reference_of_commands_and_the_protocol(site):
    names = {path.name for path in site.glob("*.html")}
    assert {"index.html", "tutorial.html", "commands.html", "scenario.html", "protocol.html"} <= names
    assert "pinchpoint study run" in (site / "commands.html").read_text()


def test_every_relative_link_and_picture_is_there(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'(?:href|src)="([^"#?:]+)["#?]', page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert not re.findall(
            r'<(?:script|img)[^>]*src="https?:|<link[^>]*rel="stylesheet"[^>]*https?:', page.read_text()
        )
