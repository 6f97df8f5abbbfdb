"""The line index finds every key that tomllib finds, on the line where it stands."""

import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.keys.lexical import places


def paths_of(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    below: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        below = list(value.items())
    elif isinstance(value, list):
        below = list(enumerate(value))
    for key, child in below:
        yield (*path, key)
        yield from paths_of(child, (*path, key))


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("# comment\n\n[t]\nkey = 1\n", ("t", "key"), 4),
        ("[t]\nx = 1\n[[t.e]]\ny = 1\n[[t.e]]\ny = 2\n", ("t", "e", 1, "y"), 6),
        ("[[e]]\n[[e.f]]\nk = 1\n[[e]]\n[[e.f]]\n[[e.f]]\nk = 1\n", ("e", 1, "f", 1, "k"), 7),
        ("[[e]]\n[e.f]\nk = 1\n", ("e", 0, "f", "k"), 3),
        ('a.b."c d" = 1\n', ("a", "b", "c d"), 1),
        ('x = 1\n"quo\\"ted" = 1\n', ('quo"ted',), 2),
        ("'a.b' = 1\n", ("a.b",), 1),
        ("a = [\n 1, # one\n 2,\n]\nb = 1\n", ("a", 1), 3),
        ("a = [\n 1, # one\n 2,\n]\nb = 1\n", ("b",), 5),
        ("a = { x = 1, y = { z = 2 } }\n", ("a", "y", "z"), 1),
        ("a = [ { x = 1 },\n { x = 2 } ]\n", ("a", 1, "x"), 2),
        ('a = """\n[no.table]\nk = 1\n"""\nb = 1\n', ("b",), 5),
        ("a = '''\n'' \"\"\" '''\nb = 1\n", ("b",), 3),
        ('a = """x"""""\nb = 1\n', ("b",), 2),
        ('a = "\\\\"\nb = "#"\nc = 1\n', ("c",), 3),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
        ("a = 1979-05-27 07:32:00 # when\nb = 1\n", ("b",), 2),
        ("[ a . b ]\n c = 1\n", ("a", "b", "c"), 2),
    ],
)
def test_a_key_is_found_on_its_line(text: str, path: tuple[str | int, ...], line: int) -> None:
    assert places(text)[path].line == line


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('a = "one"\n', (1,)),
        ('a = """one\ntwo"""\n', (1, 2)),
        ('\na = """\none\n\nthree\n"""\n', (3, 4, 5, 6)),
        ('a = """\none \\\n   still one\ntwo"""\n', (2, 4)),
        ('a = """\none\\ntwo\nthree"""\n', (2, 2, 3)),
        ('a = """\none\\u000Atwo\nthree"""\n', (2, 2, 3)),
        ("a = '''\none \\\ntwo'''\n", (2, 3)),
    ],
)
def test_each_line_of_a_text_knows_its_line_in_the_file(text: str, lines: tuple[int, ...]) -> None:
    assert places(text)[("a",)].text_lines == lines
    assert len(tomllib.loads(text)["a"].split("\n")) == len(lines)


KEYS = st.sampled_from(["a", "b", "c", '"d e"', "'f.g'", '"\\u0041"', "1"])
SPACE = st.sampled_from(["", " ", "\t"])
NEWLINE = st.sampled_from(["\n", "\r\n", "\n\n", " # [x] = {\n"])


@st.composite
def dotted_keys(draw: st.DrawFn) -> str:
    parts = draw(st.lists(KEYS, min_size=1, max_size=3))
    return (draw(SPACE) + "." + draw(SPACE)).join(parts)


def brackets(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.tuples(st.lists(inner, max_size=3), st.sampled_from([",", ", ", ",\n", " # c\n,"])).map(
        lambda drawn: "[" + drawn[1].join(drawn[0]) + "]"
    )
    tables = st.dictionaries(KEYS, inner, max_size=3).map(
        lambda drawn: "{ " + ", ".join(f"{key} = {value}" for key, value in drawn.items()) + " }"
    )
    return arrays | tables


VALUES = st.recursive(
    st.sampled_from(
        [
            "1",
            "-0.5e3",
            "true",
            "07:32:00",
            '"x # y"',
            "'\\'",
            '"""\n\\"""" ]\n"""',
            "'''a\n'b'''",
            '"""\\\n  """',
        ]
    ),
    brackets,
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    text = ""
    for _ in range(draw(st.integers(1, 8))):
        key = draw(dotted_keys())
        form = draw(st.sampled_from(["[{}]", "[[{}]]", "pair", "pair", "pair"]))
        text += f"{key}{draw(SPACE)}={draw(SPACE)}{draw(VALUES)}" if form == "pair" else form.format(key)
        text += draw(NEWLINE)
    return text


@given(documents())
def test_the_index_has_exactly_the_keys_that_tomllib_reads(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(places(text)) == set(paths_of(data))
