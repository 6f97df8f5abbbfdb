"""The keys that make many scenarios of one file."""

import math
from typing import Any, Final, cast

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.kinds import Kind, MismatchError, check, is_plain
from pinchpoint.keys.source import key_path
from pinchpoint.model.scenario import Level, Relative
from pinchpoint.model.study import Need

MOST_LEVELS = 256
MOST_NAMED = 16
MOST_PAIRS = 10_000
LONGEST_LEVEL = 60
LONGEST_PROSE = 10_000
LONGEST_SENTENCE = 400
MOST_NEEDED = 100_000
_LEVEL: Final = {"type": ["boolean", "number", "string"], "minLength": 1, "maxLength": LONGEST_LEVEL}


def level(value: Any) -> Level:
    """One level: true or false, a finite number, or a short text. Raises MismatchError."""
    check(isinstance(value, bool | int | float | str))
    if isinstance(value, str):
        check(0 < len(value) <= LONGEST_LEVEL and is_plain(value))
    elif not isinstance(value, bool):
        check(abs(value) < 2**53 and not math.isnan(value))
    return cast(Level, value)


def _no_truth(value: Level) -> Level:
    check(not isinstance(value, bool))
    return value


def levels() -> Kind:
    """Different levels, in their order."""

    def read(value: Any) -> tuple[Level, ...]:
        check(isinstance(value, list) and 0 < len(value) <= MOST_LEVELS)
        levels = tuple(level(element) for element in value)
        check(len({(isinstance(level, bool), level) for level in levels}) == len(levels))
        return levels

    schema = {"type": "array", "items": _LEVEL, "minItems": 1, "maxItems": MOST_LEVELS, "uniqueItems": True}
    return Kind("a list of different numbers, texts, or true and false", read, schema=schema)


def level_table() -> Kind:
    """A level for each of some names."""

    def read(value: Any) -> dict[str, Level]:
        check(isinstance(value, dict) and len(value) <= MOST_NAMED)
        check(all(len(name) <= LONGEST_LEVEL and is_plain(name) for name in value))
        return {name: level(item) for name, item in value.items()}

    schema = {"type": "object", "additionalProperties": _LEVEL, "maxProperties": MOST_NAMED}
    return Kind("a table of numbers, texts, and true or false", read, schema=schema)


def needs() -> Kind:
    """What a bench must have, by the word of a need: how many, or true."""
    count = kinds.integer(1, MOST_NEEDED)

    def number(need: Need, value: Any) -> int:
        check(need.is_counted or value is True)
        return int(count.read(value)) if need.is_counted else 1

    def read(value: Any) -> dict[Need, int]:
        check(isinstance(value, dict) and all(name in [*Need] for name in value))
        return {Need(name): number(Need(name), wanted) for name, wanted in value.items()}

    words = ", ".join(f"{need} ({'a count' if need.is_counted else 'true'})" for need in Need)
    own = {str(need): count.schema if need.is_counted else {"const": True} for need in Need}
    return Kind(
        f"a table of {words}", read, schema={"type": "object", "properties": own, "additionalProperties": False}
    )


def key_paths() -> Kind:
    """Different paths of keys; whether they name keys is judged elsewhere."""

    def read(value: Any) -> str:
        check(isinstance(value, str))
        if key_path(value) is None:
            raise MismatchError('keys like "dut.cascade" or "stream[1].flows"')
        return str(value)

    path = Kind("", read, schema={"type": "string"})
    return kinds.listed('a list of different keys like "dut.cascade" or "stream[1].flows"', path, 64)


def pairs() -> Kind:
    """Pairs of a level and a figure."""

    def read(value: Any) -> tuple[tuple[Level, float], ...]:
        check(isinstance(value, list) and 0 < len(value) <= MOST_PAIRS)
        return tuple(_pair(element) for element in value)

    pair = {"type": "array", "items": _LEVEL, "minItems": 2, "maxItems": 2}
    schema = {"type": "array", "items": pair, "minItems": 1, "maxItems": MOST_PAIRS}
    return Kind("a list of pairs [level, figure]", read, schema=schema)


def _pair(value: Any) -> tuple[Level, float]:
    check(isinstance(value, list) and len(value) == 2)
    figure = level(value[1])
    check(isinstance(figure, int | float) and not isinstance(figure, bool))
    return level(value[0]), float(figure)


