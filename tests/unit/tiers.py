"""Which behaviour is tested where: the table of docs/testing.md, made from the marks of the tests.

`tier1("device:nft")`: `make test` runs this test, which shows that such devices work. `tier2(...)`: only
`make test-all` does. A module has tier2 for all of its tests, of which single ones, or single parameters, have tier1.
`python tests/unit/tiers.py` writes the page.
"""

import ast
from collections import defaultdict
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/testing.md"
REAL = ("bench", "kernel", "nics", "cluster")  # folders whose tests all have a tier; all others are in `make test`
BEGIN, END = "<!-- made from the tests' marks: python tests/unit/tiers.py -->\n", "<!-- end -->\n"


def behaviours(tree, tier):
    """What the marks of that tier say, anywhere in a piece of source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == tier:
            yield from (ast.literal_eval(word) for word in node.args)


def marks(path):
    """(tier, behaviour) of every test in a file; a table that a test's decorators name belongs to them."""
    module = ast.parse(path.read_text())
    tables = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    of_module = {tier: list(behaviours(tables.get("pytestmark", ast.Pass()), f"tier{tier}")) for tier in (1, 2)}
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            names = [
                name.id
                for decorator in node.decorator_list
                for name in ast.walk(decorator)
                if isinstance(name, ast.Name)
            ]
            sources = [*node.decorator_list, *(tables[name] for name in names if name in tables)]
            yield from ((1, what) for source in sources for what in behaviours(source, "tier1"))
            yield from ((1, what) for what in of_module[1])
            if not any(is_mark(decorator) for decorator in node.decorator_list):
                yield from ((2, what) for what in of_module[2])


def is_mark(decorator):
    """Whether it marks every parameter of the test."""
    return isinstance(decorator, ast.Call) and getattr(decorator.func, "attr", "") == "tier1"


def collected():
    """{(behaviour, tier): the files of the tests that show it}."""
    files = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for tier, behaviour in marks(path):
            files[behaviour, tier].append(path.relative_to(ROOT / "tests"))
    return files


def without():
    """Files with real daemons of which no tier is known."""
    files = (path for folder in REAL for path in (ROOT / "tests" / folder).rglob("test_*.py"))
    return [path.name for path in files if "pytestmark" not in (text := path.read_text()) or "mark.tier" not in text]


def cell(paths):
    """Each file, with how many of its tests it is."""
    counts = {path: paths.count(path) for path in sorted(paths)}
    return ", ".join(f"{path.stem.removeprefix('test_')}" + f" ({n})" * (n > 1) for path, n in counts.items())


def kind(behaviour):
    """`command` of `command:run`; empty where there is no such prefix."""
    prefix, _, name = behaviour.partition(":")
    return prefix if name and not name.startswith(" ") else ""


def named(behaviour, paths):
    """A behaviour of a kind with its files, unless the only one is called the same."""
    name, files = behaviour.partition(":")[2], cell(paths)
    return name if name == files else f"{name}: {files}"


def table():
    """A row for each behaviour; those of one kind share it."""
    files = collected()
    yield "| behaviour | in `make test` | in `make test-all`, or a target of its own |\n|---|---|---|\n"
    for prefix, alike in groupby(sorted({what for what, _ in files}), kind):
        if prefix:
            behaviours = list(alike)
            first, second = (
                "; ".join(named(what, files[what, tier]) for what in behaviours if files[what, tier]) for tier in (1, 2)
            )
            yield f"| {prefix} | {first} | {second} |\n"
        else:
            yield from (f"| {what} | {cell(files[what, 1])} | {cell(files[what, 2])} |\n" for what in alike)


def page():
    """The page with its table made anew."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{''.join(table())}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
