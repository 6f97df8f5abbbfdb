"""Where each key of a TOML text stands: the line numbers that `tomllib` does not give.

`places(text)` scans a text that `tomllib` has already accepted; it never decides
whether a text is TOML. Grammar: https://toml.io/en/v1.0.0.
"""

import re
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
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_ESCAPE = re.compile(r"\\(?:[ \t]*\n[ \t\n]*|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_SHORT_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


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
        self.skip(_FILL)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.key_value(table)
            self.skip(_FILL)
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
        self.skip(_GAP)
        self.value(path, line)

    def value(self, path: Path, line: int) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self.places[path] = Place(line, self.string()[1])
        elif first == "[":
            self.array(path)
        elif first == "{":
            self.inline_table(path)
        else:
            self.skip(_SCALAR)

    def array(self, path: Path) -> None:
        self.at += 1
        position = 0
        self.skip(_FILL)
        while self.text[self.at] != "]":
            line = self.line()
            self.record((*path, position), line)
            self.value((*path, position), line)
            position += 1
            self.skip(_FILL)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_FILL)
        self.at += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        self.skip(_FILL)
        while self.text[self.at] != "}":
            self.key_value(path)
            self.skip(_FILL)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_FILL)
        self.at += 1

    def dotted_key(self) -> list[str]:
        keys = []
        while True:
            self.skip(_GAP)
            if self.text[self.at] in "\"'":
                keys.append(self.string()[0])
            else:
                start = self.at
                self.skip(_BARE_KEY)
                keys.append(self.text[start : self.at])
            self.skip(_GAP)
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def string(self) -> tuple[str, tuple[int, ...]]:
        """The decoded text and the line of each of its lines."""
        quote = self.text[self.at]
        long = self.text.startswith(quote * 3, self.at)
        delimiter = quote * 3 if long else quote
        self.at += len(delimiter)
        if long and self.text.startswith("\n", self.at):
            self.at += 1
        decoded: list[str] = []
        lines = [self.line()]
        while not self.text.startswith(delimiter, self.at):
            piece = self.character(escapes=quote == '"')
            decoded.append(piece)
            if piece == "\n":
                lines.append(self.line())
        self.at += len(delimiter)
        while long and self.text.startswith(quote, self.at):  # up to two quotes may end the text itself
            decoded.append(quote)
            self.at += 1
        return "".join(decoded), tuple(lines)

    def character(self, escapes: bool) -> str:
        """The next character of a text, decoded; empty for a line continuation."""
        escape = _ESCAPE.match(self.text, self.at) if escapes else None
        if not escape:
            self.at += 1
            return self.text[self.at - 1]
        self.at = escape.end()
        raw = escape.group()
        if "\n" in raw:
            return ""
        if raw[1] in "uU":
            return chr(int(raw[2:], 16))
        return _SHORT_ESCAPES[raw[1]]

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def line(self) -> int:
        return bisect_right(self.newlines, self.at - 1) + 1

    def record(self, path: Path, line: int) -> None:
        self.places.setdefault(path, Place(line))