def prose() -> Kind:
    """Text of several lines without control characters."""

    def read(value: Any) -> str:
        check(isinstance(value, str) and len(value) <= LONGEST_PROSE)
        check(all(is_plain(line) for line in value.replace("\t", " ").split("\n")))
        return str(value).strip()

    expected = f"text of one or several lines, at most {LONGEST_PROSE:,} characters"
    return Kind(expected, read, schema={"type": "string", "maxLength": LONGEST_PROSE})


_STEM: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
LEVEL_NAME: Final = Kind(
    f"one line of text, 1 to {LONGEST_LEVEL} characters, or a number",
    lambda value: _no_truth(level(value)),
    schema={**_LEVEL, "type": ["number", "string"]},
)
FACTOR_NAME: Final = kinds.matching(
    r"[A-Za-z][A-Za-z0-9 _-]{0,39}", "1 to 40 letters, digits, blanks, - or _, the first one a letter"
)
WORD: Final = kinds.matching(_STEM, "a word of up to 64 letters, digits, '.', '_' or '-', the first a letter or digit")
STEMS: Final = kinds.listed(
    "a list of different file names without folder and without .toml", kinds.matching(_STEM, ""), 256
)
CSV_FILE: Final = kinds.matching(rf"{_STEM}\.csv", "the name of a .csv file, without folder")
MOST_POINTS: Final = 1000

SWEEP = Table(
    "sweep",
    "Makes one scenario for each combination of the levels below; the first factor varies slowest. Listed "
    "points form one factor, which comes before the others.",
    (
        Key("repeats", kinds.integer(1, 1000), "How often each point is measured.", 1),
        Key("order", kinds.word("interleaved", "random", "listed"),
            '"interleaved": all points, then all again; "random": the same, shuffled; "listed": a point with all its '
            "repeats, then the next.", "interleaved"),
        Key("seed", kinds.integer(0, 2**32 - 1), "Seed of the random order: the same seed gives the same order.", 1),
        Key("relative", kinds.word(Relative.NO, Relative.BESIDE, Relative.ALONE),
            "Whether points are measured as ratios to the first point, which then stands beside each of the others: "
            "both are overloaded in alternating slices of some milliseconds. \"beside\": the ratio and the point's "
            'own rates; "alone": the own rates of the first point only. Needs the measure `rates`.', "no"),
        Key("point_name", FACTOR_NAME, "Name of the factor that the listed points form.", "point"),
    ),
)  # fmt: skip

FACTOR = Table(
    "sweep.factor",
    "A factor: one thing that is varied.",
    (
        Key("name", FACTOR_NAME, "Its name in results."),
        Key("unit", kinds.text(20), "Unit of its levels.", ""),
        Key("keys", key_paths(), 'The keys that are set to the level, e.g. `["stream[1].flows"]`; all to the same.'),
        Key("levels", levels(), "The values that are tried."),
        Key("quick", levels(), "The levels of the short form.", Unset("all levels")),
        Key("falling", kinds.boolean(),
            "A higher level never raises the rate. A run with a budget may then skip points.", False),
    ),
    at_most=8,
)  # fmt: skip

POINT = Table(
    "sweep.point",
    'One listed point. Besides these keys it holds the scenario keys that it sets, in quotes: `"dut.cascade" = 5`.',
    (
        Key("name", LEVEL_NAME, "Its level in results."),
        Key("quick", kinds.boolean(), "Whether the short form includes it.", True),
    ),
    at_most=256,
    is_open=True,
)  # fmt: skip

TABLES: Final = (SWEEP, FACTOR, POINT)

STUDY_TOP = Table(
    "",
    "",
    (
        Key("title", kinds.text(), "What the study shows, in a few words.", Computed("the folder's name")),
        Key("about", prose(), "What was measured, why, and how to read it.", ""),
        Key("source", prose(), "Where the published figures come from, and what they were measured on.", ""),
        Key("scenarios", STEMS, "Its scenario files, without `.toml`, in their order."),
    ),
)  # fmt: skip

QUICK = Table(
    "quick",
    "The short form: keys, in quotes, whose values replace those of every file whose measure reads them: "
    '`"search.duration_sum_s" = 2`.',
    (),
    is_open=True,
)

