"""Where each key of a TOML text stands: the line numbers that `tomllib` does not give.

`places(text)` scans a text that `tomllib` has already accepted; it never decides
whether a text is TOML. Grammar: https://toml.io/en/v1.0.0.
"""

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and 0-based array positions, e.g. ("stream", 0, "from")."""


@dataclass(frozen=True)
class Place:
    """Where a key stands, and where each line of its text value stands; lines count from 1."""

    line: int
    text_lines: tuple[int, ...] = ()  # one for each line of the decoded text


def places(text: str) -> dict[Path, Place]:
    """The place of every key, table and array element of `text`, which must be valid TOML.

    May raise RecursionError where `tomllib` would as well.
    """
    return _Scanner(text.replace("\r\n", "\n")).document()


_GAP = re.compile(r"[ \t]*")
_FILL = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_BETWEEN_ELEMENTS = re.compile(r"(?:[ \t\n,]+|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_TEXT = re.compile(
    r'"""(?:[^"\\]+|(?:\\.)+|"(?!""))*"{3,5}' r"|'''(?:[^']+|'(?!''))*'{3,5}" r'|"(?:[^"\\]+|(?:\\.)+)*"' r"|'[^']*'",
    re.DOTALL,
)
_NAME = re.compile(rf"[A-Za-z0-9_-]+|{_TEXT.pattern}", re.DOTALL)
_ESCAPE_OR_NEWLINE = re.compile(r"\\(?:[ \t]*\n[ \t\n]*|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)|\n")
_NEWLINE = re.compile(r"\n")
_NEWLINES = ("\n", "\\n", "\\u000a", "\\u0000000a")  # as texts may have one, in lower case


class _Scanner:
    """A single pass over a text; `at` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.places: dict[Path, Place] = {}
        self.elements: dict[Path, int] = {}  # elements seen of each array of tables

    def document(self) -> dict[Path, Place]:
        table: Path = ()
        self.take(_FILL)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.key_value(table)
            self.take(_FILL)
        return self.places

    def header(self) -> Path:
        line = self.line()
        is_element = self.text.startswith("[[", self.at)
        brackets = 2 if is_element else 1
        self.at += brackets
        keys = self.dotted_key()
        self.at += brackets
        path: Path = ()
        for key in keys[:-1]:
            path = self.latest((*path, key))
            self.record(path, line)
        path = (*path, keys[-1])
        if is_element:
            self.record(path, line)
            path = (*path, self.elements.get(path, 0))
            self.elements[path[:-1]] = self.elements.get(path[:-1], 0) + 1
        self.record(path, line)
        return path

    def latest(self, path: Path) -> Path:
        """The element that a header means when it names an array of tables."""
        seen = self.elements.get(path, 0)
        return (*path, seen - 1) if seen else path

    def key_value(self, table: Path) -> None:
        line = self.line()
        path = table
        for key in self.dotted_key():
            path = (*path, key)
            self.record(path, line)
        self.at += 1  # "="
        self.take(_GAP)
        self.value(path, line)

    def value(self, path: Path, line: int) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self.places[path] = Place(line, self.text_lines())
        elif first == "[":
            self.array(path)
        elif first == "{":
            self.inline_table(path)
        else:
            self.take(_SCALAR)

    def array(self, path: Path) -> None:
        self.at += 1
        position = 0
        self.take(_BETWEEN_ELEMENTS)
        while self.text[self.at] != "]":
            line = self.line()
            self.record((*path, position), line)
            self.value((*path, position), line)
            position += 1
            self.take(_BETWEEN_ELEMENTS)
        self.at += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        self.take(_BETWEEN_ELEMENTS)
        while self.text[self.at] != "}":
            self.key_value(path)
            self.take(_BETWEEN_ELEMENTS)
        self.at += 1

    def dotted_key(self) -> list[str]:
        keys = []
        while True:
            self.take(_GAP)
            keys.append(_decoded(self.take(_NAME)))
            self.take(_GAP)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def text_lines(self) -> tuple[int, ...]:
        """The line of each line of the text that stands here, decoded."""
        line, text = self.line(), self.take(_TEXT)
        if text[:4] in ('"""\n', "'''\n"):  # a newline that is no part of it
            line, text = line + 1, text[4:]
        lines = [line]
        for match in (_NEWLINE if text.endswith("'") else _ESCAPE_OR_NEWLINE).finditer(text):
            line += match[0].count("\n")
            if match[0].lower() in _NEWLINES:
                lines.append(line)
        return tuple(lines)

    def take(self, pattern: re.Pattern[str]) -> str:
        """What matches here, which is then passed."""
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match[0] if match else ""

    def line(self) -> int:
        return bisect_right(self.newlines, self.at - 1) + 1

    def record(self, path: Path, line: int) -> None:
        self.places.setdefault(path, Place(line))


def _decoded(key: str) -> str:
    """A key without its quotation marks."""
    if key[0] == '"' and "\\" in key:
        return str(tomllib.loads(f"key = {key}")["key"])
    return key[1:-1] if key[0] in "\"'" else key
