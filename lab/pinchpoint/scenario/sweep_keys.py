"""The keys that make many scenarios of one file."""

from typing import Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.model.scenario import Relative
from pinchpoint.scenario import sweep_kinds

MOST_POINTS: Final = 1000

SWEEP = Table(
    "sweep",
    "Makes one scenario for each combination of the levels below; the first factor varies slowest. Listed "
    "points form one factor, which comes before the others.",
    (
        Key("repeats", kinds.integer(1, 1000), "How often each point is measured.", 1),
        Key(
            "order",
            kinds.word("interleaved", "random", "listed"),
            '"interleaved": all points, then all again; "random": the same, shuffled; "listed": a point with all its '
            "repeats, then the next.",
            "interleaved",
        ),
        Key("seed", kinds.integer(0, 2**32 - 1), "Seed of the random order: the same seed gives the same order.", 1),
        Key(
            "relative",
            kinds.word(Relative.NO, Relative.BESIDE, Relative.ALONE),
            "Whether points are measured as ratios to the first point, which then stands beside each of the others: "
            'both are overloaded in alternating slices of some milliseconds. "beside": the ratio and the point\'s own '
            'rates; "alone": the own rates of the first point only. Needs the measure `rates`.',
            "no",
        ),
        Key("point_name", sweep_kinds.factor_name(), "Name of the factor that the listed points form.", "point"),
    ),
)

FACTOR = Table(
    "sweep.factor",
    "A factor: one thing that is varied.",
    (
        Key("name", sweep_kinds.factor_name(), "Its name in results."),
        Key("unit", kinds.text(20), "Unit of its levels.", ""),
        Key(
            "keys",
            sweep_kinds.key_paths(),
            'The keys that are set to the level, e.g. `["stream[1].flows"]`; all to the same.',
        ),
        Key("levels", sweep_kinds.levels(), "The values that are tried."),
        Key("quick", sweep_kinds.levels(), "The levels of the short form.", Unset("all levels")),
        Key(
            "falling",
            kinds.boolean(),
            "A higher level never raises the rate. A run with a budget may then skip points.",
            False,
        ),
    ),
    at_most=8,
)

POINT = Table(
    "sweep.point",
    'One listed point. Besides these keys it holds the scenario keys that it sets, in quotes: `"dut.cascade" = 5`.',
    (
        Key("name", sweep_kinds.level_name(), "Its level in results."),
        Key("quick", kinds.boolean(), "Whether the short form includes it.", True),
    ),
    at_most=256,
    is_open=True,
)

TABLES: Final = (SWEEP, FACTOR, POINT)

STUDY_TOP = Table(
    "",
    "",
    (
        Key("title", kinds.text(), "What the study shows, in a few words.", Computed("the folder's name")),
        Key("about", sweep_kinds.prose(), "What was measured, why, and how to read it.", ""),
        Key(
            "source", sweep_kinds.prose(), "Where the published figures come from, and what they were measured on.", ""
        ),
        Key("scenarios", sweep_kinds.file_stems(), "Its scenario files, without `.toml`, in their order."),
    ),
)

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
        Key("group", sweep_kinds.word_like(), "The scenario file, without `.toml`, whose curve it stands beside."),
        Key("metric", kinds.text(60), 'The metric compared, e.g. "NDR".'),
        Key("unit", kinds.text(20), "Unit of its figures."),
        Key("factor", sweep_kinds.factor_name(), "The x axis: a factor of that file's sweep."),
        Key("title", kinds.text(), "What was measured, on what."),
        Key(
            "levels",
            sweep_kinds.level_table(),
            "Levels of that sweep's other factors; they select the measured curve.",
            {},
        ),
        Key("points", sweep_kinds.pairs(), "Pairs of level and figure.", Unset("from `file`")),
        Key(
            "file",
            sweep_kinds.file_name("csv"),
            "A CSV file in the study's folder, its first line the names of its columns.",
            Unset("from `points`"),
        ),
        Key("where", sweep_kinds.level_table(), "Only the rows that have these values in these columns.", {}),
        Key("x", kinds.text(60), "The column of the levels.", Unset("needed with `file`")),
        Key("y", kinds.text(60), "The column of the figures.", Unset("needed with `file`")),
        Key(
            "times",
            kinds.number(1e-12, 1e12),
            "Factor by which the column's figures are multiplied to be in `unit`.",
            1.0,
        ),
        Key(
            "first",
            kinds.boolean(),
            "Whether the first of several rows with the same level is used; otherwise they are an error.",
            False,
        ),
    ),
    at_most=256,
)

FINDING_KINDS: Final = (
    "fall",
    "knee",
    "compare",
    "cost",
    "caches",
    "flat",
    "growth",
    "method",
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
    ),
    at_most=64,
)

STUDY_TABLES: Final = (STUDY_TOP, QUICK, PUBLISHED, FINDING)
