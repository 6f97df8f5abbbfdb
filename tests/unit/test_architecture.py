"""Invariants of the lab's structure, stated by what is absent (ARCHITECTURE.md)."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "lab" / "pinchpoint"
PARTS = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists())

MAY_IMPORT = {
    "model": set(),
    "scenario": {"model"},
    "dut": {"model", "bench"},
    "bench": {"model", "dut"},
    "bulk": {"model", "bench", "dut"},
    "engine": {"model"},
    "observe": {"model", "bench", "dut"},
    "diagnose": {"model", "engine"},
    "search": {"model"},
    "store": {"model"},
    "report": {"model", "scenario"},
    "sweep": {"model", "bench", "bulk", "dut", "engine", "observe", "diagnose", "search", "store"},
    "cli": {"model", "scenario", "bench", "dut", "engine", "report", "store", "sweep"},
}
DOES_NO_IO = ("model", "search", "diagnose")
IO_MODULES = {"subprocess", "socket", "pathlib", "shutil", "tempfile", "urllib", "http"}
STARTS_PROCESSES = {"bench/host.py", "bench/many.py", "engine/process.py", "observe/facts.py"}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def modules(part):
    return sorted((PACKAGE / part).rglob("*.py"))


@pytest.mark.parametrize("part", PARTS)
def test_each_part_imports_only_what_it_may(part):
    for path in modules(part):
        for name in imports_of(path):
            if name.startswith("pinchpoint."):
                other = name.split(".")[1]
                assert other == part or other in MAY_IMPORT[part], f"{path.name} imports {name}"


@pytest.mark.parametrize("part", DOES_NO_IO)
def test_pure_parts_do_no_io(part):
    for path in modules(part):
        assert not IO_MODULES & {name.split(".")[0] for name in imports_of(path)}, path
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not any(isinstance(call, ast.Name) and call.id in {"open", "print"} for call in calls), path


def test_processes_are_started_in_few_places():
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if "subprocess" in set(imports_of(path))}
    assert found <= STARTS_PROCESSES


def test_functions_fit_a_screen_and_files_an_idea():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= 500, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"
