"""What modules of the engine import of each other, read from `use` lines and from paths within other lines."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "engine"
CRATES = sorted(path.parent for path in ENGINE.glob("*/Cargo.toml"))
USE = re.compile(r"^(?:pub(?:\([a-z]+\))? )?use ([^;]*);", re.MULTILINE)
PATH = re.compile(r"\b(?:crate|super)(?:::\w+)+")  # within a line, too
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{\n.*?^\}$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//.*")

Module = tuple[str, ...]  # its path below the crate, which is ()
Names = Mapping[tuple[Module, str], Module]  # by module and what it has imported: where that is from


def modules(crate: Path) -> dict[Module, str]:
    """The text of each module of a crate, tests left out."""
    source = crate / "src"
    texts: dict[Module, str] = {}
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if any(part.endswith("tests") for part in parts):
            continue
        module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
        texts[module] = texts.get(module, "") + code(path.read_text())
    return texts


def code(text: str) -> str:
    """Without comments and tests."""
    return COMMENT.sub("", TESTS.sub("", text))


def imported(text: str) -> Iterator[list[str]]:
    """The paths in the `use` lines of a module: `crate::a::{B, c}` has two."""
    for tree in USE.findall(text):
        yield from (path.strip().removesuffix("::self").split("::") for path in expanded(tree))


def used(text: str) -> Iterator[list[str]]:
    """All paths of a module that lead out of it."""
    yield from (path for path in imported(text) if path[0] in ("crate", "self", "super"))
    yield from (path.split("::") for path in PATH.findall(USE.sub("", text)))


def names(known: Mapping[Module, str]) -> Names:
    """Where modules have names from: what `crate` imports, others know by its name as `crate::Name`."""
    made: Names = {}
    for _ in range(2):  # a name may be imported from one that imports it
        made = {
            (module, path[-1].rpartition(" as ")[2]): target(path, module, known, made)
            for module, text in known.items()
            for path in imported(text)
        }
    return made


def expanded(tree: str) -> Iterator[str]:
    head, brace, rest = tree.partition("{")
    if not brace:
        yield head
        return
    for part in re.split(r",(?![^{]*\})", rest[: rest.rindex("}")]):  # a comma outside inner braces
        if part.strip():
            yield from (head + path for path in expanded(part.strip()))


def target(path: list[str], module: Module, known: Mapping[Module, str], taken: Names) -> Module:
    """The module that a path leads to, seen from another."""
    place: Module = () if path[0] == "crate" else module
    for word in (word.partition(" as ")[0] for word in path):
        if word == "super":
            place = place[:-1]
        elif (*place, word) in known:
            place = (*place, word)
        elif word not in ("crate", "self"):
            return taken.get((place, word), place)
    return place


def imports(texts: Mapping[Module, str]) -> dict[Module, dict[str, set[str]]]:
    """By module: which of its children imports which other, whichever descendants do it.

    A module and those inside it are one thing: they may know each other.
    """
    graphs: dict[Module, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    taken = names(texts)
    for module, text in texts.items():
        for other in (target(path, module, texts, taken) for path in used(text)):
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
        ("b",): code("#[cfg(test)]\nmod tests {\n    use super::a;\n}\nuse super::c::{\n    self,\n    E,\n};\n"),
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


@pytest.mark.parametrize(
    "back", ["use crate::Spec;\n", "use crate::{Port, Spec};\n", "fn f() {\n    super::open::f()\n}\n"]
)
def test_a_circle_through_a_name_of_the_crate_or_a_path_in_a_line_is_noticed(back: str) -> None:
    texts = {
        (): "mod open;\nmod packet;\npub use open::{Spec, open};\ntrait Port {}\n",
        ("open",): "use crate::packet::Packet;\n",
        ("packet",): back,
    }
    (circle,) = circles(texts)
    assert set(circle.removeprefix("crate: ").split(" -> ")) == {"open", "packet"}
    assert list(circles({**texts, ("packet",): code("// crate::open\nuse crate::Port;\n")})) == []