PUBLISHED = Table(
    "published",
    "A published curve, whose shape is compared with the measured one: `points`, or `file`, `x` and `y`.",
    (
        Key("group", WORD, "The scenario file, without `.toml`, whose curve it stands beside."),
        Key("metric", kinds.text(60), 'The metric compared, e.g. "NDR".'),
        Key("unit", kinds.text(20), "Unit of its figures."),
        Key("factor", FACTOR_NAME, "The x axis: a factor of that file's sweep."),
        Key("title", kinds.text(), "What was measured, on what."),
        Key("levels", level_table(), "Levels of that sweep's other factors; they select the measured curve.", {}),
        Key("points", pairs(), "Pairs of level and figure.", Unset("from `file`")),
        Key("file", CSV_FILE,
            "A CSV file in the study's folder, its first line the names of its columns.", Unset("from `points`")),
        Key("where", level_table(), "Only the rows that have these values in these columns.", {}),
        Key("x", kinds.text(60), "The column of the levels.", Unset("needed with `file`")),
        Key("y", kinds.text(60), "The column of the figures.", Unset("needed with `file`")),
        Key("times", kinds.number(1e-12, 1e12),
            "Factor by which the column's figures are multiplied to be in `unit`.", 1.0),
        Key("first", kinds.boolean(),
            "Whether the first of several rows with the same level is used; otherwise several are an error.", False),
    ),
    at_most=256,
)  # fmt: skip

FINDING_KINDS: Final = (
    "fall",
    "knee",
    "compare",
    "total",
    "cost",
    "caches",
    "flat",
    "growth",
    "method",
    "verified",
    "impossible",
    "limit",
)
"""As findings/findings.py computes them."""

FINDING = Table(
    "finding",
    "One sentence that the report computes from the data; docs/studies.md says what each kind needs.",
    (
        Key("kind", kinds.word(*FINDING_KINDS), "What the sentence states."),
        Key("group", kinds.text(64), "The scenario file, without `.toml`, whose results it is about.", ""),
        Key("metric", kinds.text(60), "The metric it is about.", ""),
        Key("factor", kinds.text(60), "The factor along which it looks.", ""),
        Key("against", kinds.text(), "Other groups, a metric or levels, depending on `kind`.", ""),
        Key("over", level_table(), "Of `compare`: the levels of the point whose number is divided; with `under`.", {}),
        Key("under", level_table(), "Of `compare`: the levels of the point that it is divided by.", {}),
    ),
    at_most=64,
)  # fmt: skip

_RATIO: Final = kinds.number(0, 1e12)
CONCLUSION: Final = Table(
    "conclusion",
    "What the original concludes, as the ratio of two points with an expected outcome (a finding of kind `compare`). "
    "It is confirmed, contradicted, or not decidable here.",
    (
        Key("says", kinds.text(LONGEST_SENTENCE), "What `least` and `most` test, in words of your own."),
        Key("source", kinds.text(), "Where the original says so, or has the figures."),
        Key("group", WORD, "The scenario file, without `.toml`, of the point whose number is divided."),
        Key("metric", kinds.text(60), "The metric of both points."),
        Key("over", level_table(), "Its levels. Those of factors left out are the same at both points."),
        Key("under", level_table(), "The levels of the point by whose number it is divided."),
        Key("against", kinds.text(64), "The scenario file of that point; empty: `group`.", ""),
        Key("least", _RATIO, "The least ratio that the conclusion expects.", Unset("any")),
        Key("most", _RATIO, "The largest ratio that the conclusion expects.", Unset("any")),
        Key("needs", needs(), "What the conclusion rests on: without it a bench cannot decide.", {}),
        Key("published", _RATIO, "The original's ratio.", Unset("from the published curves, if they have both points")),
    ),
    at_most=64,
)

STEP: Final = Table(
    "step",
    "One step of an original that searched for a cause. The report puts it as a sentence: question, experiment, what "
    "the scenario found, what the original saw.",
    (
        Key("group", WORD, "The scenario file, without `.toml`, that answers it."),
        Key("question", kinds.text(LONGEST_SENTENCE), "What is asked, with its question mark."),
        Key("experiment", kinds.text(LONGEST_SENTENCE), "What is done."),
        Key("published", kinds.text(LONGEST_SENTENCE), "What the original saw, and where it says so."),
    ),
    at_most=64,
)

STUDY_TABLES: Final = (STUDY_TOP, QUICK, PUBLISHED, FINDING, CONCLUSION, STEP)
