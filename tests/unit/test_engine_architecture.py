"""What modules of the engine import of each other, read from their `use` lines."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "engine"
CRATES = sorted(path.parent for path in ENGINE.glob("*/Cargo.toml"))
# At the beginning of a line: not those of tests within a module.
USE = re.compile(r"^(?:pub(?:\([a-z]+\))? )?use ((?:crate|self|super)\b[^;]*);", re.MULTILINE)

Module = tuple[str, ...]  # its path below the crate, which is ()


def modules(crate: Path) -> dict[Module, str]:
    """The text of each module of a crate, tests left out."""
    source = crate / "src"
    texts = {}
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if any(part.endswith("tests") for part in parts):
            continue
        module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
        texts[module] = path.read_text()
    return texts


def used(text: str) -> Iterator[list[str]]:
    """The paths in the `use` lines of a module: `crate::a::{B, c}` has two."""
    for tree in USE.findall(text):
        yield from (path.strip().split("::") for path in expanded(tree))


def expanded(tree: str) -> Iterator[str]:
    head, brace, rest = tree.partition("{")
    if not brace:
        yield head
        return
    for part in re.split(r",(?![^{]*\})", rest[: rest.rindex("}")]):  # a comma outside inner braces
        if part.strip():
            yield from (head + path for path in expanded(part.strip()))


def target(path: list[str], module: Module, known: Mapping[Module, str]) -> Module:
    """The module that a path leads to, seen from another."""
    place: Module = () if path[0] == "crate" else module
    for word in path:
        if word == "super":
            place = place[:-1]
        elif (*place, word) in known:
            place = (*place, word)
        elif word not in ("crate", "self"):
            break
    return place


def imports(texts: Mapping[Module, str]) -> dict[Module, dict[str, set[str]]]:
    """By module: which of its children imports which other, whichever descendants do it.

    A module and those inside it are one thing: they may know each other.
    """
    graphs: dict[Module, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, text in texts.items():
        for other in (target(path, module, texts) for path in used(text)):
            shared = next((n for n, (a, b) in enumerate(zip(module, other, strict=False)) if a != b), None)
            if shared is not None:
                graphs[module[:shared]][module[shared]].add(other[shared])
    return graphs


def circles(texts: Mapping[Module, str]) -> Iterator[str]:
    for module, graph in imports(texts).items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            yield f"{'::'.join(('crate', *module))}: {' -> '.join(error.args[1][::-1])}"


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_modules_of_the_engine_import_each_other(crate: Path) -> None:
    assert list(circles(modules(crate))) == []


def test_a_circle_is_noticed_whoever_closes_it() -> None:
    texts = {
        (): "mod a;\npub use b::B;\nuse crate::a::A;\n",
        ("a",): "use crate::{B, b::{C, D}, e};\n",
        ("b",): "    use super::a;\nuse super::c::{\n    self,\n    E,\n};\n",
        ("c",): "",
        ("c", "d"): "use super::Own;\npub(crate) use super::super::a::A;\n",
        ("e",): "use std::a;\n",
    }
    assert list(used(texts["a",])) == [
        ["crate", "B"], ["crate", "b", "C"], ["crate", "b", "D"], ["crate", "e"]
    ]  # fmt: skip
    (circle,) = circles(texts)
    names = circle.removeprefix("crate: ").split(" -> ")
    assert names[0] == names[-1] and set(names) == {"a", "b", "c"}
    texts["c", "d"] = "use super::Own;\nuse crate::e;\n"
    assert list(circles(texts)) == []
