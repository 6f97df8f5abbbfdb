"""Man pages and completion scripts of every command, made from the commands themselves.

`make manual` writes what the wheel installs in share/. The form is that
of man(7): sections of man-pages(7), roff's own characters escaped.
"""

import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from pinchpoint import __version__
from pinchpoint.cli.main import TOPICS, cli, script

WRITTEN = "2026-11-24"  # when the form of these pages last changed
WIDTH = 78  # of a line of their source
COMPLETIONS = {
    "bash": "bash-completion/completions/pinchpoint",
    "zsh": "zsh/site-functions/_pinchpoint",
    "fish": "fish/vendor_completions.d/pinchpoint.fish",
}
"""Below share/, where each shell looks for the completion of a command."""
EXIT_CODES = """\b
Exit codes:
  0    done; what is impossible here or needless was left out
  1    verify: the device does not do what its service says; or an unexpected error of
       pinchpoint itself, with a traceback
  2    bad input: scenario, option or stored file
  3    this machine lacks something; the message has the command that fixes it
  4    building the bench failed, e.g. the switch refused a rule; or points of a run failed
  5    the traffic engine failed or died
  6    the device under test died or stopped answering
  7    results could not be written
  8    worse: compare --fail-if-worse, ci: B or HEAD is worse than allowed;
       trend: the latest level of a metric is worse than the one before
  9    could not be decided: no ratio, fewer than six builds of each, too few runs
  130  interrupted; finished trials are kept, --resume continues
"""
ENVIRONMENT = """\b
Environment variables:
  PINCHPOINT_LOG_EVERY_S  seconds between two lines of progress when stderr is no terminal (10);
                          0: a line for every step
  XDG_CACHE_HOME          folder of the cached generator ceilings (~/.cache)
  NO_COLOR                any value: no colours
  GITHUB_ACTIONS          true: ci prints annotations
  GITHUB_STEP_SUMMARY     file to which ci appends its summary
"""
"""Tables of `pinchpoint --help`, in full; the help itself has the codes in short."""


def files() -> Mapping[str, str]:
    """Every file below share/: its path, and what it holds."""
    pages = {f"man/man1/{'-'.join(words)}.1": page(words, command) for words, command in commands()}
    return pages | {path: script(shell) for shell, path in COMPLETIONS.items()}


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """`pinchpoint`, and every command below it, with the words that call it."""
    yield ("pinchpoint",), cli
    yield from _below(("pinchpoint",), cli)


def _below(words: tuple[str, ...], group: click.Group) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in sorted(group.commands.items()):
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from _below((*words, name), command)


def page(words: tuple[str, ...], command: click.Command) -> str:
    """The man page of one command, in roff (man(7))."""
    name, context = "-".join(words), click.Context(command, info_name=" ".join(words))
    whole = command is cli
    short = "measure virtual switches and load balancers" if whole else command.get_short_help_str(200).rstrip(".")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH {_text(name.upper())} 1 "{WRITTEN}" "pinchpoint {_text(__version__)}" "Pinchpoint"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(short)}",
        ".SH SYNOPSIS",
        f"\\fB{_text(' '.join(words))}\\fR {_text(usage)}",
        ".SH DESCRIPTION",
        *_paragraphs(_description(command, short, whole)),
        *_options(context, command),
    ]
    if isinstance(command, click.Group):
        lines += _commands(words, command)
    if whole:
        lines += [".SH EXIT STATUS", *_rows(EXIT_CODES), ".SH ENVIRONMENT", *_rows(ENVIRONMENT)]
        see = ["-".join(path) for path, other in commands() if other is not cli]
    else:
        lines += [".SH EXIT STATUS", "As listed in", ".BR pinchpoint (1)."]
        see = ["pinchpoint"]
    lines += [".SH SEE ALSO", *_references(see)]
    return "\n".join(lines) + "\n"


def _description(command: click.Command, short: str, whole: bool) -> str:
    """A command's help and epilog; Python strips the indentation of docstrings itself from 3.13 on."""
    texts = [command.help or short, *([command.epilog] if command.epilog and not whole else [])]
    return "\n\n".join(inspect.cleandoc(text) for text in texts)


def _text(words: str) -> str:
    """Text as roff reads it literally (groff_char(7)): no request, no escape, no typographic quotes or hyphens."""
    for char, instead in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
        words = words.replace(char, instead)
    return f"\\&{words}" if words.startswith(".") else words


def _filled(words: str) -> Iterator[str]:
    """The same in several lines of source, which roff fills."""
    lines = textwrap.wrap(_text(words), WIDTH, break_long_words=False, break_on_hyphens=False)
    yield from (f"\\&{line}" if line.startswith(".") else line for line in lines)


def _paragraphs(text: str) -> Iterator[str]:
    r"""Paragraphs of a help text; one that begins with \\b keeps its lines."""
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.lstrip().startswith("\b"):
            rows = [line for line in paragraph.replace("\b", "").splitlines() if line.strip()]
            yield from (".nf", *map(_text, rows), ".fi")
        else:
            yield from _filled(paragraph)


def _options(context: click.Context, command: click.Command) -> Iterator[str]:
    records = [record for param in command.get_params(context) if (record := param.get_help_record(context))]
    if records:
        yield ".SH OPTIONS"
        yield from _list(records)


def _commands(words: tuple[str, ...], group: click.Group) -> Iterator[str]:
    yield ".SH COMMANDS"
    topics = TOPICS if group is cli else {"": tuple(group.commands.values())}
    for topic, names in topics.items():
        if topic:
            yield f".SS {_text(topic)}"
        yield from _list(
            (f"{'-'.join((*words, command.name or ''))}(1)", command.get_short_help_str(200)) for command in names
        )


def _list(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield from (".TP", f"\\fB{_text(term)}\\fR", *_filled(text))


def _rows(table: str) -> Iterator[str]:
    """A table of the help: two blanks, a term, blanks, its text, which goes on in lines that are further in."""
    rows: list[tuple[str, str]] = []
    for line in table.splitlines()[2:]:
        if line.startswith("  ") and line[2] != " ":
            term, _, text = line.strip().partition(" ")
            rows.append((term, text))
        elif rows:
            term, text = rows.pop()
            rows.append((term, f"{text} {line.strip()}"))
    return _list(rows)


def _references(pages: Iterable[str]) -> Iterator[str]:
    *first, last = pages
    yield from (f".BR {_text(name)} (1)," for name in first)
    yield f".BR {_text(last)} (1)"


def main(folder: Path) -> None:
    """Write every file below `folder`."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
