"""What is printed for people: texts from outside cannot steer the terminal."""

import io

from rich.text import Text

from pinchpoint.cli.terminal import Terminal, console

HOSTILE = "vif\x1b[2J\x9b31m\x07\u00e9"


def test_a_name_from_outside_is_printed_without_what_a_terminal_obeys(capsys):
    console().print(Text(HOSTILE))
    assert capsys.readouterr().out == "vif\ufffd[2J\ufffd31m\u00e9\n"  # rich itself leaves the bell out


def test_colours_of_our_own_stay(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = io.StringIO()
    Terminal(file=out, force_terminal=True, color_system="standard").print(Text(HOSTILE, style="red"))
    assert out.getvalue() == "\x1b[31mvif\ufffd[2J\ufffd31m\u00e9\x1b[0m\n"
