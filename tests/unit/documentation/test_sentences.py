"""What the lab says: every sentence is found, none is of the kind that was replaced, and the pages stay short."""

import re
from pathlib import Path

from reference.sentences import of_source, of_template, sentences

ROOT = Path(__file__).parents[3]
REFERENCES = {"scenario.md", "results.md", "causes.md"}  # made from tables of the lab, as these parts of others are:
MADE = re.compile(r"<!-- (?:begin|made).*?<!-- end -->|^### `.*?(?=^#{1,2} |\Z)", re.DOTALL | re.MULTILINE)
MOST_WORDS = 25_000
REPLACED = (
    "stands in front of", "meets both", "hand it on", "that there is not", "the same by the same", "shall be started",
    "could hide", "surely loses", "that lies", "suspicion asks", "to mind", "in the place of what", "out of use first",
    "for as long as one likes", "whoever receives", "for want of", "takes for malformed", "in what is counted",
    "ended first at both", "nothing that is known", "built anew", "learnt anew", "of one's own", "in the mean",
    "looked into", "in the place of", "at cables", "of the moment", "beside each other", "more is not known",
)  # fmt: skip


def test_sentences_of_a_module_are_its_texts_and_the_help_of_its_commands():
    source = """
@click.command(short_help="Say so.")
def say(name):
    \"\"\"Say what there is.\"\"\"
    print(f"{name} has {1} of them", "word", r"^\\d+ x$")


def other():
    \"\"\"Not printed.\"\"\"
"""
    assert {text for _, text in of_source(source)} == {"Say so.", "Say what there is.", "{} has {} of them"}


def test_sentences_of_a_template_are_what_stands_between_its_marks():
    text = "{% if x %}<p class='a b'>Point at {{ one.of | them }}.</p>{% endif %}\n<script>let a = b;</script>"
    assert list(of_template(text)) == [(1, "Point at {}.")]


def test_no_sentence_is_of_the_kind_that_was_replaced():
    told = list(sentences())
    assert len(told) > 3000
    replaced = re.compile("|".join(map(re.escape, REPLACED)))
    assert [line for line in told if replaced.search(line)] == []


def test_what_is_written_by_hand_stays_short():
    pages = [ROOT / "README.md", *(path for path in (ROOT / "docs").glob("*.md") if path.name not in REFERENCES)]
    assert sum(len(MADE.sub("", page.read_text()).split()) for page in pages) <= MOST_WORDS
