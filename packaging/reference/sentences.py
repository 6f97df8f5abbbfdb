"""Every sentence that the lab can print, a line each with its place, to be read aloud: `make sentences`.

    python packaging/reference/sentences.py FILE

A sentence is a text of two words or more in the source or in a template; of docstrings only those of commands, which
are their help. Values stand as {}.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "lab" / "pinchpoint"
_WORDS = re.compile(r"[A-Za-z{}][\w{}'-]* [\w{}]")
_CODE = re.compile(r"[\\^$|<>]|\w\(|select .* from|create (table|index)|^(insert|delete) ", re.IGNORECASE)
_TEMPLATE_CODE = re.compile(r"{#.*?#}|{%.*?%}|<(script|style|svg)\b.*?</\1>|<[^>]*>", re.DOTALL)
_VALUE = re.compile(r"{{.*?}}", re.DOTALL)


def main(argv: list[str]) -> int:
    """Write all sentences into the file named; returns the exit code."""
    if len(argv) != 2:
        print(f"usage: {argv[0]} FILE", file=sys.stderr)
        return 2
    lines = list(sentences())
    Path(argv[1]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{argv[1]}: {len(lines):,} sentences")
    return 0


def sentences() -> Iterator[str]:
    """`FILE:LINE: TEXT`, in the order of the files."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".j2") and "studies" not in path.relative_to(PACKAGE).parts:
            of = of_source if path.suffix == ".py" else of_template
            for line, text in of(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(PACKAGE)}:{line}: {text}"


def of_source(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every sentence of a module."""
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    inner -= {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}
    silent = inner | {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(word) for word in node.decorator_list):
            yield from ((node.lineno, text) for text in _told(ast.get_docstring(node) or ""))
        elif id(node) not in silent and isinstance(node, ast.JoinedStr | ast.Constant):
            yield from ((node.lineno, text) for text in _told(_text(node)))


def of_template(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every sentence of a template."""
    plain = _VALUE.sub("{}", _TEMPLATE_CODE.sub(lambda code: "\n" * code[0].count("\n") or "\t", source))
    for number, line in enumerate(plain.splitlines(), 1):
        yield from ((number, text) for part in line.split("\t") for text in _told(part))


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return "".join(map(str, parts))


def _told(text: str) -> Iterator[str]:
    """The text on one line, if it is for people."""
    line = " ".join(text.split())
    if _WORDS.search(line) and not _CODE.search(line):
        yield line


if __name__ == "__main__":
    sys.exit(main(sys.argv))
